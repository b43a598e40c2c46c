"""One run of the study, with a tiny model."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from scipy.stats import entropy
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.studies import worker
from benchmarks.studies.grid import PlannedRun, settings
from benchmarks.studies.methods import RATES

KINDS = {"plain": ["plain", "MC dropout"], "BAM k=2": ["mean", "samples"]}
EXTRAS = {"plain": ["noise untrained", "token noise untrained"], "BAM k=2": ["samples and dropout"]}


def run(grid, data_dir, folder, configuration, seed):
    worker.main(folder, settings(grid, PlannedRun("custom", configuration, seed), data_dir))
    return json.loads((folder / "record.json").read_text())


def names(kinds):
    return [*kinds, *(f"{kind} + temperature" for kind in kinds)]


@pytest.mark.parametrize("configuration", KINDS)
def test_a_run_evaluates_every_method(grid, data_folder, tmp_path, configuration):
    grid["tasks"]["custom"]["ood"] = {"reader": "sets", "names": ["validation"], "rows": 4}
    record = run(grid, data_folder.parent, tmp_path, configuration, seed=0)
    kinds = KINDS[configuration] + EXTRAS[configuration]
    assert [row["method"] for row in record["methods"]] == names(kinds)
    assert record["rows"] == 10  # of 14, 4 of which are out-of-distribution
    for name, held_out in record["held_out"].items():
        assert held_out["nll + temperature"] <= held_out["nll"]
        (row,) = (row for row in record["methods"] if row["method"] == name)
        assert row["passes"] == (1 if name in ("plain", "mean") else 3)
        assert row["accuracy"] == row["score_accuracy"]
    for name, selection in record["selection"].items():
        losses = selection["losses"]
        assert losses[str(selection["level"])] == min(losses.values()) == record["held_out"][name]["nll"]
    assert set(record["selection"]) == ({*kinds} - {"plain"} if configuration == "plain" else set())
    assert ("objective" in record) == (configuration != "plain")
    if configuration == "plain":
        predictions, first = record["predictions"]["evaluation"], record["methods"][0]
        assert first["nll"] == pytest.approx(log_loss(predictions["labels"], predictions["probabilities"]), abs=1e-4)
        correct = np.argmax(predictions["probabilities"], axis=-1) == predictions["labels"]
        assert first["accuracy"] == correct.mean()
        assert len(record["predictions"]["holdout"]["labels"]) == 12
        entropies = [entropy(record["predictions"][name]["probabilities"], axis=-1) for name in ("evaluation", "ood")]
        expected = roc_auc_score([0] * 10 + [1] * 4, np.concatenate(entropies))
        assert first["ood_auroc"] == pytest.approx(expected)


@pytest.mark.parametrize("configuration", KINDS)
def test_extra_methods_are_evaluated_with_the_first_seed_only(grid, data_folder, tmp_path, configuration):
    record = run(grid, data_folder.parent, tmp_path, configuration, seed=1)
    assert [row["method"] for row in record["methods"]] == names(KINDS[configuration])
    assert "objective" not in record


def test_a_pilot_run_has_no_measures_of_the_evaluation_sets(grid, data_folder, tmp_path):
    grid["configurations"]["BAM k=2"]["pilot"] = True
    record = run(grid, data_folder.parent, tmp_path, "BAM k=2", seed=0)
    assert list(record["scores"]) == ["holdout"]
    assert not {"methods", "objective"} & record.keys()
    assert set(record["held_out"]) == {"mean", "samples", "samples and dropout"}


def test_a_run_may_start_from_the_model_of_another_configuration(grid, data_folder, tmp_path):
    start = tmp_path / "custom" / "plain" / "seed-1"
    grid["configurations"]["BAM k=2"] |= {"start": "plain", "pilot": True, "learning_rate": 1e-30}
    folder = tmp_path / "custom" / "BAM-k=2" / "seed-1"
    with pytest.raises(ValueError, match=r"needs the model of 'plain', whose run comes first"):
        run(grid, data_folder.parent, folder, "BAM k=2", seed=1)
    grid["configurations"]["plain"]["pilot"] = True
    run(grid, data_folder.parent, start, "plain", seed=1)
    run(grid, data_folder.parent, folder, "BAM k=2", seed=1)
    first, second = (load_file(path / "model" / "model.safetensors") for path in (start, folder))
    for name, weight in first.items():
        torch.testing.assert_close(second[name], weight, rtol=0, atol=1e-20)


@pytest.mark.parametrize("configuration", KINDS)
def test_held_out_rows_select_the_dropout_rate_of_a_regression(grid, tmp_path, configuration):
    generator = np.random.default_rng(0)
    for name, number in {"train": 44, "validation": 14}.items():
        rows = {"text": generator.choice(["good film", "bad film"], number), "label": generator.normal(size=number)}
        pd.DataFrame(rows).to_csv(tmp_path / f"{name}.csv", index=False)
    grid["tasks"]["custom"] |= {"data": tmp_path.name}
    grid["tasks"]["custom"]["options"]["regression"] = True
    record = run(grid, tmp_path.parent, tmp_path / "out", configuration, seed=1)
    single, sampled = record["methods"]
    assert (single["passes"], sampled["passes"]) == (1, 3)
    if configuration == "plain":
        selection = record["selection"]["MC dropout"]
        losses = selection["losses"]
        assert losses.keys() == {str(rate) for rate in RATES}
        assert selection["level"] == float(min(losses, key=losses.get))
        assert len({*losses.values()}) == len(losses)
    else:
        assert record["selection"] == {}
