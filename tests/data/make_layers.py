"""Writes the files beside it: modules of Hugging Face transformers with random weights, and what they compute on the CPU in f32.
gla and retnet are no modules there: they are defined here, token by token, with the names of flash-linear-attention's
GatedLinearAttention and MultiScaleRetention, and with its defaults (no short convolution, as many heads of keys as of queries).
So is lact, with the names of its authors' FastWeightGluMLPMultihead; its steps are autograd's.

    python3 make_layers.py        # with torch, transformers, safetensors; written with torch 2.15.0, transformers 5.23.0

    python3 make_layers.py gradients    # only NAME.gradients.safetensors, of the files that are there; with transformers 5.24.0

NAME.safetensors has a module's state_dict, matrices rounded to bf16 first. NAME.run.safetensors has x and y of a prompt from
zero states, final_conv_state and final_state after it (conv_state as clattn has it, [B,W,D]), then the same of one token more: step.x …
NAME.gradients.safetensors has the prompt's x, d_y, which is random, and the gradients d_x and d_WEIGHT that autograd finds.
"""
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import DynamicCache
from transformers.models.falcon_mamba import modeling_falcon_mamba as falcon_mamba
from transformers.models.jamba import modeling_jamba as jamba
from transformers.models.kimi_linear import modeling_kimi_linear as kimi
from transformers.models.mamba import modeling_mamba as mamba
from transformers.models.mamba2 import modeling_mamba2 as mamba2
from transformers.models.qwen3_5 import modeling_qwen3_5 as qwen3_5
from transformers.models.qwen3_next import modeling_qwen3_next as qwen3_next

HERE = pathlib.Path(__file__).parent
BATCH, TOKENS, HIDDEN = 2, 21, 32


def randomize(module):
    for name, p in module.named_parameters():
        last = name.split(".")[-1]
        if name.endswith("A_log"):
            p.data.uniform_(-2, 1)
        elif last == "dt_bias" or name == "dt_proj.bias":
            p.data.uniform_(-2, 1)
        elif name in ("D", "norm.weight", "o_norm.weight", "g_norm_swish_gate.weight") or name.endswith("layernorm.weight"):
            p.data.uniform_(0.5, 1.5)
        elif p.dim() > 1:
            fan = p[0].numel()
            p.data.normal_(0, fan**-0.5)
            p.data = p.data.to(torch.bfloat16).to(torch.float32)
        else:
            p.data.uniform_(-0.5, 0.5)


def is_rounded(name, p):
    return p.dim() > 1 and not name.endswith("A_log")


def states(cache, taps, prefix):
    conv = cache.get_conv_state(0, state_idx=0).transpose(1, 2)
    conv = conv[:, -taps:] if conv.shape[1] >= taps else torch.nn.functional.pad(conv, (0, 0, taps - conv.shape[1], 0))
    return {prefix + "final_conv_state": conv.float().contiguous().clone(),
            prefix + "final_state": cache.get_recurrent_state(0, state_idx=0).float().contiguous().clone()}


def write_gradients(name, module, forward):
    if name not in ("gated_deltanet", "gated_deltanet_split", "mamba2", "mamba2_biases", "kda", "gla", "retnet"):
        return
    module.load_state_dict({k: v.float() for k, v in load_file(HERE / f"{name}.safetensors").items()})
    x = load_file(HERE / f"{name}.run.safetensors")["x"].requires_grad_()
    torch.manual_seed(len(name) + 1)
    d_y = torch.randn(x.shape)
    names, weights = zip(*module.named_parameters())
    found = torch.autograd.grad((forward(x) * d_y).sum(), (x, *weights))
    gradients = {f"d_{k}": v.float().contiguous() for k, v in zip(("y", "x", *names), (d_y, *found))}
    save_file(gradients | {"x": x.detach()}, HERE / f"{name}.gradients.safetensors")


def write(name, module, config, step_by_itself=True):
    if "gradients" in sys.argv:
        write_gradients(name, module.eval(), module)
    else:
        write_run(name, module, config, step_by_itself)


@torch.no_grad()
def write_run(name, module, config, step_by_itself):
    """Without step_by_itself, the token after the prompt is the last one of a prompt of one token more."""
    torch.manual_seed(len(name))
    module = module.eval()
    randomize(module)
    taps = module.conv1d.kernel_size[0]
    cache = DynamicCache(config=config)
    run = {"x": torch.randn(BATCH, TOKENS, HIDDEN), "step.x": torch.randn(BATCH, 1, HIDDEN)}
    run["y"] = module(run["x"], cache_params=cache)
    run |= states(cache, taps, "")
    if step_by_itself:
        run["step.y"] = module(run["step.x"], cache_params=cache)
    else:
        cache = DynamicCache(config=config)
        run["step.y"] = module(torch.cat([run["x"], run["step.x"]], 1), cache_params=cache)[:, -1:]
    run |= states(cache, taps, "step.")
    save(name, module, run)


def save(name, module, run):
    weights = {k: p.to(torch.bfloat16 if is_rounded(k, p) else torch.float32) for k, p in module.state_dict().items()}
    save_file({k: v.contiguous() for k, v in weights.items()}, HERE / f"{name}.safetensors")
    save_file({k: v.contiguous() for k, v in run.items()}, HERE / f"{name}.run.safetensors")
    print(name, {k: list(v.shape) for k, v in (weights | run).items()})


config = qwen3_next.Qwen3NextConfig(
    hidden_size=HIDDEN, linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=12,
    linear_value_head_dim=16, linear_conv_kernel_dim=4, num_hidden_layers=1, layer_types=["linear_attention"])
write("gated_deltanet", qwen3_next.Qwen3NextGatedDeltaNet(config, 0), config)

config = qwen3_5.Qwen3_5TextConfig(
    hidden_size=HIDDEN, linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=12,
    linear_value_head_dim=16, linear_conv_kernel_dim=4, num_hidden_layers=1, layer_types=["linear_attention"])
write("gated_deltanet_split", qwen3_5.Qwen3_5GatedDeltaNet(config, 0), config)

config = mamba2.Mamba2Config(hidden_size=HIDDEN, num_heads=4, head_dim=16, state_size=12, n_groups=2, expand=2, chunk_size=8,
                             conv_kernel=4, num_hidden_layers=1)
write("mamba2", mamba2.Mamba2Mixer(config, 0), config)
config.use_bias = True
write("mamba2_biases", mamba2.Mamba2Mixer(config, 0), config)
config.use_bias, config.time_step_limit = False, (0.1, 0.5)  # which a step by itself does not apply
write("mamba2_limits", mamba2.Mamba2Mixer(config, 0), config, step_by_itself=False)

config = mamba.MambaConfig(hidden_size=HIDDEN, state_size=12, expand=2, time_step_rank=3, conv_kernel=4, num_hidden_layers=1)
write("mamba", mamba.MambaMixer(config, 0), config)

config = falcon_mamba.FalconMambaConfig(hidden_size=HIDDEN, state_size=12, expand=2, time_step_rank=3, conv_kernel=4,
                                        num_hidden_layers=1, use_conv_bias=False)
write("falcon_mamba", falcon_mamba.FalconMambaMixer(config, 0, initialize_mixer_weights=False), config)

config = jamba.JambaConfig(hidden_size=HIDDEN, mamba_d_state=12, mamba_expand=2, mamba_dt_rank=5, mamba_d_conv=4,
                           mamba_proj_bias=True, num_hidden_layers=1)
write("jamba", jamba.JambaMambaMixer(config, 0), config)

config = kimi.KimiLinearConfig(hidden_size=HIDDEN, linear_num_heads=3, linear_head_dim=16, linear_conv_kernel_dim=4,
                               num_hidden_layers=1, layer_types=["linear_attention"])
write("kda", kimi.KimiLinearDeltaAttention(config, 0), config)


class Decaying(torch.nn.Module):
    """S = e^g S + k v^T; o = S^T q / sqrt(K); y = W_o (rms_norm(o) o silu(W_g x)) of H heads"""

    def __init__(self, heads, key, value):
        super().__init__()
        self.heads, self.key = heads, key
        for name, width in (("q_proj", key), ("k_proj", key), ("v_proj", value), ("g_proj", value)):
            setattr(self, name, torch.nn.Linear(HIDDEN, heads * width, bias=False))
        self.g_norm_swish_gate = torch.nn.RMSNorm(value, eps=1e-5)
        self.o_proj = torch.nn.Linear(heads * value, HIDDEN, bias=False)

    def apart(self, x):
        return x.unflatten(-1, (self.heads, -1))

    def turned(self, x, first):
        return x

    def forward(self, x, state, first):
        q, k, v, z = (self.apart(project(x)) for project in (self.q_proj, self.k_proj, self.v_proj, self.g_proj))
        q, k, decay = self.turned(q, first), self.turned(k, first), self.log_decay(x).exp()
        outputs = []
        for t in range(x.shape[1]):
            state = decay[:, t, :, :, None] * state + k[:, t, :, :, None] * v[:, t, :, None, :]
            outputs.append((q[:, t, :, :, None] * state).sum(2) * self.key**-0.5)
        o = self.g_norm_swish_gate(torch.stack(outputs, 1)) * torch.nn.functional.silu(z)
        return self.o_proj(o.flatten(2)), state


class GatedLinearAttention(Decaying):
    def __init__(self, heads, key, value, rank):
        super().__init__(heads, key, value)
        self.gk_proj = torch.nn.Sequential(torch.nn.Linear(HIDDEN, rank, bias=False),
                                           torch.nn.Linear(rank, heads * key))

    def log_decay(self, x):
        return self.apart(torch.nn.functional.logsigmoid(self.gk_proj(x)) / 16)


class MultiScaleRetention(Decaying):
    def log_decay(self, x):
        rates = torch.log1p(-torch.exp2(-5 - torch.arange(self.heads, dtype=torch.float64))).float()
        return rates[None, None, :, None].expand(*x.shape[:2], -1, self.key)

    def turned(self, x, first):
        """Column n with n + K/2 by t 10000^(-2n/K)"""
        n = torch.arange(self.key // 2, dtype=torch.float64)
        t = torch.arange(first, first + x.shape[1], dtype=torch.float64)
        angle = (t[:, None] * 10000 ** (-2 * n / self.key))[:, None, :].float()
        a, b = x.chunk(2, -1)
        return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)


def write_decaying(name, module, value):
    if "gradients" in sys.argv:
        write_gradients(name, module, lambda x: module(x, torch.zeros(BATCH, module.heads, module.key, value), 0)[0])
    else:
        write_decaying_run(name, module, value)


@torch.no_grad()
def write_decaying_run(name, module, value):
    torch.manual_seed(len(name))
    randomize(module)
    run = {"x": torch.randn(BATCH, TOKENS, HIDDEN), "step.x": torch.randn(BATCH, 1, HIDDEN)}
    run["y"], run["final_state"] = module(run["x"], torch.zeros(BATCH, module.heads, module.key, value), 0)
    run["step.y"], run["step.final_state"] = module(run["step.x"], run["final_state"], TOKENS)
    save(name, module, run)


class FastWeightGluMLPMultihead(torch.nn.Module):
    """The module of LaCT (test-time training of a SwiGLU network a head by large batches), each batch read, then learned from"""

    def __init__(self, heads, width, inner):
        super().__init__()
        self.heads, self.width, self.inner = heads, width, inner
        self.w0, self.w2 = (torch.nn.Parameter(torch.zeros(heads, width, inner)) for _ in range(2))
        self.w1 = torch.nn.Parameter(torch.zeros(heads, inner, width))
        self.to_qkv = torch.nn.Linear(HIDDEN, 3 * heads * width, bias=False)
        self.c_proj = torch.nn.Linear(heads * width, HIDDEN, bias=False)
        self.lr_fc = torch.nn.Linear(HIDDEN, 3 * heads)
        self.o_norm = torch.nn.RMSNorm(width, eps=1e-5)

    @staticmethod
    def orthogonal(step):
        """Keller Jordan's five steps of Newton and Schulz"""
        x = step.mT if step.shape[1] > step.shape[2] else step
        x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
        for _ in range(5):
            a = x @ x.mT
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        return x.mT if step.shape[1] > step.shape[2] else x

    @staticmethod
    def learned(weights, norms, k, v, rates):
        """The three matrices after a batch: their steps are gradients of v.f(k), f(x) = (silu(x w0) o (x w2)) w1"""
        with torch.enable_grad():
            w = [x.detach().requires_grad_() for x in weights]
            steps = []
            for x, rate in zip(w, rates):
                y = (torch.nn.functional.silu(k @ w[0]) * (k @ w[2])) @ w[1]
                steps += torch.autograd.grad((rate * v * y).sum(), x)
        moved = [x + FastWeightGluMLPMultihead.orthogonal(step) for x, step in zip(weights, steps)]
        return [x / (x.norm(dim=1, keepdim=True) + 1e-5) * norm for x, norm in zip(moved, norms)]

    def forward(self, x, weights, batch):
        def apart(y, count):
            return [z.flatten(0, 1) for z in y.unflatten(-1, (count, self.heads, -1)).permute(2, 0, 3, 1, 4)]
        q, k, v = apart(torch.nn.functional.silu(self.to_qkv(x)), 3)
        q, k = (y / (y.norm(dim=2, keepdim=True) + 1e-5) for y in (q, k))
        rates = apart(torch.nn.functional.softplus(self.lr_fc(x) + torch.tensor(0.01).expm1().log()), 3)
        norms = [w.norm(dim=1, keepdim=True) for w in weights]
        outputs = []
        for cut in range(0, x.shape[1], batch):
            part = slice(cut, cut + batch)
            outputs.append((torch.nn.functional.silu(q[:, part] @ weights[0]) * (q[:, part] @ weights[2])) @ weights[1])
            if cut + batch <= x.shape[1]:
                weights = self.learned(weights, norms, k[:, part], v[:, part], [rate[:, part] for rate in rates])
        o = self.o_norm(torch.cat(outputs, 1)).unflatten(0, (-1, self.heads)).transpose(1, 2)
        return self.c_proj(o.flatten(2)), weights


@torch.no_grad()
def write_lact(heads, width, inner, batch):
    torch.manual_seed(len("lact"))
    module = FastWeightGluMLPMultihead(heads, width, inner)
    randomize(module)
    run = {"x": torch.randn(BATCH, TOKENS, HIDDEN), "step.x": torch.randn(BATCH, 1, HIDDEN)}
    weights = [w.repeat(BATCH, 1, 1) for w in (module.w0, module.w1, module.w2)]
    for prefix in ("", "step."):
        run[prefix + "y"], weights = module(run[prefix + "x"], weights, batch)
        for i, w in enumerate(weights): # as clattn has them: a row for each that is scaled to its norm
            run[f"{prefix}final_w{i}"] = w.mT.unflatten(0, (BATCH, heads)).clone()
    save("lact", module, run)


write_decaying("gla", GatedLinearAttention(heads=3, key=12, value=16, rank=5), 16)
write_decaying("retnet", MultiScaleRetention(heads=3, key=12, value=20), 20)
if "gradients" not in sys.argv:
    write_lact(heads=2, width=16, inner=6, batch=7)
