"""A cell of the study that translates: what its methods say of their own texts and of the references."""

import json

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from hf_bam.prediction import Dropout, Plain
from hf_bam.tasks.translation import Translation

SIZES = {"vocabulary": 120, "width": 16, "heads": 2, "layers": 1, "max_target_length": 12}
LANGUAGES = {"dataset": "language", "source": "en", "target": "qaa"}
SURE = 5.0
SHORT = {"max_steps": 3, "batch_size": 4, "limit": 12, "num_samples": 3, "uncertainty_rows": 5}


@pytest.fixture(scope="module")
def translator():
    """A task, its rows, and a model that has learned a little and is too sure of it."""
    task = Translation(**LANGUAGES, **SIZES)
    data = task.load(None)
    torch.manual_seed(0)
    model, tokenizer = task.build("scratch", data)
    optimizer, rows = torch.optim.Adam(model.parameters(), lr=0.01), data.train.select(range(256))
    features, collate = list(task.encode(rows, tokenizer, 64, training=True)), task.collator(tokenizer, model)
    for start in 2 * list(range(0, len(features), 16)):
        model.train()(**collate(features[start : start + 16])).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.lm_head = torch.nn.Linear(16, len(tokenizer), bias=False)
    model.lm_head.weight.data = SURE * model.model.shared.weight.data
    return task, model.eval(), tokenizer, data.evaluation["test"].select(range(80))


def as_batch(task, model, tokenizer, rows):
    return task.collator(tokenizer, model)(list(task.encode(rows, tokenizer, 64, training=True)))


@pytest.mark.parametrize(("training", "kinds"), [("plain", ["plain", "MC dropout"]), ("bam", ["mean", "draws"])])
def test_a_cell_measures_texts_and_references(benchmarks, tmp_path, training, kinds):
    spec = {
        "task_name": "translation",
        "recipe": "fast",
        "model_name_or_path": "scratch",
        "options": LANGUAGES | SIZES,
        **SHORT,
    }
    others = {"attention": training, "seed": 0, "own": "test", "strange": ["translation", "dev"]}
    benchmarks("cell").main(tmp_path, spec | others)
    rows = json.loads((tmp_path / "record.json").read_text())["methods"]
    assert [row["method"] for row in rows] == [name for kind in kinds for name in (kind, f"{kind} + temperature")]
    one, _, drawn, _ = rows
    assert (one["draws"], drawn["draws"]) == (1, 3)
    for row in rows[::2]:
        assert {"bleu", "aurc", "ood_auroc"} <= row.keys()
    losses = {name: value for name, value in drawn.items() if name.startswith("held-out loss")}
    if training == "plain":
        assert losses[f"held-out loss, {drawn['strength']}"] == min(losses.values())
        assert len({*losses.values()}) == len(losses) == 3
    else:
        assert not losses


def test_the_likelihood_of_references_is_that_of_the_library(benchmarks, translator):
    task, model, tokenizer, rows = translator
    tokens = benchmarks("tokens")
    truth, probabilities = tokens.foreseen(task, Plain(model), tokenizer, rows, 64, draws=3, seed=0)
    batch = as_batch(*translator)
    with torch.no_grad():
        loss = model(**batch).loss  # the mean over all tokens but for padding
    found = tokens.foresight(truth, probabilities)
    assert len(truth) == (batch["labels"] != -100).sum()
    assert found["token_nll"] == pytest.approx(float(loss), rel=1e-4)


def test_draws_of_references_are_averaged(benchmarks, translator):
    """Against passes of the library itself, with as much dropout; the average of many draws is close to another's."""
    task, model, tokenizer, rows = translator
    rows = rows.select(range(8))
    truth, probabilities = benchmarks("tokens").foreseen(
        task, Dropout(model, rate=0.1), tokenizer, rows, 64, draws=200, seed=0
    )
    batch = as_batch(task, model, tokenizer, rows)
    labels = batch.pop("labels")
    model.train()
    torch.manual_seed(1)
    with torch.no_grad():
        mean = torch.stack([model(**batch).logits.softmax(dim=-1) for _ in range(200)]).mean(dim=0)
        once = model.eval()(**batch).logits
    real = labels != -100
    found = benchmarks("tokens").foresight(truth, probabilities)["token_nll"]
    expected = -mean[real].gather(-1, labels[real][:, None]).log().mean()
    single = cross_entropy(once[real], labels[real])
    assert found == pytest.approx(float(expected), rel=0.02)
    assert abs(found - float(single)) > 0.1 * float(single)


def test_a_temperature_takes_back_what_was_said_too_surely(benchmarks, translator):
    """It is chosen on other rows than those it is measured on."""
    task, model, tokenizer, rows = translator
    tokens = benchmarks("tokens")
    known, found = (
        tokens.foreseen(task, Plain(model), tokenizer, rows.select(part), 64, draws=1, seed=0)
        for part in (range(40), range(40, 80))
    )
    before, after = tokens.foresight(*found), tokens.scaled(known, found)
    batch = as_batch(task, model, tokenizer, rows.select(range(40, 80)))
    with torch.no_grad():
        learned = cross_entropy(model(**batch).logits.flatten(0, 1) / SURE, batch["labels"].flatten())
    assert after["token_nll"] < 1.01 * float(learned) < before["token_nll"] / 1.5
    assert after["token_ece"] < before["token_ece"]
    assert after["token_accuracy"] == before["token_accuracy"]
    assert np.isfinite(list(after.values())).all()
