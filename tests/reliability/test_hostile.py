"""Hostile files raise `ValueError`; none is executed, read without end or loaded."""

import json
import resource
import shutil
import time

import pytest
import torch

from hf_bam.integrations.cards import model_card
from hf_bam.prediction.calibration import Calibration
from hf_bam.tensors import replace
from hf_bam.training.checkpoints import Checkpoints

from ..integrations.cases import patched_bert
from ..training.cases import rewrite
from ..training.test_state import folder, go, stopped  # noqa: F401  (fixtures)
from . import hostile


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return hostile.saved(tmp_path_factory.mktemp("saved"))


def test_models(saved, tmp_path):
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    for number, case in enumerate(hostile.cases()):
        hostile.check(shutil.copytree(saved, tmp_path / str(number)), case)
    assert number > 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000, "kilobytes"
    assert time.monotonic() - start < 60


@pytest.mark.parametrize("entry", ["numbers", "about"])
def test_calibrations(entry, tmp_path):
    good = {"calibration_format": "1", "numbers": "{}", "about": "{}"}
    sets = [{"sets": {"threshold": value, "alpha": 0.1}} for value in (10**400, "x", None, [1])]
    novelty = [{"novelty": {"false_alarms": 0.1, "layers": value}} for value in (["x"], 5, None, [[]])]
    texts = [hostile.DEEP, "[]", "5", "{", *map(json.dumps, [*sets, *novelty])]
    for text in texts if entry == "numbers" else texts[1:4]:
        replace(tmp_path / "calibration.safetensors", {"x": torch.ones(1, dtype=torch.bfloat16)}, good | {entry: text})
        if text != "[]":
            with pytest.raises(ValueError, match=r"calibration\.safetensors has a content that"):
                Calibration.read(tmp_path)


@pytest.mark.parametrize("entry", hostile.STATES, ids=lambda entry: str(entry)[:40])
def test_states_of_a_run(folder, entry):  # noqa: F811
    path = folder / "checkpoints" / "step-00000004" / "state.json"
    rewrite(path, json.dumps({**json.loads(path.read_text()), **entry}).encode())
    with pytest.raises(ValueError, match=r"step-00000004|does not fit"):
        go(folder, resume=True)


@pytest.mark.parametrize("text", [hostile.DEEP, "[]", "9" * 5000])
def test_states_that_are_no_state(folder, text):  # noqa: F811
    rewrite(folder / "checkpoints" / "step-00000004" / "state.json", text.encode())
    with pytest.raises(ValueError, match=r"state.json|nested|digits"):
        go(folder, resume=True)


@pytest.mark.parametrize("manifest", hostile.MANIFESTS, ids=lambda manifest: str(manifest)[:30])
def test_manifests(manifest, tmp_path):
    """They name files that are not there, of other folders, or without an end: the checkpoint is not complete."""
    checkpoints = Checkpoints(tmp_path)
    made = checkpoints.save(1, {"model": {"x": torch.ones(1)}}, {"best": None})
    (made.folder / "manifest.json").write_text(json.dumps(manifest))
    assert checkpoints.last() is None


def test_cards_of_base_models(tmp_path):
    text = "<script>alert(1)</script> [x](javascript:alert(1)) ![y](http://z) `code` {{ 7 * 7 }}"
    header = json.dumps({"license": "other", "license_name": text, "license_link": "a" * 10**6})
    (tmp_path / "README.md").write_text(f"---\n{header}\n---\n")
    card = model_card(patched_bert(), base_model=str(tmp_path), training={"model": text})
    body = card.content.split("---", 2)[2]
    assert "<script" not in body
    assert "[x](" not in body
    assert "\\[x\\]" in body
    assert "{{ 7 \\* 7 }}" in body
    assert "a" * 1000 not in card.content
