"""Loss over several samples in transformers' Trainer and Seq2SeqTrainer."""

import itertools

import pytest
import torch
from torch.distributions import Categorical, kl_divergence
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, Trainer, TrainingArguments, default_data_collator

import hf_bam
from hf_bam.integrations.trainer import SamplingTrainerMixin

from ..models import bert, classification, gpt2, language_model, marian, translation
from .test_trainer import SETTINGS, rows, weights

DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}


class SamplingTrainer(SamplingTrainerMixin, Trainer):
    pass


class SamplingSeq2SeqTrainer(SamplingTrainerMixin, Seq2SeqTrainer):
    pass


@pytest.fixture
def data():
    torch.manual_seed(0)
    return rows(classification(lengths=(7, 5, 3, 6, 7, 2, 4, 5), width=7))


def make_trainer(directory, data, model=None, cls=SamplingTrainer, arguments=TrainingArguments, **options):
    """Return a trainer of a patched model, if no other is given."""
    torch.manual_seed(1)
    model = hf_bam.patch(bert(initializer_range=0.3), k=1.0, kl_weight=0.5) if model is None else model
    samples = {name: options.pop(name) for name in ("consistency", "num_train_samples") if name in options}
    loss = {"compute_loss_func": options.pop("compute_loss_func", None)}
    settings = {**SETTINGS, "per_device_train_batch_size": 4, "max_steps": 4, "save_strategy": "no", **options}
    return cls(model, arguments(str(directory), **settings), train_dataset=data, eval_dataset=data, **samples, **loss)


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def by_hand(model, batch, samples, weight, bound):
    """Return the loss of an expanded batch: a formula of its logits, and the KL once."""
    out = model(**{name: torch.cat([x] * samples) for name, x in batch.items()})
    log_p = out.logits.log_softmax(-1).reshape(samples, len(batch["labels"]), -1)
    of_labels = log_p.gather(-1, batch["labels"].expand(samples, -1)[..., None])[..., 0]
    task_loss = -(of_labels.exp().mean(0).log() if bound else of_labels.mean(0)).mean()
    p = [Categorical(logits=x) for x in log_p]
    pairs = torch.stack([kl_divergence(one, other) for one, other in itertools.permutations(p, 2)])
    return task_loss + weight * pairs.mean() + out.get("kl_loss", 0.0)


@pytest.mark.parametrize("patched", [True, False], ids=["attention", "dropout"])
@pytest.mark.parametrize(
    ("options", "samples"),
    [
        ({"consistency": 2.0}, 2),
        ({"num_train_samples": 3}, 3),
        ({"consistency": 0.5, "num_train_samples": 2}, 2),
    ],
)
def test_the_gradient_is_that_of_the_formula(tmp_path, data, patched, options, samples):
    model = None if patched else bert(initializer_range=0.3, **DROPOUT)
    trainer = make_trainer(tmp_path, data, model, **options)
    trainer.create_optimizer()
    trainer.current_gradient_accumulation_steps = 1
    model, batch = trainer.model.train(), default_data_collator(data)
    torch.manual_seed(3)
    expected = by_hand(model, batch, samples, options.get("consistency", 0.0), "num_train_samples" in options)
    expected.backward()
    wanted = gradients(model)
    model.zero_grad()
    torch.manual_seed(3)
    torch.testing.assert_close(trainer.training_step(model, dict(batch)), expected.detach())
    found = gradients(model)
    assert found.keys() == wanted.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, wanted[name], rtol=1e-4, atol=1e-6)
    if patched:
        assert any(gradient.any() for name, gradient in found.items() if ".bam." in name)
        trainer.optimizer.step()  # raises if the KL was not trained


def test_accumulation_divides_the_loss(tmp_path, data):
    """With vanishing noise one step on eight rows equals four accumulated steps on two, the KL included."""
    after = []
    for size, steps in ((8, 1), (2, 4)):
        torch.manual_seed(1)
        model = hf_bam.patch(bert(), k=1e6, kl_weight=1e-3)
        options = {"per_device_train_batch_size": size, "gradient_accumulation_steps": steps, "max_steps": 1}
        options |= {"max_grad_norm": 0.0, "optim": "sgd", "lr_scheduler_type": "constant"}
        make_trainer(tmp_path, data, model, num_train_samples=2, consistency=1.0, **options).train()
        after.append(weights(model))
    for name, tensor in after[0].items():
        torch.testing.assert_close(tensor, after[1][name], rtol=1e-4, atol=1e-6)


def test_the_terms_are_logged(tmp_path, data):
    trainer = make_trainer(tmp_path, data, consistency=2.0, logging_steps=2)
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(logged) == 2
    for entry in logged:
        expected = entry["task_loss"] + 2 * entry["consistency"] + 0.5 * entry["kl"]
        assert entry["loss"] == pytest.approx(expected, abs=3e-4)
        assert entry["consistency"] > 0


def test_evaluation_is_that_of_the_plain_model(tmp_path, data):
    trainer = make_trainer(tmp_path, data, consistency=2.0, num_train_samples=2)
    metrics = trainer.evaluate()
    plain = Trainer(hf_bam.unpatch(trainer.model), trainer.args, eval_dataset=data)
    assert metrics["eval_loss"] == pytest.approx(plain.evaluate()["eval_loss"], abs=1e-6)


def test_without_options_it_is_the_usual_trainer(tmp_path, data):
    trained = []
    for cls in (Trainer, SamplingTrainer):
        trainer = make_trainer(tmp_path, data, cls=cls)
        trainer.train()
        trained.append(weights(trainer.model))
    assert all(torch.equal(tensor, trained[1][name]) for name, tensor in trained[0].items())


def test_resumed_training_ends_where_uninterrupted_training_does(tmp_path, data):
    options = {"consistency": 1.0, "num_train_samples": 2, "data_seed": 0}
    whole = make_trainer(tmp_path / "whole", data, save_strategy="steps", save_steps=2, **options)
    whole.train()
    resumed = make_trainer(tmp_path / "resumed", data, **options)
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-2"))
    ours, theirs = weights(resumed.model), weights(whole.model)
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_translation(tmp_path, precision):
    torch.manual_seed(0)
    data = rows(translation(lengths=(7, 5, 3, 6), width=7))
    trainer = make_trainer(
        tmp_path,
        data,
        hf_bam.patch(marian(), k=2.0),
        SamplingSeq2SeqTrainer,
        Seq2SeqTrainingArguments,
        consistency=1.0,
        num_train_samples=2,
        max_steps=20,
        logging_steps=10,
        bf16=precision == "bf16",
    )
    trainer.train()
    logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert logged[1] < logged[0] - 0.1


def test_a_plain_language_model_with_accumulation(tmp_path):
    """Models that take the number of items in the loss are not given it: the loss is a mean that is divided once."""
    torch.manual_seed(0)
    data = rows(language_model(lengths=(7, 7, 7, 7), width=7))
    losses = []
    for size, steps in ((4, 1), (1, 4)):
        torch.manual_seed(0)
        model = gpt2(resid_pdrop=1e-9)
        options = {"per_device_train_batch_size": size, "gradient_accumulation_steps": steps, "logging_steps": 1}
        trainer = make_trainer(tmp_path, data, model, num_train_samples=2, max_steps=1, **options)
        trainer.train()
        losses.append(trainer.state.log_history[0]["loss"])
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"label_smoothing_factor": 0.1, "consistency": 1.0}, "label_smoothing_factor and consistency=1.0"),
        ({"compute_loss_func": lambda *_, **__: None, "num_train_samples": 2}, "compute_loss_func and .*samples=2"),
    ],
)
def test_another_loss_raises(tmp_path, data, options, words):
    with pytest.raises(ValueError, match=words):
        make_trainer(tmp_path, data, **options)
