"""Several methods on one labelled set."""

import math

import numpy as np
import pytest
from scipy.stats import entropy
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

import hf_bam
from hf_bam.evaluation.comparison import compare
from hf_bam.evaluation.metrics import pavpu
from hf_bam.prediction import BamPredictor, Dropout, Ensemble, Plain, Predictor

from ..models import bert

TEXTS = [f"sentence number {i} of {i % 7} words" for i in range(40)]
LABELS = [i % 3 for i in range(40)]


@pytest.fixture
def predictors(tokenizer):
    model = hf_bam.patch(bert(vocab_size=len(tokenizer), initializer_range=0.3), k=1.0)
    return {
        "plain": Predictor(Plain(model), tokenizer),
        "temperature": Predictor(Plain(model), tokenizer).calibrated(TEXTS, LABELS),
        "dropout": Predictor(Dropout(model, rate=0.1), tokenizer, num_samples=8),
        "ensemble": Predictor(Ensemble([model, bert(vocab_size=len(tokenizer))]), tokenizer),
        "BAM": BamPredictor(model, tokenizer, num_samples=8),
        "BAM, adaptive": BamPredictor(model, tokenizer, num_samples=32, adaptive=True),
    }


def test_one_row_for_each_method_with_the_same_measures(predictors):
    result = compare(predictors, TEXTS, LABELS, ood=["something else", "so it goes", "and on and on"])
    assert [row["method"] for row in result.table] == list(predictors)
    for row in result.table:
        mean = result.outcomes[row["method"]].samples.mean(0)
        assert row["accuracy"] == pytest.approx(accuracy_score(LABELS, mean.argmax(-1)))
        assert row["nll"] == pytest.approx(log_loss(LABELS, mean))
        strange = result.ood[row["method"]].samples.mean(0)
        doubt = entropy(np.concatenate([mean, strange]), axis=-1)
        assert row["ood_auroc"] == pytest.approx(roc_auc_score([0] * len(mean) + [1] * len(strange), doubt))
        assert math.isnan(row["pavpu"]) == (row["method"] in ("plain", "temperature"))
        assert row["seconds"] > 0
    assert result.table[4]["pavpu"] == pytest.approx(pavpu(LABELS, result.outcomes["BAM"].samples))
    rows = {row["method"]: row for row in result.table}
    assert rows["temperature"]["nll"] < rows["plain"]["nll"]
    assert rows["plain"]["epistemic"] == 0 < rows["BAM"]["epistemic"]
    assert rows["BAM, adaptive"]["draws"] < 32
    assert result.outcomes["BAM"].samples.shape == (8, 40, 3)
    assert set(result.ood) == set(predictors)


def test_the_table_can_be_printed(predictors):
    lines = str(compare({"plain": predictors["plain"], "BAM": predictors["BAM"]}, TEXTS, LABELS)).splitlines()
    assert lines[0].split()[:3] == ["method", "accuracy", "nll"]
    assert len({len(line) for line in lines}) == 1
    assert lines[1].startswith("plain ")
    assert " - " in lines[1]  # no PAvPU for a single draw


def test_labels_by_name_and_wrong_labels(predictors):
    plain = {"plain": predictors["plain"]}
    by_name = compare(plain, TEXTS, [f"LABEL_{label}" for label in LABELS])
    assert np.array_equal(by_name.labels, LABELS)
    for wrong in ("positive", 3, -1, 0.5, True):
        with pytest.raises(ValueError, match=r"labels\[1\] is .*LABEL_0"):
            compare(plain, TEXTS, [0, wrong, *LABELS[2:]])
    with pytest.raises(ValueError, match="39 labels for 40 inputs"):
        compare(plain, TEXTS, LABELS[1:])
    with pytest.raises(ValueError, match="nothing to compare"):
        compare({}, TEXTS, LABELS)


def test_pairs_are_shown_as_texts(predictors):
    pairs = [(text, "and more") for text in TEXTS]
    assert compare({"plain": predictors["plain"]}, pairs, LABELS).texts[0] == f"{TEXTS[0]} / and more"
