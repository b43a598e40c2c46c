"""Inputs of all metrics: every type gives the same result, every invalid value an error that names the argument."""

import ast
from pathlib import Path

import numpy as np
import pytest
import torch

from hf_bam.evaluation import metrics

from .cases import in_every_type, random_samples

SAMPLES, LABELS = random_samples(count=4, inputs=30, classes=2)
ERRORS = SAMPLES.mean(axis=0).argmax(axis=-1) != LABELS
SCORES = metrics.predictive_entropy(SAMPLES)
REAL, TARGETS = SAMPLES[..., 0], SCORES

CASES = {
    "accuracy": (LABELS, SAMPLES),
    "alignment_accuracy": (SAMPLES > 0.5, SAMPLES[::-1].copy()),
    "aurc": (ERRORS, SCORES),
    "brier": (LABELS, SAMPLES),
    "crps": (TARGETS, REAL),
    "e_aurc": (ERRORS, SCORES),
    "ece": (LABELS, SAMPLES),
    "error_aupr": (ERRORS, SCORES),
    "error_auroc": (ERRORS, SCORES),
    "expected_entropy": (SAMPLES,),
    "f1": (LABELS, SAMPLES),
    "fpr95": (SCORES[:15], SCORES[15:]),
    "gaussian_crps": (TARGETS, REAL[0], REAL[1]),
    "gaussian_nll": (TARGETS, REAL[0], REAL[1]),
    "interval_coverage": (TARGETS, REAL),
    "mcc": (LABELS, SAMPLES),
    "mce": (LABELS, SAMPLES),
    "mutual_information": (SAMPLES,),
    "nll": (LABELS, SAMPLES),
    "ood_auroc": (SCORES[:15], SCORES[15:]),
    "pavpu": (LABELS, SAMPLES),
    "pavpu_from": (REAL[0], REAL[1]),
    "pearson": (TARGETS, REAL[0]),
    "predictive_entropy": (SAMPLES,),
    "risk_coverage": (ERRORS, SCORES),
    "sharpness": (REAL,),
    "spearman": (TARGETS, REAL[0]),
    "token_entropy": (SAMPLES,),
    "top_probability": (SAMPLES,),
    "top_std": (SAMPLES,),
    "top_two_p_values": (SAMPLES,),
}
ON_TEXTS = {"distinct", "pairwise_agreement", "unigram_entropy"}
ON_WORDS = {"token_alignment"}
ON_LABELS = [name for name, arguments in CASES.items() if len(arguments) == 2 and arguments[1] is SAMPLES]
ON_CLASSES = ("accuracy", "f1", "mcc")
"""Functions that also take predicted classes, (B,); their argument is named `predictions`."""
ON_SAMPLES = [name for name, arguments in CASES.items() if arguments[-1] is SAMPLES and name != "token_entropy"]


def test_every_public_function_has_a_case():
    assert set(CASES) | ON_TEXTS | ON_WORDS == set(metrics.__all__)


def test_metrics_import_no_slow_library():
    imported = {}
    for path in Path(metrics.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [node.module] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
                names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                imported.setdefault(path.stem, set()).update(name.split(".")[0] for name in names)
    assert "sklearn" in imported["classification"]
    assert set().union(*imported.values()) & {"evaluate", "datasets", "transformers", "matplotlib", "hf_bam"} == set()


@pytest.mark.parametrize("name", CASES)
def test_lists_arrays_and_tensors_give_the_same(name):
    function = getattr(metrics, name)
    expected = function(*CASES[name])
    for arguments in zip(*map(in_every_type, CASES[name]), strict=True):
        np.testing.assert_allclose(function(*arguments), expected, rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_results_are_floats_or_float64_arrays(name):
    result = getattr(metrics, name)(*CASES[name])
    for value in result if isinstance(result, tuple) else (result,):
        assert type(value) is float or (type(value) is np.ndarray and value.dtype == np.float64)


@pytest.mark.parametrize("name", CASES)
def test_inputs_are_not_modified(name):
    copies = [np.array(argument) for argument in CASES[name]]
    getattr(metrics, name)(*copies)
    for copy, argument in zip(copies, CASES[name], strict=True):
        np.testing.assert_array_equal(copy, argument)


@pytest.mark.parametrize("name", ON_SAMPLES)
def test_one_sample_may_come_without_its_axis(name):
    rest = CASES[name][:-1]
    function = getattr(metrics, name)
    if name in ("pavpu", "top_two_p_values"):
        with pytest.raises(ValueError, match=r"shape \(1, 30, 2\); .*at least two samples"):
            function(*rest, SAMPLES[0])
    else:
        np.testing.assert_array_equal(function(*rest, SAMPLES[0]), function(*rest, SAMPLES[:1]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("name", ["nll", "predictive_entropy", "pavpu"])
def test_low_precision_gives_nearly_the_same(name, dtype):
    samples = torch.tensor(SAMPLES).to(dtype)
    exact = getattr(metrics, name)(*CASES[name])
    np.testing.assert_allclose(getattr(metrics, name)(*CASES[name][:-1], samples), exact, atol=0.02)


def test_bfloat16_may_sum_to_one_within_its_precision():
    rows = torch.tensor([[0.9, 0.05, 0.05]]).bfloat16()
    assert abs(rows.double().sum().item() - 1) > 1e-3
    assert metrics.top_probability(rows).item() == pytest.approx(0.9, abs=4e-3)
    with pytest.raises(ValueError, match="sums to"):
        metrics.top_probability(rows.double())
    with pytest.raises(ValueError, match="sums to"):
        metrics.top_probability(torch.tensor([[0.9, 0.12]]).bfloat16())


def samples_with(value):
    samples = SAMPLES.copy()
    samples[1, 2, 0] = value
    return samples


INVALID_SAMPLES = {
    r"samples is empty, shape \(4, 0, 2\)": SAMPLES[:, :0],
    r"samples is empty, shape \(0,\)": [],
    "samples has 1 NaN or infinite values of 240": samples_with(np.nan),
    "samples has the negative value -0.1": samples_with(-0.1),
    "samples sums to 1.5 ": samples_with(1.5 - SAMPLES[1, 2, 1]),
    "samples is the single number 0.5": 0.5,
    "samples is ragged": [[0.5, 0.5], [1.0]],
    "samples has the dtype <U1": [["a", "b"]],
    "samples has the dtype complex64": torch.tensor([[1j, 1]]),
}


def message_of(name, message):
    """Return the message with the argument name of the function."""
    return message.replace("samples", "predictions") if name in ON_CLASSES else message


@pytest.mark.parametrize("message", INVALID_SAMPLES)
@pytest.mark.parametrize("name", ON_SAMPLES)
def test_invalid_samples(name, message):
    with pytest.raises(ValueError, match=message_of(name, message)):
        getattr(metrics, name)(*CASES[name][:-1], INVALID_SAMPLES[message])


@pytest.mark.parametrize("name", [name for name in ON_SAMPLES if name not in ON_CLASSES])
def test_a_single_row_is_not_samples(name):
    with pytest.raises(ValueError, match=r"samples has shape \(2,\); expected \(S, B, C\)"):
        getattr(metrics, name)(*CASES[name][:-1], [0.5, 0.5])


INVALID_CLASSES = {
    "predictions has the dtype float64; expected whole numbers": [0.0, 1.0],
    "predictions has the value -1; expected indices of classes, 0 or above": [0, -1],
    "labels has 2 values and predictions has 3 inputs": [0, 1, 1],
}


@pytest.mark.parametrize("message", INVALID_CLASSES)
@pytest.mark.parametrize("name", ON_CLASSES)
def test_invalid_classes(name, message):
    with pytest.raises(ValueError, match=message):
        getattr(metrics, name)([0, 1], INVALID_CLASSES[message])


@pytest.mark.parametrize("name", [*ON_LABELS, "top_two_p_values"])
def test_middle_dimensions_are_for_uncertainties_only(name):
    with pytest.raises(ValueError, match=r"shape \(4, 1, 30, 2\)"):
        getattr(metrics, name)(*CASES[name][:-1], SAMPLES[:, None])


INVALID_LABELS = {
    "labels has the value 2; samples has 2 classes: expected 0 to 1": np.where(LABELS == 1, 2, LABELS),
    "labels has the value -100": np.where(LABELS == 1, -100, LABELS),
    "labels has 29 values and samples has 30 inputs": LABELS[:-1],
    r"labels has shape \(30, 1\); expected one dimension": LABELS[:, None],
    "labels has the dtype float64; expected whole numbers": LABELS + 0.0,
    "labels is empty": [],
}


@pytest.mark.parametrize("message", INVALID_LABELS)
@pytest.mark.parametrize("name", ON_LABELS)
def test_invalid_labels(name, message):
    with pytest.raises(ValueError, match=message_of(name, message)):
        getattr(metrics, name)(INVALID_LABELS[message], SAMPLES)


PAIRS = {
    "aurc": ("losses", "scores"),
    "e_aurc": ("losses", "scores"),
    "error_aupr": ("errors", "scores"),
    "error_auroc": ("errors", "scores"),
    "fpr95": ("in_scores", "out_scores"),
    "ood_auroc": ("in_scores", "out_scores"),
    "pavpu_from": ("accuracies", "p_values"),
    "pearson": ("targets", "predictions"),
    "risk_coverage": ("losses", "scores"),
    "spearman": ("targets", "predictions"),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("position", [0, 1])
def test_invalid_vectors(name, position):
    function, argument = getattr(metrics, name), PAIRS[name][position]
    invalid = {
        f"{argument} is empty": np.empty(0),
        f"{argument} has shape": np.zeros((30, 1)),
        f"{argument} has 1 NaN": np.r_[np.nan, np.zeros(29)],
    }
    for message, value in invalid.items():
        arguments = list(CASES[name])
        arguments[position] = value
        with pytest.raises(ValueError, match=message):
            function(*arguments)


@pytest.mark.parametrize("name", [name for name in PAIRS if name not in ("fpr95", "ood_auroc")])
def test_lengths_must_match(name):
    first, second = CASES[name]
    with pytest.raises(ValueError, match=f"{PAIRS[name][0]} has 29 values and {PAIRS[name][1]} has 30 inputs"):
        getattr(metrics, name)(first[:-1], second)
