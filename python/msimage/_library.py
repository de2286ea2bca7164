# SPDX-License-Identifier: GPL-3.0-or-later
"""Loads the C library, declares its functions, and raises its errors as exceptions."""
from __future__ import annotations

import functools
import os
import re
import threading
from threading import get_ident
from typing import Any, Callable, Optional, TypeVar, cast

import cffi

_HERE = os.path.dirname(os.path.abspath(__file__))
_HEADERS = ("base.h", "gridder.h", "cleaner.h")


class Error(RuntimeError):
    """An error of the library, with its message; `status` is its code of enum msimage_status."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> Any:
        return type(self), (self.status, str(self))


class DeviceMemoryError(Error, MemoryError):
    """A GPU does not have enough memory."""


def declarations(names: tuple, *source: str) -> str:
    """Return the declarations of installed headers, or of headers in the source tree, without preprocessor lines."""
    folders = (os.path.join(_HERE, "include"), os.path.join(_HERE, "..", "..", *source))
    folder = next((f for f in folders if os.path.exists(os.path.join(f, names[0]))), None)
    if folder is None:
        raise ImportError(f"msimage: {names[0]} is not in {folders[0]}")
    text = ""
    for name in names:
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            text += f.read()
    text = re.sub(r"#ifdef __cplusplus.*?#endif", "", text, flags=re.S)
    return re.sub(r"^#.*$", "", text, flags=re.M).replace("MSIMAGE_API", "")


ffi = cffi.FFI()
ffi.cdef(declarations(_HEADERS, "lib", "include", "msimage"))


def load(name: str) -> Any:
    """Load a library that is next to this file or in the search path of the system."""
    local = os.path.join(_HERE, name)
    name = local if os.path.exists(local) else name
    try:
        return ffi.dlopen(name)
    except OSError as error:
        # The file name of CUDA's runtime ends in its version; that of cuFFT is one less.
        missing = re.search(r"lib(cudart|cufft)\.so\.(\d+)", str(error))
        cuda = int(missing[2]) + (missing[1] == "cufft") if missing else 0
        hint = f"; install NVIDIA's libraries by pip install 'msimage[cuda{cuda}]'" if missing else ""
        raise ImportError(f"msimage: the library {name} cannot be loaded: {error}{hint}") from error


lib = load("libmsimage.so.0")
# A forked child does not have the threads of OpenMP, but would wait for them.
os.register_at_fork(before=lib.msimage_threads_release)


def version() -> str:
    """Return the version of the library."""
    return ffi.string(lib.msimage_version()).decode()


def libraries() -> str:
    """Return the libraries that the library uses, with their versions."""
    return ffi.string(lib.msimage_libraries()).decode()


def gpu_count() -> int:
    """Return the number of GPUs that the library can use."""
    return int(lib.msimage_gpu_count())


def release_memory() -> None:
    """Free the GPU memory that the library keeps for later calls.

    Between calls it keeps up to a sixteenth of the memory of each GPU, or as much as `keep_memory` sets. CuPy, JAX and PyTorch
    cannot use this memory. Memory that a plan, cleaner or call uses is not freed.
    """
    lib.msimage_gpu_memory_release()


def keep_memory(nbytes: int) -> None:
    """Set how much memory of each GPU the library may keep between calls.

    Parameters
    ----------
    nbytes : 0: none; negative: the default, a sixteenth of the memory of the GPU. Calls of wgridder that need more allocate and
        free it each time, which can take milliseconds for a gigabyte
    """
    lib.msimage_gpu_memory_keep(int(nbytes))


# Exceptions that signal handlers raised during a call, usually KeyboardInterrupt, by the thread of the call.
raised: dict[int, BaseException] = {}


def _remember(exception: type, value: BaseException, _trace: Any) -> int:
    raised[get_ident()] = value
    return 1


@ffi.callback("int(void *)", error=1, onerror=_remember)
def _interrupt(_of: Any) -> int:
    # Python runs the handlers of pending signals when it enters a function.
    return 0


# The library copies these.
CALLBACKS = ffi.new("msimage_callbacks *", {"interrupt": _interrupt})


def forget_raised() -> None:
    """Drop an exception that an earlier call of this thread left, because a second signal ended it early."""
    raised.pop(get_ident(), None)


def complain(status: int, said: Callable[[], Any] = lib.msimage_error) -> None:
    """Raise the error of a status, or an exception that a signal handler raised during the call."""
    message = ffi.string(said()).decode(errors="replace") if status else ""
    by_handler = raised.pop(get_ident(), None)
    if by_handler is not None:
        raise by_handler
    if status == lib.MSIMAGE_ENOMEM:
        raise MemoryError(message)
    if status == lib.MSIMAGE_EGPU and re.search("out of memory|cuFFT error 2\\b", message):  # CUDA's words
        raise DeviceMemoryError(status, message)
    if status:
        raise Error(status, message)


class Calls:
    """Calls the library, then raises its error or the exception of a signal handler."""

    def __init__(self, message: Callable[[], Any] = lib.msimage_error) -> None:
        self._message = message

    def __call__(self, function: Callable[..., int], *arguments: Any) -> None:
        """Call a function that returns a status of the library."""
        if raised:
            forget_raised()
        status = function(*arguments)
        if status or raised:
            complain(status, self._message)


_Method = TypeVar("_Method", bound=Callable[..., Any])


class Held:
    """The base of the library's objects, which run one call at a time."""

    def __init__(self) -> None:
        self._lock, self._is_at_work = threading.RLock(), False

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__}: it cannot be pickled or copied; make a new one")


def one_at_a_time(method: _Method) -> _Method:
    """Make calls of a method of Held from several threads wait for each other."""

    @functools.wraps(method)
    def alone(self: Held, *arguments: Any, **options: Any) -> Any:
        with self._lock:
            if self._is_at_work:
                raise RuntimeError(f"{type(self).__name__}: a signal handler called an object in use by its own thread")
            self._is_at_work = True
            try:
                return method(self, *arguments, **options)
            finally:
                self._is_at_work = False

    return cast(_Method, alone)
