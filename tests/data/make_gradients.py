"""Writes gradients.safetensors beside it: for each rule with a state and for each piece small operands, gradients by its outputs, and the
gradients by its operands that PyTorch's autograd finds in double precision, of the rule's recurrence or the piece's formula written
here token by token. Case NAME has tensors NAME.q, NAME.d_o, NAME.d_q … in f32, as clattn has them.

    python3 make_gradients.py        # with torch; written with torch 1.13.0
"""
import json
import pathlib
import struct

import torch

torch.set_default_dtype(torch.float64)
HERE = pathlib.Path(__file__).parent
B, T, H, HQ, K, V = 2, 7, 4, 2, 4, 3

# name: decay, erase, the erase reads the state before the decay, write
RULES = {
    "linear_attn": ("none", "none", False, "value"),
    "retention": ("head", "none", False, "value"),
    "lightning_attn": ("lightning", "none", False, "value"),
    "simple_gla": ("scalar", "none", False, "value"),
    "ssd": ("scalar", "none", False, "beta"),
    "gla": ("channel", "none", False, "value"),
    "rwkv6": ("channel", "none", False, "value"),
    "delta_rule": ("none", "key", False, "beta"),
    "gated_delta_rule": ("scalar", "key", False, "beta"),
    "kda": ("channel", "key", False, "beta"),
    "comba": ("scalar", "p", True, "beta"),
    "precond_gated_delta_rule": ("scalar", "p", False, "beta"),
    "gdn2": ("channel", "gated", False, "gated"),
    "gated_delta_product": ("scalar", "key", False, "beta"),
    "dplr": ("channel", "low_rank", True, "value"),
    "iplr": ("none", "low_rank", True, "value"),
    "rwkv7": ("channel", "low_rank", True, "value"),
    "mlstm": ("scalar", "none", False, "exp"),
}
GATES = {"rwkv6": "w", "rwkv7": "w", "mlstm": "f"}
SCALES = {"rwkv7": 1.0, "ssd": 1.0}


class Case:
    def __init__(self, name, rule, *, kv_heads=None, steps=1, l2norm=False, normalize=False, gv=False, gate_map=None, beta_map=None):
        self.name, self.rule, self.steps, self.l2norm, self.normalize = name, rule, steps, l2norm, normalize
        self.gate_map, self.beta_map, self.gv = gate_map, beta_map, gv
        self.decay, self.erase, self.erase_first, self.write = RULES[rule]
        self.heads = kv_heads or H  # of states
        self.queries, self.keys = (H, kv_heads) if kv_heads else (HQ, HQ)
        self.stable = rule == "mlstm"
        self.generator = torch.Generator().manual_seed(sum(map(ord, name)))
        self.x = {}
        self.draw()

    def add(self, name, *shape, low=-1.0, high=1.0):
        numbers = low + (high - low) * torch.rand(*shape, generator=self.generator)
        self.x[name] = numbers.float().double().requires_grad_()

    def draw(self):
        N, G, rows = B, self.heads, T * self.steps
        self.add("q", B, T, self.queries, K)
        self.add("k", B, rows, self.keys, K, low=-0.6, high=0.6)
        self.add("v", B, rows, G, V)
        raw = self.gate_map is not None
        if self.decay in ("scalar", "channel"):
            shape = (B, T, G) if self.decay == "scalar" else (B, T, G, K)
            self.add(self.gate, *shape, low=-2.0 if raw else -0.7, high=1.0 if raw else 0.0)
        if raw:
            self.add("a_log", G)
            self.add("dt_bias", *((G,) if self.decay == "scalar" else (G, K)))
        if self.gv:
            self.add("gv", B, T, G, V, low=-0.5, high=0.0)
        if self.write == "beta":
            self.add("beta", B, rows, G, low=-2.0 if self.beta_map else 0.1, high=2.0 if self.beta_map else 1.2)
        if self.write == "gated":
            self.add("w", B, T, G, V, low=0.1)
        if self.write == "exp":
            self.add("i", B, T, G)
        if self.erase == "p":
            self.add("p", B, T, self.keys, K, low=-0.6, high=0.6)
        if self.erase == "gated":
            self.add("b", B, T, G, K, low=0.0)
        if self.erase == "low_rank":
            self.add("a", B, T, G, K, low=-0.5, high=0.5)
            self.add("b", B, T, G, K, low=-0.5, high=0.5)
        if self.rule == "rwkv6":
            self.add("u", G, K)
        self.add("initial_state", N, G, K, V)
        if self.stable or self.normalize:
            self.add("initial_normalizer", N, G, K, low=0.5, high=1.0)
        if self.stable:
            self.add("initial_stabilizer", N, G, low=-0.5, high=0.5)

    @property
    def gate(self):
        return GATES.get(self.rule, "g")

    def key(self, x):
        if self.l2norm:
            x = x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()
        if self.normalize:  # with elu + 1
            x = torch.where(x > 0, x + 1, x.exp())
        return x

    def log_decay(self, t):
        """[B,G,K]"""
        G = self.heads
        if self.decay == "none":
            return torch.zeros(B, G, K)
        if self.decay == "head":
            return torch.log1p(-(2.0 ** (-5.0 - torch.arange(G)))).view(1, G, 1).expand(B, G, K)
        if self.decay == "lightning":
            return (-8.0 / G * torch.arange(G)).view(1, G, 1).expand(B, G, K)
        g = self.x[self.gate][:, t]
        if self.gate_map is not None:
            g = g + self.x["dt_bias"]
            rate = self.x["a_log"].exp()
            rate = rate if self.decay == "scalar" else rate[:, None]
            g = -rate * torch.nn.functional.softplus(g) if self.gate_map == "softplus" else -5 * torch.sigmoid(rate * g)
        return g.unsqueeze(-1).expand(B, G, K) if self.decay == "scalar" else g

    def run(self):
        """o, final_state, final_normalizer. mLSTM's stabilizer is not differentiated."""
        x, G = self.x, self.heads
        S = x["initial_state"]
        z = x["initial_normalizer"] if "initial_normalizer" in x else torch.zeros(B, G, K)
        m = x["initial_stabilizer"].detach() if self.stable else None
        of_heads = lambda rows: rows.repeat_interleave(G // rows.shape[1], 1)
        q, k = self.key(x["q"]), self.key(x["k"])
        outputs = []
        for t in range(T):
            query = q[:, t] * SCALES.get(self.rule, K**-0.5)
            before = S
            for step in range(self.steps):
                row = t * self.steps + step
                key, value, strength = of_heads(k[:, row]), x["v"][:, row], torch.ones(B, G)
                decay = self.log_decay(t) if step == 0 else torch.zeros(B, G, K)
                if self.write == "beta":
                    strength = torch.sigmoid(x["beta"][:, row]) if self.beta_map else x["beta"][:, row]
                if self.write == "gated":
                    value = x["w"][:, row] * value
                if self.write == "exp":
                    new = torch.maximum(decay[..., 0].detach() + m, x["i"][:, t].detach())
                    strength = (x["i"][:, t] - new).exp()
                    decay = decay + (m - new).unsqueeze(-1)
                    m = new
                value_decay = x["gv"][:, t].exp() if self.gv else torch.ones(B, G, V)
                decayed = decay.exp().unsqueeze(-1) * S * value_decay.unsqueeze(-2)
                read = S if self.erase_first else decayed
                if self.erase == "none":
                    erased = torch.zeros_like(S)
                elif self.erase == "low_rank":
                    erased = -torch.einsum("bgk,bgv->bgkv", x["b"][:, row], torch.einsum("bgkv,bgk->bgv", read, x["a"][:, row]))
                else:
                    p = {"key": key, "p": of_heads(self.key(x["p"])[:, t]) if "p" in x else None, "gated": x["b"][:, t] * key if "b" in x else None}
                    erased = torch.einsum("bgk,bgv->bgkv", strength.unsqueeze(-1) * key, torch.einsum("bgkv,bgk->bgv", read, p[self.erase]))
                S = decayed - erased + torch.einsum("bgk,bgv->bgkv", strength.unsqueeze(-1) * key, value)
                z = decay.exp() * z + strength.unsqueeze(-1) * key
            wide = lambda rows: rows.repeat_interleave(H // G, 1)
            query = query if self.queries == H else of_heads(query)
            if self.rule == "rwkv6":
                S_read = before + torch.einsum("bgk,bgv->bgkv", x["u"] * key, value)
            else:
                S_read = S
            o = torch.einsum("bhkv,bhk->bhv", wide(S_read), query)
            if self.stable:
                o = o / torch.maximum((wide(z) * query).sum(-1).abs(), (-m).exp()).unsqueeze(-1)
            elif self.normalize:
                o = o / ((wide(z) * query).sum(-1) + 1e-10).unsqueeze(-1)
            outputs.append(o)
        return torch.stack(outputs, 1), S, z

    def tensors(self):
        out = dict(zip(("o", "final_state", "final_normalizer"), self.run()))
        if not (self.stable or self.normalize):
            out.pop("final_normalizer", None)
        loss, found = 0, {}
        for name, value in out.items():
            gradient = torch.rand(value.shape, generator=self.generator).mul(2).sub(1).float().double()
            found["d_" + name] = gradient
            loss = loss + (gradient * value).sum()
        inputs = {name: x for name, x in self.x.items() if name != "initial_stabilizer"}
        for name, gradient in zip(inputs, torch.autograd.grad(loss, list(inputs.values()))):
            found["d_" + name] = gradient
        if self.stable or self.normalize:
            found["o"] = out["o"]
        found.update(self.x)
        return {f"{self.name}.{name}": x.detach().float().contiguous() for name, x in found.items()}


class Piece(Case):
    """A piece; `options` are what its forward function reads."""

    def __init__(self, name, forward, **options):
        self.name, self.forward, self.options = name, forward, options
        self.stable = self.normalize = False
        self.generator = torch.Generator().manual_seed(sum(map(ord, name)))
        self.x = {}
        forward(self, draw=True)

    def run(self):
        return self.forward(self, draw=False)


def short_conv(case, draw, taps=4):
    taps = case.options.get("taps", taps)
    if draw:
        case.add("v", B, T, H, V)
        case.add("w", H, V, taps)
        if "bias" in case.options:
            case.add("bias", H, V)
        case.add("initial_state", B, taps, H, V)
        return None
    x = case.x
    rows = torch.cat((x["initial_state"], x["v"]), 1)
    y = sum(x["w"][:, :, r] * rows[:, 1 + r : 1 + r + T] for r in range(taps))
    if "bias" in case.options:
        y = y + x["bias"]
    if "plain" not in case.options:
        y = torch.nn.functional.silu(y)
    if "residual" in case.options:
        y = y + x["v"]
    return y, rows[:, T:]


def rms_norm(case, draw):
    gating, options, x = case.options.get("gating"), case.options, case.x
    if draw:
        case.add("v", B, T, H, V)
        if "unweighted" not in options:
            case.add("w", *((H, V) if "heads" in options else (V,)), low=0.5, high=1.5)
        if gating:
            case.add("z", B, T, H, V)
        if "d" in options:
            case.add("u", B, T, H, V)
            case.add("d", H, V)
        return None
    y, eps = x["v"], options.get("eps", 1e-5)
    if "d" in options:
        y = y + x["d"] * x["u"]
    if gating == "before":
        y = y * torch.nn.functional.silu(x["z"])
    mean = y.square().mean(-1, keepdim=True)
    y = y / (mean.sqrt() + eps) if "outside" in options else y / (mean + eps).sqrt()
    if "w" in x:
        y = y * (x["w"] + (1 if "centered" in options else 0))
    if gating in ("after", "sigmoid"):
        y = y * (torch.nn.functional.silu(x["z"]) if gating == "after" else torch.sigmoid(x["z"]))
    return (y,)


def gates(case, draw):
    options, x = case.options, case.x
    if draw:
        case.add("v", B, T, H, V, low=-2.0, high=2.0)
        if "a_log" in options:
            case.add("a_log", H)
        if "dt_bias" in options:
            case.add("dt_bias", H, V)
        return None
    y = x["v"] + (x["dt_bias"] if "dt_bias" in options else 0)
    rate = x["a_log"].exp().view(H, 1) if "a_log" in options else 1
    scale = options.get("scale", 1)
    maps = {
        "softplus": lambda: -rate * torch.nn.functional.softplus(y),
        "sigmoid": lambda: scale * torch.sigmoid(rate * y),
        "logsigmoid": lambda: scale * torch.nn.functional.logsigmoid(y),
        "exp": lambda: -y.exp(),
    }
    return (maps[options["map"]](),)


def rope(case, draw):
    width, x = 4, case.x
    if draw:
        case.add("v", B, T, H, width)
        return None
    angle = torch.arange(T).view(T, 1, 1) * 10000.0 ** (-2 * torch.arange(width // 2) / width)
    if "interleaved" in case.options:
        first, second = x["v"][..., 0::2], x["v"][..., 1::2]
    else:
        first, second = x["v"][..., : width // 2], x["v"][..., width // 2 :]
    turned = (first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin())
    return (torch.stack(turned, -1).flatten(-2) if "interleaved" in case.options else torch.cat(turned, -1),)


def features(case, draw):
    kind, x = case.options["kind"], case.x
    count = K if kind == "favor" else K // 2
    if draw:
        case.add("v", B, T, H, V)
        case.add("omega", H, count, V)
        return None
    v = x["v"]
    if kind == "favor":
        v = v * V**-0.25
    if kind == "rfa":
        v = v / (v.square().sum(-1, keepdim=True) + 1e-6).sqrt()
    y = torch.einsum("bthv,hfv->bthf", v, x["omega"])
    if kind == "rfa":
        return (torch.cat((y.sin(), y.cos()), -1) * count**-0.5,)
    if kind == "hedgehog":
        return (torch.cat((y.softmax(-1), (-y).softmax(-1)), -1),)
    y = y - v.square().sum(-1, keepdim=True) / 2
    if "of_queries" in case.options:
        y = y - torch.einsum("bthv,hfv->bthf", v, x["omega"]).max(-1, keepdim=True).values
    return ((y.exp() + 1e-4) * count**-0.5,)


def save(path, tensors):
    header, data = {}, b""
    for name, x in tensors.items():
        raw = x.numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


cases = [Case(rule, rule) for rule in RULES]
cases += [
    Case("normalized", "linear_attn", normalize=True),
    Case("normalised_keys", "comba", l2norm=True),
    Case("value_gate", "gla", gv=True),
    Case("two_steps", "gated_delta_product", steps=2),
    Case("shared_states", "gated_delta_rule", kv_heads=2),
    Case("softplus", "gated_delta_rule", gate_map="softplus", beta_map="sigmoid", l2norm=True),
    Case("sigmoid", "kda", gate_map="sigmoid"),
]
cases += [
    Piece("short_conv", short_conv),
    Piece("conv_of_eight", short_conv, taps=8, bias=True, plain=True, residual=True),
    Piece("rms_norm", rms_norm),
    Piece("norm_gated", rms_norm, gating="after", heads=True),
    Piece("norm_before", rms_norm, gating="before", unweighted=True, d=True),
    Piece("norm_sigmoid", rms_norm, gating="sigmoid", centered=True, eps=0.5),
    Piece("norm_outside", rms_norm, outside=True, eps=0.5),
    Piece("gates", gates, map="softplus", a_log=True, dt_bias=True),
    Piece("gates_sigmoid", gates, map="sigmoid", a_log=True, scale=-5),
    Piece("gates_logsigmoid", gates, map="logsigmoid", dt_bias=True, scale=0.0625),
    Piece("gates_exp", gates, map="exp", dt_bias=True),
    Piece("rope", rope),
    Piece("rope_interleaved", rope, interleaved=True),
    Piece("features", features, kind="favor"),
    Piece("favor_of_queries", features, kind="favor", of_queries=True),
    Piece("rfa", features, kind="rfa"),
    Piece("hedgehog", features, kind="hedgehog"),
]
tensors = {}
for case in cases:
    tensors.update(case.tensors())
save(HERE / "gradients.safetensors", tensors)
