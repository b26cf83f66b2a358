"""Writes mesa_net.safetensors and mesa_net.run.safetensors beside it: a module with the names of flash-linear-attention's
MesaNet (0.5.x, its defaults: no output gate, lambda_lower_bound 0.25) and random weights, and what it computes, token by
token in double precision. Where that module takes 30 steps of conjugate gradients with 1e-5 added to their denominators,
here the equations are solved, as the paper has it.

    python3 make_mesa_layer.py        # with numpy

The files are as make_layers.py has them: matrices rounded to bf16, a prompt from zero states and then a token.
"""
import json
import pathlib
import struct

import numpy as np

HERE = pathlib.Path(__file__).parent
BATCH, TOKENS, HIDDEN, HEADS, K, V, TAPS = 2, 21, 32, 3, 12, 16, 4


def to_bf16(x):
    """The nearest numbers of 16 bits, ties to even, and these bits"""
    bits = x.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return (rounded << 16).astype(np.uint32).view(np.float32).astype(float), rounded.astype(np.uint16)


def write(path, tensors):
    """tensors: name to an array, of float to be written as F32 or of uint16 as BF16"""
    header, blocks, at = {}, [], 0
    for name, x in tensors.items():
        data = (x if x.dtype == np.uint16 else x.astype(np.float32)).tobytes()
        header[name] = {"dtype": "BF16" if x.dtype == np.uint16 else "F32", "shape": list(x.shape),
                        "data_offsets": [at, at + len(data)]}
        blocks.append(data)
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blocks))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def unit(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


class MesaNet:
    def __init__(self, draw):
        def matrix(rows, columns):
            return draw.normal(0, columns ** -0.5, (rows, columns))
        self.weights = {
            "q_proj.weight": matrix(HEADS * K, HIDDEN), "k_proj.weight": matrix(HEADS * K, HIDDEN),
            "v_proj.weight": matrix(HEADS * V, HIDDEN), "a_proj.weight": matrix(HEADS, HIDDEN),
            "b_proj.weight": matrix(HEADS, HIDDEN), "a_proj.bias": draw.uniform(-0.5, 2, HEADS),
            "b_proj.bias": draw.uniform(-0.5, 0.5, HEADS), "lambda_params": draw.uniform(-1, 2, HEADS * K),
            "q_conv1d.weight": draw.normal(0, TAPS ** -0.5, (HEADS * K, 1, TAPS)),
            "k_conv1d.weight": draw.normal(0, TAPS ** -0.5, (HEADS * K, 1, TAPS)),
            "k_conv1d.bias": draw.uniform(-0.5, 0.5, HEADS * K), # the queries' is missing: zeros
            "o_norm.weight": draw.uniform(0.5, 1.5, V), "o_proj.weight": matrix(HIDDEN, HEADS * V)}
        self.stored = {}
        for name, x in self.weights.items():
            x = x.astype(np.float32).astype(float)
            bits = x
            if x.ndim > 1:
                x, bits = to_bf16(x)
            self.weights[name], self.stored[name] = x, bits

    def token(self, x, state):
        """x [HIDDEN] of one sequence; the state is changed"""
        w, conv = self.weights, state["final_conv_state"]
        conv[:-1] = conv[1:].copy()
        conv[-1] = np.concatenate([w["q_proj.weight"] @ x, w["k_proj.weight"] @ x])
        taps = np.concatenate([w["q_conv1d.weight"], w["k_conv1d.weight"]])[:, 0].T
        qk = (taps * conv).sum(0) + np.concatenate([np.zeros(HEADS * K), w["k_conv1d.bias"]])
        q, k = unit((qk * sigmoid(qk)).reshape(2, HEADS, K))
        v = (w["v_proj.weight"] @ x).reshape(HEADS, V)
        decay = sigmoid(w["a_proj.weight"] @ x + w["a_proj.bias"])
        beta = sigmoid(w["b_proj.weight"] @ x + w["b_proj.bias"])
        ridge = (np.log1p(np.exp(w["lambda_params"])) + 0.25).reshape(HEADS, K)
        o = np.empty((HEADS, V))
        for h in range(HEADS):
            state["final_gram"][h] = decay[h] * state["final_gram"][h] + beta[h] * np.outer(k[h], k[h])
            state["final_state"][h] = decay[h] * state["final_state"][h] + beta[h] * np.outer(k[h], v[h])
            o[h] = state["final_state"][h].T @ np.linalg.solve(state["final_gram"][h] + np.diag(ridge[h]), q[h])
        o = o / np.sqrt((o * o).mean(-1, keepdims=True) + 1e-5) * w["o_norm.weight"]
        return w["o_proj.weight"] @ o.ravel()


def zeros():
    return {"final_conv_state": np.zeros((TAPS, 2 * HEADS * K)), "final_state": np.zeros((HEADS, K, V)),
            "final_gram": np.zeros((HEADS, K, K))}


draw = np.random.default_rng(8)
module, states, run = MesaNet(draw), [zeros() for _ in range(BATCH)], {}
for prefix, tokens in ("", TOKENS), ("step.", 1):
    run[prefix + "x"] = draw.normal(0, 1, (BATCH, tokens, HIDDEN)).astype(np.float32).astype(float)
    run[prefix + "y"] = np.array([[module.token(x, state) for x in rows]
                                  for rows, state in zip(run[prefix + "x"], states)])
    run |= {prefix + name: np.array([state[name] for state in states]) for name in zeros()}
write(HERE / "mesa_net.safetensors", module.stored)
write(HERE / "mesa_net.run.safetensors", run)
