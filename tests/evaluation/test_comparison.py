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
    assert 1 < rows["BAM, adaptive"]["passes"] < 32
    assert [rows[name]["passes"] for name in ("plain", "temperature", "dropout", "ensemble", "BAM")] == [1, 1, 8, 2, 8]
    assert "novelty_auroc" not in rows["plain"]
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
    found = compare(predictors, TEXTS, LABELS, ood=["something else"])
    table, _, recommendation = str(found).rpartition("\n\n")
    lines = table.splitlines()
    assert lines[0].split()[:3] == ["method", "accuracy", "nll"]
    assert lines[1].startswith("plain ")
    assert " - " in lines[1]  # no PAvPU for a single sample
    assert max(map(len, str(found).splitlines())) <= 120
    assert " ".join(recommendation.split()) == found.recommendation


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


@pytest.fixture
def passes(predictors):
    """Return a function that counts the forward passes of an input in a predictor, by the rows of its last layer."""

    def count(predictor):
        rows = []
        for model in getattr(predictor.sampler, "models", [predictor.sampler.model]):
            model.classifier.register_forward_hook(lambda module, args, output: rows.append(len(output)))
        found = compare({"method": predictor}, TEXTS, LABELS).table[0]["passes"]
        return found, sum(rows) / len(TEXTS)

    return count


@pytest.mark.parametrize("name", ["plain", "dropout", "ensemble", "BAM", "BAM, adaptive"])
@pytest.mark.parametrize("fitted", [False, True])
def test_passes_are_those_of_the_model(predictors, passes, name, fitted):
    predictor = predictors[name].fit(TEXTS, LABELS, false_alarms=0.3) if fitted else predictors[name]
    stated, counted = passes(predictor)
    assert stated == pytest.approx(counted)


def test_novelty_and_sets_of_the_predictors(predictors):
    ood, half = ["something else", "so it goes", "and on and on"], slice(0, 40, 2)
    fitted = predictors["plain"].fit(TEXTS, LABELS, false_alarms=0.3).conformal(TEXTS[half], LABELS[half], alpha=0.4)
    (row,) = compare({"plain": fitted}, TEXTS, LABELS, ood=ood).table
    known, other = (fitted.ood_scores(texts)["novelty"] for texts in (TEXTS, ood))
    assert row["novelty_auroc"] == pytest.approx(roc_auc_score([0] * 40 + [1] * 3, [*known, *other]))
    sets = [result.prediction_set for result in fitted(TEXTS)]
    assert row["set_size"] == pytest.approx(np.mean([len(own) for own in sets]))
    assert row["set_coverage"] == np.mean([f"LABEL_{label}" in own for label, own in zip(LABELS, sets, strict=True)])


def test_held_out_rows_fit_the_sets(predictors):
    """Sets for a coverage of 1/2 from ten rows: labels up to the sixth smallest score."""
    plain = {"plain": predictors["plain"]}
    found = compare(plain, TEXTS[10:], LABELS[10:], held_out=(TEXTS[:10], LABELS[:10]), alpha=0.5)
    assert found.held_out.outcomes["plain"].samples.shape == (1, 10, 3)
    assert len(found.labels) == 30
    assert 0 < found.table[0]["set_size"] < 3
    few = compare(plain, TEXTS[10:], LABELS[10:], held_out=(TEXTS[:1], LABELS[:1]), alpha=0.1)
    assert math.isnan(few.table[0]["set_size"])
    assert predictors["plain"].calibration.sets is None
    with pytest.raises(ValueError, match=r"alpha=1\.5 is not valid"):
        compare(plain, TEXTS, LABELS, alpha=1.5)


def test_predictions_of_one_method(predictors):
    fitted = predictors["BAM"].fit(TEXTS, LABELS, false_alarms=0.3).conformal(TEXTS, LABELS, alpha=0.4)
    found = compare({"plain": predictors["plain"], "BAM": fitted}, TEXTS, LABELS)
    for row, result, text, label in zip(found.predictions("BAM"), fitted(TEXTS), TEXTS, LABELS, strict=True):
        assert (row["text"], row["label"], row["prediction"]) == (text, f"LABEL_{label}", result.label)
        expected = (result.probability, result.entropy, result.novelty.score)
        assert (row["probability"], row["entropy"], row["novelty"]) == pytest.approx(expected, abs=1e-5)
        assert set(row["prediction_set"]) == set(result.prediction_set)
    assert found.predictions() == found.predictions(found.recommended)
    assert "novelty" not in found.predictions("plain")[0]
