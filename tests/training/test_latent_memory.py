"""Latent variables of the memory in the training loop: resume bit for bit, the log, and transformers' Trainer."""

import json

import pytest
import torch
from transformers import Trainer, TrainingArguments

import hf_bam
from hf_bam.training import Recipe, train

from .cases import collate, pairs, same, translator, weights
from .test_resume import Stopped, log, stopping_at

SETTINGS = {"family": "quantized", "num_codes": 6, "commitment_steps": 5}
RECIPE = Recipe(learning_rate=5e-3, batch_size=4, max_steps=8, save_steps=3, logging_steps=2, bam=SETTINGS)


def go(folder, collator=collate, **options):
    model = hf_bam.patch(translator(), RECIPE.bam)
    train(model, pairs(), collator, RECIPE, folder, seed=3, log=lambda text: None, **options)
    return model


def test_a_resumed_run_has_the_same_codes(tmp_path):
    whole = go(tmp_path / "whole")
    with pytest.raises(Stopped):
        go(tmp_path / "parts", stopping_at(5))
    torch.rand(3)
    resumed = go(tmp_path / "parts", resume=True)
    assert same(weights(whole), weights(resumed))
    assert log(tmp_path / "whole") == log(tmp_path / "parts")
    assert any(name.endswith("bam.memory.codes") for name in weights(whole))


def test_the_log_has_perplexity_and_commitment(tmp_path):
    go(tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert all(1 <= line["perplexity"] <= 6 and line["commitment"] > 0 for line in lines)


def test_trainer_logs_saves_and_resumes(tmp_path):
    def go(**options):
        model = hf_bam.patch(translator(), **SETTINGS)
        sizes = {"per_device_train_batch_size": 4, "max_steps": 4, "save_steps": 2, "logging_steps": 1}
        arguments = TrainingArguments(str(tmp_path), report_to=[], use_cpu=True, disable_tqdm=True, **sizes)
        arguments.remove_unused_columns = False
        trainer = Trainer(model, arguments, train_dataset=pairs(), data_collator=collate)
        trainer.train(**options)
        return model, trainer

    model, trainer = go()
    assert all("perplexity" in line for line in trainer.state.log_history if "loss" in line)
    resumed, _ = go(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    memory, other = (own.get_decoder().bam.memory for own in (model, resumed))
    torch.testing.assert_close(memory.codes, other.codes)
    assert memory.updates.item() == other.updates.item() == 4
