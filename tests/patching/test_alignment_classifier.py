"""Latent alignments of classifiers, against runs of the plain model for every position."""

import copy

import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import ElectraConfig, ElectraForSequenceClassification

import hf_bam

from ..models import LABELS, SMALL, albert, bert, classification, distilbert, image, roberta, vit
from .forced import Oracle
from .test_alignment_modes import gradients, train

pytestmark = pytest.mark.usefixtures("trained_posteriors")

LARGE = {"initializer_range": 0.4}
CASES = {
    "bert": (lambda: bert(**LARGE), classification, "bert.encoder.layer.1.attention.self", 1),
    "albert": (
        lambda: albert(**LARGE),
        classification,
        "albert.encoder.albert_layer_groups.0.albert_layers.0.attention",
        12,
    ),
    "distilbert": (lambda: distilbert(**LARGE), classification, "distilbert.transformer.layer.1.attention", 1),
    "roberta": (lambda: roberta(**LARGE), classification, "roberta.encoder.layer.1.attention.self", 1),
    "electra": (
        lambda: ElectraForSequenceClassification(ElectraConfig(**SMALL, **LARGE)),
        classification,
        "electra.encoder.layer.1.attention.self",
        1,
    ),
    "vit": (lambda: vit(**LARGE), image, "vit.layers.1.attention", 1),
}
OBJECTIVES = {
    "marginal": {"objective": "marginal"},
    "top k": {"objective": "marginal", "top_k": 2},
    "hard": {"objective": "hard"},
    "variational": {"objective": "variational"},
    "score": {"objective": "variational", "estimator": "score"},
}


@pytest.fixture(params=CASES)
def name(request):
    return request.param


@pytest.fixture(params=OBJECTIVES)
def settings(request):
    return {"family": "categorical", **OBJECTIVES[request.param]}


def built(name):
    build, batch, *_ = CASES[name]
    return build().double().eval(), {
        n: x.double() if x.is_floating_point() else x for n, x in batch((5, 4, 2), 5).items()
    }


def brute_force(name, model, batch):
    """Return the plain model, the attention of its first token (B, S), and log-probabilities (S, B, C) of the classes
    for each position."""
    oracle = Oracle.of(CASES[name][2], model, CASES[name][3])
    soft = oracle.soft(batch)[:, 0]
    return oracle.model, soft, torch.stack([oracle.classify(batch, i) for i in range(soft.shape[1])])


def chosen(log_f, labels):
    return log_f.gather(-1, labels.expand(len(log_f), -1)[..., None])[..., 0]


@pytest.mark.parametrize("objective", ["marginal", "hard", "variational"])
def test_objectives_are_sums_over_all_positions(name, objective):
    model, batch = built(name)
    oracle, p, log_f = brute_force(name, model, batch)
    values = chosen(log_f, batch["labels"]).T  # (B, S)
    hf_bam.patch(model, family="categorical", objective=objective).train()
    out, found = train(model, batch)
    if objective == "variational":
        both = hf_bam.alignments(model, {n: x for n, x in batch.items() if n != "labels"}, batch["labels"])
        q = both.q[:, 0]
        torch.testing.assert_close(both.p[:, 0], p)
        kl = (q * (q.clamp(min=1e-300) / p.clamp(min=1e-300)).log()).sum(dim=-1)
        torch.testing.assert_close(out.loss, -((q * values).sum(dim=-1) - kl).mean())
        torch.testing.assert_close(out.kl, kl.mean())
        return
    expected = -((p * values.exp()).sum(dim=-1).log() if objective == "marginal" else (p * values).sum(dim=-1)).mean()
    expected.backward()
    torch.testing.assert_close(out.loss, expected)
    for parameter, gradient in gradients(oracle).items():
        torch.testing.assert_close(found[parameter], gradient, msg=lambda text, n=parameter: f"{n}: {text}")


def test_the_expectation_is_the_mean_probability_over_the_positions(name):
    model, batch = built(name)
    with torch.no_grad():
        _, p, log_f = brute_force(name, model, batch)
        expected = torch.einsum("bs,sbc->bc", p, log_f.exp())
        out = hf_bam.patch(model, family="categorical", test_time="expectation").eval()(**batch)
        torch.testing.assert_close(out.logits.exp(), expected)
        torch.testing.assert_close(out.loss, cross_entropy(expected.log(), batch["labels"]))
        hf_bam.patch(model, family="categorical", test_time="expectation", top_k=100)
        torch.testing.assert_close(model(**batch).logits.exp(), expected)
        loss, logits, *_ = model(**batch, return_dict=False)
        torch.testing.assert_close(logits.exp(), expected)
        assert loss.dim() == 0


@pytest.mark.parametrize("family", ["categorical", "gumbel", "dirichlet"])
def test_mean_mode_is_the_plain_model_and_samples_are_of_the_first_token(name, family):
    model, batch = built(name)
    plain = model(**batch).logits
    hf_bam.patch(model, family=family, objective="variational").eval()
    torch.testing.assert_close(model(**batch).logits, plain, rtol=0, atol=0)
    samples = []
    for seed in (1, 1, 2):
        with torch.no_grad(), hf_bam.sampling(model, seed=seed):
            samples.append(model(**batch, output_attentions=True))
    assert torch.equal(samples[0].logits, samples[1].logits)
    assert not torch.equal(samples[0].logits, samples[2].logits)
    weights, other = samples[0].attentions[-1], samples[2].attentions[-1]
    assert not torch.equal(weights[:, :, 0], other[:, :, 0])
    torch.testing.assert_close(weights[:, :, 1:], other[:, :, 1:])


def test_every_parameter_gets_a_gradient(name, settings):
    model, batch = built(name)
    _, plain = train(model.train(), batch)
    out, found = train(hf_bam.patch(model, **settings), batch)
    networks = {n for n, _ in model.named_parameters() if ".bam." in n}
    assert found.keys() == plain.keys() | networks
    assert all(torch.isfinite(gradient).all() for gradient in found.values())
    assert out.logits.shape == (3, LABELS)


@pytest.mark.parametrize("family", ["gumbel", "dirichlet"])
def test_relaxed_alignments(name, family):
    model, batch = built(name)
    _, plain = train(model.train(), batch)
    out, found = train(hf_bam.patch(model, family=family), batch)
    assert found.keys() == plain.keys() | {n for n, _ in model.named_parameters() if ".bam." in n}
    assert out.kl > 0
    torch.testing.assert_close(out.loss, out.task_loss + out.kl)


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert", "vit"])
def test_gradient_checkpointing_gives_the_same_gradients(name, settings):
    model, batch = built(name)
    hf_bam.patch(model, **settings).train()
    out, plain = train(model, batch)
    model.gradient_checkpointing_enable()
    again, checkpointed = train(model, batch)
    torch.testing.assert_close(again.loss, out.loss)
    for parameter, gradient in plain.items():
        torch.testing.assert_close(checkpointed[parameter], gradient)


@pytest.mark.parametrize("whole", [False, True], ids=["autocast", "bfloat16 weights"])
@pytest.mark.parametrize("name", ["bert", "albert"])
def test_half_precision(name, settings, whole):
    model, batch = CASES[name][0](), classification((5, 4, 2), 5)
    torch.manual_seed(0)
    exact = hf_bam.patch(copy.deepcopy(model), **settings).train()
    torch.manual_seed(0)
    hf_bam.patch(model.bfloat16() if whole else model, **settings).train()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not whole):
        out, found = train(model, batch)
    assert all(torch.isfinite(gradient).all() for gradient in found.values())
    if "estimator" not in settings:  # a sample, which rounding may change
        torch.testing.assert_close(out.task_loss.float(), exact(**batch).task_loss, rtol=0.15, atol=0.15)


def test_the_bound_is_below_the_marginal_likelihood(name):
    for seed in range(5):
        torch.manual_seed(seed)
        model, batch = built(name)
        bound = hf_bam.patch(model, family="categorical", objective="variational").train()(**batch).loss
        assert bound >= hf_bam.patch(model, family="categorical", objective="marginal")(**batch).loss - 1e-9


def test_the_score_function_at_other_places():
    model, batch = built("bert")
    settings = {"family": "categorical", "objective": "hard", "estimator": "score"}
    train(hf_bam.patch(model, **settings, layers="all").train(), batch)
    with pytest.raises(ValueError, match=r"2 latent alignments.*estimator='score'"):
        hf_bam.patch(model, family="categorical", layers="all")
    with pytest.raises(ValueError, match=r"12 latent alignments"):
        hf_bam.patch(albert(), family="categorical", layers="all")
    with pytest.raises(ValueError, match=r"alignments in the encoder"):
        hf_bam.patch(model, **{**settings, "objective": "variational"}, layers=[0])


def test_what_a_classifier_cannot_do():
    model, batch = built("bert")
    hf_bam.patch(model, family="categorical").train()
    with pytest.raises(ValueError, match="output_hidden_states=True is not possible"):
        model(**batch, output_hidden_states=True)
    with pytest.raises(ValueError, match="are not one class per example"):
        model(**{**batch, "labels": torch.rand(3, LABELS)})
    for changes in ({"num_labels": 1}, {"problem_type": "multi_label_classification"}):
        with pytest.raises(hf_bam.UnsupportedModelError, match="into two or more classes"):
            hf_bam.patch(bert(**changes), family="categorical")


def test_the_predictor_samples_and_takes_the_expectation(tokenizer):
    model = hf_bam.patch(bert(vocab_size=len(tokenizer), **LARGE), family="categorical", test_time="expectation")
    predictor = hf_bam.BamPredictor(model, tokenizer, num_samples=64, seed=0)
    (found,) = predictor(["a good film"])
    inputs = tokenizer(["a good film"], return_tensors="pt")
    with torch.no_grad():
        expected = model.eval()(**inputs).logits.exp()[0]
    samples = torch.as_tensor(found.samples)
    error = samples.std(dim=0) / 8
    assert ((samples.mean(dim=0) - expected).abs() < 5 * error + 1e-3).all()
    assert found.epistemic > 0
