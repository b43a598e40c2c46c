"""Trainer and Seq2SeqTrainer of transformers with patched models."""

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, Trainer, TrainingArguments, default_data_collator

import hf_bam

from ..models import bert, classification, marian, translation

SETTINGS = {"report_to": [], "disable_tqdm": True, "use_cpu": True, "learning_rate": 1e-2, "seed": 0}


def rows(batch):
    return [{name: values[i] for name, values in batch.items()} for i in range(len(batch["input_ids"]))]


@pytest.fixture
def data():
    torch.manual_seed(0)
    return rows(classification(lengths=(7, 5, 3, 6, 7, 2, 4, 5), width=7))


def make_trainer(directory, data, model=None, cls=Trainer, arguments=TrainingArguments, **changes):
    torch.manual_seed(1)
    model = hf_bam.patch(bert() if model is None else model, k=2.0, kl_weight=0.5)
    settings = {**SETTINGS, "per_device_train_batch_size": 2, "max_steps": 4, "save_strategy": "no", **changes}
    return cls(model, arguments(str(directory), **settings), train_dataset=data, eval_dataset=data)


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def assert_same(one, other, **tolerance):
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], **(tolerance or {"rtol": 0, "atol": 0}))


def test_the_terms_of_the_loss_are_logged(tmp_path, data):
    trainer = make_trainer(tmp_path, data, logging_steps=2)
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(logged) == 2
    for entry in logged:
        assert entry["kl_loss"] == pytest.approx(0.5 * entry["kl"], rel=1e-5)
        assert entry["loss"] == pytest.approx(entry["task_loss"] + entry["kl_loss"], abs=2e-4)
        assert entry["kl"] > 0


def test_a_plain_model_is_logged_as_before(tmp_path, data):
    arguments = TrainingArguments(str(tmp_path), max_steps=1, logging_steps=1, save_strategy="no", **SETTINGS)
    trainer = Trainer(bert(), arguments, train_dataset=data)
    trainer.train()
    assert not {"kl", "kl_loss", "task_loss"} & set().union(*trainer.state.log_history)


def test_evaluation_and_predict_are_those_of_the_plain_model(tmp_path, data):
    trainer = make_trainer(tmp_path, data)
    metrics, predicted = trainer.evaluate(), trainer.predict(data)
    plain = Trainer(hf_bam.unpatch(trainer.model), trainer.args, eval_dataset=data)
    assert metrics["eval_loss"] == pytest.approx(plain.evaluate()["eval_loss"], abs=1e-6)
    np.testing.assert_allclose(predicted.predictions, plain.predict(data).predictions, atol=1e-6)


def test_accumulation_gives_the_gradient_of_the_whole_batch(tmp_path, data):
    """With vanishing noise the KL is not random, so one step on eight rows equals four accumulated steps on two."""
    after = []
    for size, accumulation in ((8, 1), (2, 4)):
        torch.manual_seed(1)
        model = hf_bam.patch(bert(), k=1e6, kl_weight=1e-3)
        arguments = TrainingArguments(
            str(tmp_path),
            per_device_train_batch_size=size,
            gradient_accumulation_steps=accumulation,
            max_steps=1,
            max_grad_norm=0.0,
            optim="sgd",
            lr_scheduler_type="constant",
            save_strategy="no",
            **SETTINGS,
        )
        Trainer(model, arguments, train_dataset=data).train()
        after.append(weights(model))
    assert_same(*after, rtol=1e-4, atol=1e-6)


def test_resuming_a_checkpoint_without_its_prior_raises(tmp_path, data):
    make_trainer(tmp_path, data, save_strategy="steps", save_steps=2).train()
    (tmp_path / "checkpoint-2" / "bam.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"checkpoint-2/bam.safetensors is missing"):
        make_trainer(tmp_path, data).train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))


def test_resumed_training_ends_where_uninterrupted_training_does(tmp_path, data):
    whole = make_trainer(tmp_path / "whole", data, save_strategy="steps", save_steps=2, data_seed=0)
    whole.train()
    resumed = make_trainer(tmp_path / "resumed", data, data_seed=0)
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-2"))
    assert_same(weights(resumed.model), weights(whole.model))
    assert whole.model.bam_step.item() == 4


def test_checkpoints_have_plain_weights_and_a_bam_file(tmp_path, data):
    make_trainer(tmp_path, data, save_strategy="steps", save_steps=4).train()
    assert not [name for name in load_file(tmp_path / "checkpoint-4" / "model.safetensors") if "bam" in name]
    assert load_file(tmp_path / "checkpoint-4" / "bam.safetensors")["bam_step"].item() == 4


def test_the_best_model_is_loaded_with_its_prior(tmp_path, data):
    trainer = make_trainer(
        tmp_path,
        data,
        max_steps=6,
        save_strategy="steps",
        save_steps=1,
        eval_strategy="steps",
        eval_steps=1,
        load_best_model_at_end=True,
        metric_for_best_model="eval_step",
        greater_is_better=False,
    )
    # The first evaluation is the best by definition, so the best model is not the last one.
    evaluate = trainer.evaluate
    trainer.evaluate = lambda *args, **kwargs: evaluate(*args, **kwargs) | {"eval_step": trainer.state.global_step}
    trainer.train()
    assert trainer.state.best_model_checkpoint.endswith("checkpoint-1")
    saved = load_file(tmp_path / "checkpoint-1" / "bam.safetensors")
    own = weights(trainer.model)
    assert saved.keys() == {name for name in own if "bam" in name}
    assert all(torch.equal(own[name], tensor) for name, tensor in saved.items())


def test_resuming_logs_no_missing_keys(tmp_path, data, caplog):
    make_trainer(tmp_path, data, save_strategy="steps", save_steps=2).train()
    caplog.clear()
    make_trainer(tmp_path, data).train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert not [record for record in caplog.records if "key" in record.getMessage()]


def test_label_smoothing_keeps_the_kl(tmp_path, data):
    trainer = make_trainer(tmp_path, data, label_smoothing_factor=0.1)
    trainer.create_optimizer()
    trainer.current_gradient_accumulation_steps = 1
    batch = default_data_collator(data)
    torch.manual_seed(3)
    out = trainer.model.train()(**{name: x for name, x in batch.items() if name != "labels"})
    expected = torch.nn.functional.cross_entropy(out.logits, batch["labels"], label_smoothing=0.1)
    (expected + out.kl_loss).backward()
    gradients = {name: p.grad.clone() for name, p in trainer.model.named_parameters()}
    trainer.model.zero_grad()
    torch.manual_seed(3)
    loss = trainer.training_step(trainer.model, dict(batch))
    torch.testing.assert_close(loss, expected.detach())
    for name, parameter in trainer.model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name])
    assert any(gradient.any() for name, gradient in gradients.items() if ".bam." in name)


def test_seq2seq_trainer_trains_and_generates(tmp_path):
    torch.manual_seed(0)
    data = rows(translation(lengths=(7, 5, 3, 6), width=7))
    trainer = make_trainer(
        tmp_path,
        data,
        marian(),
        Seq2SeqTrainer,
        Seq2SeqTrainingArguments,
        predict_with_generate=True,
        logging_steps=4,
    )
    before = weights(trainer.model)
    trainer.train()
    assert any(not torch.equal(before[n], t) for n, t in weights(trainer.model).items() if ".bam.prior." in n)
    logged = next(entry for entry in trainer.state.log_history if "loss" in entry)
    assert logged["loss"] == pytest.approx(logged["task_loss"] + logged["kl_loss"], abs=2e-4)
    generated = trainer.predict(data, max_new_tokens=6).predictions
    inputs = {name: values for name, values in default_data_collator(data).items() if name != "labels"}
    expected = trainer.model.generate(**inputs, max_new_tokens=6).numpy()
    assert np.array_equal(generated[:, : expected.shape[1]], expected)


def test_its_own_model_card_has_the_tags_of_the_patched_model(tmp_path, data):
    trainer = make_trainer(tmp_path, data)
    trainer.create_model_card(tags="mine")
    tags = ModelCard.load(tmp_path / "README.md").data.tags
    assert {"mine", "hf_bam", "bayesian-attention"} <= set(tags)
    model = hf_bam.unpatch(trainer.model)
    assert model.model_tags is None
    model.add_model_tags("theirs")
    hf_bam.unpatch(hf_bam.patch(model))
    assert model.model_tags == ["theirs"]
    trainer.create_model_card(tags="mine")  # of a plain model; the tags of the card that is there are kept
    assert ModelCard.load(tmp_path / "README.md").data.tags[0] == "mine"
