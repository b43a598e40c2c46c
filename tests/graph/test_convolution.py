"""Patched graph layers: modes, arguments, noise, copies."""

import copy
import io

import pytest
import torch
from torch import nn
from torch_geometric import EdgeIndex
from torch_geometric.nn import GAT, GATConv, HeteroConv, TransformerConv
from torch_geometric.nn.conv import FusedGATConv, SuperGATConv
from torch_geometric.utils import softmax, to_torch_csr_tensor

import hf_bam
from hf_bam.attention.method import Method

from .cases import CHANNELS, FEATURES, HEADS, LAYERS, NODES, Net, complete_graph, features, labels, random_graph


@pytest.fixture(params=LAYERS)
def layer(request):
    return LAYERS[request.param]


def single(layer, **options):
    return layer(FEATURES, CHANNELS, heads=HEADS, **options).eval()


def sampled(model, *args, seed=0, **kwargs):
    with torch.no_grad(), hf_bam.sampling(model, seed=seed):
        return model(*args, **kwargs)


def sorted_index(edges):
    """Return edges in a class of PyG that knows their order, from which a layer takes pointers."""
    edges = EdgeIndex(edges[:, edges[1].argsort(stable=True)], sparse_size=(NODES, NODES), sort_order="col")
    return edges.fill_cache_()


def sparse(edges):
    """Return a sparse matrix of targets and sources."""
    with torch.sparse.check_sparse_tensor_invariants():
        return to_torch_csr_tensor(edges.flip(0), size=(NODES, NODES))


ARGUMENTS = {
    "edge list": ({}, lambda edges: (edges,)),
    "without self-loops": ({"add_self_loops": False}, lambda edges: (edges,)),
    "edge features": ({"edge_dim": 3}, lambda edges: (edges, features(edges.shape[1], 3))),
    "sorted edges": ({"add_self_loops": False}, lambda edges: (sorted_index(edges),)),
    "sparse matrix": ({"add_self_loops": False}, lambda edges: (sparse(edges),)),
    "reversed flow": ({"flow": "target_to_source"}, lambda edges: (edges,)),
    "residual": ({"residual": True}, lambda edges: (edges,)),
    "no edges": ({"add_self_loops": False}, lambda edges: (edges[:, :0],)),
}
"""Options of a layer, and the arguments of its forward after the features."""


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
@pytest.mark.parametrize("name", ARGUMENTS)
def test_mean_mode_is_the_plain_layer_and_samples_are_not(layer, name):
    options, of_edges = ARGUMENTS[name]
    args = features(), *of_edges(random_graph())
    conv = single(layer, **options)
    plain = conv(*args)
    hf_bam.patch(conv)
    assert torch.equal(conv(*args), plain)
    first, again, other = (sampled(conv, *args, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert torch.isfinite(first).all()
    if name != "no edges":
        assert not torch.allclose(first, plain)
        assert not torch.allclose(first, other)
    conv.train()
    conv(*args).sum().backward()
    kl = hf_bam.kl_loss(conv)
    assert torch.isfinite(kl)
    assert all(torch.isfinite(p.grad).all() for p in conv.parameters() if p.grad is not None)
    assert torch.equal(hf_bam.unpatch(conv).eval()(*args), plain)


@pytest.mark.parametrize("settings", [{"k": 1e6}, {"family": "lognormal", "sigma": 1e-6}], ids=["k", "sigma"])
def test_vanishing_noise_is_the_plain_model(layer, settings):
    model = Net(layer).eval()
    plain = model(features(), random_graph())
    hf_bam.patch(model, **settings)
    torch.testing.assert_close(sampled(model, features(), random_graph()), plain, rtol=0, atol=1e-4)


def test_the_mean_of_unnormalised_weights_is_the_soft_attention(layer, monkeypatch):
    """E[z] = 1: weighted by PyG's softmax, the exponentials of the noise have mean 1."""
    conv = hf_bam.patch(single(layer, add_self_loops=False), k=2.0)
    edges = complete_graph()
    plain = softmax(torch.zeros(edges.shape[1], HEADS), edges[1])
    found = []
    monkeypatch.setattr(
        "hf_bam.graph.edges.EdgeCall.sample", lambda call: found.append(call.log_noise()) or call.scores
    )
    with torch.no_grad(), hf_bam.sampling(conv, seed=0):
        for _ in range(300):
            conv(features(), edges)
    noise = torch.stack(found)  # (S, E, H)
    assert noise.exp().mean() == pytest.approx(1, abs=0.01)
    means = (plain * noise.exp()).mean(dim=0) / plain
    assert (means - 1).abs().max() < 5 * (4 / torch.pi - 1) ** 0.5 / 300**0.5
    flat = noise.permute(1, 2, 0).flatten(0, 1)  # independent in edges and heads
    assert torch.corrcoef(flat[:40]).fill_diagonal_(0).abs().max() < 0.3


def test_return_attention_weights_gives_the_sampled_weights(layer):
    conv = single(layer)
    x, edges = features(), random_graph()
    _, (_, plain) = conv(x, edges, return_attention_weights=True)
    hf_bam.patch(conv)
    out, (index, mean) = conv(x, edges, return_attention_weights=True)
    assert torch.equal(mean, plain)
    out, (index, weights) = sampled(conv, x, edges, return_attention_weights=True)
    assert torch.equal(out, sampled(conv, x, edges))
    assert not torch.allclose(weights, plain)
    total = torch.zeros(NODES, HEADS).index_add(0, index[1], weights)
    torch.testing.assert_close(total, torch.ones(NODES, HEADS))
    conv.train()
    _, (_, weights) = conv(x, edges, return_attention_weights=True)
    assert weights.requires_grad


def test_a_single_neighbour_gets_all_the_weight(layer):
    conv = single(layer, add_self_loops=False)
    edges = torch.tensor([[0, 1], [1, 2]])
    plain = conv(features(), edges)
    torch.testing.assert_close(sampled(hf_bam.patch(conv), features(), edges), plain)


def test_isolated_nodes(layer):
    conv = single(layer, add_self_loops=False)
    hf_bam.patch(conv)
    out = sampled(conv, features(), random_graph())
    assert torch.equal(out[-1], conv.bias)
    with_loops = hf_bam.patch(single(layer))
    x = features()
    alone = sampled(with_loops, x, random_graph())[-1]
    torch.testing.assert_close(alone, with_loops(x, random_graph())[-1])  # its own only neighbour
    with_loops.train()(x, random_graph()).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in with_loops.parameters())


def test_self_loops_count_as_edges(layer):
    x, edges = features(), random_graph()
    loops = torch.arange(NODES).expand(2, -1)
    conv = hf_bam.patch(single(layer))
    ours = sampled(conv, x, edges)
    hf_bam.unpatch(conv)
    conv.add_self_loops = False
    keep = edges[0] != edges[1]
    theirs = sampled(hf_bam.patch(conv), x, torch.cat([edges[:, keep], loops], dim=1))
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("with_target", [True, False], ids=["features of both", "features of the sources"])
def test_bipartite_graphs(layer, with_target):
    if not with_target and layer is not GATConv:
        pytest.skip("GATv2Conv needs features of the targets")
    sources, targets = 9, 6
    x = features(sources), features(targets, 4) if with_target else None
    conv = layer((FEATURES, 4), CHANNELS, heads=HEADS, add_self_loops=False).eval()
    edges = random_graph(sources, targets, 20)
    options = {"size": (sources, targets)} if layer is GATConv else {}
    plain = conv(x, edges, **options)
    hf_bam.patch(conv)
    assert torch.equal(conv(x, edges, **options), plain)
    assert plain.shape == (targets, HEADS * CHANNELS)
    assert not torch.allclose(sampled(conv, x, edges, **options), plain)
    conv.train()(x, edges, **options).sum().backward()
    assert conv.bam.prior.hidden_weight.grad.abs().sum() > 0


def test_dropout_of_the_weights_is_that_of_the_layer(layer):
    conv = hf_bam.patch(single(layer, dropout=0.5, add_self_loops=False), k=1e6).train()
    _, (edges, weights) = conv(features(), complete_graph(), return_attention_weights=True)
    dropped = weights == 0
    assert 0.3 < dropped.float().mean() < 0.7
    conv.dropout = 0.0
    _, (_, plain) = conv(features(), complete_graph(), return_attention_weights=True)
    torch.testing.assert_close(weights[~dropped], 2 * plain[~dropped], rtol=1e-4, atol=1e-5)
    assert not (sampled(conv.eval(), features(), edges, return_attention_weights=True)[1][1] == 0).any()


def test_gradients_of_the_kl_reach_attention_and_prior(layer):
    model = hf_bam.patch(Net(layer)).train()
    model(features(), random_graph())
    hf_bam.kl_loss(model).backward()
    attention = ("att_src", "att_dst", "lin.weight") if layer is GATConv else ("att", "lin_l.weight", "lin_r.weight")
    for conv in ("conv1", "conv2"):
        for name in (*attention, "bam.prior.hidden_weight", "bam.prior.logit_weight"):
            assert model.get_parameter(f"{conv}.{name}").grad.abs().sum() > 0, name


def test_a_layer_that_runs_twice_has_two_samples_and_two_terms():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = GATConv(FEATURES, FEATURES, add_self_loops=False)

        def forward(self, x, edges):
            weights = [self.conv(x, edges, return_attention_weights=True)[1][1] for _ in range(2)]
            return torch.stack(weights)

    settings = {"prior": "fixed", "kl_reduction": "sum"}
    model = hf_bam.patch(Twice(), **settings).eval()
    first, second = sampled(model, features(), random_graph())
    assert not torch.allclose(first, second)
    model.train()(features(), random_graph())
    both = hf_bam.kl_loss(model)
    once = hf_bam.patch(hf_bam.unpatch(model).conv, **settings).train()
    once(features(), random_graph())
    torch.testing.assert_close(both, 2 * hf_bam.kl_loss(once))


def test_copies_and_pickles_have_their_own_methods(layer):
    model = hf_bam.patch(Net(layer)).eval()
    expected = sampled(model, features(), random_graph())
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        assert torch.equal(sampled(other, features(), random_graph()), expected)
        assert other.conv1.edge_update.module is other.conv1
        hf_bam.unpatch(other)
    assert isinstance(model.conv1.edge_update, Method)


def test_low_precision(layer):
    model = hf_bam.patch(Net(layer)).bfloat16().train()
    out = model(features(dtype=torch.bfloat16), random_graph())
    assert out.dtype == torch.bfloat16
    kl = hf_bam.kl_loss(model)
    assert kl.dtype == torch.float32
    (out.float().square().sum() + kl).backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


def test_gradient_checkpointing_of_a_layer():
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(Net):
        def forward(self, x, edge_index):
            hidden = checkpoint(self.conv1, x, edge_index, use_reentrant=False)
            return self.conv2(nn.functional.elu(hidden), edge_index)

    plain, model = hf_bam.patch(Net()), hf_bam.patch(Checkpointed())
    model.load_state_dict(plain.state_dict())
    grads = []
    for own in (plain, model):
        torch.manual_seed(4)
        own.train()(features(), random_graph()).square().sum().backward()
        grads.append([p.grad for p in own.parameters()])
    torch.testing.assert_close(*grads)


def test_models_and_containers_of_pyg():
    model = GAT(FEATURES, 8, num_layers=3, out_channels=2, heads=2).eval()
    plain = model(features(), random_graph())
    hf_bam.patch(model, layers=1)
    assert torch.equal(model(features(), random_graph()), plain)
    assert [conv.bam.uses for conv in model.convs] == [(False,), (False,), (True,)]
    assert not torch.allclose(sampled(model, features(), random_graph()), plain)
    relations = [("a", "to", "b"), ("b", "to", "a")]
    hetero = nn.ModuleList(
        HeteroConv({name: GATConv((-1, -1), 4, add_self_loops=False) for name in relations}) for _ in range(2)
    )
    model = Hetero(hetero)
    hf_bam.patch(model, layers=[0])
    assert [conv.bam.uses[0] for layer in hetero for conv in layer.convs.values()] == [True, True, False, False]
    x, edges = {"a": features(5), "b": features(6)}, dict.fromkeys(relations, torch.tensor([[0, 1, 2], [1, 1, 3]]))
    out = model.train()(x, edges)
    out["a"].sum().backward()
    assert hf_bam.kl_loss(model) > 0
    assert all(conv.bam.prior.hidden_weight.grad is not None for conv in hetero[0].convs.values())


class Hetero(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, x, edges):
        for layer in self.layers:
            x = layer(x, edges)
        return x


def test_layers_derived_from_those_of_pyg():
    class Own(GATConv):
        """A forward of its own that calls that of the class."""

        def forward(self, x, edge_index):
            return super().forward(2 * x, edge_index)

    conv = hf_bam.patch(Own(FEATURES, CHANNELS)).eval()
    assert not torch.allclose(sampled(conv, features(), random_graph()), conv(features(), random_graph()))


class OwnUpdate(GATConv):
    def edge_update(self, alpha_j, alpha_i, edge_attr, index, ptr, dim_size):
        return super().edge_update(alpha_j, alpha_i, edge_attr, index, ptr, dim_size)


class Fused(GATConv):
    """A forward without `edge_updater`, as that of `FusedGATConv`, which needs a compiled library to be built."""

    forward = FusedGATConv.forward


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TransformerConv(4, 4), r"0 \(TransformerConv\) is none of GATConv, GATv2Conv"),
        (lambda: SuperGATConv(4, 4), r"\(SuperGATConv\) is none of"),
        (lambda: Fused(4, 4), "a forward that does not compute its weights in edge_update"),
        (lambda: OwnUpdate(4, 4), "an edge_update of its own that does not call softmax"),
        (lambda: GATConv(4, 4, decomposed_layers=2), "has decomposed_layers"),
    ],
)
def test_attention_that_cannot_be_patched_is_an_error(make, words):
    model = nn.Sequential(make(), GATConv(4, 4))
    with pytest.raises(hf_bam.UnsupportedModelError, match=words):
        hf_bam.patch(model)
    assert not hf_bam.is_patched(model)
    assert not hasattr(model[1], "bam")


def test_memory_is_linear_in_the_edges():
    """No tensor that training saves has more entries than features of all edges."""
    nodes = 2000
    model = hf_bam.patch(Net()).train()
    edges = torch.randint(nodes, (2, 3 * nodes))
    largest = 0

    def pack(tensor):
        nonlocal largest
        largest = max(largest, tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(features(nodes), edges)
    assert largest <= 4 * nodes * HEADS * CHANNELS


def test_training_and_evaluation_in_a_loop():
    """A loop of plain PyG: the loss is computed outside, and the KL is trained with it."""
    model = hf_bam.patch(Net(rate=0.3), annealing="sigmoid", annealing_rate=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    x, edges, y = features(), random_graph(), labels()
    losses = []
    for _ in range(30):
        model.train()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x, edges), y)
        loss.backward()
        assert model.conv1.bam.prior.logit_weight.grad.abs().sum() > 0
        optimizer.step()
        losses.append(nn.functional.cross_entropy(model.eval()(x, edges), y).item())
    assert losses[-1] < losses[0]
    assert model.bam_step == 30
