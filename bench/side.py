"""clattn's side of a comparison: libclattn_bench.so (side.h) as Python objects."""
import ctypes
from ctypes import POINTER, byref, c_char_p, c_double, c_int64, c_void_p

QK_L2NORM, NORMALIZE, UNGATED, INITIAL_STATE, FINAL_STATE, WITH_P, WITH_BETA = 1, 2, 32, 64, 128, 1 << 14, 1 << 15  # clattn.h
DTYPES = {'f32': 0, 'f16': 1, 'bf16': 2}
SHAPE_FIELDS = ('batch', 'seq_len', 'heads', 'key_dim', 'value_dim', 'dtype', 'gate_dtype', 'flags', 'layer', 'layers',
                'sets', 'in_place', 'qk_heads', 'readout')

MOST_KERNELS = 56  # side.h

FUNCTIONS = {  # name: (result, arguments)
    'side_open': (ctypes.c_int, [POINTER(c_void_p), c_char_p]),
    'side_close': (None, [c_void_p]),
    'side_device': (c_char_p, [c_void_p]),
    'side_driver': (c_char_p, [c_void_p]),
    'side_message': (c_char_p, [c_void_p]),
    'side_peaks': (None, [c_void_p, POINTER(c_double), POINTER(c_double)]),
    'side_problem_open': (ctypes.c_int, [POINTER(c_void_p), c_void_p, c_char_p, POINTER(c_int64)]),
    'side_problem_close': (None, [c_void_p]),
    'side_problem_plan': (c_char_p, [c_void_p]),
    'side_operand': (c_void_p, [c_void_p, c_char_p, POINTER(c_int64)]),
    'side_write': (ctypes.c_int, [c_void_p, c_int64]),
    'side_read': (ctypes.c_int, [c_void_p, c_int64, c_char_p]),
    'side_fill': (ctypes.c_int, [c_void_p, c_int64]),
    'side_reference_error': (ctypes.c_int, [c_void_p, POINTER(c_double)]),
    'side_run': (ctypes.c_int, [c_void_p, c_int64]),
    'side_time': (ctypes.c_int, [c_void_p, c_int64, POINTER(c_double)]),
    'side_kernel_times': (ctypes.c_int, [c_void_p, c_int64, POINTER(c_char_p), POINTER(c_double), POINTER(c_int64)]),
}


class SideError(RuntimeError):
    pass


class Side:
    """A device."""

    def __init__(self, library, device=None):
        self.lib = ctypes.CDLL(library)
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(self.lib, name)
            function.restype, function.argtypes = result, arguments
        self.handle = c_void_p()
        if self.lib.side_open(byref(self.handle), device.encode() if device else None):
            raise SideError('no OpenCL device')
        self.device = self.lib.side_device(self.handle).decode()
        self.driver = self.lib.side_driver(self.handle).decode()

    def check(self, status):
        if status:
            raise SideError(self.lib.side_message(self.handle).decode() or f'status {status}')

    def peaks(self):
        """Bytes a second of a copy, f32 operations a second of multiply-adds."""
        bytes_, flops = c_double(), c_double()
        self.lib.side_peaks(self.handle, byref(bytes_), byref(flops))
        return bytes_.value, flops.value


class Problem:
    """One problem on a device; shape has SHAPE_FIELDS, 0 for those left out."""

    def __init__(self, side, rule, **shape):
        self.side, self.lib = side, side.lib
        self.handle, self.sets = c_void_p(), shape['sets']
        fields = (c_int64 * len(SHAPE_FIELDS))(*(shape.pop(name, 0) for name in SHAPE_FIELDS))
        assert not shape, shape
        side.check(self.lib.side_problem_open(byref(self.handle), side.handle, rule.encode(), fields))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lib.side_problem_close(self.handle)

    def plan(self):
        return self.lib.side_problem_plan(self.handle).decode()

    def operand(self, name):
        """The host's memory of an operand as (address, bytes); the address is None when there is no such operand."""
        size = c_int64()
        return self.lib.side_operand(self.handle, name.encode(), byref(size)), size.value

    def view(self, name):
        address, size = self.operand(name)
        return (ctypes.c_uint8 * size).from_address(address)

    def fill(self, seed):
        self.side.check(self.lib.side_fill(self.handle, seed))

    def write(self, set_):
        self.side.check(self.lib.side_write(self.handle, set_))

    def read(self, set_, name=None):
        self.side.check(self.lib.side_read(self.handle, set_, name.encode() if name else None))

    def run(self, set_=0):
        self.side.check(self.lib.side_run(self.handle, set_))

    def reference_error(self):
        error = c_double()
        self.side.check(self.lib.side_reference_error(self.handle, byref(error)))
        return error.value

    def time(self, count):
        """Seconds of count runs."""
        seconds = (c_double * count)()
        self.side.check(self.lib.side_time(self.handle, count, seconds))
        return list(seconds)

    def kernel_times(self, runs):
        """(name, median seconds) of each kernel, in order."""
        names, seconds, count = (c_char_p * MOST_KERNELS)(), (c_double * MOST_KERNELS)(), c_int64()
        self.side.check(self.lib.side_kernel_times(self.handle, runs, names, seconds, byref(count)))
        return [(names[i].decode(), seconds[i]) for i in range(count.value)]
