"""Arrays of the host: NumPy arrays, PyTorch tensors on the CPU, and what speaks DLPack there.

An array comes with where it lies, its shape and its type; outputs are arrays of the kind that the inputs are. Arrays of
pyopencl, which lie on a device, are in _cl.py."""

import functools
import sys

from ._interface import BF16, F16, F32

NAMES = {F32: "float32", F16: "float16", BF16: "bfloat16"}
types = {name: dtype for dtype, name in NAMES.items()}


def _torch():
    return sys.modules.get("torch")  # if the caller has a tensor, it is there


def is_tensor(x):
    torch = _torch()
    return torch is not None and isinstance(x, torch.Tensor)


def wants_gradients(values):
    torch = _torch()
    return torch is not None and torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in values)


def is_compiling():
    """Whether torch.compile traces this call."""
    torch = _torch()
    return torch is not None and hasattr(torch, "compiler") and torch.compiler.is_compiling()


def is_cl(x):
    pyopencl = sys.modules.get("pyopencl.array")
    return pyopencl is not None and isinstance(x, pyopencl.Array)


@functools.lru_cache(maxsize=None)
def numpy_type(dtype):
    import numpy
    name = NAMES.get(dtype, dtype)
    if name != "bfloat16":
        return numpy.dtype(name)
    try:
        import ml_dtypes
    except ImportError as error:
        raise TypeError("bfloat16 in NumPy arrays needs the package ml_dtypes") from error
    return numpy.dtype(ml_dtypes.bfloat16)


@functools.lru_cache(maxsize=None)
def kind_of(dtype):
    """(name, clattn_dtype or None) of a dtype of NumPy or PyTorch."""
    name = str(dtype).removeprefix("torch.")
    return name, types.get(name)


class Array:
    """A contiguous array: `pointer`, `shape`, `type_name`, `type` (a clattn_dtype, or None for integers). `given` names the
    class of what was made into an array of NumPy."""

    on_device, given = False, None

    def __init__(self, name, x):
        self.name = name
        if is_tensor(x):
            if not x.is_cpu:
                raise TypeError(f"{name}: a tensor on {x.device}; clattn takes tensors of the CPU, or of no device")
            self.data = data = x if x.is_contiguous() else x.contiguous()
            self.pointer = data.data_ptr()
        else:
            self.data = data = self._in_numpy(x)
            self.pointer = data.__array_interface__["data"][0]
        self.shape = data.shape
        self.type_name, self.type = kind_of(data.dtype)

    def _in_numpy(self, x):
        import numpy
        if not isinstance(x, numpy.ndarray):
            if hasattr(x, "__dlpack__"):
                x = numpy.from_dlpack(x)
            else:
                self.given, x = type(x).__name__, numpy.asarray(x)
                if x.dtype.kind == "i" and abs(x).max(initial=0) < 2 ** 31:
                    x = x.astype(numpy.int32)  # a list of integers: cu_seqlens
        return numpy.ascontiguousarray(x)

    @property
    def bytes(self):
        return self.data.numel() * self.data.element_size() if is_tensor(self.data) else self.data.nbytes

    def require(self, storage, rule):
        """Refuses an array of a type that an operand of this storage never has."""
        if storage in ("i32", "i32 or i64"):
            taken = ("int32", "int64") if storage == "i32 or i64" else ("int32",)
        else:
            taken = tuple(types)
        if self.type_name not in taken:
            what = f"is of type {self.type_name}" if self.given is None else f"is a {self.given} (read as {self.type_name})"
            raise TypeError(f"{rule}: {self.name} {what}; taken are arrays of {', '.join(taken)}")


class Described(Array):
    """An array without memory: its shape and type alone."""

    bytes = 0

    def __init__(self, name, shape, dtype):
        self.name, self.shape = name, shape
        self.type_name, self.type = kind_of(dtype)


class Empty:
    """An array of the kind of `like`, filled with nothing; dtype is a clattn_dtype or the name of an integer type."""

    on_device = False

    def __init__(self, like, name, shape, dtype):
        self.name = name
        if is_tensor(like):
            torch = _torch()
            self.data = torch.empty(shape, dtype=getattr(torch, NAMES.get(dtype, dtype)))
            self.pointer = self.data.data_ptr()
        else:
            import numpy
            self.data = numpy.empty(shape, numpy_type(dtype))
            self.pointer = self.data.__array_interface__["data"][0]

    bytes = Array.bytes


def array(name, x):
    if is_cl(x):
        from ._cl import Array as OnDevice
        return OnDevice(name, x)
    return Array(name, x)


def integers(like, numbers):
    """An array of int32 of the kind of `like`."""
    if is_tensor(like):
        torch = _torch()
        return torch.tensor(numbers, dtype=torch.int32)
    import numpy
    return numpy.array(numbers, numpy.int32)
