# SPDX-License-Identifier: GPL-3.0-or-later
"""Images of radio-telescope visibilities, and back, right to an accuracy that the caller chooses.

`wgridder` has the four functions of ducc0.wgridder, with the same arguments and conventions. `Plan` keeps visibilities
where the work is done, for solvers and deconvolution; `Cleaner` runs minor cycles; `read_ms` reads Measurement Sets as
blocks of NumPy arrays.

Arrays are NumPy's, or on a GPU anything that speaks DLPack, such as those of CuPy and PyTorch. While the library works
other threads of Python run; Ctrl-C ends a call by KeyboardInterrupt.
"""
from . import wgridder
from ._library import Error, gpu_count, libraries, version
from ._plan import Plan
from ._cleaner import Cleaner, CleanReport
from ._ms import Block, read_ms
from ._picture import picture

__version__ = version()
__all__ = ["wgridder", "Plan", "Cleaner", "CleanReport", "Error", "gpu_count", "libraries", "picture", "version", "Block", "read_ms"]
