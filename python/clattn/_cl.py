"""pyopencl's arrays: read and written where they lie, on their own queue and without a copy.

A call is enqueued after the events of its inputs, and its outputs carry the call's event, as those of pyopencl do."""

import ctypes

import numpy
import pyopencl
import pyopencl.array

from . import _arrays
from . import _interface as c
from ._plan import Context

_contexts = {}  # of a cl_context and a device, both retained by the library


class Array(_arrays.Array):
    """An array of a device; see _arrays.Array. `pointer` is its cl_mem."""

    on_device = True

    def __init__(self, name, x):
        if not x.flags.c_contiguous:
            raise ValueError(f"{name} is not contiguous; clattn takes contiguous pyopencl arrays")
        if x.base_data is not None and not hasattr(x.base_data, "int_ptr"):
            raise TypeError(f"{name} lies in shared virtual memory; clattn takes pyopencl arrays in buffers")
        self.data, self.name, self.shape = x, name, x.shape
        self.type_name, self.type = _arrays.kind_of(x.dtype)
        self.pointer, self.offset = x.base_data.int_ptr if x.size else 0, x.offset


def _context_of(queue, device):
    if device is None:
        key = queue.context.int_ptr, queue.device.int_ptr
        if key not in _contexts:
            _contexts[key] = Context(cl_context=queue.context, cl_device=queue.device)
        return _contexts[key]
    if not isinstance(device, Context):
        raise ValueError("pyopencl arrays are computed on the device of their queue, without device=; for the reference "
                         "copy them by .get()")
    if device.cl()[0] != queue.context.int_ptr:
        raise ValueError("device= has another OpenCL context than the arrays: Context(cl_context=array.context)")
    return device


def on_device(queue, array):
    """An array of indices may come from the host; numbers must be where the others are."""
    if array.on_device:
        if array.data.context != queue.context:
            raise ValueError(f"{array.name} is of another OpenCL context than the first array")
        return array
    if array.type is not None:
        raise TypeError(f"{array.name} is an array of the host, the first one a pyopencl array")
    return Array(array.name, pyopencl.array.to_device(queue, numpy.asarray(array.data)))


def queue_of(x):
    if x.queue is None:
        raise ValueError("a pyopencl array without a queue: pass array.with_queue(queue)")
    return x.queue


def empty(like, name, shape, dtype):
    return Array(name, pyopencl.array.Array(like.queue, shape, _arrays.numpy_type(dtype), allocator=like.allocator))


def waits(arrays):
    """The events that a call with these inputs waits for."""
    return {event.int_ptr for array in arrays for event in array.data.events}


def mark(made, event):
    """The outputs of a call are complete with its event."""
    event = pyopencl.Event.from_int_ptr(event, retain=False)
    for array in made:
        array.data.add_event(event)


def compute(prepared, arrays, like, device):
    """{name: array} of a call's outputs. like: the first input, whose queue is used."""
    queue = queue_of(like)
    context = _context_of(queue, device)
    arrays = {name: on_device(queue, array) for name, array in arrays.items()}
    made = [empty(like, name, dims, dtype) for _, name, dims, dtype in prepared.outputs]
    plan = context.plan(prepared.desc, prepared.key)
    workspace = pyopencl.Buffer(queue.context, pyopencl.mem_flags.READ_WRITE, plan.workspace) if plan.workspace else None
    operands, call = prepared.call()
    for operand, array in zip(operands, (*(arrays[name] for _, name in prepared.inputs), *made)):
        operand.buffer, operand.offset = array.pointer, array.offset
    if workspace is not None:
        call.workspace, call.workspace_size = workspace.int_ptr, plan.workspace
    mark(made, plan.enqueue(queue.int_ptr, call, waits(arrays.values())))
    return {array.name: array.data for array in made}
