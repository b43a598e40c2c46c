"""Teacher forcing: the tokens of reference translations."""

import json

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from benchmarks.studies import worker
from benchmarks.studies.methods import Trained
from benchmarks.studies.tokens import token_measures, token_probabilities, with_temperature
from hf_bam.prediction import Dropout, Plain
from hf_bam.tasks.translation import Translation
from hf_bam.training.settings import resolve

SIZES = {"vocabulary": 120, "width": 16, "heads": 2, "layers": 1, "max_target_length": 12}
LANGUAGES = {"dataset": "language", "source": "en", "target": "qaa"}
SETTINGS = {
    "task_name": "translation",
    "recipe": "fast",
    "model_name_or_path": "scratch",
    "options": LANGUAGES | SIZES,
    "max_length": 64,
}
SHORT = {"max_steps": 3, "batch_size": 4, "limit": 12, "num_samples": 3, "uncertainty_rows": 5}
SHARPNESS = 5.0


@pytest.fixture(scope="module")
def trained():
    """A model that has learned a little, and whose logits are too large."""
    task = Translation(**LANGUAGES, **SIZES)
    data = task.load(None)
    torch.manual_seed(0)
    model, tokenizer = task.build("scratch", data)
    optimizer, rows = torch.optim.Adam(model.parameters(), lr=0.01), data.train.select(range(256))
    features, collate = list(task.encode(rows, tokenizer, 64)), task.collator(tokenizer, model)
    for start in 2 * list(range(0, len(features), 16)):
        model.train()(**collate(features[start : start + 16])).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.lm_head = torch.nn.Linear(16, len(tokenizer), bias=False)
    model.lm_head.weight.data = SHARPNESS * model.model.shared.weight.data
    return Trained(resolve(SETTINGS), task, model.eval(), tokenizer)


@pytest.fixture(scope="module")
def rows(trained):
    return trained.task.load(None).evaluation["test"].select(range(80))


def as_batch(trained, rows):
    features = list(trained.task.encode(rows, trained.tokenizer, 64))
    return trained.task.collator(trained.tokenizer, trained.model)(features)


@pytest.mark.parametrize(("attention", "kinds"), [("plain", ["plain", "MC dropout"]), ("bam", ["mean", "samples"])])
def test_a_run_evaluates_texts_and_references(tmp_path, attention, kinds):
    ood = {"reader": "sets", "names": ["dev"], "rows": 5}
    evaluation = {"evaluation_set": "test", "ood": ood, "teacher_forcing": True}
    worker.main(tmp_path, {**SETTINGS, **SHORT, **evaluation, "attention": attention, "seed": 0})
    record = json.loads((tmp_path / "record.json").read_text())
    rows = record["methods"]
    assert [row["method"] for row in rows] == [name for kind in kinds for name in (kind, f"{kind} + temperature")]
    single, _, sampled, _ = rows
    assert (single["passes"], sampled["passes"]) == (1, 3)
    for row in rows[::2]:
        assert {"bleu", "aurc", "ood_auroc"} <= row.keys()
    if attention == "plain":
        selection = record["selection"]["MC dropout"]
        assert selection["losses"][str(selection["level"])] == min(selection["losses"].values())
        assert len({*selection["losses"].values()}) == 3
    else:
        assert record["selection"] == {}


def test_the_likelihood_of_references_is_the_loss_of_the_model(trained, rows):
    tokens, probabilities = token_probabilities(trained, Plain(trained.model), rows, num_samples=3)
    batch = as_batch(trained, rows)
    with torch.no_grad():
        loss = trained.model(**batch).loss  # the mean over all non-padding tokens
    assert len(tokens) == (batch["labels"] != -100).sum()
    assert token_measures(tokens, probabilities)["token_nll"] == pytest.approx(float(loss), rel=1e-4)


def test_probabilities_are_averaged_over_samples(trained, rows):
    """The reference are forward passes with the same dropout; means over many samples are close to each other."""
    model, rows = trained.model, rows.select(range(8))
    tokens, probabilities = token_probabilities(trained, Dropout(model, rate=0.1), rows, num_samples=200)
    batch = as_batch(trained, rows)
    labels = batch.pop("labels")
    model.train()
    torch.manual_seed(1)
    with torch.no_grad():
        mean = torch.stack([model(**batch).logits.softmax(dim=-1) for _ in range(200)]).mean(dim=0)
        single = model.eval()(**batch).logits
    mask = labels != -100
    found = token_measures(tokens, probabilities)["token_nll"]
    expected = -mean[mask].gather(-1, labels[mask][:, None]).log().mean()
    single = cross_entropy(single[mask], labels[mask])
    assert found == pytest.approx(float(expected), rel=0.02)
    assert abs(found - float(single)) > 0.1 * float(single)


def test_a_temperature_corrects_logits_that_are_too_large(trained, rows):
    """It is fitted on other rows than those that are evaluated."""
    sampler = Plain(trained.model)
    held_out, evaluated = (
        token_probabilities(trained, sampler, rows.select(part)) for part in (range(40), range(40, 80))
    )
    before, after = token_measures(*evaluated), with_temperature(held_out, evaluated)
    batch = as_batch(trained, rows.select(range(40, 80)))
    with torch.no_grad():
        learned = cross_entropy(trained.model(**batch).logits.flatten(0, 1) / SHARPNESS, batch["labels"].flatten())
    assert after["token_nll"] < 1.01 * float(learned) < before["token_nll"] / 1.5
    assert after["token_ece"] < before["token_ece"]
    assert after["token_accuracy"] == before["token_accuracy"]
    assert np.isfinite(list(after.values())).all()
