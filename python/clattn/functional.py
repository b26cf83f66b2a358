"""The gated delta rule with the names and the layout that PyTorch's developers give it in attention-gym, beside
scaled_dot_product_attention: [batch, heads, tokens, dim], log-decays and beta [batch, heads, tokens].

    from clattn.functional import gated_delta_rule

    output, state = gated_delta_rule(query, key, value, gate, beta, return_final_state=True)"""

import typing

from . import _rules


class GatedDeltaRuleOutput(typing.NamedTuple):
    output: typing.Any
    final_state: typing.Any = None


def _turned(array):
    """Heads and tokens exchanged: a view where the array has one."""
    return array.swapaxes(1, 2)


def gated_delta_rule(query, key, value, gate, beta, *, scale=None, initial_state=None, return_final_state=False,
                     device=None):
    """o = S^T q after S = e^gate S; S += beta k (v - S^T k)^T. Arrays of one kind, NumPy's or PyTorch's on the CPU; states
    are [batch, heads, K, V], float32. Tensors that require gradients get them."""
    result = _rules.functions["gated_delta_rule"](
        *(_turned(array) for array in (query, key, value, gate, beta)), scale=scale, initial_state=initial_state,
        output_final_state=return_final_state, device=device)
    output, state = result if return_final_state else (result, None)
    return GatedDeltaRuleOutput(_turned(output), state)


__all__ = ["GatedDeltaRuleOutput", "gated_delta_rule"]
