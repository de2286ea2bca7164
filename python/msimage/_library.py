# SPDX-License-Identifier: GPL-3.0-or-later
"""The C library: where it is, what its headers declare, and how its failures become exceptions."""
from __future__ import annotations

import os
import re
from typing import Any, Callable, Optional

import cffi

_HERE = os.path.dirname(os.path.abspath(__file__))
_HEADERS = ("base.h", "gridder.h", "cleaner.h")


class Error(RuntimeError):
    """A failure of the library: its message, and in `status` the code of enum msimage_status."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


def _declarations() -> str:
    """What the installed headers declare, without what the preprocessor is told."""
    folders = (os.path.join(_HERE, "include", "msimage"),
               os.path.join(_HERE, "..", "..", "lib", "include", "msimage"))
    folder = next((f for f in folders if os.path.exists(os.path.join(f, _HEADERS[0]))), None)
    if folder is None:
        raise ImportError(f"msimage: its headers are not in {folders[0]}")
    text = ""
    for name in _HEADERS:
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            text += f.read()
    text = re.sub(r"#ifdef __cplusplus.*?#endif", "", text, flags=re.S)
    return re.sub(r"^#.*$", "", text, flags=re.M).replace("MSIMAGE_API", "")


ffi = cffi.FFI()
ffi.cdef(_declarations())


def _open() -> Any:
    beside = os.path.join(_HERE, "libmsimage.so.0")
    name = beside if os.path.exists(beside) else "libmsimage.so.0"
    try:
        return ffi.dlopen(name)
    except OSError as error:
        raise ImportError(f"msimage: the library {name} cannot be loaded: {error}") from error


lib = _open()


def version() -> str:
    """The library's version."""
    return ffi.string(lib.msimage_version()).decode()


def libraries() -> str:
    """The libraries that the library works with, and their versions."""
    return ffi.string(lib.msimage_libraries()).decode()


def gpu_count() -> int:
    """How many GPUs the library can use."""
    return int(lib.msimage_gpu_count())


def _remember(exception: type, value: BaseException, _trace: Any) -> int:
    """A signal's handler has raised an exception while C called back."""
    for call in _calls:
        call.raised = value
    return 1


# Those under way that were begun by the main thread, where signals' handlers run.
_calls: list["Calls"] = []


@ffi.callback("int(void *)", error=1, onerror=_remember)
def _interrupt(_of: Any) -> int:
    # Python runs the handlers of signals that have arrived when it enters a function.
    return 0


class Calls:
    """Call the library; what a signal's handler raises meanwhile, KeyboardInterrupt first of all, is raised."""

    def __init__(self) -> None:
        self.callbacks = ffi.new("msimage_callbacks *", {"interrupt": _interrupt})
        self.raised: Optional[BaseException] = None

    def __call__(self, function: Callable[..., int], *arguments: Any) -> None:
        self.raised = None
        _calls.append(self)
        try:
            status = function(*arguments)
            message = ffi.string(lib.msimage_error()).decode() if status else ""
        finally:
            _calls.remove(self)
        if self.raised is not None:
            raised, self.raised = self.raised, None
            raise raised
        if status == lib.MSIMAGE_ENOMEM:
            raise MemoryError(message)
        if status:
            raise Error(status, message)
