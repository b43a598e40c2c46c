"""The contract of patch and unpatch for graph models, their settings, files and errors."""

import copy
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch_geometric.nn import GATConv, GCNConv
from transformers import BertConfig, BertForSequenceClassification

import hf_bam
from hf_bam import BamConfig
from hf_bam.families import FAMILIES, Family

from .cases import CHANNELS, FEATURES, LAYERS, Net, features, labels, random_graph


@pytest.fixture(params=LAYERS)
def model(request):
    return Net(LAYERS[request.param])


def forward(model):
    return model(features(), random_graph())


def sampled(model, **options):
    with torch.no_grad(), hf_bam.sampling(model.eval(), **options):
        return forward(model)


def test_in_place_with_settings(model):
    assert hf_bam.patch(model) is model
    assert hf_bam.is_patched(model)
    assert hf_bam.get_config(model) == BamConfig()
    prior = model.conv1.bam.prior
    hf_bam.patch(model, BamConfig.preset("BAM-WC"), k=2.0)
    assert hf_bam.get_config(model) == BamConfig(k=2.0)
    assert model.conv1.bam.prior is prior  # it fits
    hf_bam.patch(model, family="lognormal", prior="fixed")
    assert not [name for name, _ in model.named_parameters() if ".bam." in name]


def test_unpatch_gives_the_plain_model_with_its_trained_weights(model):
    attributes = {name: set(vars(module)) for name, module in model.named_modules()}
    keys, before = set(model.state_dict()), copy.deepcopy(model.state_dict())
    hf_bam.patch(model).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    nn.functional.cross_entropy(forward(model), labels()).backward()
    optimizer.step()
    trained = {name: tensor.clone() for name, tensor in model.state_dict().items() if name in keys}
    assert hf_bam.unpatch(model) is model
    assert {name: set(vars(module)) for name, module in model.named_modules()} == attributes
    assert set(model.state_dict()) == keys
    assert all(torch.equal(model.state_dict()[name], trained[name]) for name in keys)
    assert not all(torch.equal(before[name], trained[name]) for name in keys)
    with pytest.raises(ValueError, match="not patched"):
        hf_bam.unpatch(model)


def test_seeds_make_samples_and_leave_the_global_generator_alone(model):
    hf_bam.patch(model).eval()
    state = torch.get_rng_state()
    with torch.no_grad(), hf_bam.sampling(model, seed=0):
        first, second = forward(model), forward(model)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.allclose(first, second)
    assert torch.equal(sampled(model, seed=0), first)
    with torch.no_grad(), hf_bam.sampling(model, seed=0, fixed=True):
        assert torch.equal(forward(model), forward(model))
    torch.manual_seed(1)
    unseeded = sampled(model)
    torch.manual_seed(1)
    assert torch.equal(sampled(model), unseeded)


def test_training_is_reproducible(model):
    hf_bam.patch(model).train()
    outputs = []
    for _ in range(2):
        torch.manual_seed(3)
        outputs.append(forward(model))
    assert torch.equal(*outputs)


def test_the_noise_of_an_edge_depends_on_its_position_alone():
    conv = hf_bam.patch(GATConv(FEATURES, CHANNELS, add_self_loops=False)).eval()
    edges = random_graph()
    weights = []
    for number in (20, 40):
        with torch.no_grad(), hf_bam.sampling(conv, seed=0):
            _, (_, own) = conv(features(), edges[:, :number], return_attention_weights=True)
        weights.append(own)
    same = torch.tensor([(edges[1, 20:] != target).all() for target in edges[1, :20]])  # no further neighbour
    assert same.any()
    torch.testing.assert_close(weights[0][same], weights[1][:20][same])


def test_the_kl_is_annealed_by_optimizer_steps(model):
    hf_bam.patch(model, kl_weight=1.0, prior="fixed", annealing="linear", annealing_rate=0.1).train()
    values = []
    for step in (0, 5, 10):
        torch.manual_seed(0)  # the scores of the second layer depend on the sample of the first
        hf_bam.set_step(model, step)
        forward(model)
        values.append(hf_bam.kl_loss(model))
    assert values[0] == 0
    torch.testing.assert_close(values[2], 2 * values[1])


def test_the_kl_is_trained_once_with_a_loss_of_the_outputs_or_with_both(model):
    hf_bam.patch(model, kl_weight=1.0).train()
    grads = []
    for explicit in (False, True):
        torch.manual_seed(0)
        model.zero_grad()
        loss = nn.functional.cross_entropy(forward(model), labels())
        (loss + hf_bam.kl_loss(model) if explicit else loss).backward()
        grads.append([p.grad.clone() for p in model.parameters()])
    torch.testing.assert_close(*grads)


def test_a_step_without_the_kl_is_an_error(model):
    hf_bam.patch(model).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forward(model)
    sum(p.square().sum() for p in model.parameters()).backward()
    with pytest.raises(RuntimeError, match=r"The KL of this Net was not trained"):
        optimizer.step()


def test_layers_that_are_called_one_by_one_are_an_error(model):
    hf_bam.patch(model).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.conv1(features(), random_graph()).sum().backward()
    with pytest.raises(RuntimeError, match="its layers were called one by one"):
        optimizer.step()


def test_a_patched_model_without_any_sampled_attention_is_an_error(model):
    hf_bam.patch(model).train()
    model.conv1.eval()
    model.conv2.eval()
    with pytest.raises(RuntimeError, match="none of its attention was sampled"):
        forward(model)


def test_save_and_load(model, tmp_path):
    hf_bam.patch(model, k=2.0).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        nn.functional.cross_entropy(forward(model), labels()).backward()
        optimizer.step()
    file = hf_bam.save(model, tmp_path)
    assert file == tmp_path / "bam.safetensors"
    expected, plain = sampled(model, seed=0), forward(model.eval())

    other = Net(type(model.conv1)).eval()
    other.load_state_dict({name: t for name, t in model.state_dict().items() if "bam" not in name})
    assert torch.equal(forward(other), plain)
    assert hf_bam.load(other, tmp_path) is other
    assert hf_bam.get_config(other) == hf_bam.get_config(model)
    assert torch.equal(sampled(other, seed=0), expected)
    for name, tensor in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor), name

    again = hf_bam.patch(Net(type(model.conv1)), k=2.0)
    again.load_state_dict(model.state_dict())  # torch's own way
    assert torch.equal(sampled(again, seed=0), expected)
    with pytest.raises(ValueError, match="does not fit this GATConv"):
        hf_bam.load(GATConv(3, 2), tmp_path)


def test_optimizers_that_miss_the_prior_are_an_error(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hf_bam.patch(model).train()
    nn.functional.cross_entropy(forward(model), labels()).backward()
    optimizer.step()
    nn.functional.cross_entropy(forward(model), labels()).backward()
    with pytest.raises(RuntimeError, match="no optimizer has its parameters"):
        optimizer.step()


def test_settings_that_graphs_do_not_have(model, monkeypatch):
    with pytest.raises(ValueError, match=r"BamConfig.noise='key' is not valid for a graph; it must be 'entry'"):
        hf_bam.patch(model, noise="key")

    class Weights(Family):
        stage = "weights"

        def sample(self, tensor, call):
            return tensor

    monkeypatch.setitem(FAMILIES, "weights", Weights)
    with pytest.raises(ValueError, match=r"family='weights' is not valid for a graph: it makes the weights of"):
        hf_bam.patch(model, family="weights")
    with pytest.raises(ValueError, match=r"layers=\(2,\) with attention='both' asks for attention that this model"):
        hf_bam.patch(model, layers=[2])
    assert not hf_bam.is_patched(model)


def test_models_without_attention_and_wrapped_models():
    words = "hf_bam needs a transformers model or a PEFT model around one, or a PyTorch Geometric model with GATConv"
    for model in (GCNConv(4, 4), nn.DataParallel(Net()), torch.compile(Net())):
        with pytest.raises(TypeError, match=words):
            hf_bam.patch(model)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_compiled_models():
    model = hf_bam.patch(Net())
    compiled = torch.compile(model, backend="eager")
    compiled.eval()
    torch.testing.assert_close(forward(compiled), forward(model))
    with torch.no_grad(), hf_bam.sampling(compiled, seed=0):
        found = forward(compiled)
    torch.testing.assert_close(found, sampled(model, seed=0))
    compiled.train()
    (forward(compiled).sum() + hf_bam.kl_loss(model)).backward()
    assert model.conv1.bam.prior.logit_weight.grad.abs().sum() > 0


def test_predictors_and_the_hub_are_for_transformers_models(model, tokenizer):
    hf_bam.patch(model)
    words = "This needs a transformers model or a PEFT model around one, not Net"
    with pytest.raises(TypeError, match=words):
        hf_bam.BamPredictor(model, tokenizer)
    with pytest.raises(TypeError, match=words):
        hf_bam.push_to_hub(model, "me/it")


def test_a_text_encoder_and_a_graph_are_patched_apart():
    sizes = {"hidden_size": FEATURES * 2, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}

    class TextGraph(nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = BertForSequenceClassification(BertConfig(vocab_size=50, num_labels=FEATURES, **sizes))
            self.net = Net()

        def forward(self, input_ids, edge_index):
            return self.net(self.bert(input_ids).logits, edge_index)

    model = TextGraph()
    hf_bam.patch(model.bert)
    hf_bam.patch(model.net)
    out = model.train()(torch.randint(50, (12, 4)), random_graph())
    out.sum().backward()
    priors = [p for name, p in model.named_parameters() if ".bam." in name]
    assert len(priors) == 9
    assert all(p.grad.abs().sum() > 0 for p in priors)


def test_nothing_of_pyg_is_needed():
    program = """
import sys
sys.modules["torch_geometric"] = None
import torch, hf_bam
from hf_bam.cli import main
from transformers import BertConfig, BertModel
sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
model = hf_bam.patch(BertModel(BertConfig(vocab_size=9, **sizes))).train()
print(model(torch.tensor([[1, 2]])).kl > 0)
print(main(["graph", "--data_dir", "x"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["tensor(True)", "2"]
    assert "needs the extra 'graph', of which torch_geometric is not installed" in done.stderr
