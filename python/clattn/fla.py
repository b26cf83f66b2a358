"""flash-linear-attention's names and signatures, computed by clattn.

    from clattn.fla import chunk_gated_delta_rule

Shapes are fla's [B, T, H, K]; each function returns (o, final_state), and final_state is None without
output_final_state. Keywords that steer fla's kernels alone (chunk_size, …) are taken and have no effect."""

import functools
import warnings

from . import _rules

# They steer fla's kernels, or say again what another argument says
_IGNORED = {"chunk_size", "head_first", "fused", "use_exp2", "cu_seqlens_cpu", "chunk_indices", "disable_recompute",
            "safe_gate"}


def _call(name, values, scale, initial_state, output_final_state, cu_seqlens, options, extra):
    for word, value in extra.items():
        if word not in _IGNORED and value is not None and value is not False:
            raise TypeError(f"clattn.fla: {name} has no {word}")
        if word == "head_first" and value:
            raise ValueError("clattn.fla: head_first is not taken: tensors are [B, T, H, D]")
    if initial_state is not None and hasattr(initial_state, "float"):
        initial_state = initial_state.float()  # as fla's final states, and states of a call have one type
    result = _rules.functions[name](**values, scale=scale, initial_state=initial_state, cu_seqlens=cu_seqlens,
                                    output_final_state=output_final_state, **options)
    return result if output_final_state else (result, None)


def _with_old_name(function):
    """The function, which also takes state_v_first by the name that fla gave it before."""
    @functools.wraps(function)
    def call(*arguments, transpose_state_layout=None, **keywords):
        if transpose_state_layout is not None:
            if "state_v_first" in keywords:
                raise ValueError("clattn.fla: transpose_state_layout is state_v_first: both are given")
            warnings.warn("transpose_state_layout is called state_v_first", DeprecationWarning, stacklevel=2)
            keywords["state_v_first"] = transpose_state_layout
        return function(*arguments, **keywords)
    return call


def _delta_options(name, g, use_qk_l2norm_in_kernel, use_gate_in_kernel, A_log, dt_bias, use_beta_sigmoid_in_kernel,
                   allow_neg_eigval, state_v_first, lower_bound=None, safe_gate=False):
    """What fla does to gates and strengths in its kernels, as options of a rule. g: [B, T, H] or [B, T, H, K]"""
    options = {"qk_l2norm": use_qk_l2norm_in_kernel, "state_vk": state_v_first}
    if allow_neg_eigval and not use_beta_sigmoid_in_kernel:
        raise ValueError("clattn.fla: allow_neg_eigval needs use_beta_sigmoid_in_kernel")
    if use_beta_sigmoid_in_kernel:
        options["beta_map"] = "twice-sigmoid" if allow_neg_eigval else "sigmoid"
    if not use_gate_in_kernel:
        if A_log is not None or dt_bias is not None:
            raise ValueError(f"clattn.fla: {name} takes A_log and dt_bias with use_gate_in_kernel")
        return options
    if lower_bound is None and (safe_gate or A_log is None):
        raise ValueError("clattn.fla: safe_gate needs a lower_bound" if safe_gate else
                         f"clattn.fla: {name} with use_gate_in_kernel needs A_log")
    options |= {"gate_map": "softplus"} if lower_bound is None else {"gate_map": "sigmoid", "gate_scale": lower_bound}
    if A_log is not None:
        options["a_log"] = A_log.reshape(-1)
    if dt_bias is not None:
        options["dt_bias"] = dt_bias.reshape(g.shape[2:])
    return options


def chunk_linear_attn(q, k, v, scale=None, initial_state=None, output_final_state=False, normalize=True, cu_seqlens=None,
                      **extra):
    if normalize and output_final_state:
        raise ValueError("clattn.fla: linear attention that is normalised has two states: use clattn.linear_attn")
    return _call("linear_attn", {"q": q, "k": k, "v": v}, scale, initial_state, output_final_state, cu_seqlens,
                 {"normalize": normalize}, extra)


def chunk_retention(q, k, v, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None, **extra):
    return _call("retention", {"q": q, "k": k, "v": v}, scale, initial_state, output_final_state, cu_seqlens, {}, extra)


@_with_old_name
def chunk_simple_gla(q, k, v, g=None, g_gamma=None, scale=None, initial_state=None, output_final_state=False,
                     state_v_first=False, cu_seqlens=None, reverse=False, **extra):
    if g is not None and g_gamma is not None:
        raise ValueError("clattn.fla: simple_gla takes g or g_gamma, not both")
    options = {"state_vk": state_v_first, "reversed": reverse}
    if g is None and g_gamma is None:
        return _call("linear_attn", {"q": q, "k": k, "v": v}, scale, initial_state, output_final_state, cu_seqlens, options,
                     extra)
    if g is None:
        options["gate_per_head"] = True
    return _call("simple_gla", {"q": q, "k": k, "v": v, "g": g_gamma if g is None else g}, scale, initial_state,
                 output_final_state, cu_seqlens, options, extra)


def parallel_simple_gla(q, k, v, g=None, scale=None, cu_seqlens=None, **extra):
    return chunk_simple_gla(q, k, v, g=g, scale=scale, cu_seqlens=cu_seqlens, **extra)


@_with_old_name
def chunk_gla(q, k, v, g, scale=None, initial_state=None, output_final_state=False, state_v_first=False, cu_seqlens=None,
              **extra):
    return fused_recurrent_gla(q, k, v, g, None, scale, initial_state, output_final_state, False, state_v_first, cu_seqlens,
                               **extra)


@_with_old_name
def fused_recurrent_gla(q, k, v, gk=None, gv=None, scale=None, initial_state=None, output_final_state=False, reverse=False,
                        state_v_first=False, cu_seqlens=None, **extra):
    if gk is None:
        raise ValueError("clattn.fla: fused_recurrent_gla without gk is not taken")
    return _call("gla", {"q": q, "k": k, "v": v, "g": gk} | ({} if gv is None else {"gv": gv}), scale, initial_state,
                 output_final_state, cu_seqlens, {"reversed": reverse, "state_vk": state_v_first}, extra)


def chunk_delta_rule(q, k, v, beta, scale=None, initial_state=None, output_final_state=False,
                     use_qk_l2norm_in_kernel=False, cu_seqlens=None, **extra):
    return _call("delta_rule", {"q": q, "k": k, "v": v, "beta": beta}, scale, initial_state, output_final_state, cu_seqlens,
                 {"qk_l2norm": use_qk_l2norm_in_kernel}, extra)


@_with_old_name
def chunk_gated_delta_rule(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False,
                           use_qk_l2norm_in_kernel=False, use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False,
                           state_v_first=False, cu_seqlens=None, use_gate_in_kernel=False, A_log=None, dt_bias=None,
                           **extra):
    """With use_gate_in_kernel g is as projected, and the gate is -e^A_log softplus(g + dt_bias)."""
    options = _delta_options("gated_delta_rule", g, use_qk_l2norm_in_kernel, use_gate_in_kernel, A_log, dt_bias,
                             use_beta_sigmoid_in_kernel, allow_neg_eigval, state_v_first)
    return _call("gated_delta_rule", {"q": q, "k": k, "v": v, "g": g, "beta": beta}, scale, initial_state,
                 output_final_state, cu_seqlens, options, extra)


@_with_old_name
def fused_recurrent_gated_delta_rule(q, k, v, g=None, gk=None, gv=None, beta=None, scale=None, **keywords):
    if g is None or gk is not None or gv is not None:
        raise TypeError("clattn.fla: fused_recurrent_gated_delta_rule takes g, not gk and gv")
    if beta is None:
        beta = g * 0 + 1
    return chunk_gated_delta_rule(q, k, v, g, beta, scale, **keywords)


@_with_old_name
def chunk_kda(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False,
              use_gate_in_kernel=False, use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False, safe_gate=False,
              lower_bound=None, state_v_first=False, cu_seqlens=None, A_log=None, dt_bias=None, **extra):
    """With use_gate_in_kernel g is as projected, and the gate is -e^A_log softplus(g + dt_bias), or with a lower_bound
    lower_bound sigmoid(e^A_log (g + dt_bias)). Otherwise safe_gate steers fla's kernels alone."""
    options = _delta_options("kda", g, use_qk_l2norm_in_kernel, use_gate_in_kernel, A_log, dt_bias,
                             use_beta_sigmoid_in_kernel, allow_neg_eigval, state_v_first, lower_bound, safe_gate)
    return _call("kda", {"q": q, "k": k, "v": v, "g": g, "beta": beta}, scale, initial_state, output_final_state, cu_seqlens,
                 options, extra)


@_with_old_name
def fused_recurrent_kda(q, k, v, g, beta, A_log=None, dt_bias=None, scale=None, **keywords):
    return chunk_kda(q, k, v, g, beta, scale, A_log=A_log, dt_bias=dt_bias, **keywords)


def chunk_rwkv7(r, w, k, v, a, b, scale=1.0, initial_state=None, output_final_state=False, cu_seqlens=None, reverse=False,
                **extra):
    """w is the log-decay, at most 0, as in fla. The scale None is 1/sqrt(K)."""
    return _call("rwkv7", {"q": r, "w": w, "k": k, "v": v, "a": a, "b": b}, k.shape[-1] ** -0.5 if scale is None else scale,
                 initial_state, output_final_state, cu_seqlens, {"reversed": reverse}, extra)


def fused_recurrent_rwkv7(r, w, k, v, a, b, scale=None, initial_state=None, output_final_state=True, cu_seqlens=None,
                          **extra):
    return chunk_rwkv7(r, w, k, v, a, b, scale, initial_state, output_final_state, cu_seqlens, **extra)


def fused_mul_recurrent_rwkv7(r, w, k, v, kk, a, scale=1.0, initial_state=None, output_final_state=False, reverse=False,
                              cu_seqlens=None, **extra):
    """kk is the direction that is erased, and a the strength."""
    return chunk_rwkv7(r, w, k, v, -kk, kk * a, scale, initial_state, output_final_state, cu_seqlens, reverse, **extra)


def chunk_dplr_delta_rule(q, k, v, a, b, gk, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None,
                          reverse=False, **extra):
    return _call("dplr", {"q": q, "k": k, "v": v, "a": a, "b": b, "g": gk}, scale, initial_state, output_final_state,
                 cu_seqlens, {"reversed": reverse}, extra)


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
fused_recurrent_simple_gla = fused_chunk_simple_gla = chunk_simple_gla
fused_chunk_gla = chunk_gla
fused_recurrent_delta_rule = fused_chunk_delta_rule = chunk_delta_rule
fused_recurrent_dplr_delta_rule = chunk_dplr_delta_rule
fused_recurrent_rwkv6 = chunk_rwkv6
