"""Writes attention.safetensors beside it: softmax attention that is not causal, cross attention, ALiBi on both sides and
softcap, as PyTorch's scaled_dot_product_attention computes them in double precision. Case NAME has tensors NAME.q, NAME.k
… and NAME.o, NAME.lse in f32, as clattn has them. All inputs are bf16 numbers, so that every type holds them exactly.

    python3 make_attention.py        # with torch; written with torch 1.13.0
"""
import json
import math
import pathlib
import struct

import torch

HERE = pathlib.Path(__file__).parent
H, HK, K, V = 2, 1, 8, 8
# torch 1.13 has it under another name, and returns weights as well
sdpa = getattr(torch.nn.functional, "scaled_dot_product_attention", None) or (
    lambda q, k, v, attn_mask: torch.nn.functional._scaled_dot_product_attention(q, k, v, attn_mask)[0]
)


def slopes():
    """of ALiBi, for H a power of two"""
    return torch.tensor([2.0 ** (-8 * (h + 1) / H) for h in range(H)], dtype=torch.float64)


def attend(q, k, v, *, causal=False, alibi=False, window=0, softcap=0.0):
    """o [T,H,V] and lse [T,H] of q [T,H,K], k [TK,HK,K], v [TK,HK,V]; query t stands at t + TK - T."""
    T, TK = len(q), len(k)
    q, k, v = q.transpose(0, 1), k.transpose(0, 1).repeat_interleave(H // HK, 0), v.transpose(0, 1).repeat_interleave(H // HK, 0)
    ahead = (torch.arange(T)[:, None] + TK - T - torch.arange(TK)[None]).double()
    mask = torch.zeros(H, T, TK, dtype=torch.float64)
    if alibi:
        mask = mask - slopes()[:, None, None] * ahead.abs()
    if causal:
        mask = mask.masked_fill(ahead < 0, -math.inf)
    if window:
        mask = mask.masked_fill(ahead.abs() >= window, -math.inf)
    scores = q @ k.transpose(1, 2) / math.sqrt(K)
    if softcap:  # which the function does not know
        scores = softcap * torch.tanh(scores / softcap)
        o = torch.softmax(scores + mask, -1) @ v
    else:
        o = sdpa(q[None], k[None], v[None], attn_mask=mask[None])[0]
    return o.transpose(0, 1), torch.logsumexp(scores + mask, -1).transpose(0, 1)


def draw(generator, *shape):
    return (torch.rand(*shape, generator=generator) * 4 - 2).bfloat16().double()


def case(name, *, B=1, T=0, TK=0, lens=None, cuts=None, cuts_kv=None, **options):
    """Rows of a batch, of which sequence n has lens[n] keys; or packed sequences between the cuts."""
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    q, k, v = draw(generator, B, T, H, K), draw(generator, B, TK, HK, K), draw(generator, B, TK, HK, V)
    o, lse = torch.zeros(B, T, H, V, dtype=torch.float64), torch.zeros(B, T, H, dtype=torch.float64)
    found = {"q": q, "k": k, "v": v, "o": o, "lse": lse}
    if cuts:
        for first, end, first_key, end_key in zip(cuts, cuts[1:], cuts_kv, cuts_kv[1:]):
            if end > first:
                rows, keys = slice(first, end), slice(first_key, end_key)
                o[0, rows], lse[0, rows] = attend(q[0, rows], k[0, keys], v[0, keys], **options)
        found.update(cu_seqlens=torch.tensor(cuts, dtype=torch.int32), cu_seqlens_kv=torch.tensor(cuts_kv, dtype=torch.int32))
    else:
        for n in range(B):
            keys = lens[n] if lens else TK
            o[n], lse[n] = attend(q[n], k[n, :keys], v[n, :keys], **options)
    if lens:
        found["kv_lens"] = torch.tensor(lens, dtype=torch.int32)
    return {f"{name}.{key}": x if x.dtype == torch.int32 else x.float().contiguous() for key, x in found.items()}


def save(path, tensors):
    header, data = {}, b""
    for name, x in tensors.items():
        raw = x.numpy().tobytes()
        kind = "I32" if x.dtype == torch.int32 else "F32"
        header[name] = {"dtype": kind, "shape": list(x.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


save(
    HERE / "attention.safetensors",
    case("both_sides", B=2, T=37, TK=37)
    | case("cross", B=2, T=5, TK=70)
    | case("few_keys", T=41, TK=9)
    | case("lengths", B=3, T=19, TK=40, lens=[40, 1, 23])
    | case("packed", T=30, TK=60, cuts=[0, 11, 11, 12, 30], cuts_kv=[0, 7, 9, 42, 60])
    | case("near", T=40, TK=50, window=9)
    | case("alibi", B=2, T=37, TK=37, alibi=True)
    | case("alibi_cross", T=21, TK=40, alibi=True)
    | case("alibi_few_keys", T=40, TK=21, alibi=True)
    | case("capped", T=37, TK=37, causal=True, softcap=1.5)
    | case("capped_both_sides", T=11, TK=50, softcap=1.5)
    | case("capped_alibi", T=37, TK=37, causal=True, alibi=True, softcap=1.5),
)
