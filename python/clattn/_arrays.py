"""Arrays of the host: NumPy arrays, PyTorch tensors on the CPU, and what speaks DLPack there.

An array comes with where it lies, its shape and its type; outputs are arrays of the kind that the inputs are. Arrays of
pyopencl, which lie on a device, are in _cl.py."""

import ctypes
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
        self.data, self.pointer = self._place(x)
        self.shape = self.data.shape
        self.type_name, self.type = kind_of(self.data.dtype)

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


class _Tensor(Array):
    def _place(self, x):
        if not x.is_cpu:
            raise TypeError(f"{self.name}: a tensor on {x.device}; clattn takes tensors of the CPU, or of no device")
        x = x if x.is_contiguous() else x.contiguous()
        return x, x.data_ptr()


class _OfNumPy(Array):
    def _place(self, x):
        x = x if x.flags.c_contiguous else x.copy()
        return x, _address(x)


class _Other(_OfNumPy):
    """What NumPy makes an array of."""

    def _place(self, x):
        import numpy
        if hasattr(x, "__dlpack__"):
            x = numpy.from_dlpack(x)
        else:
            self.given, x = type(x).__name__, numpy.asarray(x)
            if x.dtype.kind == "i" and abs(x).max(initial=0) < 2 ** 31:
                x = x.astype(numpy.int32)  # a list of integers: cu_seqlens
        return super()._place(x)


def _address(x):
    """Where an array of NumPy lies. Its buffer tells in a third of the time, but has to be writable and of C's types."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(x))
    except (TypeError, ValueError, BufferError):
        return x.__array_interface__["data"][0]


@functools.lru_cache(maxsize=64)
def _reader(kind):
    """The class of arrays of a type."""
    if any(base.__module__ == "pyopencl.array" and base.__name__ == "Array" for base in kind.__mro__):
        from ._cl import Array as OnDevice
        return OnDevice
    torch = _torch()
    if torch is not None and issubclass(kind, torch.Tensor):
        return _Tensor
    numpy = sys.modules.get("numpy")
    return _OfNumPy if numpy is not None and issubclass(kind, numpy.ndarray) else _Other


def array(name, x):
    """x as an Array."""
    return _reader(type(x))(name, x)


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
            self.pointer = _address(self.data)

    bytes = Array.bytes


def integers(like, numbers):
    """An array of int32 of the kind of `like`."""
    if is_tensor(like):
        torch = _torch()
        return torch.tensor(numbers, dtype=torch.int32)
    import numpy
    return numpy.array(numbers, numpy.int32)
