"""Latent alignments with Trainer, saved models, PEFT and the predictor."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForSeq2SeqLM, Seq2SeqTrainer, Seq2SeqTrainingArguments

import hf_bam

from ..models import marian, translation
from .cases import assert_same_model

pytestmark = pytest.mark.usefixtures("trained_posteriors")

SETTINGS = {"family": "categorical", "objective": "variational", "d_inference": 8, "test_time": "expectation"}
TRAINER = {"report_to": [], "disable_tqdm": True, "use_cpu": True, "learning_rate": 1e-2, "seed": 0}


@pytest.fixture
def model():
    return hf_bam.patch(marian(), **SETTINGS).eval()


def rows():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        batch = translation((7, 5, 3, 6, 7, 4), 7)
    return [{name: values[i] for name, values in batch.items()} for i in range(6)]


def make_trainer(model, folder, **changes):
    options = {**TRAINER, "max_steps": 4, "per_device_train_batch_size": 2, "save_strategy": "no", **changes}
    data = rows()
    return Seq2SeqTrainer(
        model, Seq2SeqTrainingArguments(str(folder), **options), train_dataset=data, eval_dataset=data
    )


def test_trainer_trains_the_bound_and_logs_its_terms(model, tmp_path):
    trainer = make_trainer(model, tmp_path, logging_steps=2, predict_with_generate=True, generation_max_length=8)
    before = {name: p.clone() for name, p in model.named_parameters()}
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    for entry in logged:
        assert entry["loss"] == pytest.approx(entry["task_loss"] + entry["kl"], abs=2e-4)
    changed = [name for name, p in model.named_parameters() if ".bam." in name and not torch.equal(p, before[name])]
    assert any("bilinear" in name for name in changed)
    assert any("lstm" in name for name in changed)
    predicted = trainer.predict(rows())
    assert predicted.metrics["test_loss"] > 0
    assert len(predicted.predictions) == 6


def test_accumulation_gives_the_mean_of_the_micro_batches(tmp_path):
    """As with the plain model: every micro-batch is a mean over its tokens."""
    weights = []
    for size, steps in ((2, 1), (1, 2)):
        torch.manual_seed(1)
        own = hf_bam.patch(marian(), **SETTINGS)
        data = rows()[:1] * 2
        options = {
            **TRAINER,
            "max_steps": 1,
            "per_device_train_batch_size": size,
            "gradient_accumulation_steps": steps,
        }
        arguments = Seq2SeqTrainingArguments(
            str(tmp_path), **options, save_strategy="no", optim="sgd", max_grad_norm=0
        )
        Seq2SeqTrainer(own, arguments, train_dataset=data).train()
        weights.append(own.state_dict())
    for name, tensor in weights[0].items():
        torch.testing.assert_close(weights[1][name], tensor, rtol=1e-4, atol=1e-6)


def test_a_smoothed_loss_is_that_of_the_marginal_likelihood(tmp_path):
    model = hf_bam.patch(marian(), family="categorical")
    batch = translation()
    smoothed = make_trainer(model, tmp_path, label_smoothing_factor=0.1)
    inputs = batch | {"decoder_input_ids": model.prepare_decoder_input_ids_from_labels(batch["labels"])}
    loss = smoothed.compute_loss(model.train(), inputs)
    loss.backward()
    assert loss.requires_grad


def plain(path):
    model = AutoModelForSeq2SeqLM.from_pretrained(path)
    assert not hf_bam.is_patched(model)
    return model


LOADERS = {"all": hf_bam.from_pretrained, "bam": lambda path: hf_bam.load(plain(path), path)}


@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
def test_a_saved_model_comes_back_with_its_network(model, tmp_path, load):
    model.save_pretrained(tmp_path)
    again = load(tmp_path).eval()
    batch = translation()
    assert_same_model(model, again, batch)
    labels = batch["labels"]
    assert torch.equal(hf_bam.alignments(model, batch, labels).q, hf_bam.alignments(again, batch, labels).q)


def test_resuming_from_a_checkpoint(tmp_path):
    weights = []
    for folder in ("whole", "parts"):
        torch.manual_seed(1)
        own = hf_bam.patch(marian(), **SETTINGS)
        options = {"save_strategy": "steps", "save_steps": 2, "lr_scheduler_type": "constant"}
        trainer = make_trainer(own, tmp_path / folder, **options)
        if folder == "parts":
            make_trainer(own, tmp_path / folder, **options, max_steps=2).train()
            torch.manual_seed(5)
            trainer = make_trainer(hf_bam.patch(marian(), **SETTINGS), tmp_path / folder, **options)
        trainer.train(resume_from_checkpoint=folder == "parts")
        weights.append(trainer.model.state_dict())
    assert weights[0]["bam_step"] == 4
    assert [name for name in weights[0] if "bilinear" in name]
    for name, tensor in weights[0].items():
        torch.testing.assert_close(weights[1][name], tensor)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.slow
@pytest.mark.parametrize("settings", [SETTINGS, {"family": "categorical", "test_time": "expectation"}], ids=str)
def test_a_compiled_model_gives_the_same_numbers(settings):
    model, batch = hf_bam.patch(marian(), **settings).train(), translation()
    compiled = torch.compile(model, backend="eager")
    torch.testing.assert_close(compiled(**batch).loss, model(**batch).loss)
    model.eval()
    torch.testing.assert_close(compiled(**batch).logits, model(**batch).logits)


def test_adapters(tmp_path):
    lora = LoraConfig(target_modules=["q_proj", "out_proj"], modules_to_save=["inference"])
    model = get_peft_model(hf_bam.patch(marian(), **SETTINGS), lora).train()
    batch = translation()
    model(**batch).loss.backward()
    trained = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.any()}
    assert any("inference" in name for name in trained)
    assert any("encoder_attn.out_proj.lora_B" in name for name in trained)
    q = hf_bam.alignments(model, batch, batch["labels"]).q
    assert q.shape == (3, 6, 7)


def test_a_frozen_network_is_an_error():
    model = get_peft_model(hf_bam.patch(marian(), **SETTINGS), LoraConfig(target_modules=["q_proj"])).train()
    with pytest.raises(ValueError, match=r"modules_to_save=\['inference'"):
        model(**translation())
