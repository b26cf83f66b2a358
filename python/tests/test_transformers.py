"""Tiny models of Hugging Face transformers, with random weights, with and without clattn.

They need transformers 4.57 or later and what it needs; see TESTING.md."""
import collections

import pytest

import clattn
from clattn import _transformers

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
torch.set_num_threads(1)

SIZES = {"vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 4, "pad_token_id": 0, "bos_token_id": 1,
         "eos_token_id": None}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64, "max_position_embeddings": 256}
DELTA = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
           "shared_expert_intermediate_size": 32}
SSM = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 2, "mamba_d_state": 8, "mamba_chunk_size": 32}

# A model's name before Config and ForCausalLM: its sizes, and the rules that it is computed by.
MODELS = {
    "Qwen3Next": (SIZES | HEADS | DELTA | EXPERTS | {"head_dim": 16}, {"gated_delta_rule", "short_conv"}),
    "Qwen3_5": (SIZES | HEADS | DELTA | {"head_dim": 16}, {"gated_delta_rule", "short_conv"}),
    "OlmoHybrid": (SIZES | HEADS | DELTA | {"linear_num_key_heads": 4}, {"gated_delta_rule", "short_conv"}),
    "KimiLinear": (SIZES | HEADS | {
        "num_hidden_layers": 5, "num_key_value_heads": 4, "linear_num_heads": 4, "linear_head_dim": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8, "v_head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
    }, {"kda", "short_conv"}),
    "Mamba": (SIZES | {"state_size": 8}, {"mamba", "short_conv"}),
    "FalconMamba": (SIZES | {"state_size": 8}, {"mamba", "short_conv"}),
    "Jamba": (SIZES | HEADS | {"num_experts": 2, "attn_layer_period": 4, "attn_layer_offset": 2, "mamba_d_state": 8},
              {"mamba", "short_conv"}),
    "Mamba2": (SIZES | {"state_size": 8, "num_heads": 8, "head_dim": 16, "n_groups": 2, "chunk_size": 32},
               {"ssd", "short_conv"}),
    "Bamba": (SIZES | HEADS | SSM | {"attn_layer_indices": [2]}, {"ssd", "short_conv"}),
    "Lfm2": (SIZES | HEADS | {"full_attn_idxs": [2]}, {"short_conv"}),
}
OF_VERSION_4 = {"Qwen3Next"}


def classes(name):
    config = getattr(transformers, f"{name}TextConfig", None) or getattr(transformers, f"{name}Config", None)
    model = getattr(transformers, f"{name}ForCausalLM", None)
    old = int(transformers.__version__.split(".")[0]) < 5 and name not in OF_VERSION_4
    if config is None or model is None or old:
        pytest.skip(f"transformers {transformers.__version__} has no {name} that calls functions")
    return config, model


def tiny(name):
    config, model = classes(name)
    torch.manual_seed(1)
    return model(config(**MODELS[name][0])).eval()


@pytest.fixture
def called(monkeypatch):
    """How often each rule was computed through patch_transformers."""
    counts = collections.Counter()

    def counted(name, function):
        def call(*args, **keywords):
            counts[name] += 1
            return function(*args, **keywords)
        return call

    monkeypatch.setattr(_transformers, "functions", {n: counted(n, f) for n, f in _transformers.functions.items()})
    return counts


def far(found, expected):
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("name", MODELS)
def test_generates_the_same(name, called):
    model, tokens = tiny(name), torch.randint(2, 97, (2, 21))

    def generate():
        result = model.generate(tokens, max_new_tokens=20, do_sample=False, return_dict_in_generate=True,
                                output_logits=True)
        return result.sequences, torch.stack(result.logits)

    expected, logits = generate()
    with clattn.patch_transformers(model):
        found, ours = generate()
    rules = MODELS[name][1]
    assert {rule for rule in called if called[rule]} >= rules - ({"short_conv"} if name in OF_VERSION_4 else set())
    assert far(ours, logits) < 1e-5
    assert torch.equal(found, expected)
    before = called.total()
    generate()
    assert called.total() == before


@pytest.mark.parametrize("name", MODELS)
def test_trains_the_same(name, called):
    tokens, weights, losses = torch.randint(2, 97, (2, 40)), [], []

    def step(model):
        optimizer = torch.optim.SGD(model.train().parameters(), lr=0.1)
        loss = model(tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        weights.append({name: x.detach() for name, x in model.named_parameters()})

    step(tiny(name))
    assert not called
    with clattn.patch_transformers():
        step(tiny(name))
    differentiable = {rule for rule in MODELS[name][1] if clattn._rules.rules[rule].has_backward}
    assert set(called) >= differentiable - ({"short_conv"} if name in OF_VERSION_4 else set())
    assert abs(losses[1] - losses[0]) <= 1e-4 * abs(losses[0])
    for parameter, expected in weights[0].items():
        assert far(weights[1][parameter], expected) < 1e-4, parameter
