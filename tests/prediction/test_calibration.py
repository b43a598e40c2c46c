"""The file of a calibration: what is written comes back, and files that are not whole are errors."""

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from hf_bam.prediction.calibration import FILE, Abstention, Calibration, Intervals, NoveltyFit, Sets

FEATURES = np.random.default_rng(0).normal(size=(200, 5))
FULL = Calibration(
    novelty=NoveltyFit.fit(FEATURES[:100], np.arange(100) % 3, FEATURES[100:], false_alarms=0.05),
    sets=Sets(0.9, alpha=0.1),
    intervals=Intervals(1.5, 0.25, alpha=0.2),
    abstention=Abstention(0.7, risk=0.05, confidence=0.9),
)
ABOUT = {"settings": {"temperature": 1.25}, "head": "classification"}


def rewrite(folder, *, drop=(), arrays=None, **header):
    """Change the file of a full calibration."""
    path = FULL.write(folder, ABOUT)
    with safe_open(path, framework="numpy") as file:
        content = {name: file.get_tensor(name) for name in file.keys()} | (arrays or {})  # noqa: SIM118
        header = {**file.metadata(), **header}
    save_file({name: x for name, x in content.items() if name not in drop}, path, header)


@pytest.mark.parametrize("calibration", [FULL, Calibration(), Calibration(sets=Sets(0.9, alpha=0.1))])
def test_a_calibration_comes_back(calibration, tmp_path):
    calibration.write(tmp_path, ABOUT)
    found, about = Calibration.read(tmp_path)
    assert about == ABOUT
    assert (found.sets, found.intervals, found.abstention) == (
        calibration.sets,
        calibration.intervals,
        calibration.abstention,
    )
    assert (found.novelty is None) == (calibration.novelty is None)
    if found.novelty is not None:
        assert found.novelty.false_alarms == 0.05
        assert found.novelty.fields(FEATURES) == FULL.novelty.fields(FEATURES)
        for name, array in found.novelty.gaussians.arrays().items():
            assert array.dtype == np.float32
            assert np.array_equal(array, getattr(FULL.novelty.gaussians, name))
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_the_reference_is_sorted_and_numbers_are_in_the_header(tmp_path):
    with safe_open(FULL.write(tmp_path, ABOUT), framework="numpy") as file:
        reference, numbers = file.get_tensor("reference"), json.loads(file.metadata()["numbers"])
    assert np.array_equal(reference, np.sort(reference))
    assert numbers["sets"] == {"threshold": 0.9, "alpha": 0.1}


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = FULL.write(tmp_path, ABOUT)
    before = path.read_bytes()
    with pytest.raises(TypeError, match="not JSON serializable"):
        Calibration().write(tmp_path, {"settings": object()})
    assert path.read_bytes() == before


DAMAGES = {
    "other arrays": ({"drop": ("center",)}, "has a content that this hf_bam does not know"),
    "no reference": ({"drop": ("reference",)}, "has a content that this hf_bam does not know"),
    "shapes": ({"arrays": {"center": np.zeros(4, np.float32)}}, "shapes .* that do not fit each other"),
    "not finite": ({"arrays": {"center": np.full(5, np.nan, np.float32)}}, "are not finite"),
    "numbers": ({"numbers": "{"}, "has a content that this hf_bam does not know"),
    "a range": ({"numbers": '{"sets": {"threshold": 0.5, "alpha": 2}}'}, "alpha=2 is not valid"),
    "a field": ({"numbers": '{"sets": {"threshold": 0.5, "beta": 2}}'}, "unexpected keyword argument 'beta'"),
    "newer": ({"calibration_format": "2"}, "has format 2, this hf_bam reads up to 1: install a newer hf_bam"),
    "foreign": ({"calibration_format": "x"}, "was not written by hf_bam"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_and_foreign_files_are_errors_that_name_the_file(kind, tmp_path):
    changes, message = DAMAGES[kind]
    rewrite(tmp_path, **changes)
    with pytest.raises(ValueError, match=f"{FILE} .*{message}"):
        Calibration.read(tmp_path)


def test_a_part_of_a_file_is_an_error(tmp_path):
    path = FULL.write(tmp_path, ABOUT)
    for length in (0, 7, 100, path.stat().st_size - 1):
        path.write_bytes(path.read_bytes()[:length])
        with pytest.raises(ValueError, match=f"{FILE} cannot be read, it is damaged or incomplete"):
            Calibration.read(tmp_path)
        FULL.write(tmp_path, ABOUT)


def test_what_was_fitted_in_words():
    assert Calibration().describe() == {}
    assert FULL.describe() == {
        "prediction sets": "coverage of at least 0.9",
        "intervals": "coverage of at least 0.8",
        "abstention": "error of answered inputs at most 0.05, confidence 0.9",
        "novelty": "false alarms 0.05",
    }
    assert FULL.without_guarantees() == Calibration(novelty=FULL.novelty)
