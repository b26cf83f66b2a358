"""Rules as operators of torch.library, clattn::gla and so on, which torch.compile takes into its graphs as they are.

An operator has the inputs and options of its rule, returns a list, and has the rule's backward pass as its gradient,
which is the operator clattn::backward. Functions of clattn call these while torch.compile traces them."""

import json

import torch

from . import _arrays, _rules
from . import _interface as c
from ._plan import context_number, context_with_number

_TYPES = {"bool": "bool", "double": "float", "int32": "int", "int64": "int"}


def _option_type(key):
    option = c.options[key]
    return "bool" if key in c.flags else "str" if option.get("values") else _TYPES[option["type"]]


def _parameters(rule):
    """[(name, type of a schema)], in the order of the operator's arguments."""
    rows = [(o["name"], "Tensor" if o["required"] else "Tensor?") for o in sorted(rule.inputs, key=lambda o: not o["required"])]
    taken = {name for name, _ in rows}
    rows += [(word, f"{_option_type(key)}?") for word, key in rule.words.items() if word not in taken]
    return [*rows, ("output_final_state", "bool"), ("device", "str")]


_DEFAULTS = {"output_final_state": "False", "device": '""'}


def _schema(parameters):
    def one(name, kind):
        return f"{kind} {name}" + ("" if kind == "Tensor" else f"={_DEFAULTS.get(name, 'None')}")

    return f"({', '.join(one(name, kind) for name, kind in parameters)}) -> Tensor[]"


def device_word(device):
    """A device as an operator takes it."""
    if device is None:
        return ""
    number = context_number(device)
    return str(device) if number is None else f"context:{number}"


def _device_of(word):
    if word.startswith("context:"):
        return context_with_number(int(word.removeprefix("context:")))
    return None if word == "" else int(word) if word.isdecimal() else word


def _letters(rule, values):
    """{letter: length} of the inputs' shapes, where lengths may be symbols of torch.compile."""
    known = {}
    for operand in rule.inputs:
        if operand["name"] in values:
            shape = values[operand["name"]].shape
            for letters in _rules.alternatives(operand):
                known |= {letter: n for letter, n in zip(letters, shape) if len(letters) == len(shape) and letter not in known}
    known.setdefault("N", known["N+1"] - 1 if "N+1" in known else known.get("B"))
    return known


def _hint(n):
    """What a symbol stands for in this trace, which does not bind the graph to it."""
    return n if isinstance(n, int) else n.node.hint


def _made_by(rule, values, options, requested, direction):
    """{name: tensor without numbers} of what a call returns."""
    arrays = {name: _arrays.Described(name, tuple(map(_hint, x.shape)), x.dtype) for name, x in values.items()}
    prepared, like = rule.prepare(arrays, options, requested, direction), next(iter(values.values()))
    known, shapes = _letters(rule, values), {o["name"]: _rules.alternatives(o) for o in rule.row["operands"]}

    def symbolic(name, dims):
        if name.startswith("d_"):
            return values[name.removeprefix("d_")].shape
        for letters in shapes[name]:
            lengths = [known.get(letter) for letter in letters]
            if len(letters) == len(dims) and all(n is not None and _hint(n) == dim for n, dim in zip(lengths, dims)):
                return lengths
        for x in values.values():  # the graph is for these lengths alone
            tuple(map(int, x.shape))
        return dims

    return {name: like.new_empty(symbolic(name, dims), dtype=getattr(torch, _arrays.NAMES.get(dtype, dtype)))
            for _, name, dims, dtype in prepared.outputs}


class _Call:
    """The arguments of an operator, sorted."""

    def __init__(self, rule, arguments):
        given = dict(zip(rule.operator_arguments, arguments))
        self.device = _device_of(given.pop("device", ""))
        self.requested = ("final_state",) if given.pop("output_final_state", False) else ()
        given = {name: value for name, value in given.items() if value is not None}
        self.values = {o["name"]: given.pop(o["name"]) for o in rule.inputs if o["name"] in given}
        self.options = given


@torch.library.custom_op("clattn::backward", mutates_args=(), schema="(Tensor[] tensors, str call) -> Tensor[]")
def _backward(tensors, call):
    rule, names, options, device, requested, wanted = json.loads(call)
    found = _rules.backward(_rules.rules[rule], dict(zip(names, tensors)), options, _device_of(device), tuple(requested))
    return [found[f"d_{name}"] for name in wanted]


@_backward.register_fake
def _(tensors, call):
    rule, names, options, _, requested, wanted = json.loads(call)
    made = _made_by(_rules.rules[rule], dict(zip(names, tensors)), options, tuple(requested), c.BACKWARD)
    return [made[f"d_{name}"] for name in wanted]


def _define(rule):
    parameters = _parameters(rule)
    rule.operator_arguments = [name for name, _ in parameters]

    def compute(*arguments):
        call = _Call(rule, arguments)
        return list(_rules.forward(rule, call.values, call.options, call.device, call.requested).values())

    def describe(*arguments):
        call = _Call(rule, arguments)
        return list(_made_by(rule, call.values, call.options, call.requested, c.FORWARD).values())

    def keep(ctx, inputs, output):
        ctx.arguments = [None if isinstance(x, torch.Tensor) else x for x in inputs]
        ctx.tensors = [i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor)]
        ctx.save_for_backward(*(inputs[i] for i in ctx.tensors), *output)

    def differentiate(ctx, gradients):
        saved = ctx.saved_tensors
        arguments = list(ctx.arguments)
        for i, tensor in zip(ctx.tensors, saved):
            arguments[i] = tensor
        call, outputs = _Call(rule, arguments), saved[len(ctx.tensors):]
        names = rule.output_names(call.requested)
        values = call.values | {f"d_{name}": torch.zeros_like(x) if gradient is None else gradient.to(x.dtype)
                                for name, x, gradient in zip(names, outputs, gradients)} | {"o": outputs[0]}
        wanted = [name for name, needed in zip(rule.operator_arguments, ctx.needs_input_grad) if needed]
        text = json.dumps([rule.name, list(values), call.options, device_word(call.device), call.requested, wanted])
        found = dict(zip(wanted, torch.ops.clattn.backward(list(values.values()), text)))
        return tuple(found.get(name) for name in rule.operator_arguments)

    operator = torch.library.custom_op(f"clattn::{rule.name}", compute, mutates_args=(), schema=_schema(parameters))
    operator.register_fake(describe)
    if rule.has_backward:
        operator.register_autograd(differentiate, setup_context=keep)
    return getattr(torch.ops.clattn, rule.name).default


operators = {name: _define(rule) for name, rule in _rules.rules.items()}


def call(name, values, options, device, requested):
    """What a function of clattn returns, as a call of the rule's operator."""
    tensors = {key: x if isinstance(x, torch.Tensor) else torch.as_tensor(x) for key, x in values.items()}
    return operators[name](**tensors, **options, device=device_word(device), output_final_state=bool(requested))
