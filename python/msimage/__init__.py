# SPDX-License-Identifier: GPL-3.0-or-later
"""Images of radio-telescope visibilities and visibilities of images, to an accuracy that the caller chooses.

`wgridder` has the four functions of ducc0.wgridder, with the same arguments and conventions. `Plan` keeps visibilities
in host or GPU memory, for solvers and deconvolution, and weights them; `Cleaner` runs minor cycles; `read_ms` reads Measurement
Sets as blocks of NumPy arrays; `fit_beam` fits the beam; `write_fits` and `Picture` are for finished images.

    import numpy as np, msimage
    for b in msimage.read_ms("my.ms", pol="I"):           # a block: its arrays have shapes and units in help(msimage.Block)
        image = msimage.wgridder.vis2dirty(uvw=b.uvw, freq=b.freq, vis=b.vis[0], wgt=b.wgt[0], npix_x=512, npix_y=512,
                                           pixsize_x=1e-5, pixsize_y=1e-5, epsilon=1e-4, do_wgridding=True, flip_v=True)

makes the image of a block, in Jy times weight. The image of several blocks is the sum of their images. Sizes of pixels are in
radians. The tutorial continues with a deconvolution; it is tutorial.md in the documents of the project and of Debian's package.

Arrays are NumPy arrays or, on a GPU, arrays of any package that supports DLPack, such as CuPy and PyTorch. Other Python threads
can run during a call. Ctrl-C ends a call with KeyboardInterrupt.
"""
from . import wgridder
# Programs use it as an attribute of wgridder, as with ducc0.
from .wgridder import experimental as _experimental  # noqa: F401
from ._library import Error, gpu_count, keep_memory, libraries, release_memory, version
from ._plan import Plan
from ._cleaner import Cleaner, CleanReport
from ._ms import Block, Blocks, read_ms
from ._picture import Picture, picture
from ._sky import Beam, fit_beam, write_fits
from ._tclean import tclean

__version__ = version()
__all__ = ["wgridder", "Plan", "Cleaner", "CleanReport", "Error", "gpu_count", "keep_memory", "libraries", "Picture", "picture",
           "release_memory", "tclean", "version", "Beam", "fit_beam", "write_fits", "Block", "Blocks", "read_ms"]
