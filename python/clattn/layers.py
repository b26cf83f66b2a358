"""Token mixers of models as whole modules, with the weights of a checkpoint.

    from safetensors.torch import load_file
    layer = clattn.layers.Layer("gated_deltanet", load_file("model.safetensors"), prefix="model.layers.0.linear_attn.")
    y = layer(x)                                              # x [B, T, C]
    y, state = layer(x, output_final_state=True)              # a prompt
    y, state = layer(token, state, output_final_state=True)   # and a token

The layers and the names of their weights are those of `clattn layer`; see clattn_layer.h. Of PyTorch's tensors that
require gradients, x, states and weights, gradients are computed by the layers that `with_backward` names."""

import ctypes
import threading

from . import _interface as c
from . import _arrays
from ._opencl import Buffer, Queue
from ._plan import context_of, Handle

_INITIAL, _FINAL, BACKWARD = (c.enums["clattn_layer_flags"][f"LAYER_{name}"]
                              for name in ("INITIAL_STATE", "FINAL_STATE", "BACKWARD"))
_WEIGHT, _INPUT, _OUTPUT = (c.enums["clattn_layer_role"][f"LAYER_{name}"] for name in ("WEIGHT", "INPUT", "OUTPUT"))
_SIZES = tuple(name for name, _ in c.LayerDesc._fields_ if name not in ("layer", "dtype", "flags", "batch", "seq_len"))
_MUON = {value["word"]: value["value"] for value in c.options["muon"]["values"]}
_DESC, _TENSOR, _PART, _CALL, _OPERAND, _INFO = (c.size_of(struct) for struct in (
    c.LayerDesc, c.LayerTensor, c.LayerPart, c.LayerCall, c.LayerOperand, c.LayerInfo))


def _infos():
    info, number = c.LayerInfo(), 1
    while c.library.clattn_layer_describe_sized(number, ctypes.byref(info), _INFO) == 0:
        yield info.name.decode(), number, info.module.decode(), info.formula.decode()
        number += 1


_numbers = {name: number for name, number, _, _ in _infos()}
names = tuple(_numbers)


def _number(name):
    if name not in _numbers:
        raise ValueError(f"no layer is named {name!r}; there are {', '.join(names)}")
    return _numbers[name]


def _parts(desc):
    part, index = c.LayerPart(), 0
    while c.library.clattn_layer_part_describe_sized(ctypes.byref(desc), _DESC, ctypes.c_size_t(index), ctypes.byref(part),
                                                     _PART) == 0:
        yield part
        index += 1


def weights(name):
    """{name: shape} of a layer's weights, in the letters of clattn_layer_desc; a shape in brackets may be missing."""
    def shape(part):
        text = ",".join(letter.decode() for letter in part.letters[:part.rank])
        return f"({text})" if part.optional else text

    desc = c.LayerDesc(layer=_number(name))
    return {part.name.decode(): shape(part) for part in _parts(desc) if part.role == _WEIGHT}


with_backward = tuple(name for name in names if any(_parts(c.LayerDesc(layer=_numbers[name], flags=BACKWARD))))


class _Operands:
    """Names, dims and types of what a call reads and writes besides the weights."""

    def __init__(self, desc):
        rows = [(part.name.decode(), tuple(part.dims[:part.rank]), part.dtype, part.role, bool(part.whole))
                for part in _parts(desc) if part.role != _WEIGHT]
        self.inputs = {name: (dims, dtype, whole) for name, dims, dtype, role, whole in rows if role == _INPUT}
        self.outputs = {name: (dims, dtype) for name, dims, dtype, role, _ in rows if role == _OUTPUT}


def _changes(tensors):
    """What differs after a change in place of one of PyTorch's tensors."""
    return [x._version for x in tensors if _arrays.is_tensor(x) and not x.is_inference()]


def _state_names(desc):
    """({input: output that continues it}, [inputs that count tokens])"""
    desc = c.LayerDesc.from_buffer_copy(desc)
    desc.flags |= _INITIAL | _FINAL
    operands = _Operands(desc)
    read = [name for name, (_, _, whole) in operands.inputs.items() if name != "x" and not whole]
    written = [name for name in operands.outputs if name != "y"]
    return dict(zip(read, written)), [name for name, (_, _, whole) in operands.inputs.items() if whole]


class Layer:
    """A layer with its weights. tensors: {name: array} of the host, of which those that begin with prefix are the
    layer's; PyTorch's are read again after a change in place, as an optimizer's step is. dtype: "float32", "float16" or
    "bfloat16", the type of x, y and matrices; that of the first matrix by default.
    seq_len: most tokens that calls will have, if that is known. Sizes that the shapes of the weights leave open are
    keywords: heads, key_dim, … device: as of clattn's functions, "reference" too."""

    def __init__(self, name, tensors, *, prefix="", dtype=None, device=None, seq_len=1, **sizes):
        for size in sizes:
            if size not in _SIZES:
                raise TypeError(f"a layer has no {size!r}; its sizes are {', '.join(_SIZES)}")
        self.name, self._lock, self._log = name, threading.Lock(), c.Log()
        self._context = None if device == "reference" else context_of(device)
        self._longest, self._plans, self._packed, self._queue = seq_len, {}, {}, None
        self._read(tensors, prefix)
        if dtype is None:
            dtype = next((array.type_name for array in self._arrays if len(array.shape) > 1), "float32")
        if dtype not in _arrays.types:
            raise ValueError(f"dtype is one of {', '.join(_arrays.types)}, not {dtype!r}")
        if isinstance(sizes.get("muon"), str):
            sizes["muon"] = _MUON[sizes["muon"]]
        self._desc = c.LayerDesc(layer=_number(name), dtype=_arrays.types[dtype], batch=1, **sizes)
        self._check(c.library.clattn_layer_fit_sized(ctypes.byref(self._desc), ctypes.byref(self._desc), _DESC,
                                                     self._tensors, _TENSOR, ctypes.c_size_t(len(self._tensors)),
                                                     self._log.callback, None))
        self._states, self._counters = _state_names(self._desc)
        self._packed_by_batch = self._packed_size(1) != self._packed_size(2)

    @property
    def sizes(self):
        """The layer's sizes, by their names in clattn_layer_desc."""
        return {name: getattr(self._desc, name) for name in _SIZES if getattr(self._desc, name)}

    def _check(self, status):
        lines, self._log.lines = self._log.lines, []
        if status != 0:
            log = c.Log()
            log.lines = lines
            log.check(status)

    def _read(self, tensors, prefix):
        self._given = {name: tensors[prefix + name] for name in weights(self.name) if prefix + name in tensors}
        self._prefix, self._changes = prefix, _changes(self._given.values())
        self._arrays = [_arrays.array(prefix + name, x) for name, x in self._given.items()]
        self._tensors = (c.LayerTensor * len(self._arrays))()
        for tensor, name, array in zip(self._tensors, self._given, self._arrays):
            if array.on_device:
                raise TypeError(f"{array.name} is a pyopencl array; a layer takes weights of the host")
            if array.type is None or len(array.shape) > 4:
                raise TypeError(f"{array.name} is of type {array.type_name}; taken are {', '.join(_arrays.types)}")
            tensor.name, tensor.dtype, tensor.rank = name.encode(), array.type, len(array.shape)
            tensor.data = array.pointer
            tensor.dims[:tensor.rank] = array.shape

    def _read_again(self):
        """The weights, if they were changed in place since they were read."""
        if self._changes != _changes(self._given.values()):
            self._read({self._prefix + name: x for name, x in self._given.items()}, self._prefix)
            self._packed.clear()

    # ---- Weights ----

    def _of_batch(self, batch, flags=0, seq_len=1):
        desc = c.LayerDesc.from_buffer_copy(self._desc)
        desc.batch, desc.seq_len, desc.flags = batch, seq_len, desc.flags | flags
        return desc

    def _packed_size(self, batch):
        size = ctypes.c_size_t()
        self._check(c.library.clattn_layer_packed_size_sized(ctypes.byref(self._of_batch(batch)), _DESC, ctypes.byref(size)))
        return size.value

    def _weights(self, batch):
        """The packed block: bytes of the host for the reference, else a buffer."""
        key = batch if self._packed_by_batch else 1
        if key not in self._packed:
            block = (ctypes.c_char * self._packed_size(key))()
            self._check(c.library.clattn_layer_pack_sized(ctypes.byref(self._of_batch(key)), _DESC, self._tensors, _TENSOR,
                                                          ctypes.c_size_t(len(self._tensors)), block, self._log.callback,
                                                          None))
            if self._context is not None:
                block = Buffer(self._context.cl()[0], len(block), ctypes.addressof(block))
            self._packed[key] = block
        return self._packed[key]

    # ---- Calls ----

    def __call__(self, x, state=None, output_final_state=False):
        """y, or (y, state): {name: array}, which a later call may begin with. x: [B, T, C]."""
        values = {"x": x} | (state or {})
        flags = (0 if state is None else _INITIAL) | (_FINAL if output_final_state else 0)
        if _arrays.is_tensor(x) and _arrays.wants_gradients((*values.values(), *self._given.values())):
            from ._torch import differentiable_layer
            made = differentiable_layer(self, values, self._given, flags)
        else:
            made = self.compute(values, flags)
        if not output_final_state:
            return made["y"]
        counted = {name: self._position(x, (state or {}).get(name)) for name in self._counters}
        return made["y"], {name: made[written] for name, written in self._states.items()} | counted

    def compute(self, values, flags):
        """{name: array} of the outputs of a call, of the backward pass if flags, those of clattn_layer_desc, have BACKWARD.
        values: the inputs."""
        given, like = {name: _arrays.array(name, x) for name, x in values.items()}, values["x"]
        if len(given["x"].shape) != 3:
            raise ValueError(f"{self.name}: x has shape {list(given['x'].shape)}; it is [B,T,C]")
        batch, tokens, _ = given["x"].shape
        operands = _Operands(self._of_batch(batch, flags, tokens))
        self._fit(given, operands)
        with self._lock:
            self._read_again()
            by = self._by_reference if self._context is None else self._on_device
            return by(batch, tokens, flags, given, operands, like)

    def outputs(self, flags):
        """The names of the outputs of a call."""
        return tuple(_Operands(self._of_batch(1, flags)).outputs)

    def gradient(self, name, block):
        """The gradient of a weight, from d_weights of a backward pass."""
        shape = self._arrays[list(self._given).index(name)].shape
        made, block = _arrays.Empty(block, name, shape, c.F32), _arrays.array("d_weights", block)
        self._check(c.library.clattn_layer_unpack_sized(
            ctypes.byref(self._desc), _DESC, ctypes.c_void_p(block.pointer), name.encode(), ctypes.c_void_p(made.pointer),
            self._log.callback, None))
        return made.data

    def _fit(self, given, operands):
        """Every input is there, with its shape and type."""
        for name in given:
            if name not in operands.inputs:
                raise TypeError(f"{self.name}: {name} is no state of the layer; they are {', '.join(operands.inputs)}")
        for name, (dims, dtype, whole) in operands.inputs.items():
            if name not in given:
                raise TypeError(f"{self.name}: {name} is missing in state")
            array = given[name]
            expected = "int32" if whole else _arrays.NAMES[dtype]
            if array.shape != dims or array.type_name != expected:
                raise ValueError(f"{self.name}: {name} is {array.type_name} {list(array.shape)}, not {expected} {list(dims)}")

    def _position(self, x, before):
        """The position after the tokens of a call."""
        batch, tokens, _ = x.shape
        if before is not None:
            return _arrays.array("position", before).data + tokens
        return _arrays.integers(x, [tokens] * batch)

    def _call(self, tokens, operands):
        """A call of LayerOperands, which live as long as it does."""
        kept = (c.LayerOperand * len(operands))(*operands)
        call = c.LayerCall(operands=ctypes.addressof(kept), operand_count=len(kept), seq_len=tokens)
        call.kept = kept
        return call

    def _by_reference(self, batch, tokens, flags, given, operands, like):
        made = {name: _arrays.Empty(like, name, dims, dtype) for name, (dims, dtype) in operands.outputs.items()}
        arrays = given | made
        if any(array.on_device for array in arrays.values()):
            raise TypeError(f"{self.name}: the reference takes arrays of the host")
        block = self._weights(batch)
        hosts = {"weights": ctypes.addressof(block)} | {name: x.pointer for name, x in arrays.items()}
        call = self._call(tokens, [c.LayerOperand(name=name.encode(), host=host) for name, host in hosts.items()])
        desc = self._of_batch(batch, flags, tokens)
        self._check(c.library.clattn_layer_reference_sized(ctypes.byref(desc), _DESC, ctypes.byref(call), _CALL, _OPERAND,
                                                           self._log.callback, None))
        return {name: array.data for name, array in made.items()}

    def _plan(self, batch, tokens, flags):
        """(plan, workspace) for at least that many tokens."""
        longest, plan, workspace = self._plans.get((batch, flags), (0, None, None))
        if longest < tokens:
            self._longest = max(self._longest, 1 << (tokens - 1).bit_length())
            plan = Handle(c.library.clattn_layer_plan_destroy, self._context.handle)
            desc, size = self._of_batch(batch, flags, self._longest), ctypes.c_size_t()
            self._check(c.library.clattn_layer_plan_create_sized(
                ctypes.byref(plan.pointer), self._context.handle.pointer, ctypes.byref(desc), _DESC, self._log.callback, None))
            self._check(c.library.clattn_layer_workspace_size(plan.pointer, ctypes.byref(size)))
            workspace = Buffer(self._context.cl()[0], size.value)
            self._plans[batch, flags] = self._longest, plan, workspace
        return plan, workspace

    def _on_device(self, batch, tokens, flags, given, operands, like):
        """By a queue of the layer's own, whose buffers the arrays of the host are copied to."""
        if given["x"].on_device:
            return self._on_queue(batch, tokens, flags, given, operands, like)
        if any(array.on_device for array in given.values()):
            raise TypeError(f"{self.name}: x is an array of the host, a state is not")
        context, device = self._context.cl()
        if self._queue is None:
            self._queue = Queue(context, device)
        made = {name: _arrays.Empty(like, name, dims, dtype) for name, (dims, dtype) in operands.outputs.items()}
        buffers = {name: Buffer(context, array.bytes, array.pointer) for name, array in given.items()}
        buffers |= {name: Buffer(context, array.bytes) for name, array in made.items()}
        rows = [c.LayerOperand(name=name.encode(), buffer=buffer.handle) for name, buffer in buffers.items()]
        self._enqueue(batch, tokens, flags, self._queue.handle, rows)
        for name, array in made.items():
            self._queue.read(buffers[name], array.bytes, array.pointer)
        return {name: array.data for name, array in made.items()}

    def _on_queue(self, batch, tokens, flags, given, operands, like):
        """By the queue of a pyopencl array, without a copy."""
        from . import _cl
        queue = _cl.queue_of(like)
        if self._context.cl()[0] != queue.context.int_ptr:
            raise ValueError(f"{self.name}: x has another OpenCL context than the layer: make the layer with "
                             "device=clattn.Context(cl_context=x.context)")
        given = {name: _cl.on_device(queue, array) for name, array in given.items()}
        made = {name: _cl.empty(like, name, dims, dtype) for name, (dims, dtype) in operands.outputs.items()}
        rows = [c.LayerOperand(name=name.encode(), buffer=array.pointer, offset=array.offset)
                for name, array in (given | made).items()]
        _cl.mark(made.values(), self._enqueue(batch, tokens, flags, queue.int_ptr, rows, _cl.waits(given.values())))
        return {name: array.data for name, array in made.items()}

    def _enqueue(self, batch, tokens, flags, queue, rows, waits=None):
        """The event of a call, if waits is a set of events; else there is none."""
        plan, workspace = self._plan(batch, tokens, flags)
        call = self._call(tokens, [c.LayerOperand(name=b"weights", buffer=self._weights(batch).handle), *rows])
        call.workspace = workspace.handle
        event, list_of_waits = ctypes.c_void_p(), (ctypes.c_void_p * len(waits))(*waits) if waits else None
        self._check(c.library.clattn_layer_enqueue_sized(
            plan.pointer, ctypes.c_void_p(queue), ctypes.byref(call), _CALL, _OPERAND, len(waits or ()), list_of_waits,
            None if waits is None else ctypes.byref(event)))
        return event.value

    def __str__(self):
        return f"{self.name} {self.sizes}"
