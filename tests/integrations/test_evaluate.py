import evaluate
import numpy as np
import pytest
import torch

from hf_bam.evaluation import metrics
from hf_bam.integrations import evaluate as hub

from ..evaluation.metrics.cases import random_samples

SAMPLES, LABELS = random_samples()
BY_INPUT = SAMPLES.swapaxes(0, 1)  # (B, S, C)
ERRORS = SAMPLES.mean(axis=0).argmax(axis=-1) != LABELS
CLASSIFIERS = [hub.BamCalibration, hub.BamSelective, hub.BamPavpu]
TEXTS = [["a b", "a c"], ["a b", "a b"]]


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    """Whatever a metric would write ends up here, and nothing may."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", str(tmp_path / "cache"))
    yield
    assert list(tmp_path.iterdir()) == []


def test_calibration():
    result = hub.BamCalibration().compute(predictions=BY_INPUT, references=LABELS)
    expected = {name: getattr(metrics, name)(LABELS, SAMPLES) for name in ("nll", "brier", "ece", "mce")}
    assert result == pytest.approx(expected, abs=1e-6)


def test_calibration_options():
    result = hub.BamCalibration().compute(
        predictions=BY_INPUT, references=LABELS, bins=5, binning="mass", classwise=True
    )
    assert result["ece"] == pytest.approx(metrics.ece(LABELS, SAMPLES, 5, "mass", True), abs=1e-6)
    assert result["mce"] == pytest.approx(metrics.mce(LABELS, SAMPLES, 5, "mass", True), abs=1e-6)


@pytest.mark.parametrize("uncertainty", hub.SCORES)
def test_selective(uncertainty):
    scores = getattr(metrics, uncertainty)(SAMPLES) * (-1 if uncertainty == "top_probability" else 1)
    result = hub.BamSelective().compute(predictions=BY_INPUT, references=LABELS, uncertainty=uncertainty)
    names = ("error_auroc", "error_aupr", "aurc", "e_aurc")
    assert result == pytest.approx({name: getattr(metrics, name)(ERRORS, scores) for name in names}, abs=1e-6)


def test_pavpu():
    metric = hub.BamPavpu()
    result = metric.compute(predictions=BY_INPUT, references=LABELS)
    assert result == {"pavpu": metrics.pavpu(LABELS, SAMPLES)}
    several = metric.compute(predictions=BY_INPUT, references=LABELS, threshold=[0.01, 0.5], paired=True)
    np.testing.assert_array_equal(several["pavpu"], metrics.pavpu(LABELS, SAMPLES, [0.01, 0.5], paired=True))


def test_text_diversity():
    result = hub.BamTextDiversity().compute(predictions=TEXTS)
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
    metric = hub.BamTextDiversity()
    for texts in TEXTS:
        metric.add_batch(predictions=[texts])
    assert metric.compute() == hub.BamTextDiversity().compute(predictions=TEXTS)


def test_a_metric_can_be_used_again():
    metric = hub.BamCalibration()
    first = metric.compute(predictions=BY_INPUT[:10], references=LABELS[:10])
    second = metric.compute(predictions=BY_INPUT[10:], references=LABELS[10:])
    assert first != second
    assert metric.compute(predictions=BY_INPUT[:10], references=LABELS[:10]) == first


def test_metrics_combine():
    both = evaluate.combine([hub.BamCalibration(), hub.BamPavpu()])
    result = both.compute(predictions=BY_INPUT, references=LABELS)
    assert set(result) == {"nll", "brier", "ece", "mce", "pavpu"}


def test_files_are_used_on_request_and_removed(tmp_path):
    folder = tmp_path / "files"
    metric = hub.BamPavpu(keep_in_memory=False, cache_dir=str(folder))
    metric.add_batch(predictions=BY_INPUT, references=LABELS)
    assert list(folder.rglob("*.arrow"))
    assert metric.compute() == {"pavpu": metrics.pavpu(LABELS, SAMPLES)}
    assert not list(folder.rglob("*.arrow"))
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    folder.rmdir()


def test_errors():
    with pytest.raises(ValueError, match="uncertainty='doubt' is not known; choose one of 'predictive_entropy'"):
        hub.BamSelective().compute(predictions=BY_INPUT, references=LABELS, uncertainty="doubt")
    with pytest.raises(ValueError, match="predictions is ragged"):
        hub.BamPavpu().compute(predictions=[[[0.5, 0.5]], [[0.5, 0.5], [1.0, 0.0]]], references=[0, 1])
    with pytest.raises(ValueError, match="labels has the value 3"):
        hub.BamSelective().compute(predictions=BY_INPUT, references=np.full(60, 3))
    with pytest.raises(ValueError, match="all 60 predictions are right"):
        hub.BamSelective().compute(predictions=BY_INPUT, references=SAMPLES.mean(axis=0).argmax(axis=-1))
