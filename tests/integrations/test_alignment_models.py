"""Latent alignments of all kinds of models: Trainer, Accelerate, saving, the Hub, PEFT and recipes."""

import pytest
import torch
from accelerate import Accelerator
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments

import hf_bam
from hf_bam.integrations.samples import SampleLoss
from hf_bam.training import Recipe
from hf_bam.training.building import with_adapters

from ..models import albert, bart, bert, bert2bert, classification, marian, recurrent, t5, translation
from .cases import assert_same_model

pytestmark = pytest.mark.usefixtures("trained_posteriors")

MODELS = {
    "marian": (marian, translation),
    "bart": (bart, translation),
    "t5": (t5, translation),
    "bert2bert": (bert2bert, translation),
    "recurrent": (recurrent, translation),
    "bert": (bert, classification),
    "albert": (albert, classification),
}
FAMILIES = {
    "marginal": {"family": "categorical", "top_k": 3},
    "hard": {"family": "categorical", "objective": "hard"},
    "score": {"family": "categorical", "objective": "variational", "estimator": "score", "d_inference": 8},
    "gumbel": {"family": "gumbel", "d_inference": 8},
    "dirichlet": {"family": "dirichlet", "d_inference": 8},
}
ARGUMENTS = {"report_to": [], "disable_tqdm": True, "use_cpu": True, "learning_rate": 1e-2, "save_strategy": "no"}


CASES = [
    (name, family)
    for name in MODELS
    for family in FAMILIES
    if name in ("marian", "bert") or family in ("marginal", "score")
]


@pytest.fixture(params=CASES, ids=" ".join)
def case(request):
    name, family = request.param
    build, batch = MODELS[name]
    return hf_bam.patch(build(), **FAMILIES[family]), batch()


def rows(batch):
    return [dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)]


def networks(model):
    return {name: p.detach().clone() for name, p in model.named_parameters() if ".bam." in name}


def test_trainer_and_saved_models(case, tmp_path):
    model, batch = case
    before = networks(model)
    arguments = Seq2SeqTrainingArguments(
        str(tmp_path), max_steps=2, logging_steps=1, per_device_train_batch_size=3, **ARGUMENTS
    )
    trainer = Seq2SeqTrainer(model, arguments, train_dataset=rows(batch), eval_dataset=rows(batch))
    trainer.train()
    for entry in (entry for entry in trainer.state.log_history if "task_loss" in entry):
        assert entry["loss"] == pytest.approx(entry["task_loss"] + entry["kl"], abs=2e-4)
    assert all(not torch.equal(p, before[name]) for name, p in networks(model).items())
    assert trainer.evaluate()["eval_loss"] > 0
    model.eval().save_pretrained(tmp_path / "model")
    again = hf_bam.from_pretrained(tmp_path / "model").eval()
    assert_same_model(model, again, batch)
    found, expected = (hf_bam.alignments(own, without_labels(batch), batch["labels"]) for own in (again, model))
    assert torch.equal(found.p, expected.p)
    assert (found.q is None) == (not before)


def without_labels(batch):
    return {name: x for name, x in batch.items() if name != "labels"}


def test_accelerate_with_accumulation(case):
    """Two halves of a batch give its gradient, where nothing is sampled and all targets have one length."""
    model, batch = case
    settings = hf_bam.get_config(model)
    batch = classification((7, 5, 3, 6)) if batch["labels"].dim() == 1 else translation((6, 6, 6, 6), 6)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    prepared, optimizer = accelerator.prepare(model.train(), optimizer)
    for half in (slice(0, 2), slice(2, 4)):
        with accelerator.accumulate(prepared):
            accelerator.backward(prepared(**{n: x[half] for n, x in batch.items()}).loss)
            optimizer.step()
    found = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    assert all(torch.isfinite(gradient).all() for gradient in found.values())
    model.zero_grad()
    model(**batch).loss.backward()
    assert found.keys() == {n for n, p in model.named_parameters() if p.grad is not None}
    if settings.family == "categorical" and settings.estimator == "enumerate":
        for n, p in model.named_parameters():
            if p.grad is not None:
                torch.testing.assert_close(found[n], p.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_pushed_model_comes_back(name, hub):
    build, batch = MODELS[name]
    model = hf_bam.patch(build(), family="categorical", objective="variational", d_inference=8).eval()
    hf_bam.set_step(model, 5)  # trained: the expectation
    model.push_to_hub("tiny")
    assert_same_model(hf_bam.from_pretrained("somebody/tiny"), model, batch())


@pytest.mark.parametrize("name", ["bert", "marian"])
@pytest.mark.parametrize("family", FAMILIES)
def test_adapters_train_the_inference_network(name, family):
    build, batch = MODELS[name]
    model = hf_bam.patch(build(), **FAMILIES[family])
    has_network = bool(networks(model))
    model = with_adapters(model, Recipe(lora_rank=3)).train()
    model(**batch()).loss.backward()
    trained = {n for n, p in model.named_parameters() if p.requires_grad}
    assert any(".bam.inference." in n for n in trained) == has_network
    assert all(p.grad is not None for n, p in model.named_parameters() if ".bam.inference.modules_to_save." in n)


@pytest.mark.parametrize("options", [{"consistency": 1.0}, {"num_train_samples": 2}], ids=str)
def test_losses_of_several_samples_are_for_relaxed_alignments(options, case):
    model, batch = case
    if hf_bam.get_config(model).family == "categorical":
        with pytest.raises(ValueError, match=r"(consistency|num_train_samples)=.* and family='categorical' cannot be"):
            SampleLoss(model, **options)
        return
    samples = SampleLoss(model, **options)
    output = model.train()(**samples.expand(batch))
    terms = samples.terms(output, batch)
    (terms.task_loss + terms.consistency).backward()
    assert any(p.grad is not None and p.grad.any() for name, p in model.named_parameters() if ".bam." in name)
