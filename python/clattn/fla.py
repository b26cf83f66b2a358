"""flash-linear-attention's names and signatures, computed by clattn.

    from clattn.fla import chunk_gated_delta_rule

Shapes are fla's [B, T, H, K]; each function returns (o, final_state), and final_state is None without
output_final_state. Keywords that steer fla's kernels alone (chunk_size, …) are taken and have no effect."""

from . import _rules

_IGNORED = {"chunk_size", "head_first", "fused", "use_exp2"}


def _call(name, values, scale, initial_state, output_final_state, cu_seqlens, options, extra):
    for word, value in extra.items():
        if word not in _IGNORED and value is not None and value is not False:
            raise TypeError(f"clattn.fla: {name} has no {word}")
        if word == "head_first" and value:
            raise ValueError("clattn.fla: head_first is not taken: tensors are [B, T, H, D]")
    result = _rules.functions[name](**values, scale=scale, initial_state=initial_state, cu_seqlens=cu_seqlens,
                                    output_final_state=output_final_state, **options)
    return result if output_final_state else (result, None)


def chunk_linear_attn(q, k, v, scale=None, initial_state=None, output_final_state=False, normalize=True, cu_seqlens=None,
                      **extra):
    if normalize and output_final_state:
        raise ValueError("clattn.fla: linear attention that is normalised has two states: use clattn.linear_attn")
    return _call("linear_attn", {"q": q, "k": k, "v": v}, scale, initial_state, output_final_state, cu_seqlens,
                 {"normalize": normalize}, extra)


def chunk_retention(q, k, v, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None, **extra):
    return _call("retention", {"q": q, "k": k, "v": v}, scale, initial_state, output_final_state, cu_seqlens, {}, extra)


def chunk_simple_gla(q, k, v, g=None, g_gamma=None, scale=None, initial_state=None, output_final_state=False,
                     cu_seqlens=None, **extra):
    if g is not None and g_gamma is not None:
        raise ValueError("clattn.fla: simple_gla takes g or g_gamma, not both")
    gate = {"g": g_gamma, "gate_per_head": True} if g is None else {"g": g}
    if gate["g"] is None:
        return _call("linear_attn", {"q": q, "k": k, "v": v}, scale, initial_state, output_final_state, cu_seqlens, {}, extra)
    return _call("simple_gla", {"q": q, "k": k, "v": v, "g": gate.pop("g")}, scale, initial_state, output_final_state,
                 cu_seqlens, gate, extra)


def chunk_gla(q, k, v, g, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None, **extra):
    return _call("gla", {"q": q, "k": k, "v": v, "g": g}, scale, initial_state, output_final_state, cu_seqlens, {}, extra)


def fused_recurrent_gla(q, k, v, gk=None, gv=None, scale=None, initial_state=None, output_final_state=False, reverse=False,
                        cu_seqlens=None, **extra):
    if gk is None:
        raise ValueError("clattn.fla: fused_recurrent_gla without gk is not taken")
    return _call("gla", {"q": q, "k": k, "v": v, "g": gk} | ({} if gv is None else {"gv": gv}), scale, initial_state,
                 output_final_state, cu_seqlens, {"reversed": reverse}, extra)


def chunk_delta_rule(q, k, v, beta, scale=None, initial_state=None, output_final_state=False,
                     use_qk_l2norm_in_kernel=False, cu_seqlens=None, **extra):
    return _call("delta_rule", {"q": q, "k": k, "v": v, "beta": beta}, scale, initial_state, output_final_state, cu_seqlens,
                 {"qk_l2norm": use_qk_l2norm_in_kernel}, extra)


def chunk_gated_delta_rule(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False,
                           use_qk_l2norm_in_kernel=False, cu_seqlens=None, **extra):
    return _call("gated_delta_rule", {"q": q, "k": k, "v": v, "g": g, "beta": beta}, scale, initial_state,
                 output_final_state, cu_seqlens, {"qk_l2norm": use_qk_l2norm_in_kernel}, extra)


def chunk_kda(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False,
              use_gate_in_kernel=False, A_log=None, dt_bias=None, lower_bound=None, safe_gate=False, cu_seqlens=None,
              **extra):
    """With use_gate_in_kernel g is as projected, and the gate is -e^A_log softplus(g + dt_bias), or with a lower_bound
    lower_bound sigmoid(e^A_log (g + dt_bias)). safe_gate steers fla's kernels alone."""
    raw = {}
    if use_gate_in_kernel and safe_gate and lower_bound is None:
        raise ValueError("clattn.fla: safe_gate needs a lower_bound")
    if use_gate_in_kernel:
        raw = {"gate_map": "softplus"} if lower_bound is None else {"gate_map": "sigmoid", "gate_scale": lower_bound}
        if A_log is not None:
            raw["a_log"] = A_log.reshape(-1)
        elif lower_bound is None:
            raise ValueError("clattn.fla: kda with use_gate_in_kernel needs A_log or a lower_bound")
        if dt_bias is not None:
            raw["dt_bias"] = dt_bias.reshape(q.shape[2], -1)
    elif A_log is not None or dt_bias is not None:
        raise ValueError("clattn.fla: kda takes A_log and dt_bias with use_gate_in_kernel")
    return _call("kda", {"q": q, "k": k, "v": v, "g": g, "beta": beta}, scale, initial_state, output_final_state, cu_seqlens,
                 {"qk_l2norm": use_qk_l2norm_in_kernel} | raw, extra)


def chunk_rwkv7(r, w, k, v, a, b, scale=1.0, initial_state=None, output_final_state=True, cu_seqlens=None, **extra):
    """w is the log-decay, at most 0, as in fla."""
    return _call("rwkv7", {"q": r, "w": w, "k": k, "v": v, "a": a, "b": b}, scale, initial_state, output_final_state,
                 cu_seqlens, {}, extra)


def chunk_rwkv6(r, k, v, w, u, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None, **extra):
    return _call("rwkv6", {"q": r, "k": k, "v": v, "w": w, "u": u}, scale, initial_state, output_final_state, cu_seqlens, {},
                 extra)


def fused_recurrent_hgrn(x, g, initial_state=None, output_final_state=False, cu_seqlens=None):
    """x, g: [B, T, D]; the state is [N, D]."""
    batch, tokens, width = x.shape
    state = None if initial_state is None else initial_state.reshape(-1, 1, width, 1)
    o, final = _call("hgrn", {"v": x.reshape(batch, tokens, 1, width), "gv": g.reshape(batch, tokens, 1, width)}, None, state,
                     output_final_state, cu_seqlens, {}, {})
    return o.reshape(batch, tokens, width), None if final is None else final.reshape(-1, width)


chunk_hgrn = fused_recurrent_hgrn
fused_chunk_linear_attn = fused_recurrent_linear_attn = chunk_linear_attn
fused_recurrent_retention = parallel_retention = fused_chunk_retention = chunk_retention
fused_recurrent_simple_gla = chunk_simple_gla
fused_chunk_gla = chunk_gla
fused_recurrent_delta_rule = fused_chunk_delta_rule = chunk_delta_rule
fused_recurrent_gated_delta_rule = chunk_gated_delta_rule
fused_recurrent_kda = chunk_kda
fused_recurrent_rwkv7 = chunk_rwkv7
fused_recurrent_rwkv6 = chunk_rwkv6
