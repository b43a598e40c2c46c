"""Ensemble out of one run: its members, their average, and files of whole runs."""

import json

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoTokenizer, BertForSequenceClassification

import hf_bam
from hf_bam.cli import main
from hf_bam.prediction import Ensemble, Predictor
from hf_bam.training import BestModelTracker, Loop, Recipe, train
from hf_bam.training.members import Members

from .cases import classifier, collate, examples, same, weights
from .test_loop import RECIPE, Scores, log
from .test_resume import Stopped, stopping_at

ENSEMBLE = RECIPE.replace(
    max_steps=12, ensemble_checkpoints=3, ensemble_tail=0.5, eval_steps=1, save_steps=4, logging_steps=1
)


def folders(path):
    return sorted(path.glob("ensemble/*"))


@pytest.mark.parametrize(
    ("total", "number", "tail", "steps"),
    [(20, 5, 0.25, (16, 17, 18, 19, 20)), (100, 3, 0.2, (88, 94, 100)), (10, 1, 0.3, (10,)), (7, 7, 1.0, range(1, 8))],
)
def test_members_are_evenly_spaced_over_the_tail(total, number, tail, steps, tmp_path):
    recipe = Recipe(ensemble_checkpoints=number, ensemble_tail=tail)
    assert Members.plan(recipe, total, None, tmp_path).steps == tuple(steps)


@pytest.mark.parametrize("plain", [False, True], ids=["patched", "plain"])
def test_members_are_the_models_of_their_steps(plain, tmp_path):
    model, scores = classifier(plain), Scores([float(step == 7) for step in range(1, 13)])  # the best is no member
    loop = Loop(model, examples(), collate, ENSEMBLE, tmp_path, best_model=BestModelTracker(scores, "score"))
    loop.run()
    assert [path.name for path in folders(tmp_path)] == ["step-00000008", "step-00000010", "step-00000012"]
    members = loop.members.load(model)
    for member, step in zip(members, (8, 10, 12), strict=True):
        assert same(weights(member), scores.weights[step - 1])
        assert not member.training
        assert hf_bam.is_patched(member) == (not plain)
    assert same(weights(model), scores.weights[6])
    rates = [line["learning_rate"] for line in log(tmp_path) if "learning_rate" in line]
    assert rates[-6:] == [RECIPE.learning_rate * 6 / 10] * 6
    assert rates[2:6] == pytest.approx([RECIPE.learning_rate * share / 10 for share in (10, 9, 8, 7)])


def test_the_average_of_the_weights(tmp_path):
    model, scores = classifier(), Scores([1.0] * 12)
    recipe = ENSEMBLE.replace(average_checkpoints=True)
    train(model, examples(), collate, recipe, tmp_path, best_model=BestModelTracker(scores, "score"))
    for name, tensor in weights(model).items():
        members = torch.stack([scores.weights[step - 1][name] for step in (8, 10, 12)])
        if tensor.is_floating_point():
            torch.testing.assert_close(tensor, members.double().mean(0).float(), rtol=0, atol=0)
    assert model.bam_step.item() == 12
    assert not model.training


@pytest.mark.parametrize("batch", [9, 11], ids=["at a member", "after a member"])
def test_a_resumed_run_has_the_same_members(batch, tmp_path):
    recipe = ENSEMBLE.replace(average_checkpoints=True, save_steps=5)
    models = []
    for name, collator, resume in (
        ("whole", collate, False),
        ("cut", stopping_at(batch), False),
        ("cut", collate, True),
    ):
        models.append(classifier())
        try:
            train(models[-1], examples(), collator, recipe, tmp_path / name, resume=resume)
        except Stopped:
            assert name == "cut"
    assert same(weights(models[0]), weights(models[2]))
    whole, cut = folders(tmp_path / "whole"), folders(tmp_path / "cut")
    assert len(whole) == 3
    for one, other in zip(whole, cut, strict=True):
        for file in ("model.safetensors", "bam.safetensors"):
            assert same(load_file(one / file), load_file(other / file))


def test_members_of_an_earlier_run_are_removed(tmp_path):
    train(classifier(), examples(), collate, ENSEMBLE, tmp_path)
    train(classifier(), examples(), collate, ENSEMBLE.replace(max_steps=6), tmp_path)
    assert [path.name for path in folders(tmp_path)] == ["step-00000004", "step-00000005", "step-00000006"]


def test_without_the_option_nothing_is_written(tmp_path):
    train(classifier(), examples(), collate, RECIPE, tmp_path)
    assert not (tmp_path / "ensemble").exists()


def test_what_cannot_be_combined_raises(tmp_path):
    with pytest.raises(
        ValueError, match=r"ensemble_checkpoints=3 and ensemble_tail=0.25 cannot be combined: the tail has 2"
    ):
        train(classifier(), examples(), collate, ENSEMBLE.replace(ensemble_tail=0.25, max_steps=8), tmp_path)
    adapted = get_peft_model(classifier(True), LoraConfig(target_modules=["query"]))
    with pytest.raises(ValueError, match="ensemble_checkpoints=3 and lora=True cannot be combined"):
        train(adapted, examples(), collate, ENSEMBLE, tmp_path)


@pytest.fixture(scope="module")
def finished(custom, tmp_path_factory):
    """A whole run with all options."""
    folder = tmp_path_factory.mktemp("ensemble")
    options = [
        "--recipe",
        "fast",
        "--lr",
        "1e-2",
        "--batch_size",
        "8",
        "--epochs",
        "4",
        "--samples",
        "3",
        "--no_report",
    ]
    options += ["--ensemble_checkpoints", "3", "--ensemble_tail", "0.5", "--average_checkpoints"]
    options += ["--consistency", "1", "--num_train_samples", "2"]
    assert main(["custom", *custom, *options, "--output", str(folder)]) == 0
    return folder, [*custom, *options]


def test_a_whole_run(finished, capsys):
    folder, options = finished
    found = json.loads((folder / "results.json").read_text())
    assert found["members"] == [16, 20, 24]
    methods = [row["method"] for row in found["uncertainty"]["validation"]]
    assert methods[:3] == ["mean attention", "BAM, 3 samples", "ensemble of 3 checkpoints"]
    assert found["scores"]["validation"]["accuracy"] > 0.9
    assert main(["custom", *options, "--output", str(folder), "--resume"]) == 0
    assert "is already finished" in capsys.readouterr().out


def test_predictors_load_the_members(finished):
    folder, _ = finished
    paths = folders(folder)
    tokenizer = AutoTokenizer.from_pretrained(paths[0])
    members = [hf_bam.from_pretrained(path) for path in paths]
    (result,) = Predictor(Ensemble(members), tokenizer, num_samples=8)(["good film"])
    with torch.no_grad():
        batch = tokenizer(["good film"], return_tensors="pt")
        probabilities = torch.stack([member(**batch).logits.softmax(-1)[0] for member in members])
    assert result.samples.shape == (3, 2)
    torch.testing.assert_close(torch.tensor(result.samples).float(), probabilities)
    plain = BertForSequenceClassification.from_pretrained(paths[-1])
    torch.testing.assert_close(plain.eval()(**batch).logits.softmax(-1)[0], probabilities[-1])


def test_a_new_run_removes_the_members(finished, tmp_path, custom):
    options = [
        "--recipe",
        "fast",
        "--batch_size",
        "8",
        "--max_steps",
        "4",
        "--samples",
        "0",
        "--output",
        str(tmp_path),
    ]
    assert main(["custom", *custom, *options, "--ensemble_checkpoints", "1"]) == 0
    assert len(folders(tmp_path)) == 1
    assert main(["custom", *custom, *options, "--overwrite_output_dir"]) == 0
    assert not folders(tmp_path)
