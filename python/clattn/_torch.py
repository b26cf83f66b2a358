"""Gradients in PyTorch: a rule or a layer as a function of torch.autograd, whose backward is its backward pass."""

import torch

from . import _rules


def _refuse_second_derivatives():
    if torch.is_grad_enabled():  # create_graph
        raise RuntimeError("clattn has no derivatives of gradients: leave create_graph out")


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rule, names, options, device, requested, *tensors):
        values = dict(zip(names, tensors))
        outputs = _rules.forward(rule, values, options, device, requested)
        ctx.call = rule, names, options, device, requested
        ctx.outputs = list(outputs)
        ctx.save_for_backward(*tensors, *outputs.values())
        return tuple(outputs.values())

    @staticmethod
    def backward(ctx, *gradients):
        _refuse_second_derivatives()
        rule, names, options, device, requested = ctx.call
        saved = ctx.saved_tensors
        values = dict(zip(names, saved))
        outputs = dict(zip(ctx.outputs, saved[len(names):]))
        for (name, output), gradient in zip(outputs.items(), gradients):
            values[f"d_{name}"] = torch.zeros_like(output) if gradient is None else gradient.to(output.dtype)
        found = _rules.backward(rule, values | {"o": outputs["o"]}, options, device, requested)
        return (None,) * 5 + tuple(found.get(f"d_{name}") if needed else None
                                   for name, needed in zip(names, ctx.needs_input_grad[5:]))


def differentiable(rule, values, options, device, requested):
    names = tuple(values)
    values = {name: x if isinstance(x, torch.Tensor) else torch.as_tensor(x) for name, x in values.items()}
    outputs = _Function.apply(rule, names, options, device, requested, *values.values())
    return dict(zip(rule.output_names(requested), outputs))


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, layer, inputs, weights, flags, *tensors):
        outputs = layer.compute(dict(zip(inputs, tensors)), flags)
        ctx.call, ctx.outputs = (layer, inputs, weights, flags), list(outputs)
        ctx.save_for_backward(*tensors)  # weights, too: PyTorch refuses a backward pass after they were changed
        return tuple(outputs.values())

    @staticmethod
    def backward(ctx, *gradients):
        from .layers import BACKWARD
        _refuse_second_derivatives()
        layer, inputs, weights, flags = ctx.call
        values = dict(zip(inputs, ctx.saved_tensors)) | {f"d_{name}": d for name, d in zip(ctx.outputs, gradients)}
        found = layer.compute(values, flags | BACKWARD)
        needed = ctx.needs_input_grad[4:]
        by_inputs = [found.get(f"d_{name}") for name in inputs]
        by_weights = [layer.gradient(name, found["d_weights"]).to(tensor.dtype) if wanted else None
                      for name, tensor, wanted in zip(weights, ctx.saved_tensors[len(inputs):], needed[len(inputs):])]
        return (None,) * 4 + tuple(d if wanted else None for d, wanted in zip((*by_inputs, *by_weights), needed))


def differentiable_layer(layer, values, weights, flags):
    """Layer.compute of tensors, with gradients by values and weights."""
    from .layers import with_backward
    if layer.name not in with_backward:
        raise ValueError(f"{layer.name} has no backward pass, as {', '.join(with_backward)} have; "
                         "call it without gradients: with torch.no_grad()")
    values = {name: torch.as_tensor(x) for name, x in values.items()}
    weights = {name: x for name, x in weights.items() if isinstance(x, torch.Tensor)}
    outputs = _Layer.apply(layer, tuple(values), tuple(weights), flags, *values.values(), *weights.values())
    return dict(zip(layer.outputs(flags), outputs))
