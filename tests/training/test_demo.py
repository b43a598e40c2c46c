"""`hf-bam demo`: options, fits to files, and the export."""

import pytest

from hf_bam.cli import main
from hf_bam.training.demo.command import make_session, parse

from .test_evaluate import files, model  # noqa: F401  (fixtures)


def test_options():
    settings, more = parse(["--model_name_or_path", "out/model", "--port", "80", "--examples", "one", "two words"])
    assert (settings.model_name_or_path, settings.port, settings.host) == ("out/model", 80, "127.0.0.1")
    assert more == {"examples": ["one", "two words"]}
    with pytest.raises(ValueError, match="--model_name_or_path is not given"):
        parse([])


def test_files_fit_novelty_and_sets(model, files):  # noqa: F811
    options = [f"--{name}={files[name]}" for name in ("train", "held_out")]
    session = make_session(parse(["--model", model, "--num_samples", "3", "--alpha", "0.2", *options])[0])
    (result,) = session.predictor(["good one"])
    assert result.num_samples == 3
    assert result.novelty is not None
    assert set(result.prediction_set) <= {"bad", "good"}
    assert session.predictor.describe() == {
        "prediction sets": "coverage of at least 0.8",
        "novelty": "false alarms 0.05",
    }


def test_export(model, tmp_path, capsys):  # noqa: F811
    assert main(["demo", "--model_name_or_path", model, "--export", str(tmp_path / "space")]) == 0
    assert (tmp_path / "space" / "model" / "bam.safetensors").is_file()
    assert "app.py" in capsys.readouterr().out
    assert main(["demo", "--model_name_or_path", model, "--train", "x.csv", "--export", str(tmp_path / "b")]) == 2
    assert "--train and --held_out are not part of an export" in capsys.readouterr().err
