"""The package against loops in NumPy and PyTorch that are the formulas of the rules, token by token."""
import importlib
import importlib.util
import inspect
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import clattn

try:
    import torch
except ImportError:
    torch = None
if torch is not None:
    torch.manual_seed(1)
try:
    import pyopencl
    import pyopencl.array
except ImportError:
    pyopencl = None
DATA = pathlib.Path(__file__).parents[2] / "tests" / "data"
needs_pyopencl = pytest.mark.skipif(pyopencl is None, reason="no pyopencl")
needs_torch = pytest.mark.skipif(torch is None, reason="no PyTorch")


def draw(seed, batch=2, tokens=37, heads=3, key_dim=16, value_dim=8, qk_heads=None):
    rng = np.random.default_rng(seed)
    shape = (batch, tokens, qk_heads or heads, key_dim)
    q, k = (rng.standard_normal(shape).astype(np.float32) for _ in "qk")
    v = rng.standard_normal((batch, tokens, heads, value_dim)).astype(np.float32)
    g = -rng.random((batch, tokens, heads)).astype(np.float32)
    beta = rng.random((batch, tokens, heads)).astype(np.float32)
    return q, k, v, g, beta


def unit(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


def gated_delta(q, k, v, g, beta, state=None):
    """S = e^g S; S += beta k (v - S^T k)^T; o = S^T q, in double precision."""
    q, k, v, g, beta = (x.astype(np.float64) for x in (q, k, v, g, beta))
    batch, tokens, heads, value_dim = v.shape
    q, k = (np.repeat(x, heads // x.shape[2], axis=2) for x in (q, k))
    s = np.zeros((batch, heads, q.shape[3], value_dim)) if state is None else state.astype(np.float64)
    o = np.empty(v.shape)
    for t in range(tokens):
        s = np.exp(g[:, t])[..., None, None] * s
        error = v[:, t] - np.einsum("bhkv,bhk->bhv", s, k[:, t])
        s = s + np.einsum("bh,bhk,bhv->bhkv", beta[:, t], k[:, t], error)
        o[:, t] = np.einsum("bhkv,bhk->bhv", s, q[:, t]) * q.shape[3] ** -0.5
    return o, s


def close(found, expected, bound=1e-5):
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape
    assert np.linalg.norm(found - expected) <= bound * np.linalg.norm(expected)


@pytest.mark.parametrize("device", [None, "reference"])
def test_matches_the_formula(device):
    q, k, v, g, beta = draw(1)
    k = unit(k)
    o, state = clattn.gated_delta_rule(q, k, v, g, beta, output_final_state=True, device=device)
    expected, final = gated_delta(q, k, v, g, beta)
    close(o, expected)
    close(state, final)


def test_options():
    q, k, v, g, beta = draw(2)
    expected, _ = gated_delta(unit(q), unit(k), v, g, beta)
    close(clattn.gated_delta_rule(q, k, v, g, beta, qk_l2norm=True), expected)
    close(clattn.gated_delta_rule(q, unit(k), v, g, beta, scale=1.0), 4 * gated_delta(q, unit(k), v, g, beta)[0])
    raw = np.log(np.expm1(-g))  # softplus of it is -g
    close(clattn.gated_delta_rule(q, unit(k), v, raw, beta, gate_map="softplus"), gated_delta(q, unit(k), v, g, beta)[0], 1e-4)


def test_fewer_heads_of_keys():
    q, k, v, g, beta = draw(3, heads=4, qk_heads=2)
    close(clattn.gated_delta_rule(q, unit(k), v, g, beta), gated_delta(q, unit(k), v, g, beta)[0])


def test_pieces_equal_the_whole():
    q, k, v, g, beta = draw(4)
    k = unit(k)
    whole, final = clattn.gated_delta_rule(q, k, v, g, beta, output_final_state=True)
    state, pieces = None, []
    for first, last in ((0, 20), (20, 21), (21, 37)):
        part = [x[:, first:last] for x in (q, k, v, g, beta)]
        o, state = clattn.gated_delta_rule(*part, initial_state=state, output_final_state=True)
        pieces.append(o)
    close(np.concatenate(pieces, 1), whole)
    close(state, final)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_packed(kind):
    q, k, v, g, beta = draw(5, batch=1)
    k = unit(k)
    cuts = np.array([0, 5, 5, 37], kind)
    o, state = clattn.gated_delta_rule(q, k, v, g, beta, cu_seqlens=cuts, output_final_state=True)
    assert state.shape == (3, 3, 16, 8)
    for n, (first, last) in enumerate(zip(cuts[:-1], cuts[1:])):
        if last > first:
            alone, final = gated_delta(*(x[:, first:last] for x in (q, k, v, g, beta)))
            close(o[:, first:last], alone)
            close(state[n], final[0])


def test_functional():
    """Heads before tokens, as scaled_dot_product_attention has them."""
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((2, 9, 3, 8), np.float32) for _ in range(3))
    g, beta = -rng.random((2, 9, 3), np.float32), rng.random((2, 9, 3), np.float32)
    start = rng.standard_normal((2, 3, 8, 8), np.float32)
    o, state = clattn.gated_delta_rule(q, k, v, g, beta, initial_state=start, output_final_state=True, scale=0.5,
                                       device="reference")
    turned = [x.swapaxes(1, 2).copy() for x in (q, k, v, g, beta)]
    result = clattn.functional.gated_delta_rule(*turned, scale=0.5, initial_state=start, return_final_state=True,
                                                device="reference")
    assert result.output.shape == (2, 3, 9, 8)
    close(result.output.swapaxes(1, 2), o, 1e-7)
    close(result.final_state, state, 1e-7)
    assert clattn.functional.gated_delta_rule(*turned, device="reference").final_state is None


def test_softmax_with_grouped_heads():
    q, k, v, _, _ = draw(6, heads=4, key_dim=16, value_dim=16)
    k, v = k[:, :, :2], v[:, :, :2]
    o = clattn.softmax_attn(q, k, v)
    scores = np.einsum("bthk,bshk->bhts", q, np.repeat(k, 2, 2)) / 4
    scores = np.where(np.tril(np.ones(scores.shape[2:])) > 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    close(o, np.einsum("bhts,bshv->bthv", weights / weights.sum(-1, keepdims=True), np.repeat(v, 2, 2)))


DEVICES = pytest.mark.parametrize("device", [None, "reference"])


def test_wide_heads():
    q, k, v, g, beta = draw(31, batch=1, tokens=5, heads=1, value_dim=300)
    close(clattn.gated_delta_rule(q, unit(k), v, g, beta, device="reference"), gated_delta(q, unit(k), v, g, beta)[0])


@DEVICES
def test_cross_attention_with_a_softcap(device):
    q, _, _, _, _ = draw(32, batch=1, tokens=5, heads=4)
    _, k, v, _, _ = draw(33, batch=1, tokens=11, heads=2)
    o = clattn.softmax_attn(q, k, v, noncausal=True, softcap=2.0, device=device)
    weights = np.exp(2 * np.tanh(np.einsum("bthk,bshk->bhts", q, np.repeat(k, 2, 2)) / 4 / 2))
    close(o, np.einsum("bhts,bshv->bthv", weights / weights.sum(-1, keepdims=True), np.repeat(v, 2, 2)))


@DEVICES
def test_going_on_after_accepted_tokens(device):
    inputs = draw(34, tokens=8)
    inputs = (inputs[0], unit(inputs[1]), *inputs[2:])
    first, second = ([x[:, at : at + 3] for x in inputs] for at in (0, 3))
    o, states = clattn.gated_delta_rule(*first, state_window=3, device=device)
    for n in range(3):
        expected = gated_delta(*(x[:, : n + 1] for x in first))[1]
        close(states[:, n].reshape(expected.shape), expected)
    o, _ = clattn.gated_delta_rule(*second, initial_state=states, accepted=np.array([2, 0], np.int32), state_window=3,
                                   device=device)
    begin = gated_delta(*(x[:, :2] for x in first))[1]
    begin[1] = 0
    close(o, gated_delta(*second, state=begin)[0])


def test_strengths_of_another_type():
    q, k, v, g, beta = draw(35, tokens=9)
    beta = beta.astype(np.float16)
    close(clattn.gated_delta_rule(q, unit(k), v, g, beta, device="reference"), gated_delta(q, unit(k), v, g, beta)[0])


def test_limits_of_steps():
    q, k, v, g, step = draw(36, tokens=9)
    o = clattn.ssd(q, k, v, g, 4 * step - 3, beta_map="softplus", step_min=0.3, step_max=0.9, device="reference")
    beta = np.clip(np.log1p(np.exp(4 * step - 3)), 0.3, 0.9)
    assert (beta == 0.3).any() and (beta == 0.9).any()
    pairs = np.einsum("bthk,bshk->bhts", q, k) * np.exp(
        np.minimum(0, np.cumsum(g, 1).transpose(0, 2, 1)[..., None] - np.cumsum(g, 1).transpose(0, 2, 1)[:, :, None]))
    close(o, np.einsum("bhts,bsh,bshv->bthv", np.tril(pairs), beta, v))


def test_norm_of_the_output():
    q, k, v, g, beta = draw(37, tokens=9)
    norm = np.linspace(0.5, 2, 8).astype(np.float32)
    o = clattn.gated_delta_rule(q, unit(k), v, g, beta, norm=norm, eps=1e-3, device="reference")
    expected = gated_delta(q, unit(k), v, g, beta)[0]
    close(o, expected / np.sqrt((expected**2).mean(-1, keepdims=True) + 1e-3) * norm)


def test_mistakes_are_named():
    q, k, v, g, beta = draw(7)
    with pytest.raises(ValueError, match="g has T = 5, q has 37"):
        clattn.gated_delta_rule(q, k, v, g[:, :5], beta)
    with pytest.raises(ValueError, match=r"g has shape \[2, 37, 3\]; it is \[B,T,H,K\]"):
        clattn.gla(q, k, v, g)
    with pytest.raises(TypeError, match="gated_delta_rule.. needs beta"):
        clattn.gated_delta_rule(q, k, v, g)
    with pytest.raises(TypeError, match="by position"):
        clattn.gated_delta_rule(q, k, v, g, beta, None)
    for name in ("q", "g", "initial_state"):
        state = np.zeros((2, 3, 16, 8), np.float32)
        wide = {"q": q, "k": k, "v": v, "g": g, "beta": beta, "initial_state": state}
        wide[name] = wide[name].astype(np.float64)
        with pytest.raises(TypeError, match=f"gated_delta_rule: {name} is of type float64"):
            clattn.gated_delta_rule(**wide)
    with pytest.raises(TypeError, match="q is a list"):
        clattn.gated_delta_rule(q.tolist(), k, v, g, beta)
    with pytest.raises(ValueError, match="q has shape .*: T is 0"):
        clattn.gated_delta_rule(q[:, :0], k[:, :0], v[:, :0], g[:, :0], beta[:, :0])
    with pytest.raises(TypeError, match="has no 'qk_l2_norm'; did you mean qk_l2norm"):
        clattn.gated_delta_rule(q, k, v, g, beta, qk_l2_norm=True)
    with pytest.raises(ValueError, match="qk_l2norm is True or False, not 'off'"):
        clattn.gated_delta_rule(q, k, v, g, beta, qk_l2norm="off")
    with pytest.raises(ValueError, match="scale is a number, not '1'"):
        clattn.gated_delta_rule(q, k, v, g, beta, scale="1")
    with pytest.raises(TypeError, match="device is an index"):
        clattn.gated_delta_rule(q, k, v, g, beta, device=1.5)
    with pytest.raises(ValueError, match="state_vk=True takes"):
        clattn.gated_delta_rule(q, k, v, g, beta, initial_state=np.zeros((2, 3, 8, 16), np.float32))
    with pytest.raises(AttributeError, match="clattn.fla has it"):
        clattn.chunk_gated_delta_rule
    for cuts in ([0, 5], [5, 37], [0, 30, 20, 37], [0, 99], [0, -5, 37]):
        for device in (None, "reference"):
            with pytest.raises(clattn.Error, match="cu_seqlens"):
                clattn.gated_delta_rule(*(x[:1] for x in (q, k, v, g, beta)), cu_seqlens=cuts, device=device)
    with pytest.raises(ValueError, match="gate_map is one of .*, not 'nothing'"):
        clattn.gla(q, k, v, q, gate_map="nothing")
    with pytest.raises(ValueError, match=r"initial_state has shape \[1\], not \[2, 3, 16, 8\]"):
        clattn.gated_delta_rule(q, k, v, g, beta, initial_state=np.zeros(1, np.float32))
    with pytest.raises(clattn.Error) as caught:
        clattn.gated_delta_rule(q, k, v, g, beta, device="no such device")
    assert caught.value.status == "NO_DEVICE"
    with pytest.raises(clattn.Error) as caught:
        clattn.gated_delta_rule(q, k, v, g, beta, gate_scale=2.0)
    assert caught.value.status == "INVALID_DESC" and "gate_scale" in str(caught.value)


def test_every_rule_has_a_function():
    for name in clattn.rules:
        function = getattr(clattn, name)
        assert inspect.signature(function).parameters
        assert function.__doc__.count("\n") > 5
        assert getattr(clattn.reference, name).__doc__ == function.__doc__


def test_plans_are_kept():
    context = clattn.Context()
    q, k, v, g, beta = draw(8)
    for _ in range(3):
        clattn.gated_delta_rule(q, k, v, g, beta, device=context)
    assert len(context._plans) == 1


def test_command():
    output = subprocess.run([sys.executable, "-m", "clattn", "rules", "gla"], check=True, capture_output=True, text=True)
    assert "arXiv:2312.06635" in output.stdout


@needs_torch
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_tensors(dtype):
    q, k, v, g, beta = (torch.from_numpy(x) for x in draw(9))
    q, k, v = (x.to(getattr(torch, dtype)) for x in (q, torch.nn.functional.normalize(k, dim=-1), v))
    o, state = clattn.gated_delta_rule(q, k, v, g, beta, output_final_state=True)
    assert o.dtype == q.dtype and state.dtype == torch.float32
    expected, final = gated_delta(*(x.float().numpy() for x in (q, k, v, g, beta)))
    close(o.float(), expected, 1e-5 if dtype == "float32" else 1e-2)
    close(state, final, 1e-5 if dtype == "float32" else 1e-2)


def torch_loop(q, k, v, decay, beta=None):
    """S = decay S; S += beta k (v - S^T k)^T, or k v^T without beta; o = S^T q / sqrt(K). decay [B,T,H,1 or K]"""
    batch, tokens, heads, key_dim = q.shape
    s, out = torch.zeros(batch, heads, key_dim, v.shape[3], dtype=q.dtype), []
    for t in range(tokens):
        s = decay[:, t].exp()[..., None] * s
        written = v[:, t] if beta is None else beta[:, t, :, None] * (v[:, t] - torch.einsum("bhkv,bhk->bhv", s, k[:, t]))
        s = s + torch.einsum("bhk,bhv->bhkv", k[:, t], written)
        out.append(torch.einsum("bhkv,bhk->bhv", s, q[:, t]) * key_dim ** -0.5)
    return torch.stack(out, 1)


@needs_torch
@pytest.mark.parametrize("rule", ["simple_gla", "gla", "delta_rule", "gated_delta_rule", "kda"])
def test_gradients(rule):
    q, k, v, g, beta = (torch.from_numpy(x).double() for x in draw(10, tokens=9))
    k = torch.nn.functional.normalize(k, dim=-1)
    inputs = {"q": q, "k": k, "v": v}
    if rule in ("gla", "kda"):
        inputs["g"] = -torch.rand(2, 9, 3, 16, dtype=torch.float64)
    elif rule != "delta_rule":
        inputs["g"] = g
    if rule not in ("simple_gla", "gla"):
        inputs["beta"] = beta
    weights = torch.randn(2, 9, 3, 8, dtype=torch.float64)
    loop = {name: x.clone().requires_grad_() for name, x in inputs.items()}
    decay = loop.get("g", torch.zeros(2, 9, 3, 1, dtype=torch.float64))
    o = torch_loop(loop["q"], loop["k"], loop["v"], decay if decay.dim() == 4 else decay[..., None], loop.get("beta"))
    (o * weights).sum().backward()
    ours = {name: x.float().requires_grad_() for name, x in inputs.items()}
    mine = getattr(clattn, rule)(**ours)
    close(mine.detach(), o.detach(), 1e-5)
    (mine * weights.float()).sum().backward()
    for name, x in ours.items():
        close(x.grad, loop[name].grad, 1e-4)


@needs_torch
def test_gradients_of_states():
    q, k, v, g, beta = (torch.from_numpy(x) for x in draw(11, tokens=9))
    k = torch.nn.functional.normalize(k, dim=-1)
    s, weights = torch.randn(2, 3, 16, 8).requires_grad_(), torch.randn(2, 3, 16, 8)

    def loss(x):
        return (clattn.gated_delta_rule(q, k, v, g, beta, initial_state=x, output_final_state=True)[1] * weights).sum()

    loss(s).backward()
    with torch.no_grad():  # along the gradient, of which the loss is a linear function
        step = s.grad / s.grad.norm()
        slope = (loss(s + step) - loss(s - step)) / 2
    close(s.grad.norm(), slope, 1e-4)


@needs_torch
def test_no_second_derivatives():
    q, k, v, g, beta = (torch.from_numpy(x) for x in draw(13, tokens=5))
    o = clattn.gated_delta_rule(q.requires_grad_(), k, v, g.numpy(), beta)
    with pytest.raises(RuntimeError, match="no derivatives of gradients"):
        torch.autograd.grad(o.sum(), q, create_graph=True)


@needs_torch
def test_names_of_fla():
    q, k, v, g, beta = (torch.from_numpy(x) for x in draw(12))
    o, state = clattn.fla.chunk_gated_delta_rule(q, k, v, g, beta, use_qk_l2norm_in_kernel=True)
    assert state is None
    close(o, clattn.gated_delta_rule(q, k, v, g, beta, qk_l2norm=True))
    o, state = clattn.fla.fused_recurrent_gla(q, k, v, gk=-torch.rand(q.shape), output_final_state=True)
    assert state.shape == (2, 3, 16, 8)
    half, whole = (clattn.fla.chunk_simple_gla(q, k, v, g, initial_state=s, output_final_state=True)[1]
                   for s in (state.half(), state.half().float()))
    assert half.dtype == torch.float32 and torch.equal(half, whole)
    x, gate = torch.randn(2, 7, 6), -torch.rand(2, 7, 6)
    o, _ = clattn.fla.fused_recurrent_hgrn(x, gate)
    h, rows = torch.zeros(2, 6), []
    for t in range(7):
        h = gate[:, t].exp() * h + x[:, t]
        rows.append(h)
    close(o, torch.stack(rows, 1))
    a_log, bias = torch.randn(3), torch.randn(3 * 16)
    raw = torch.randn(q.shape)
    decay = -a_log.exp()[:, None] * torch.nn.functional.softplus(raw + bias.view(3, 16))
    expected, _ = clattn.fla.chunk_kda(q, k, v, decay, beta, use_qk_l2norm_in_kernel=True)
    o, _ = clattn.fla.chunk_kda(q, k, v, raw, beta, use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True, A_log=a_log,
                                dt_bias=bias)
    close(o, expected)
    decay = -5 * torch.sigmoid(a_log.exp()[:, None] * (raw + bias.view(3, 16)))
    expected, _ = clattn.fla.chunk_kda(q, k, v, decay, beta, use_qk_l2norm_in_kernel=True, safe_gate=True, lower_bound=-5)
    o, _ = clattn.fla.chunk_kda(q, k, v, raw, beta, use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True, A_log=a_log,
                                dt_bias=bias, safe_gate=True, lower_bound=-5)
    close(o, expected)
    with pytest.raises(ValueError, match="safe_gate needs a lower_bound"):
        clattn.fla.chunk_kda(q, k, v, raw, beta, use_gate_in_kernel=True, A_log=a_log, safe_gate=True)
    with pytest.warns(DeprecationWarning, match="state_v_first"):
        _, state = clattn.fla.chunk_gla(q, k, v, -torch.rand(q.shape), output_final_state=True, transpose_state_layout=True)
    assert state.shape == (2, 3, 8, 16)
    raw, strengths = torch.randn(2, 37, 3), torch.randn(2, 37, 3)
    expected, final = clattn.fla.chunk_gated_delta_rule(
        q, k, v, -a_log.exp() * torch.nn.functional.softplus(raw + 1), 2 * strengths.sigmoid(), output_final_state=True,
        use_qk_l2norm_in_kernel=True)
    o, state = clattn.fla.chunk_gated_delta_rule(
        q, k, v, raw, strengths, output_final_state=True, use_qk_l2norm_in_kernel=True, use_beta_sigmoid_in_kernel=True,
        allow_neg_eigval=True, use_gate_in_kernel=True, A_log=a_log, dt_bias=torch.ones(3), state_v_first=True)
    close(o, expected)
    close(state.transpose(2, 3), final)
    w, kk, strength = -torch.rand(q.shape), torch.nn.functional.normalize(k, dim=-1), torch.rand(q.shape)
    o, _ = clattn.fla.fused_mul_recurrent_rwkv7(q, w, k, v, kk, strength, scale=None)
    close(o, clattn.rwkv7(q=q, w=w, k=k, v=v, a=-kk, b=kk * strength, scale=0.25))
    with pytest.raises(TypeError, match="has no strange"):
        clattn.fla.chunk_gla(q, k, v, q, strange=3)


@needs_pyopencl
@pytest.mark.parametrize("kind", ["in order", "out of order"])
def test_pyopencl(kind):
    context = pyopencl.create_some_context(interactive=False)
    out_of_order = pyopencl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE if kind == "out of order" else 0
    queue = pyopencl.CommandQueue(context, properties=out_of_order)
    inputs = draw(14)
    on_device = [pyopencl.array.to_device(queue, x) for x in inputs]
    o, state = clattn.gated_delta_rule(*on_device, qk_l2norm=True, output_final_state=True)
    assert o.queue is queue and o.context == context
    expected, final = clattn.gated_delta_rule(*inputs, qk_l2norm=True, output_final_state=True)
    close(o.get(), expected, 1e-6)
    close(state.get(), final, 1e-6)
    part = clattn.gated_delta_rule(*(x[1:] for x in on_device), initial_state=state[1:], qk_l2norm=True)
    close(part.get(), clattn.gated_delta_rule(*(x[1:] for x in inputs), initial_state=final[1:], qk_l2norm=True), 1e-6)
    o = clattn.gated_delta_rule(*(x[:1] for x in on_device), qk_l2norm=True, cu_seqlens=[0, 7, 37])
    close(o.get(), clattn.gated_delta_rule(*(x[:1] for x in inputs), qk_l2norm=True, cu_seqlens=[0, 7, 37]), 1e-6)
    if torch is not None:
        close(clattn.gated_delta_rule(*map(torch.from_numpy, inputs), qk_l2norm=True), expected, 1e-6)


@needs_pyopencl
def test_layers_with_pyopencl():
    run, context = tensors_of("retnet.run"), pyopencl.create_some_context(interactive=False)
    queue = pyopencl.CommandQueue(context)
    layer = clattn.layers.Layer("retnet", tensors_of("retnet"), device=clattn.Context(cl_context=context))
    x = pyopencl.array.to_device(queue, run["x"])
    first, last = (pyopencl.array.to_device(queue, np.ascontiguousarray(run["x"][:, part])) for part in (slice(8), slice(8, None)))
    y, state = layer(first, output_final_state=True)
    close(y.get(), run["y"][:, :8], 1e-4)
    close(layer(last, state).get(), run["y"][:, 8:], 1e-4)
    with pytest.raises(ValueError, match="another OpenCL context than the layer"):
        clattn.layers.Layer("retnet", tensors_of("retnet"))(x)


@needs_pyopencl
def test_mistakes_with_pyopencl():
    context = pyopencl.create_some_context(interactive=False)
    queue = pyopencl.CommandQueue(context)
    q, k, v, g, beta = on_device = [pyopencl.array.to_device(queue, x) for x in draw(15)]
    with pytest.raises(TypeError, match="g is an array of the host"):
        clattn.gated_delta_rule(q, k, v, g.get(), beta)
    with pytest.raises(TypeError, match="k is a pyopencl array"):
        clattn.gated_delta_rule(q.get(), k, v, g, beta)
    with pytest.raises(ValueError, match="queue"):
        clattn.gated_delta_rule(q.with_queue(None), k, v, g, beta)
    with pytest.raises(ValueError, match="without device="):
        clattn.gated_delta_rule(*on_device, device=0)
    with pytest.raises(ValueError, match="another OpenCL context"):
        clattn.gated_delta_rule(*on_device, device=clattn.Context())
    with pytest.raises(ValueError, match="q is not contiguous"):
        clattn.gated_delta_rule(q[:, ::2], k, v, g, beta)
    own = clattn.Context(cl_context=context)
    close(clattn.gated_delta_rule(*on_device, device=own).get(), clattn.gated_delta_rule(*on_device).get())


MODELING = '''
import torch


def torch_chunk_gated_delta_rule(query, key, value, g, beta, chunk_size=64, initial_state=None, output_final_state=False,
                                 use_qk_l2norm_in_kernel=False, **rest):
    """The functions of a model of transformers, by loops."""
    s = torch.zeros(*value.shape[:1], value.shape[2], key.shape[3], value.shape[3]) if initial_state is None else initial_state
    if use_qk_l2norm_in_kernel:
        query, key = (x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6) for x in (query, key))
    out = []
    for t in range(value.shape[1]):
        s = g[:, t].exp()[..., None, None] * s
        written = beta[:, t, :, None] * (value[:, t] - torch.einsum("bhkv,bhk->bhv", s, key[:, t]))
        s = s + torch.einsum("bhk,bhv->bhkv", key[:, t], written)
        out.append(torch.einsum("bhkv,bhk->bhv", s, query[:, t]) * key.shape[3] ** -0.5)
    return torch.stack(out, 1), s if output_final_state else None


def causal_conv1d_fn(x, weight, bias=None, activation=None, **rest):
    o = torch.nn.functional.conv1d(x, weight[:, None], bias, padding=weight.shape[1] - 1, groups=x.shape[1])
    o = o[..., :x.shape[2]]
    return {None: lambda y: y, "silu": torch.nn.functional.silu, "tanh": torch.tanh}[activation](o)


def causal_conv1d_update(x, conv_state, weight, bias=None, activation=None):
    both = torch.cat((conv_state, x), 2)
    conv_state.copy_(both[..., -conv_state.shape[2]:])
    return causal_conv1d_fn(both, weight, bias, activation)[..., -x.shape[2]:]
'''


@needs_torch
@pytest.mark.skipif("transformers" in sys.modules or importlib.util.find_spec("transformers") is not None,
                    reason="the real ones are used by test_transformers.py")
def test_functions_of_transformers_are_exchanged(tmp_path, monkeypatch):
    folder = tmp_path / "transformers" / "models"
    for name in ("first", "later"):
        (folder / name).mkdir(parents=True)
        (folder / name / f"modeling_{name}.py").write_text(MODELING)
    monkeypatch.syspath_prepend(str(tmp_path))
    first = importlib.import_module("transformers.models.first.modeling_first")
    own = {name: getattr(first, name) for name in vars(first) if name.startswith(("torch_", "causal_"))}
    q, k, v, g, beta = (torch.from_numpy(x) for x in draw(16, tokens=7))
    x, weight, bias = torch.randn(2, 6, 7), torch.randn(6, 4), torch.randn(6)

    def results(module, activation):
        state, gates = torch.zeros(2, 6, 4), {"g": g, "beta": beta, "use_qk_l2norm_in_kernel": True}
        o, final = module.torch_chunk_gated_delta_rule(q, k, v, output_final_state=True, **gates)
        yield from (o, final, module.torch_chunk_gated_delta_rule(q, k, v, initial_state=final, **gates)[0])
        yield module.causal_conv1d_fn(x, weight, bias, activation=activation)
        yield module.causal_conv1d_update(x[..., :1], state, weight, bias, activation)
        yield module.causal_conv1d_update(x[..., 1:2], state, weight, None, activation)
        yield state

    expected = {activation: list(results(first, activation)) for activation in (None, "silu", "tanh")}
    with clattn.patch_transformers():
        later = importlib.import_module("transformers.models.later.modeling_later")
        for module in (first, later):
            assert all(getattr(module, name) is not function for name, function in own.items())
            for activation in expected:
                for found, wanted in zip(results(module, activation), expected[activation]):
                    close(found, wanted)
        o = later.causal_conv1d_fn(x.requires_grad_(), weight, bias, activation="silu")
        o.sum().backward()
        assert x.grad is not None
    assert {name: getattr(first, name) for name in own} == own
    for name in list(sys.modules):
        if name.partition(".")[0] == "transformers":
            del sys.modules[name]


def tensors_of(name):
    """{name: array} of a safetensors file among the tests' data; bf16 is read as f32."""
    data = (DATA / f"{name}.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")

    def tensor(row):
        kind = {"F32": np.float32, "BF16": np.uint16}[row["dtype"]]
        x = np.frombuffer(data[8 + size:], kind, int(np.prod(row["shape"])), row["data_offsets"][0]).reshape(row["shape"])
        return x.copy() if kind is np.float32 else (x.astype(np.uint32) << 16).view(np.float32)

    return {name: tensor(row) for name, row in json.loads(data[8:8 + size]).items() if name != "__metadata__"}


# Sizes of the layers in tests/data that the weights do not tell
OPEN_SIZES = {"gated_deltanet": {"key_dim": 12}, "gated_deltanet_split": {"key_dim": 12}, "mamba2": {"qk_heads": 2},
              "lact": {"mini_batch": 7, "muon": "keller"}}


@pytest.mark.parametrize("name, device", [(name, "reference") for name in clattn.layers.names] + [("retnet", None)])
def test_layers(name, device):
    """tests/data has what the modules that the layers are named after made of x, in bf16."""
    run, tensors = tensors_of(f"{name}.run"), {f"model.{key}": x for key, x in tensors_of(name).items()}
    layer = clattn.layers.Layer(name, tensors, prefix="model.", device=device, **OPEN_SIZES.get(name, {}))
    y, state = layer(run["x"], output_final_state=True)
    close(y, run["y"], 1e-4)
    if name == "lact":
        return
    first, half = layer(run["x"][:, :5], output_final_state=True)
    last, again = layer(run["x"][:, 5:], half, output_final_state=True)
    close(np.concatenate((first, last), 1), y, 1e-4)
    for key, x in state.items():
        close(again[key], x, 1e-4)


def parameters_of(name):
    return {key: torch.from_numpy(x).requires_grad_() for key, x in tensors_of(name).items()}


@needs_torch
@pytest.mark.parametrize("name, device", [*((name, "reference") for name in clattn.layers.with_backward), ("retnet", None)])
def test_gradients_of_layers(name, device):
    """tests/data has what autograd made of the modules that the layers are named after."""
    run, expected, tensors = tensors_of(f"{name}.run"), tensors_of(f"{name}.gradients"), parameters_of(name)
    expected.pop("x", None)
    layer = clattn.layers.Layer(name, tensors, device=device, **OPEN_SIZES.get(name, {}))
    x = torch.from_numpy(run["x"]).requires_grad_()
    y = layer(x)
    close(y.detach(), run["y"], 1e-4)
    y.backward(torch.from_numpy(expected.pop("d_y")))
    close(x.grad, expected.pop("d_x"), 2e-4)
    for key, gradient in expected.items():
        close(tensors[key.removeprefix("d_")].grad, gradient, 2e-4)


@needs_torch
@pytest.mark.parametrize("name", ["retnet", "gated_deltanet"])
def test_gradients_of_states_of_layers(name):
    """A sequence in two pieces has the gradients of the whole, and trains to the same weights."""
    x, gradients, trained = torch.from_numpy(tensors_of(f"{name}.run")["x"]), [], []
    for cut in (0, 6):
        tensors = parameters_of(name)
        layer = clattn.layers.Layer(name, tensors, device="reference", **OPEN_SIZES.get(name, {}))
        optimizer, state, pieces = torch.optim.SGD(tensors.values(), lr=0.5), None, []
        for piece in (x[:, :cut], x[:, cut:]):
            if piece.shape[1] > 0:
                y, state = layer(piece, state, output_final_state=True)
                pieces.append(y)
        loss = torch.cat(pieces, 1).square().sum()
        (loss + sum(s.square().sum() for s in state.values() if s.is_floating_point())).backward()
        optimizer.step()
        gradients.append({key: t.grad for key, t in tensors.items()})
        trained.append(layer(x).detach())
        again = clattn.layers.Layer(name, tensors, device="reference", **OPEN_SIZES.get(name, {}))
        close(trained[-1], again(x).detach(), 1e-7)
    for key, gradient in gradients[0].items():
        close(gradients[1][key], gradient, 1e-4)
    close(*trained, 1e-4)


@needs_torch
def test_mistakes_with_gradients_of_layers():
    layer = clattn.layers.Layer("mamba", parameters_of("mamba"), device="reference")
    x = torch.from_numpy(tensors_of("mamba.run")["x"])
    with pytest.raises(ValueError, match="mamba has no backward pass.*gated_deltanet"):
        layer(x)
    with torch.no_grad():
        layer(x)
    tensors = parameters_of("gla")
    layer = clattn.layers.Layer("gla", tensors, device="reference")
    loss = layer(torch.from_numpy(tensors_of("gla.run")["x"])).sum()
    with torch.no_grad():
        tensors["q_proj.weight"].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_mistakes_with_layers():
    tensors = tensors_of("gla")
    with pytest.raises(ValueError, match="no layer is named 'gal'"):
        clattn.layers.Layer("gal", tensors)
    with pytest.raises(clattn.Error, match="q_proj.weight"):
        clattn.layers.Layer("gla", {name: x for name, x in tensors.items() if name != "q_proj.weight"})
    with pytest.raises(TypeError, match="no 'head_dim'"):
        clattn.layers.Layer("gla", tensors, head_dim=8)
    layer = clattn.layers.Layer("gla", tensors, device="reference")
    x = np.zeros((1, 3, layer.sizes["hidden"]), np.float32)
    with pytest.raises(ValueError, match=r"x is float32 \[1, 3, 5\], not float32"):
        layer(x[:, :, :5])
    with pytest.raises(TypeError, match="state is missing"):
        layer(x, {})
    with pytest.raises(TypeError, match="memory is no state of the layer"):
        layer(x, {"memory": x})
    assert clattn.layers.weights("gla")["q_proj.weight"] == "HK,C"


@needs_torch
@pytest.mark.parametrize("rule", ["gated_delta_rule", "gla", "kda", "simple_gla", "short_conv"])
def test_gradcheck(rule):
    """torch.autograd.gradcheck: gradients against differences, in steps that f32 has exactly."""
    if not clattn._rules.rules[rule].has_backward:
        pytest.skip(f"{rule} has no backward pass")
    q, k, v, g, beta = (torch.from_numpy(x).double() for x in draw(17, tokens=5, heads=2, key_dim=3, value_dim=2))
    inputs = {"q": q, "k": k, "v": v, "g": -torch.rand(2, 5, 2, 3).double() if rule in ("gla", "kda") else g, "beta": beta}
    if rule == "short_conv":
        inputs = {"v": v, "w": torch.randn(2, 2, 4).double()}
    inputs = {name: inputs[name] for name in inspect.signature(getattr(clattn, rule)).parameters if name in inputs}
    if rule in ("gated_delta_rule", "kda"):
        inputs["k"] = torch.nn.functional.normalize(k, dim=-1)

    def computed(*tensors):
        return getattr(clattn.reference, rule)(**{name: x.float() for name, x in zip(inputs, tensors)}).double()

    tensors = [x.float().double().requires_grad_() for x in inputs.values()]
    assert torch.autograd.gradcheck(computed, tensors, eps=2 ** -8, atol=1e-3, rtol=1e-3)
