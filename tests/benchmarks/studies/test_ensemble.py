"""Deep ensembles from the records of plain runs."""

import numpy as np
import pytest
from sklearn.metrics import log_loss

from benchmarks.studies.ensemble import ensembles


@pytest.mark.parametrize("sets", [("evaluation", "holdout", "ood"), ("evaluation", "holdout")])
def test_an_ensemble_is_the_mean_of_its_members(sets):
    generator = np.random.default_rng(0)
    labels, members = np.arange(20) % 2, generator.dirichlet([1, 1], size=(5, 20))
    records = [
        {
            "task": "rte",
            "configuration": "plain",
            "training_seconds": 7.0,
            "methods": [{"seconds": 1.0}],
            "predictions": {name: {"probabilities": own.tolist(), "labels": labels.tolist()} for name in sets},
        }
        for own in members
    ]
    assert list(ensembles(records[1:])) == []
    (record,) = ensembles(records)
    row, scaled = record["methods"]
    mean = members.mean(axis=0)
    assert record["training_seconds"] == 35
    assert row["seconds"] == row["passes"] == 5
    assert row["score_accuracy"] == (mean.argmax(axis=-1) == labels).mean()
    assert row["nll"] == pytest.approx(log_loss(labels, mean))
    assert row.get("ood_auroc", 0.5) == pytest.approx(0.5)  # the sets are the same here
    assert ("ood_auroc" in row) == ("ood" in sets)
    assert scaled["nll"] < row["nll"]  # the temperature is fitted on the same rows here
