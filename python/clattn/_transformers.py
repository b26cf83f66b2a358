"""Hugging Face transformers over clattn: the functions that its modules compute linear attention by are exchanged.

A model of transformers calls functions of its own module: torch_chunk_gated_delta_rule, causal_conv1d_fn,
mamba2_chunk_scan, … Each has a counterpart here with its arguments, which takes tensors on the CPU, and leaves to the
original what clattn does not have: other devices, other activations, gradients of a rule without a backward pass."""

import functools
import importlib.machinery
import re
import sys

from ._rules import functions, rules

_MODULES = re.compile(r"transformers\.models\.\w+\.modeling_\w+$")
_MOST_CHANNELS = 1024  # of a head


def _computes(rule, *tensors):
    """Whether clattn takes the call: tensors of the CPU, and a backward pass if gradients are wanted."""
    import torch
    tensors = [x for x in tensors if x is not None]
    if any(x.device.type != "cpu" for x in tensors):
        return False
    wanted = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    return not wanted or rules[rule].has_backward


def _is_packed(keywords):
    return any(keywords.get(name) is not None for name in ("cu_seqlens", "seq_idx"))


def _both(result, output_final_state):
    return result if output_final_state else (result, None)


# ---- The functions of transformers' modules, by the names that they have there ---------------------------------------


def _delta_rule(rule, original, device, query, key, value, g, beta, chunk_size=64, initial_state=None,
                output_final_state=False, use_qk_l2norm_in_kernel=False, cu_seqlens=None, **rest):
    """query … [B,T,H,K]; g [B,T,H], of kda [B,T,H,K]; beta [B,T,H]; initial_state [B,H,K,V]"""
    if not _computes(rule, query, key, value, g, beta, initial_state):
        chunks = {} if "recurrent" in original.__name__ else {"chunk_size": chunk_size}
        return original(query, key, value, g=g, beta=beta, initial_state=initial_state, cu_seqlens=cu_seqlens,
                        output_final_state=output_final_state, use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel, **chunks,
                        **rest)
    state = None if initial_state is None else initial_state.float()
    return _both(functions[rule](query, key, value, g, beta, initial_state=state, cu_seqlens=cu_seqlens, device=device,
                                 qk_l2norm=use_qk_l2norm_in_kernel, output_final_state=output_final_state),
                 output_final_state)


def _conv(original, device, x, weight, bias=None, activation=None, **rest):
    """x [B,D,T], weight [D,W]"""
    taken = activation in (None, "silu", "swish") and not _is_packed(rest)
    if not taken or not _computes("short_conv", x, weight, bias):
        return original(x, weight, bias, activation=activation, **rest)
    return functions["short_conv"](x.to(weight.dtype).transpose(1, 2).unsqueeze(2), weight.unsqueeze(0),
                                   bias=None if bias is None else bias.unsqueeze(0), taps=weight.shape[1], device=device,
                                   activation="silu" if activation else "none").squeeze(2).transpose(1, 2).to(x.dtype)


def _conv_update(original, device, x, conv_state, weight, bias=None, activation=None):
    """x [B,D,T]; conv_state [B,D,W or W - 1], the last inputs, which are updated"""
    taps, kept = weight.shape[1], conv_state.shape[2]
    if (activation not in (None, "silu", "swish") or x.dim() != 3 or kept not in (taps - 1, taps)
            or not _computes("short_conv", x, conv_state, weight, bias)):
        return original(x, conv_state, weight, bias, activation)
    import torch
    state = torch.nn.functional.pad(conv_state.float(), (taps - kept, 0)).transpose(1, 2).unsqueeze(2)
    o, final = functions["short_conv"](x.to(weight.dtype).transpose(1, 2).unsqueeze(2), weight.unsqueeze(0),
                                       bias=None if bias is None else bias.unsqueeze(0), taps=taps, initial_state=state,
                                       activation="silu" if activation else "none", output_final_state=True, device=device)
    conv_state.copy_(final.squeeze(2).transpose(1, 2)[:, :, taps - kept:])
    return o.squeeze(2).transpose(1, 2).to(x.dtype)


def _by_heads(channels):
    """Channels of Mamba as heads: (heads, channels of each)."""
    heads = next(n for n in range(1, channels + 1) if channels % n == 0 and channels // n <= _MOST_CHANNELS)
    return heads, channels // heads


def _mamba(device, x, dt, a, b, c, d, z, dt_bias, softplus, state, output_final_state):
    """x, dt, z [B,T,D], a [D,N], b and c [B,T,N], state [B,D,N]"""
    batch, tokens, channels = x.shape
    heads = _by_heads(channels)

    def by_heads(y, shape):
        return None if y is None else y.reshape(*shape, *heads)

    result = functions["mamba"](
        c.unsqueeze(2).to(x.dtype), b.unsqueeze(2).to(x.dtype), by_heads(x, (batch, tokens)),
        a.float().reshape(*heads, -1), by_heads(dt.to(x.dtype), (batch, tokens)), device=device, scale=1.0,
        d=by_heads(None if d is None else d.float(), ()), z=by_heads(None if z is None else z.to(x.dtype), (batch, tokens)),
        dt_bias=by_heads(None if dt_bias is None else dt_bias.float(), ()), softplus=softplus, state_vk=True,
        initial_state=None if state is None else state.float().reshape(batch, *heads, -1),
        output_final_state=output_final_state)
    o, final = _both(result, output_final_state)
    return o.reshape(x.shape), None if final is None else final.reshape(batch, channels, -1)


def _selective_scan(original, device, x, dt, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False,
                    return_last_state=False, **rest):
    """x, dt, z [B,D,T], A [D,N], B and C [B,N,T]"""
    if not _computes("mamba", x, dt, A, B, C, D, z, delta_bias):
        return original(x, dt, A, B, C, D=D, z=z, delta_bias=delta_bias, delta_softplus=delta_softplus,
                        return_last_state=return_last_state, **rest)
    rows = [None if y is None else y.transpose(1, 2) for y in (x, dt, B, C, z)]
    o, final = _mamba(device, rows[0], rows[1], A, rows[2], rows[3], D, rows[4], delta_bias, delta_softplus, None,
                      return_last_state)
    o = o.transpose(1, 2)
    return (o, final) if return_last_state else o


def _selective_state_update(original, device, state, x, dt, A, B, C, D=None, dt_bias=None, dt_softplus=False, z=None,
                            **rest):
    """One token. state [B,D,N], which is updated, x, dt, z [B,D], A [D,N], B and C [B,N]"""
    if not _computes("mamba", state, x, dt, A, B, C, D, dt_bias, z):
        return original(state, x, dt, A, B, C, D, z=z, dt_bias=dt_bias, dt_softplus=dt_softplus, **rest)
    rows = [None if y is None else y.unsqueeze(1) for y in (x, dt, B, C, z)]
    o, final = _mamba(device, rows[0], rows[1], A, rows[2], rows[3], D, rows[4], dt_bias, dt_softplus, state, True)
    state.copy_(final)
    return o.squeeze(1)


def _ssd(device, x, dt, a, b, c, d, state, output_final_state):
    """x [B,T,H,P], dt [B,T,H], a and d [H], b and c [B,T,G,N], state [B,H,P,N]"""
    dt = dt.float()
    result = functions["ssd"](c.to(x.dtype), b.to(x.dtype), x, a.float() * dt, dt, scale=1.0, state_vk=True, device=device,
                              initial_state=None if state is None else state.float(),
                              output_final_state=output_final_state)
    o, final = _both(result, output_final_state)
    return o if d is None else o + (d[:, None] * x).to(o.dtype), final


def _step_size(dt, bias, softplus, limits=(0.0, float("inf"))):
    import torch
    dt = dt if bias is None else dt + bias.to(dt.dtype)
    return (torch.nn.functional.softplus(dt) if softplus else dt).clamp(*limits)


def _chunk_scan(original, device, x, dt, A, B, C, chunk_size, D=None, dt_bias=None, initial_states=None, dt_softplus=False,
                dt_limit=(0.0, float("inf")), return_final_states=False, z=None, **rest):
    if (z is not None or _is_packed(rest)
            or not _computes("ssd", x, dt, A, B, C, D, dt_bias, initial_states)):
        return original(x, dt, A, B, C, chunk_size, D=D, dt_bias=dt_bias, initial_states=initial_states,
                        dt_softplus=dt_softplus, dt_limit=dt_limit, return_final_states=return_final_states, z=z, **rest)
    o, final = _ssd(device, x, _step_size(dt, dt_bias, dt_softplus, dt_limit), A, B, C, D, initial_states,
                    return_final_states)
    return (o, final) if return_final_states else o


def _chunk_state_update(original, device, state, x, dt, A, B, C, D=None, dt_bias=None, dt_softplus=False, z=None, **rest):
    """One token. state [B,H,P,N], which is updated, x [B,H,P]; dt, dt_bias, A and D are the same in all of a head; B and C
    [B,G,N]"""
    if z is not None or not _computes("ssd", state, x, dt, A, B, C, D, dt_bias):
        return original(state, x, dt, A, B, C, D, z=z, dt_bias=dt_bias, dt_softplus=dt_softplus, **rest)
    step = _step_size(dt[..., 0], None if dt_bias is None else dt_bias[..., 0], dt_softplus)
    o, final = _ssd(device, x.unsqueeze(1), step.unsqueeze(1), A[:, 0, 0], B.unsqueeze(1), C.unsqueeze(1),
                    None if D is None else D[:, 0], state, True)
    state.copy_(final)
    return o.squeeze(1)


_COUNTERPARTS = {
    "torch_chunk_gated_delta_rule": functools.partial(_delta_rule, "gated_delta_rule"),
    "torch_recurrent_gated_delta_rule": functools.partial(_delta_rule, "gated_delta_rule"),
    "chunk_kimi_delta_attention": functools.partial(_delta_rule, "kda"),
    "recurrent_kimi_delta_attention": functools.partial(_delta_rule, "kda"),
    "causal_conv1d_fn": _conv,
    "causal_conv1d_update": _conv_update,
    "torch_causal_conv1d_update": _conv_update,  # of transformers 4
    "mamba_selective_scan": _selective_scan,
    "mamba_selective_state_update": _selective_state_update,
    "mamba2_chunk_scan": _chunk_scan,
    "mamba2_selective_state_update": _chunk_state_update,
}

# ---- The exchange ----------------------------------------------------------------------------------------------------


class _Finder:
    """Finds the modules of models that are imported later, and exchanges their functions."""

    def __init__(self, exchange):
        self.exchange = exchange

    def find_spec(self, name, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path) if _MODULES.match(name) else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_exchange(module):
            execute(module)
            self.exchange(module)

        spec.loader.exec_module = execute_and_exchange
        return spec


class patch_transformers:
    """Models of transformers compute linear attention by clattn.

        with clattn.patch_transformers():
            model.generate(...)

    start() and stop() do the same without a block. Gated DeltaNet (Qwen3-Next, Qwen3.5, OLMo hybrid, …), Kimi delta
    attention, Mamba, Mamba-2 and their short convolutions are exchanged, in modules that are loaded or will be. Models of
    transformers 4 keep the functions that they were made with: pass such models, patch_transformers(model). device: as of
    clattn's functions."""

    def __init__(self, *models, device=None):
        self._models, self._device, self._undo, self._finder = models, device, [], None

    def _set(self, owner, name, value):
        self._undo.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def _counterpart(self, name, original):
        ours, device = _COUNTERPARTS[name], self._device

        @functools.wraps(original)
        def counterpart(*args, **keywords):
            return ours(original, device, *args, **keywords)

        return counterpart

    def _exchange(self, module):
        for name in _COUNTERPARTS:
            original = getattr(module, name, None)
            if callable(original):
                counterpart = self._counterpart(name, original)
                self._made[original] = counterpart
                self._set(module, name, counterpart)

    def start(self):
        if self._finder is not None:
            raise RuntimeError("patch_transformers was started already")
        self._made, self._finder = {}, _Finder(self._exchange)
        for name, module in list(sys.modules.items()):
            if _MODULES.match(name):
                self._exchange(module)
        for part in (part for model in self._models for part in model.modules()):
            for name, value in list(vars(part).items()):
                if callable(value) and getattr(value, "__hash__", None) and value in self._made:
                    self._set(part, name, self._made[value])
        sys.meta_path.insert(0, self._finder)
        return self

    def stop(self):
        if self._finder is not None:
            sys.meta_path.remove(self._finder)
            self._finder = None
        while self._undo:
            setattr(*self._undo.pop())

    __enter__ = start

    def __exit__(self, *error):
        self.stop()
