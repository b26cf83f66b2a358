"""Gradients in PyTorch: a rule as a function of torch.autograd, whose backward is the rule's backward pass."""

import torch

from . import _rules


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
        if torch.is_grad_enabled():  # create_graph
            raise RuntimeError("clattn has no derivatives of gradients: leave create_graph out")
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
