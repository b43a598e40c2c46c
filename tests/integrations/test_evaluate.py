"""Metrics of the `evaluate` library, against scikit-learn, torchmetrics and our own functions."""

import evaluate
import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score
from torchmetrics.functional.classification import multiclass_calibration_error

from hf_bam.evaluation import metrics
from hf_bam.integrations import evaluate as wrapped

from ..evaluation.metrics.cases import random_samples

SAMPLES, LABELS = random_samples()
BY_INPUT = SAMPLES.swapaxes(0, 1)  # (B, S, C)
ERRORS = SAMPLES.mean(axis=0).argmax(axis=-1) != LABELS
CLASSIFIERS = [wrapped.BamCalibration, wrapped.BamSelective, wrapped.BamPavpu]
TEXTS = [["a b", "a c"], ["a b", "a b"]]


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    """Check that no metric writes a file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", str(tmp_path / "cache"))
    yield
    assert list(tmp_path.iterdir()) == []


def test_calibration():
    result = wrapped.BamCalibration().compute(predictions=BY_INPUT, references=LABELS)
    mean = SAMPLES.mean(axis=0)
    error, largest = (
        multiclass_calibration_error(torch.tensor(mean), torch.tensor(LABELS), 3, n_bins=15, norm=norm).item()
        for norm in ("l1", "max")
    )
    brier = brier_score_loss(LABELS, mean, scale_by_half=False)
    expected = {"nll": log_loss(LABELS, mean), "brier": brier, "ece": error, "mce": largest}
    assert result == pytest.approx(expected, abs=1e-6)


def test_calibration_options():
    result = wrapped.BamCalibration().compute(
        predictions=BY_INPUT, references=LABELS, bins=5, binning="mass", classwise=True
    )
    assert result["ece"] == pytest.approx(metrics.ece(LABELS, SAMPLES, 5, "mass", True), abs=1e-6)
    assert result["mce"] == pytest.approx(metrics.mce(LABELS, SAMPLES, 5, "mass", True), abs=1e-6)


@pytest.mark.parametrize("uncertainty", wrapped.SCORES)
def test_selective(uncertainty):
    scores = getattr(metrics, uncertainty)(SAMPLES) * (-1 if uncertainty == "top_probability" else 1)
    result = wrapped.BamSelective().compute(predictions=BY_INPUT, references=LABELS, uncertainty=uncertainty)
    risk = ERRORS[np.argsort(scores)].cumsum() / np.arange(1, 61)
    best = np.sort(ERRORS).cumsum() / np.arange(1, 61)
    expected = {
        "error_auroc": roc_auc_score(ERRORS, scores),
        "error_aupr": average_precision_score(ERRORS, scores),
        "aurc": risk.mean(),
        "e_aurc": risk.mean() - best.mean(),
    }
    assert len(set(scores)) == 60  # no ties, of which the curve takes the mean
    assert result == pytest.approx(expected, abs=1e-6)


def test_pavpu():
    metric = wrapped.BamPavpu()
    result = metric.compute(predictions=BY_INPUT, references=LABELS)
    assert result == {"pavpu": metrics.pavpu(LABELS, SAMPLES)}
    several = metric.compute(predictions=BY_INPUT, references=LABELS, threshold=[0.01, 0.5], paired=True)
    np.testing.assert_array_equal(several["pavpu"], metrics.pavpu(LABELS, SAMPLES, [0.01, 0.5], paired=True))


def test_text_diversity():
    result = wrapped.BamTextDiversity().compute(predictions=TEXTS)
    assert result == pytest.approx(
        {
            "distinct_1": (3 / 4 + 2 / 4) / 2,
            "distinct_2": (2 / 2 + 1 / 2) / 2,
            "exact_agreement": 1 / 2,
            "token_f1_agreement": (1 / 2 + 1) / 2,
        }
    )


@pytest.mark.parametrize("metric", CLASSIFIERS)
def test_batches_add_up(metric):
    whole = metric().compute(predictions=BY_INPUT.tolist(), references=LABELS.tolist())
    batched = metric()
    for start in range(0, 60, 25):
        part = slice(start, start + 25)
        batched.add_batch(predictions=torch.tensor(BY_INPUT[part]), references=torch.tensor(LABELS[part]))
    assert batched.compute() == whole
    one_by_one = metric()
    for prediction, reference in zip(BY_INPUT, LABELS, strict=True):
        one_by_one.add(prediction=prediction, reference=reference)
    assert one_by_one.compute() == whole


def test_texts_in_batches():
    metric = wrapped.BamTextDiversity()
    for texts in TEXTS:
        metric.add_batch(predictions=[texts])
    assert metric.compute() == wrapped.BamTextDiversity().compute(predictions=TEXTS)


def test_a_metric_can_be_used_again():
    metric = wrapped.BamCalibration()
    first = metric.compute(predictions=BY_INPUT[:10], references=LABELS[:10])
    second = metric.compute(predictions=BY_INPUT[10:], references=LABELS[10:])
    assert first != second
    assert metric.compute(predictions=BY_INPUT[:10], references=LABELS[:10]) == first


def test_metrics_combine():
    both = evaluate.combine([wrapped.BamCalibration(), wrapped.BamPavpu()])
    result = both.compute(predictions=BY_INPUT, references=LABELS)
    assert set(result) == {"nll", "brier", "ece", "mce", "pavpu"}


def test_files_are_used_on_request_and_removed(tmp_path):
    folder = tmp_path / "files"
    metric = wrapped.BamPavpu(keep_in_memory=False, cache_dir=str(folder))
    metric.add_batch(predictions=BY_INPUT, references=LABELS)
    assert list(folder.rglob("*.arrow"))
    assert metric.compute() == {"pavpu": metrics.pavpu(LABELS, SAMPLES)}
    assert not list(folder.rglob("*.arrow"))
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    folder.rmdir()


def test_errors():
    with pytest.raises(ValueError, match="uncertainty='variance' is not known; choose one of 'predictive_entropy'"):
        wrapped.BamSelective().compute(predictions=BY_INPUT, references=LABELS, uncertainty="variance")
    with pytest.raises(ValueError, match="predictions is ragged"):
        wrapped.BamPavpu().compute(predictions=[[[0.5, 0.5]], [[0.5, 0.5], [1.0, 0.0]]], references=[0, 1])
    with pytest.raises(ValueError, match="labels has the value 3"):
        wrapped.BamSelective().compute(predictions=BY_INPUT, references=np.full(60, 3))
    with pytest.raises(ValueError, match="all 60 predictions are correct"):
        wrapped.BamSelective().compute(predictions=BY_INPUT, references=SAMPLES.mean(axis=0).argmax(axis=-1))
