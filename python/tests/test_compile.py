"""clattn's functions inside torch.compile, which needs PyTorch 2.4 or later."""
import pytest

import clattn

torch = pytest.importorskip("torch", minversion="2.4")


def draw(tokens=19, dtype=torch.float32):
    torch.manual_seed(2)
    q, k, v = (torch.randn(2, tokens, 3, n).to(dtype) for n in (16, 16, 8))
    return q, k, v, -torch.rand(2, tokens, 3), torch.rand(2, tokens, 3)


def loss(q, k, v, g, beta):
    o, state = clattn.gated_delta_rule(2 * q, k, v, g, beta, qk_l2norm=True, scale=0.5, output_final_state=True)
    return o.float().square().sum() + state.sum()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_graph(dtype):
    torch._dynamo.reset()
    ours, plain = ([x.detach().requires_grad_() for x in draw(dtype=dtype)] for _ in range(2))
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    found, expected = compiled(*ours), loss(*plain)
    found.backward()
    expected.backward()
    torch.testing.assert_close(found, expected)
    for x, y in zip(ours, plain):
        torch.testing.assert_close(x.grad, y.grad)


def test_lengths_share_a_graph():
    torch._dynamo.reset()
    graphs = []

    def counted(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(loss, backend=counted, fullgraph=True)
    for tokens in range(5, 20):
        inputs = draw(tokens)
        torch.testing.assert_close(compiled(*inputs), loss(*inputs))
    assert len(graphs) == 2


def test_words_and_contexts():
    context, x = clattn.Context(), torch.rand(1, 5, 2, 8)

    def gla(x, device):
        return clattn.gla(x, x, x, x, gate_map="logsigmoid", initial_state=torch.ones(1, 2, 8, 8), device=device)

    for device in (context, "reference", 0, None):
        torch.testing.assert_close(torch.compile(gla, backend="eager", fullgraph=True)(x, device), gla(x, device))


def test_operators_are_sound():
    from clattn import _compiled
    inputs = [x.requires_grad_() for x in draw(5)]
    torch.library.opcheck(_compiled.operators["gated_delta_rule"], tuple(inputs))
    assert set(_compiled.operators) == set(clattn.rules)
