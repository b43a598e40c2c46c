"""Checkpoints, config.yaml and results.json of earlier versions."""

import json
import os

import pytest
import yaml

from hf_bam.training.arguments import parse
from hf_bam.training.compatibility import present_names

from .cases import rewrite

BAYESIAN = ["--attention", "bam", "--k", "2"]
CONFIG = """\
task: custom
model: MODEL
options:
  text_column: text
  label_column: label
attention: bam
lora: false
seed: 0
data_dir: DATA
limit: null
eval_limit: null
holdout: null
lr: 0.0001
prior_lr: 0.001
batch_size: 8
accumulation: 1
max_steps: 4
warmup: 0.1
weight_decay: 0.01
clip: 1.0
max_length: 128
dropout: 0.0
classifier_dropout: null
precision: fp32
freeze_embeddings: true
checkpointing: false
buckets: true
eval_every: null
eval_rows: 1000
eval_batch_size: 64
patience: null
save_every: 1
keep: 1
log_every: 10
samples: 0
doubt_rows: 400
workers: 0
lora_rank: 8
lora_alpha: 16.0
bam:
  family: weibull
  k: 2.0
  sigma: 1.28
  noise: entry
  prior: contextual
  d_mid: 5
  beta: 100.0
  prior_shape: beta*psi
  alpha: null
  sigma_prior: 1.0
  kl_weight: 0.0001
  kl_reduction: mean
  annealing: constant
  annealing_rate: 0.001
  layers: all
  attention: both
"""
"""A config.yaml of an earlier version, verbatim, for the run below."""


def earlier(settings):
    """Return settings under the names of the file above, with all its settings of attention."""
    old = yaml.safe_load(CONFIG)
    names = {present: name for name, present in zip(old, present_names(old), strict=True)}
    values = {names.get(name, name): value for name, value in settings.items()}
    return values | ({"bam": {**old["bam"], **values["bam"]}} if "bam" in values else {})


@pytest.fixture
def config(custom, tmp_path):
    """The file, with the folders of these tests."""
    path = tmp_path / "earlier.yaml"
    _, model, _, data, *_ = custom
    path.write_text(CONFIG.replace("MODEL", model).replace("DATA", data))
    return path


def test_a_config_file(config, start):
    (job,) = parse("custom", ["--config", str(config)]).jobs
    assert start(*BAYESIAN) == 0
    (same,) = parse("custom", ["--config", str(start.folder / "config.yaml")]).jobs
    assert job == same


def test_an_unfinished_run(config, start, kill, capsys):
    kill(*BAYESIAN)
    (newest,) = start.folder.glob("checkpoints/step-00000002")
    values = json.loads((newest / "state.json").read_text())
    values["about"] = earlier(values["about"])
    assert {"lr", "task", "model", "warmup", "clip", "buckets", "eval_every"} <= values["about"].keys()
    assert {"k", "sigma", "beta", "alpha", "prior_shape", "sigma_prior"} <= values["about"]["bam"].keys()
    rewrite(newest / "state.json", json.dumps(values).encode())
    (start.folder / "config.yaml").write_text(config.read_text())
    for options, words in ((["--lr", "1"], "learning_rate=0.0001, and this run has 1.0"), (["--k", "3"], "bam.k=2.0")):
        assert start(*BAYESIAN, "--resume", *options) == 2
        assert f"was made with {words}" in capsys.readouterr().err
    (start.folder / "config.yaml").unlink()
    assert start(*BAYESIAN, "--resume", "--lr", "1") == 2
    assert "step-00000002 was made with learning_rate=0.0001" in capsys.readouterr().err
    (start.folder / "config.yaml").write_text(config.read_text())
    assert start(*BAYESIAN, "--resume") == 0


def test_a_finished_run(start, capsys):
    assert start(*BAYESIAN) == 0
    path = start.folder / "results.json"
    found = json.loads(path.read_text())
    found["settings"] = earlier(found["settings"])
    found["doubt"] = found.pop("uncertainty")
    path.write_text(json.dumps(found))
    capsys.readouterr()
    assert start(*BAYESIAN, "--resume") == 0
    assert "is already finished" in capsys.readouterr().out
    assert start(*BAYESIAN, "--resume", "--samples", "2") == 2
    assert "was made with num_samples=0, and this run has 2" in capsys.readouterr().err


def test_results_without_settings(start, capsys):
    """They are read from config.yaml, unless that belongs to a later run."""
    assert start() == 0
    results = start.folder / "results.json"
    old = {name: value for name, value in json.loads(results.read_text()).items() if name not in ("settings", "data")}
    results.write_text(json.dumps(old))
    config = start.folder / "config.yaml"
    config.write_text(config.read_text() + "num_train_epochs: 7.0\n")  # not used beside max_steps
    os.utime(config, (0, 0))
    assert start("--resume") == 0
    assert start("--resume", "--seed", "1") == 2
    os.utime(config)
    os.utime(results, (0, 0))
    capsys.readouterr()
    assert start("--resume") == 2
    assert "does not contain the settings of its run" in capsys.readouterr().err


def test_checkpoints_without_fingerprints(start, kill):
    kill()
    (newest,) = start.folder.glob("checkpoints/step-00000002")
    values = json.loads((newest / "state.json").read_text())
    del values["idle"], values["about"]["data"], values["about"]["frozen"]
    values["about"]["num_train_epochs"] = 7.0
    rewrite(newest / "state.json", json.dumps(values).encode())
    assert start("--resume") == 0


def test_a_setting_under_both_names(config):
    config.write_text(config.read_text() + "learning_rate: 1.0\n")
    with pytest.raises(ValueError, match="learning_rate is also given as lr, its earlier name"):
        parse("custom", ["--config", str(config)])
