"""Training on graphs: settings, early stopping, runs, and the command line."""

import json
import math

import pytest
import torch
from safetensors.torch import load_file

import hf_bam
from hf_bam import BamConfig
from hf_bam.cli import main
from hf_bam.families.presets import TABLE_1
from hf_bam.tasks.planetoid import Gat, load
from hf_bam.training.graphs import DATASETS, VARIANTS, GraphJob, run, run_all
from hf_bam.training.graphs.command import parse
from hf_bam.training.graphs.evaluation import measures, predictions
from hf_bam.training.graphs.loop import EarlyStopping, train
from hf_bam.training.graphs.run import summary

from .planetoid_files import CLASSES, WORDS, write_graph

QUICK = {"max_epochs": 25, "num_samples": 4, "learning_rate": 0.02}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planetoid")
    for dataset in ("pubmed", "cora"):
        write_graph(folder, dataset)
    return folder


@pytest.fixture
def graph(folder):
    return load("pubmed", folder)


def test_the_settings_of_the_paper():
    config = GraphJob(variant="wc").bam_config()
    assert (config.family, config.prior, config.k, config.beta, config.d_mid) == ("weibull", "contextual", 1, 1e-10, 1)
    assert (config.annealing, config.annealing_rate, config.kl_weight) == ("sigmoid", 0.1, 1)
    config = GraphJob(variant="wf").bam_config()
    assert (config.prior, config.alpha, config.beta, config.annealing_rate) == ("fixed", 1e-15, 1e-10, 0.2)
    config = GraphJob(variant="lc").bam_config()
    assert (config.family, config.sigma, config.sigma_prior) == ("lognormal", 1e-15, 1e15)
    assert GraphJob(variant="lf").bam_config().sigma == 1e-6
    assert [GraphJob(dataset, "nokl").bam_config().k for dataset in DATASETS] == [1, 100, 10]
    assert GraphJob("pubmed", "wf").bam_config().alpha == 1e-4
    assert GraphJob(variant="gat").bam_config() is None
    assert GraphJob(variant="bam").bam_config() == BamConfig()
    assert len(TABLE_1) == len(DATASETS) * (len(VARIANTS) - 2)


def test_defaults_of_the_published_code_depend_on_the_graph():
    jobs = [GraphJob(dataset) for dataset in ("cora", "pubmed")]
    assert [(job.learning_rate, job.weight_decay, job.output_heads) for job in jobs] == [
        (0.005, 5e-4, 1),
        (0.01, 1e-3, 8),
    ]
    assert GraphJob("pubmed", output_heads=2).output_heads == 2


def test_changes_of_the_attention_go_to_the_families_that_have_them():
    changes = {"k": 3.0, "kl_weight": 0.1}
    assert GraphJob(variant="wc", bam=changes).bam_config().k == 3
    config = GraphJob(variant="lc", bam=changes).bam_config()
    assert (config.family, config.kl_weight) == ("lognormal", 0.1)
    assert GraphJob(variant="wc", bam={"family": "lognormal", "sigma": 0.5}).bam_config().sigma == 0.5
    with pytest.raises(ValueError, match=r"BamConfig.k=-1 is not valid"):
        GraphJob(variant="wc", bam={"k": -1})
    with pytest.raises(ValueError, match=r"GraphJob.variant='bam-wc' is not valid; it must be one of 'gat'"):
        GraphJob(variant="bam-wc")


def test_early_stopping_is_that_of_the_published_code():
    stopping = EarlyStopping(patience=2)
    epochs = [(0.5, 1.0), (0.6, 1.1), (0.55, 0.9), (0.5, 1.0), (0.6, 0.9), (0.1, 2.0)]
    rules = [stopping.update(*epoch) for epoch in epochs]
    assert rules == [["published", "loss"], [], ["loss"], [], ["published", "loss"], []]
    assert not stopping.is_over
    assert stopping.update(0.59, 1.0) == []
    assert stopping.is_over


def test_training_stops_and_keeps_the_best_weights(graph):
    torch.manual_seed(0)
    model = hf_bam.patch(Gat(WORDS, CLASSES))
    job = GraphJob("pubmed", patience=3, max_epochs=200, learning_rate=0.05)
    course = train(model, graph, job)
    assert course.epochs < 200
    assert 0 < course.best_epochs["published"] <= course.best_epochs["loss"] <= course.epochs
    assert course.task_loss > 0
    assert course.kl_loss > 0
    assert model.bam_step == course.epochs
    assert course.weights["loss"]["bam_step"] == course.best_epochs["loss"]


def test_a_loss_that_is_not_finite_is_an_error(graph):
    model = hf_bam.patch(Gat(WORDS, CLASSES))
    with torch.no_grad():
        model.conv2.bias.fill_(math.inf)
    with pytest.raises(FloatingPointError, match="The loss is not finite at epoch 0"):
        train(model, graph, GraphJob("pubmed"))


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_runs(graph, variant):
    model, record = run(GraphJob("pubmed", variant, **QUICK), graph)
    methods = ["mean", "MC dropout"] if variant == "gat" else ["mean", "samples", "samples and dropout"]
    for rule in ("published", "loss"):
        for part in ("test", "validation"):
            assert list(record["selected"][rule][part]) == methods
            assert all(own["accuracy"] > 0.8 for own in record["selected"][rule][part].values())
    assert hf_bam.is_patched(model) == (variant != "gat")
    assert math.isnan(record["selected"]["loss"]["test"]["mean"]["pavpu"])  # no test of a single sample
    assert 0 <= record["selected"]["loss"]["test"][methods[1]]["pavpu"] <= 1
    json.dumps(record)


def test_runs_are_reproducible_and_start_from_the_same_weights(graph):
    records = [run(GraphJob("pubmed", "wc", **QUICK), graph)[1] for _ in range(2)]
    for record in records:
        record.pop("seconds")
    assert json.dumps(records[0]) == json.dumps(records[1])
    once = {"max_epochs": 1, "num_samples": 2, "learning_rate": 1e-30}
    weights = [run(GraphJob("pubmed", name, **once), graph)[0].conv1.lin.weight for name in ("gat", "wc")]
    assert torch.equal(*weights)


def test_the_flat_priors_of_the_paper_do_nothing(graph):
    """Without noise, and with a prior that is flat, two variants are one: fixed or contextual makes no difference."""
    logits = []
    for variant in ("lf", "lc"):
        model, _ = run(GraphJob("pubmed", variant, **QUICK), graph)
        logits.append(model(graph.x, graph.edge_index))
    torch.testing.assert_close(*logits, rtol=1e-3, atol=1e-3)


def test_predictions_and_their_measures(graph):
    model = hf_bam.patch(Gat(WORDS, CLASSES)).eval()
    before = torch.get_rng_state()
    samples = predictions(model, graph, 5, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert not model.training
    assert [tuple(own.shape[:1]) for own in samples.values()] == [(1,), (5,), (5,)]
    again = predictions(model, graph, 5, seed=1)
    assert all(torch.equal(own, again[name]) for name, own in samples.items())
    spread = {name: own.std(dim=0).mean() for name, own in samples.items() if name != "mean"}
    assert spread["samples and dropout"] > spread["samples"] > 0
    found = measures(samples, graph.labels, graph.test)["mean"]
    predicted = samples["mean"][0].argmax(-1)
    assert found["accuracy"] == pytest.approx((predicted == graph.labels)[graph.test].float().mean().item())


def test_the_command(folder, tmp_path, capsys):
    output = tmp_path / "out"
    argv = ["graph", "--dataset", "cora", "--data_dir", str(folder), "--variant", "gat", "wc", "--seeds", "0", "1"]
    argv += ["--max-epochs", "8", "--samples", "2", "--k", "2", "--lr", "0.02", "--output_dir", str(output)]
    assert main(argv) == 0
    printed = capsys.readouterr().out
    assert "cora: 560 nodes" in printed
    assert printed.count("test accuracy") == 4
    records = json.loads((output / "results.json").read_text())
    assert [(record["variant"], record["seed"]) for record in records] == [
        ("gat", 0),
        ("gat", 1),
        ("wc", 0),
        ("wc", 1),
    ]
    assert records[-1]["settings"]["bam"]["k"] == 2
    graph = load("cora", folder)
    model = Gat(WORDS, CLASSES)
    model.load_state_dict(load_file(output / "wc" / "seed-1" / "model.safetensors"))
    hf_bam.load(model, output / "wc" / "seed-1")
    found = measures(predictions(model, graph, 2), graph.labels, graph.test)
    assert found["samples"]["accuracy"] == records[-1]["selected"]["published"]["test"]["samples"]["accuracy"]
    assert main(argv) == 2
    assert "has results of other runs" in capsys.readouterr().err
    assert main([*argv, "--overwrite_output_dir"]) == 0


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "--data_dir is not given"),
        (["--data_dir", "nowhere"], "nowhere has no ind.cora.x"),
        (
            ["--data_dir", "x", "--dropout", "1"],
            "GraphJob.dropout=1 is not valid; it must be a number, 0 or above and",
        ),
        (["--data_dir", "x", "--variant", "wc", "--sigma", "1"], "--sigma is not a setting of wc; leave it out"),
        (["--data_dir", "x", "--variant", "gat", "--k", "1"], "--k is not a setting of gat; leave it out"),
        (["--data_dir", "x", "--k", "0"], "BamConfig.k=0 is not valid"),
    ],
)
def test_errors_are_one_line(argv, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["graph", *argv]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert words in err
    assert len(err.splitlines()) == 1


def test_options():
    jobs, options = parse(["--data_dir", "x", "--variant", "all", "--seed", "3", "3", "--k", "5", "--sigma", "1"])
    assert [job.variant for job in jobs] == [*VARIANTS]
    assert {job.seed for job in jobs} == {3}
    assert [job.bam_config().k for job in jobs if job.variant in ("nokl", "wc")] == [5, 5]
    assert str(options["output"]) == "out/graph-cora"


def test_summary_is_the_mean_over_seeds():
    def record(seed, accuracy):
        names = ("nll", "ece", "error_auroc", "epistemic")
        own = {"accuracy": accuracy, **dict.fromkeys(names, 0.5), "pavpu": math.nan}
        return {"variant": "wc", "seed": seed, "selected": {"loss": {"test": {"mean": own}}}}

    (row,) = summary([record(0, 0.8), record(1, 0.9)], "loss")
    assert row["accuracy"] == pytest.approx(0.85)
    assert row["std"] == pytest.approx(0.0707, abs=1e-4)
    assert math.isnan(row["pavpu"])


def test_run_all_writes_nothing_without_a_folder(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = []
    records = run_all([GraphJob("pubmed", **QUICK)], folder, log=lines.append)
    assert len(records) == 1
    assert list(tmp_path.iterdir()) == []
    assert "pubmed: 560 nodes" in lines[0]
