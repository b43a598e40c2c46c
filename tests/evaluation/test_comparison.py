"""Comparison of several methods on one labelled set, against scikit-learn and scipy."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import entropy, ttest_ind
from sklearn.metrics import accuracy_score, average_precision_score, brier_score_loss, log_loss, roc_auc_score
from torchmetrics.functional.classification import multiclass_calibration_error

import hf_bam
from hf_bam.evaluation.comparison import Predicted, compare
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


def pavpu_by_scipy(labels, samples):
    """Return the share of inputs that are correct exactly if they are significant at 0.05."""
    first, second = np.take_along_axis(samples, samples.mean(0).argsort(-1)[None, :, :-3:-1], -1).transpose(2, 0, 1)
    return np.mean((samples.mean(0).argmax(-1) == labels) == (ttest_ind(first, second).pvalue < 0.05))


def test_one_row_for_each_method_with_the_same_measures(predictors):
    result = compare(predictors, TEXTS, LABELS, ood=["something else", "so it goes", "and on and on"])
    assert [row["method"] for row in result.table] == list(predictors)
    for row in result.table:
        mean = result.outcomes[row["method"]].samples.mean(0)
        assert row["accuracy"] == pytest.approx(accuracy_score(LABELS, mean.argmax(-1)))
        assert row["nll"] == pytest.approx(log_loss(LABELS, mean))
        assert row["brier"] == pytest.approx(brier_score_loss(LABELS, mean, scale_by_half=False))
        expected = multiclass_calibration_error(torch.tensor(mean), torch.tensor(LABELS), num_classes=3, n_bins=15)
        assert row["ece"] == pytest.approx(expected.item(), abs=1e-6)
        errors = mean.argmax(-1) != LABELS
        assert row["error_auroc"] == pytest.approx(roc_auc_score(errors, entropy(mean, axis=-1)))
        assert row["error_aupr"] == pytest.approx(average_precision_score(errors, entropy(mean, axis=-1)))
        ood = result.ood[row["method"]].samples.mean(0)
        uncertainty = entropy(np.concatenate([mean, ood]), axis=-1)
        assert row["ood_auroc"] == pytest.approx(roc_auc_score([0] * len(mean) + [1] * len(ood), uncertainty))
        assert math.isnan(row["pavpu"]) == (row["method"] in ("plain", "temperature"))
        assert row["seconds"] > 0
    rows = {row["method"]: row for row in result.table}
    assert rows["temperature"]["nll"] < rows["plain"]["nll"]
    assert rows["BAM"]["pavpu"] == pytest.approx(pavpu_by_scipy(LABELS, result.outcomes["BAM"].samples))
    assert rows["plain"]["epistemic"] == 0 < rows["BAM"]["epistemic"]
    assert rows["BAM, adaptive"]["samples"] < 32
    assert result.outcomes["BAM"].samples.shape == (8, 40, 3)
    assert set(result.ood) == set(predictors)


def test_given_results_are_measured_without_another_prediction(predictors):
    """Every second input, with half of the time; out-of-distribution inputs are predicted by their predictor."""
    plain, ood = predictors["plain"], ["something else", "so it goes"]
    given = Predicted(plain, plain(TEXTS), seconds=8.0).select(range(0, 40, 2))
    calls = []
    plain.sampler.model.register_forward_hook(lambda module, args, output: calls.append(len(output.logits)))
    result = compare({"plain": given}, TEXTS[::2], LABELS[::2], ood=ood)
    assert calls == [2]
    assert result.table[0]["seconds"] == 4.0
    again = compare({"plain": plain}, TEXTS[::2], LABELS[::2], ood=ood)
    for name, value in again.table[0].items():
        if name not in ("method", "seconds"):
            assert result.table[0][name] == pytest.approx(value, abs=1e-6, nan_ok=True), name
    with pytest.raises(ValueError, match="There are 20 results for 40 inputs"):
        compare({"plain": given}, TEXTS, LABELS)


def test_the_table_can_be_printed(predictors):
    lines = str(compare({"plain": predictors["plain"], "BAM": predictors["BAM"]}, TEXTS, LABELS)).splitlines()
    assert lines[0].split()[:3] == ["method", "accuracy", "nll"]
    assert len({len(line) for line in lines}) == 1
    assert lines[1].startswith("plain ")
    assert " - " in lines[1]  # no PAvPU for a single sample


def test_labels_by_name_and_invalid_labels(predictors):
    plain = {"plain": predictors["plain"]}
    by_name = compare(plain, TEXTS, [f"LABEL_{label}" for label in LABELS])
    assert np.array_equal(by_name.labels, LABELS)
    for invalid in ("positive", 3, -1, 0.5, True):
        with pytest.raises(ValueError, match=r"labels\[1\] is .*LABEL_0"):
            compare(plain, TEXTS, [0, invalid, *LABELS[2:]])
    with pytest.raises(ValueError, match="39 labels for 40 inputs"):
        compare(plain, TEXTS, LABELS[1:])
    with pytest.raises(ValueError, match="nothing to compare"):
        compare({}, TEXTS, LABELS)


def test_pairs_are_shown_as_texts(predictors):
    pairs = [(text, "and more") for text in TEXTS]
    assert compare({"plain": predictors["plain"]}, pairs, LABELS).texts[0] == f"{TEXTS[0]} / and more"
