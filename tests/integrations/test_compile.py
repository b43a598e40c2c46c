"""torch.compile: whole graphs, the same numbers, the same distribution of samples."""

import numpy as np
import pytest
import torch
from functorch.compile import make_boxed_func
from scipy import stats
from torch._dynamo.backends.common import aot_autograd

import hf_bam
from hf_bam.attention.backends import available

from ..models import ARCHITECTURES, bert, classification

# The compiler itself reads attributes of tensors that torch warns about.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")

needs_kernel = pytest.mark.skipif(not available(), reason="the kernel was not built")

# Models that compile to one graph before they are patched.
WHOLE = [("albert", "entry"), ("bert", "key"), pytest.param("vit", "entry", marks=pytest.mark.slow)]


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch._dynamo.reset()


def compiled(model):
    """Return the AOT-compiled model, without code generation, which takes minutes; it raises at a graph break."""
    return torch.compile(model, backend="aot_eager", fullgraph=True)


@pytest.mark.parametrize(("name", "noise"), WHOLE)
def test_a_training_step_has_no_graph_break_and_the_same_gradient(name, noise):
    architecture = ARCHITECTURES[name]
    model, batch = architecture.build(num_hidden_layers=2), architecture.batch()
    hf_bam.patch(model, k=1e8, noise=noise, kl_weight=0.5).train()
    losses, gradients = [], []
    for forward in (model, compiled(model)):
        out = forward(**batch)
        out.loss.backward()
        losses.append(torch.stack([out.loss, out.task_loss, out.kl, out.kl_loss]))
        gradients.append({n: p.grad for n, p in model.named_parameters() if p.grad is not None})
        model.zero_grad()
    torch.testing.assert_close(*losses)
    assert gradients[0].keys() == gradients[1].keys()
    for parameter, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][parameter], gradient, rtol=1e-3, atol=1e-5)


@needs_kernel
def test_the_kernel_is_one_node_with_the_noise_of_eager_code():
    """No matrix, a new seed in every step, and the numbers of eager code after the same `torch.manual_seed`."""
    model, batch = hf_bam.patch(bert(), k=1.0).train(), classification()
    graphs = []

    def recorded(graph, inputs):
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    forward = torch.compile(model, backend=aot_autograd(fw_compiler=recorded), fullgraph=True)
    losses, gradients = [], []
    for seed, run in ((0, model), (0, forward), (1, forward)):
        torch.manual_seed(seed)
        out = run(**batch)
        out.loss.backward()
        losses.append(out.loss.item())
        gradients.append(model.get_input_embeddings().weight.grad)
        model.zero_grad()
    assert losses[0] == losses[1] != losses[2]
    torch.testing.assert_close(gradients[1], gradients[0])
    nodes = [node for graph in graphs for node in graph.graph.nodes]
    attended = [node for node in nodes if node.target == torch.ops.hf_bam.attend.default]
    assert len(attended) % model.config.num_hidden_layers == 0 < len(attended)
    batch_size, length = batch["input_ids"].shape
    matrix = (batch_size, model.config.num_attention_heads, length, length)
    assert all(tuple(getattr(node.meta.get("val"), "shape", ())) != matrix for node in nodes)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "bart", "marian"])
def test_no_graph_break_is_added(name):
    """Models that have graph breaks in their own code get no further ones."""
    architecture = ARCHITECTURES[name]
    sizes = {"n_layer": 1} if name == "gpt2" else {"encoder_layers": 1, "decoder_layers": 1}
    model, batch = architecture.build(**sizes).train(), architecture.batch()
    before = torch._dynamo.explain(model)(**batch)
    torch._dynamo.reset()
    after = torch._dynamo.explain(hf_bam.patch(model))(**batch)
    theirs = {str(reason.user_stack[-1]) for reason in before.break_reasons}
    ours = [reason.reason for reason in after.break_reasons if str(reason.user_stack[-1]) not in theirs]
    assert not ours


def test_sampling_turns_on_and_off():
    model, batch = hf_bam.patch(bert(initializer_range=0.3), k=1.0).eval(), classification()
    plain = model(**batch).logits
    forward = compiled(model)
    with torch.no_grad():
        torch.testing.assert_close(forward(**batch).logits, plain)
        with hf_bam.sampling(model):
            first, second = forward(**batch).logits, forward(**batch).logits
        torch.testing.assert_close(forward(**batch).logits, plain)
    assert not torch.allclose(first, plain)
    assert not torch.allclose(first, second)


def test_the_same_distribution_of_samples():
    model, batch = hf_bam.patch(bert(initializer_range=0.3), k=1.0).eval(), classification((7,), 7)
    many = {name: tensor.repeat(500, *[1] * (tensor.dim() - 1)) for name, tensor in batch.items()}
    with torch.no_grad(), hf_bam.sampling(model):
        eager, fast = (forward(**many).logits[:, 0].numpy() for forward in (model, compiled(model)))
    assert np.std(eager) > 1e-3
    assert stats.ks_2samp(eager, fast).pvalue > 1e-3


def test_many_steps_cause_no_recompilation():
    """After eight compilations of a function torch stops compiling it, which fullgraph makes an error."""
    model, batch = hf_bam.patch(bert(), k=2.0).train(), classification()
    forward = torch.compile(model, fullgraph=True, backend="eager")
    for _ in range(10):
        forward(**batch).loss.backward()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
def test_generated_code_trains():
    """The default backend, which needs a C++ compiler and some minutes."""
    model, batch = hf_bam.patch(bert(), k=2.0).train(), classification()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    forward = torch.compile(model, fullgraph=True)
    losses = []
    for _ in range(30):
        out = forward(**batch)
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(out.task_loss.item())
    assert losses[-1] < losses[0] - 0.1
    assert model.bam_step.item() == 30


@pytest.mark.parametrize(("mode", "in_place"), [("train", True), pytest.param("eval", False, marks=pytest.mark.slow)])
def test_a_predictor_of_a_compiled_model(mode, in_place, tokenizer):
    """The samples of the model that is not compiled, in one mode and the other, with novelty."""
    model = hf_bam.patch(bert(vocab_size=len(tokenizer), initializer_range=0.3, num_hidden_layers=1), k=1.0).eval()
    texts = [f"film {i % 4} and {i % 3}" for i in range(30)]
    options = {"num_samples": 2, "progress": False, "batch_size": 30}
    expected = hf_bam.BamPredictor(model, tokenizer, **options).fit(texts, false_alarms=0.4)(texts)
    if in_place:
        model.compile(backend="eager")
    wrapped = model if in_place else torch.compile(model, backend="eager")
    getattr(model, mode)()
    found = hf_bam.BamPredictor(wrapped, tokenizer, **options).fit(texts, false_alarms=0.4)(texts)
    np.testing.assert_allclose(found.samples, expected.samples, atol=1e-5)
    assert [one.novelty.score for one in found] == pytest.approx([one.novelty.score for one in expected], rel=1e-3)
    assert model.training == (mode == "train")
