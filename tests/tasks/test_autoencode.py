"""The autoencoder task: files, both stages from the command line, and the model that they leave."""

import json

import pytest
from transformers import AutoTokenizer

import hf_bam
from hf_bam.cli import main
from hf_bam.tasks.autoencode import Autoencode
from hf_bam.tasks.base import DataError

TEXTS = ["the cat sat on the mat", "a dog ran", "the river is long", "it rains"]


def write(folder, times=1):
    for name in ("train", "valid", "test"):
        (folder / f"{name}.txt").write_text("\n".join([*(TEXTS * times), "", " "]) + "\n")


def test_rows(tmp_path):
    write(tmp_path)
    data = Autoencode().load(tmp_path)
    assert data.train.to_dict() == {"source": TEXTS, "target": TEXTS}
    assert list(data.evaluation) == ["valid", "test"]
    (tmp_path / "valid.txt").unlink()
    with pytest.raises(DataError, match=r"expected train.txt and one of val.txt or valid.txt"):
        Autoencode().load(tmp_path)
    with pytest.raises(DataError, match="needs data_dir"):
        Autoencode().load(None)


def run(folder, *options):
    line = ["autoencode", "--data_dir", str(folder), "--output_dir", str(folder / "out"), "--recipe", "fast"]
    line += ["--width", "16", "--vocabulary", "60", "--max_steps", "6", "--batch_size", "16", "--num_beams", "1"]
    line += ["--max_target_length", "10", "--no_report", "--eval_limit", "4", *options, "--debug"]
    assert main(line) == 0
    return json.loads((folder / "out" / "results.json").read_text())


def test_both_stages(tmp_path, capsys):
    write(tmp_path, times=20)
    options = ["--num_codes", "6", "--prior_epochs", "1", "--prior_width", "16", "--prior_layers", "1"]
    results = run(tmp_path, *options)
    scores = results["scores"]["test"]
    assert scores["bound"] == pytest.approx(scores["reconstruction"] + scores["kl"])
    assert scores["kl"] > 0
    assert len((tmp_path / "out" / "predictions" / "from_prior.txt").read_text().splitlines()) == 10
    model = hf_bam.from_pretrained(tmp_path / "out" / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out" / "model")
    assert model.config.initial_state == "zero"
    assert len(hf_bam.generate_from_prior(model, tokenizer, num=3)) == 3
    assert "perplexity" in capsys.readouterr().out


@pytest.mark.parametrize("latent", ["gaussian", "sentence"])
def test_gaussian_variables_have_one_stage(tmp_path, latent):
    write(tmp_path, times=20)
    scores = run(tmp_path, "--latent", latent, "--latent_size", "4")["scores"]["valid"]
    assert scores["kl"] > 0
    assert not (tmp_path / "out" / "model" / "code_prior").exists()


def test_without_a_prior(tmp_path):
    write(tmp_path, times=20)
    assert "bound" not in run(tmp_path, "--num_codes", "6", "--prior_epochs", "0")["scores"]["test"]
