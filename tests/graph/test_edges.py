"""Noise and KL of edges against the implementation for sequences and against PyG's softmax."""

from dataclasses import dataclass

import pytest
import torch
from torch_geometric.utils import softmax

import hf_bam
from hf_bam.attention.call import AttentionCall
from hf_bam.attention.layer import BamLayer
from hf_bam.attention.mask import AttentionMask
from hf_bam.attention.noise import NoiseSeed, random_bits, uniform
from hf_bam.graph.edges import edge_log_softmax
from hf_bam.objective import KlTerm

from ..attention.cases import FAMILIES
from .cases import CHANNELS, FEATURES, HEADS, LAYERS, NODES, complete_graph, features, random_graph

SEED = NoiseSeed(5)
SETTINGS = {**FAMILIES, "median": {"family": "lognormal", "sigma": 0.3, "prior_location": "median"}}


@dataclass(frozen=True, eq=False)
class DenseCall(AttentionCall):
    """Attention call with given random numbers, (B, H, T, S)."""

    numbers: torch.Tensor = None

    def uniform(self, count, *, per_head=True, per_query=True):
        return self.numbers


def projected(conv, x):
    """Return the features of each head, (1, H, N, C)."""
    linear = conv.lin if hasattr(conv, "lin") else conv.lin_l
    return linear(x).view(-1, HEADS, CHANNELS).transpose(0, 1)[None]


def dense_scores(conv, x):
    """Return the scores of all pairs of nodes by the formula of each layer, (1, H, N, N): targets, then sources."""
    source = projected(conv, x)
    if hasattr(conv, "lin"):
        sums = [(source * a.view(1, HEADS, 1, CHANNELS)).sum(-1) for a in (conv.att_src, conv.att_dst)]  # (1, H, N)
        return torch.nn.functional.leaky_relu(sums[0][:, :, None] + sums[1][..., None], 0.2)
    target = conv.lin_r(x).view(-1, HEADS, CHANNELS).transpose(0, 1)[None]
    pairs = torch.nn.functional.leaky_relu(target[:, :, :, None] + source[:, :, None], 0.2)  # (1, H, N, N, C)
    return (pairs * conv.att.view(1, HEADS, 1, 1, CHANNELS)).sum(-1)


def dense(conv, x, edge_index):
    """Return output and KL term of the implementation for sequences, with the noise of the edges."""
    source, target = edge_index
    edges = edge_index.shape[1]
    numbers = torch.full((1, HEADS, NODES, NODES), 0.5)
    numbers[0, :, target, source] = uniform(random_bits(SEED.row_keys(1, HEADS, 1), edges))[0, :, 0]
    mask = torch.zeros(1, 1, NODES, NODES, dtype=torch.bool)
    mask[0, 0, target, source] = True
    key = projected(conv, x)
    shape = (1, HEADS, NODES, NODES)
    call = DenseCall(conv.bam, 0, key, key, key, AttentionMask(shape, allowed=mask), 1.0, numbers=numbers)
    scores = dense_scores(conv, x).masked_fill(~mask, torch.finfo(torch.float64).min)
    family = conv.bam.family
    terms = list(family.terms(scores, call))
    weights = family.sample(scores, call).softmax(-1).masked_fill(~mask, 0.0)
    output = (weights @ key)[0].transpose(0, 1).reshape(NODES, -1) + conv.bias
    return output, terms


@pytest.fixture(params=LAYERS)
def conv(request):
    return LAYERS[request.param](FEATURES, CHANNELS, heads=HEADS, add_self_loops=False).double()


@pytest.mark.parametrize("graph", [complete_graph(), random_graph()], ids=["complete", "with an isolated node"])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_samples_kl_and_gradients_are_those_of_dense_attention(conv, settings, graph, monkeypatch):
    monkeypatch.setattr(BamLayer, "noise_seed", lambda *_: SEED)
    terms = []
    monkeypatch.setattr(BamLayer, "collect", lambda _, term: terms.append(term))
    hf_bam.patch(conv, **settings).train()
    x = features(dtype=torch.float64).requires_grad_()
    output = conv(x, graph)
    expected, expected_terms = dense(conv, x, graph)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-6)
    for reduction in ("mean", "sum"):
        values = [[term.reduce(reduction) for term in own] for own in (terms, expected_terms)]
        assert len(values[0]) == len(values[1]) == (settings.get("prior") != "none")
        torch.testing.assert_close(*values, rtol=0, atol=1e-6)
    parameters = [x, *conv.parameters()]
    losses = [
        own.square().sum() + sum(term.reduce("sum") for term in kl)
        for own, kl in ((output, terms), (expected, expected_terms))
    ]
    grads = [torch.autograd.grad(loss, parameters, allow_unused=True) for loss in losses]
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


def test_the_log_softmax_of_edges_is_the_logarithm_of_pyg_softmax():
    _, target = random_graph()
    scores = 10 * torch.randn(len(target), HEADS, dtype=torch.float64)
    for nodes in (NODES, None):
        found = edge_log_softmax(scores, target, nodes)
        torch.testing.assert_close(found.exp(), softmax(scores, target, num_nodes=nodes))
    assert edge_log_softmax(scores[:0], target[:0]).shape == (0, HEADS)


def test_the_log_softmax_of_edges_stays_finite_where_weights_vanish():
    scores = torch.tensor([[0.0], [-2000.0], [5.0]], requires_grad=True)
    found = edge_log_softmax(scores, torch.tensor([0, 0, 1]))
    torch.testing.assert_close(found, torch.tensor([[0.0], [-2000.0], [0.0]]))
    found.sum().backward()
    torch.testing.assert_close(scores.grad, torch.tensor([[-1.0], [1.0], [0.0]]))


def test_gradients_are_those_of_differences():
    index = torch.tensor([0, 2, 0, 2, 2])
    scores = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: edge_log_softmax(s, index, 4), scores)


def test_a_term_has_an_entry_for_each_edge_and_head(monkeypatch):
    terms = []
    monkeypatch.setattr(BamLayer, "collect", lambda _, term: terms.append(term))
    conv = hf_bam.patch(LAYERS["GATConv"](FEATURES, CHANNELS, heads=HEADS), beta=1.0).train()
    conv(features(), random_graph(edges=17))
    (term,) = terms
    assert isinstance(term, KlTerm)
    loops = NODES  # added by the layer
    assert term.count.sum() <= HEADS * (17 + loops)
    assert (term.total >= 0).all()
    torch.testing.assert_close(term.reduce("mean") * term.count.sum(), term.reduce("sum"))
