"""Questions about images: rows, model, training and prediction on a made set, and rows of the package itself."""

import hashlib
import importlib.util
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import hf_bam
from hf_bam.cli import main
from hf_bam.models import CoAttentionProcessor
from hf_bam.tasks import get_task, vqa
from hf_bam.tasks.base import DataError
from hf_bam.training import run
from hf_bam.training.settings import resolve

from .vqa_files import write_set

TINY = {"width": 16, "layers": 1, "heads": 2, "image_size": 8, "patch_size": 4}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_set(tmp_path_factory.mktemp("vqa") / "data")


def digests(rows):
    return {hashlib.sha256(image["bytes"]).hexdigest() for image in rows.with_format("arrow")[:]["image"].to_pylist()}


def test_no_image_is_in_two_sets(folder):
    data = get_task("vqa").load(folder)
    assert len(data.train) + len(data.evaluation["validation"]) == 72
    assert len(data.evaluation["test"]) == 18
    sets = [digests(rows) for rows in data.sets.values()]
    assert not sets[0] & sets[1]
    assert data.train.features["label"].names == ["red", "blue", "yes", "no"]
    task = get_task("vqa")
    image, question = task.inputs(data.evaluation["test"])[1]
    assert (np.asarray(image)[3, 3] == (30, 30, 220)).all() or (np.asarray(image)[3, 3] == (220, 30, 30)).all()
    assert question == "is it red?"
    assert task.texts(data.evaluation["test"])[0] == ("test/images/0.png", "what color is the shape?")


def test_the_archive_gives_the_same_rows(folder, tmp_path, monkeypatch):
    archive = tmp_path / vqa.ARCHIVE
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(folder.rglob("*.*")):
            file.write(path, f"{vqa.DATA}{path.relative_to(folder).as_posix()}")
    monkeypatch.setattr(vqa, "CACHE", tmp_path)
    with pytest.raises(DataError, match="its checksum differs"):
        get_task("vqa").load(None)
    monkeypatch.setattr(vqa, "ARCHIVE_SHA256", hashlib.sha256(archive.read_bytes()).hexdigest())
    found, expected = get_task("vqa").load(None), get_task("vqa").load(folder)
    for one, other in zip(found.sets.values(), expected.sets.values(), strict=True):
        assert one.with_format("arrow")[:].equals(other.with_format("arrow")[:])


def test_errors_name_the_file(folder, tmp_path):
    with pytest.raises(DataError, match=r"answers\.txt does not exist"):
        get_task("vqa").load(tmp_path)
    broken = write_set(tmp_path / "broken")
    (broken / "train" / "questions.json").write_text(json.dumps([["is it red?", "maybe", 0]]))
    with pytest.raises(DataError, match=r"row 0: expected \[question, an answer"):
        get_task("vqa").load(broken)
    with pytest.raises(ValueError, match="image_size=64 is not a multiple of patch_size=7"):
        get_task("vqa", patch_size=7)


@pytest.fixture(scope="module", params=["bam", "plain"])
def trained(request, folder, tmp_path_factory):
    output = tmp_path_factory.mktemp("out") / request.param
    values = {"task_name": "vqa", "model_name_or_path": "scratch", "recipe": "fast", "attention": request.param}
    values |= {"data_dir": str(folder), "options": TINY, "max_steps": 6, "num_samples": 3, "batch_size": 8}
    job = resolve(values)
    return run(job, output, report=False, log=lambda text: None), job, request.param


def test_a_run_writes_scores_predictions_and_a_model(trained):
    result, job, _ = trained
    assert set(result.scores) == {"validation", "test"}
    assert 0 <= result.scores["test"]["accuracy"] <= 1
    assert result.trained.model.config.vision_config.hidden_dropout_prob == 0.1
    lines = (result.folder / "predictions" / "test.jsonl").read_text().splitlines()
    row = json.loads(lines[0])
    assert (row["image"], row["question"]) == ("test/images/0.png", "what color is the shape?")
    assert row["label"] in ("red", "blue")
    assert row["num_samples"] == 3
    assert (result.folder / "predictions" / "vqa-test.tsv").exists()
    assert run(job, result.folder, resume=True, log=lambda text: None).scores == result.scores


def test_the_folder_of_a_run_is_a_predictor(trained, folder):
    result, _, attention = trained
    model = result.folder / "model"
    image = folder / "test" / "images" / "0.png"
    pairs = [(image, "is it red?"), (str(image), "what color is the shape?")]
    if attention == "plain":
        predictor = hf_bam.Predictor.from_pretrained(model, progress=False)
        assert predictor(pairs)[0].num_samples == 1
        return
    predictor = hf_bam.BamPredictor.from_pretrained(model, num_samples=4, progress=False)
    assert type(predictor.tokenizer) is CoAttentionProcessor
    results = predictor(pairs)
    assert results[0].samples.shape == (4, 4)
    assert results[0].epistemic > 0
    with Image.open(image) as opened:
        again = predictor([{"image": opened.copy(), "question": "is it red?"}])
    np.testing.assert_allclose(again[0].samples, results[0].samples, atol=1e-6)
    single = predictor((image, "is it red?"))
    np.testing.assert_allclose(single[0].samples, results[0].samples, atol=1e-6)
    other = predictor([(folder / "test" / "images" / "1.png", "is it red?")])
    assert not np.allclose(other[0].samples, results[0].samples)
    assert "mutual_information" in predictor.ood_scores(pairs)
    with pytest.raises(TypeError, match=r"inputs\[0\] is 3; it must be a pair"):
        predictor([3])
    with pytest.raises(ValueError, match=r"inputs\[0\] has an empty question"):
        predictor([(image, " ")])


def test_novelty_and_sets(trained, folder, tmp_path):
    """They are fitted to pairs, saved with the model, and hold the promised share of the answers."""
    result, *_ = trained
    data = get_task("vqa").load(folder)
    task, make = get_task("vqa"), hf_bam.Predictor if trained[2] == "plain" else hf_bam.BamPredictor
    predictor = make.from_pretrained(result.folder / "model", progress=False, seed=1)
    inputs, labels = task.inputs(data.train), data.train["label"]
    predictor.fit(inputs, labels, false_alarms=0.2).conformal(inputs, labels, alpha=0.2)
    results = predictor(inputs)
    names = data.train.features["label"].names
    covered = [names[label] in own.prediction_set for own, label in zip(results, labels, strict=True)]
    assert 0.75 <= np.mean(covered) <= 0.87
    noise = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    strange = predictor([(noise, "is it red?")])[0]
    assert strange.novelty.mahalanobis > np.median([own.novelty.mahalanobis for own in results])
    predictor.save_pretrained(tmp_path)
    again = make.from_pretrained(tmp_path, progress=False)([(noise, "is it red?")])[0]
    assert again.novelty == strange.novelty
    assert again.prediction_set == strange.prediction_set


def test_a_table_of_paths_and_questions(trained, folder, tmp_path, capsys):
    result, *_ = trained
    images = [str(folder / "test" / "images" / f"{i}.png") for i in range(3)]
    table = tmp_path / "in.csv"
    table.write_text("image,question\n" + "".join(f"{path},is it red?\n" for path in images))
    command = ["predict", "--model", str(result.folder / "model"), "--num_samples", "3", "--input", str(table)]
    assert main([*command, "--output", str(tmp_path / "out.jsonl")]) == 0
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["image"] for row in rows] == images
    assert all(row["prediction"] in ("red", "blue", "yes", "no") for row in rows)
    table.write_text("image,question\nabsent.png,is it red?\n")
    assert main([*command, "--output", str(tmp_path / "no.jsonl")]) == 2
    assert "there is no image in 'absent.png'" in capsys.readouterr().err


def test_one_pass_is_the_model(trained, folder):
    result, *_ = trained
    model, processor = result.trained.model.eval(), result.trained.tokenizer
    images = [Image.open(folder / "test" / "images" / f"{i}.png").convert("RGB") for i in range(2)]
    questions = ["is it red?", "what color is the shape?"]
    encoded = processor(images=images, text=questions, padding=True, return_tensors="pt")
    with torch.no_grad():
        want = model(**encoded).logits.softmax(-1).numpy()
    predictor = hf_bam.Predictor(hf_bam.prediction.Plain(model), processor, progress=False)
    found = predictor.predict_proba(list(zip(images, questions, strict=True)))
    np.testing.assert_allclose(found, want, atol=1e-6)


@pytest.mark.skipif(importlib.util.find_spec("easy_vqa") is None, reason="the package easy-vqa is not installed")
def test_the_package_itself():
    folder = Path(importlib.util.find_spec("easy_vqa").origin).parent / "data"
    data = get_task("vqa").load(folder)
    train, validation = data.train, data.evaluation["validation"]
    assert len(train) + len(validation) == 38575
    assert len(data.evaluation["test"]) == 9673
    assert 0.08 < len(validation) / 38575 < 0.12
    assert len(train.features["label"].names) == 13
    assert not {*train["name"]} & {*validation["name"]}
