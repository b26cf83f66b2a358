"""The few functions of OpenCL that layers need besides the library: buffers and a queue, by the numbers of their handles."""

import ctypes
import functools
import sys

from . import _interface as c

_NAMES = {"win32": ["OpenCL.dll"], "darwin": ["/System/Library/Frameworks/OpenCL.framework/OpenCL"]}
_READ_WRITE, _COPY = 1 << 0, 1 << 5  # CL_MEM_READ_WRITE, CL_MEM_COPY_HOST_PTR
_POINTER, _SIZE, _NUMBER, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_int32
_FUNCTIONS = {
    "CreateCommandQueue": (_POINTER, _POINTER, _POINTER, _NUMBER, _POINTER),
    "CreateBuffer": (_POINTER, _POINTER, _NUMBER, _SIZE, _POINTER, _POINTER),
    "EnqueueReadBuffer": (_INT, _POINTER, _POINTER, ctypes.c_uint32, _SIZE, _SIZE, _POINTER, ctypes.c_uint32, _POINTER,
                          _POINTER),
    "ReleaseMemObject": (_INT, _POINTER),
    "ReleaseCommandQueue": (_INT, _POINTER),
}


@functools.lru_cache(maxsize=None)
def _functions():
    """The same library that libclattn opens."""
    for name in _NAMES.get(sys.platform, ["libOpenCL.so.1", "libOpenCL.so"]):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        for function, (result, *arguments) in _FUNCTIONS.items():
            found = getattr(library, f"cl{function}")
            found.restype, found.argtypes = result, arguments
        return library
    raise c.Error("NO_OPENCL", ["no OpenCL library on this machine"])


def _check(code, function):
    if code != 0:
        raise c.Error("DEVICE_ERROR", [f"cl{function} failed: {code}"])


def _create(function, *arguments):
    code = ctypes.c_int32()
    handle = getattr(_functions(), f"cl{function}")(*arguments, ctypes.byref(code))
    _check(code.value, function)
    return handle


class Buffer:
    """Memory of a device. data: the address of what it begins with, or None."""

    def __init__(self, context, size, data=None):
        self.handle = None
        self.handle = _create("CreateBuffer", context, _READ_WRITE | (_COPY if data else 0), max(size, 16), data)

    def __del__(self):
        if self.handle:
            _functions().clReleaseMemObject(self.handle)


class Queue:
    """A queue in order."""

    def __init__(self, context, device):
        self.handle = None
        self.handle = _create("CreateCommandQueue", context, device, 0)

    def read(self, buffer, size, to):
        """Waits for what was enqueued, and copies a buffer to an address of the host."""
        _check(_functions().clEnqueueReadBuffer(self.handle, buffer.handle, 1, 0, size, to, 0, None, None),
               "EnqueueReadBuffer")

    def __del__(self):
        if self.handle:
            _functions().clReleaseCommandQueue(self.handle)
