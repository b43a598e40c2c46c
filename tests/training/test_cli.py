"""Options, errors and help of the command line."""

import json
import re
import runpy
from pathlib import Path

import pytest

from hf_bam import BamConfig
from hf_bam.cli import main
from hf_bam.tasks import TASKS
from hf_bam.training.arguments import commands, make_parser, parse

SCRIPTS = Path(__file__).parents[2] / "scripts"


def job(command, *argv):
    (only,) = parse(command, argv).jobs
    return only


def test_every_task_has_a_command():
    assert set().union(*commands().values()) == set(TASKS)


def test_options_of_all_kinds():
    made = job(
        "squad", "--version", "2.0", "--lr", "1e-3", "--max_grad_norm", "none", "--k", "3", "--bam_attention", "self"
    )
    assert made.options == {"version": "2.0"}
    assert (made.recipe.learning_rate, made.recipe.max_grad_norm) == (1e-3, None)
    assert (made.recipe.bam.k, made.recipe.bam.attention) == (3.0, "self")
    assert made.recipe.max_steps == 8144  # the paper's recipe by default
    assert job("glue", "--task", "rte", "--prior", "none", "--layers", "[0, -1]").recipe.bam == BamConfig.preset(
        "rte", prior="none", layers=(0, -1)
    )
    assert job("translation", "--layers", "2").options == {"layers": 2}
    assert job("translation", "--layers", "2", "--bam_layers", "1").recipe.bam.layers == 1
    assert job("glue", "--task", "rte", "--freeze_embeddings").recipe.freeze_embeddings
    assert not job("sentiment", "--freeze_embeddings", "false").recipe.freeze_embeddings


def test_both_spellings():
    long = ["--model_name_or_path", "m", "--learning_rate", "1", "--num_train_epochs", "2", "--num_samples", "3"]
    short = ["--model", "m", "--lr", "1", "--epochs", "2", "--samples", "3"]
    assert job("glue", "--task_name", "rte", *long) == job("glue", "--task", "rte", *short)
    long = parse("squad", ["--output_dir", "here", "--resume_from_checkpoint"])
    assert (long.output, long.options) == (Path("here"), {"resume": True})
    assert parse("squad", ["--output", "here", "--resume"]) == long


def test_another_family_than_the_recipes():
    made = job("glue", "--task_name", "mrpc", "--recipe", "fast", "--family", "lognormal", "--sigma", "0.5").recipe.bam
    assert made == BamConfig(family="lognormal", sigma=0.5)
    made = job("squad", "--recipe", "fast", "--family", "multinomial", "--counts", "8").recipe.bam
    assert made == BamConfig(family="multinomial", counts=8)


def test_tasks_and_seeds():
    request = parse("glue", ["--task", "rte", "mrpc", "--seeds", "0", "1"])
    assert [(made.task_name, made.seed) for made in request.jobs] == [("rte", 0), ("rte", 1), ("mrpc", 0), ("mrpc", 1)]
    assert [made.recipe.learning_rate for made in request.jobs] == [3e-5, 3e-5, 2e-5, 2e-5]  # each has its recipe
    assert len(parse("glue", ["--task", "all"]).jobs) == 9


def test_all_of_glue_and_another_task():
    columns = ["--text_column", "a", "--label_column", "b"]
    assert [made.task_name for made in parse("glue", ["--task", "custom", "all", *columns]).jobs][-2:] == [
        "wnli",
        "custom",
    ]


def test_epochs_on_the_command_line_replace_steps_of_the_recipe():
    recipe = job("glue", "--task", "mrpc", "--epochs", "2").recipe
    assert (recipe.num_train_epochs, recipe.max_steps) == (2, None)
    assert recipe.replace(max_steps=5).max_steps == 5
    assert recipe.replace(max_steps=5).replace(num_train_epochs=1).max_steps is None


def test_lora():
    assert [job("squad", *argv).lora for argv in ([], ["--lora"], ["--lora", "false"])] == [False, True, False]
    with pytest.raises(ValueError, match="lora='no' is not valid; it must be true or false"):
        job("squad", "--lora", "no")


def test_a_config_file_of_another_command(tmp_path):
    (tmp_path / "config.yaml").write_text("task_name: rte\n")
    assert job("glue", "--config", str(tmp_path / "config.yaml")).task_name == "rte"
    with pytest.raises(ValueError, match=r"config.yaml: task_name='rte' is not a task of this command; it has squad"):
        parse("squad", ["--config", str(tmp_path / "config.yaml")])


def test_an_option_goes_to_the_tasks_that_have_it():
    columns = ["--text_column", "a", "--label_column", "b"]
    rte, own = parse("glue", ["--task", "rte", "custom", *columns]).jobs
    assert rte.options == {}
    assert own.options == {"text_column": "a", "label_column": "b"}


def test_push():
    assert parse("squad", ["--push_to_hub", "--hub_model_id", "me/it"]).options["hub_model_id"] == "me/it"
    assert "hub_model_id" not in parse("squad", []).options


def test_default_models():
    assert job("glue", "--task", "rte").model_name_or_path == "albert-base-v2"
    assert (job("sentiment").model_name_or_path, job("sentiment").recipe.max_length) == ("minilm", 64)
    assert job("translation").model_name_or_path == "scratch"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["glue"], "--task_name is not given; choose some of cola"),
        (
            ["glue", "--task", "rte", "--lr", "-1"],
            "Recipe.learning_rate=-1 is not valid; it must be a number above 0, 1000 at most.",
        ),
        (["glue", "--task", "rte", "--k", "0"], "BamConfig.k=0 is not valid"),
        (["glue", "--task", "rte", "--config", "nowhere.yaml"], "nowhere.yaml cannot be read"),
        (["glue", "--task", "rte", "--data_dir", "nowhere"], "error: nowhere"),
        (["custom", "--text_column", "text"], "The task custom needs label_column"),
        (["sentiment", "--report_to", "paper"], "report_to='paper' is not possible"),
        (["sentiment", "--max_length", "12:30:45"], "Recipe.max_length='12:30:45' is not valid"),
        (["sentiment", "--max_steps", "1_000"], "Recipe.max_steps='1_000' is not valid"),
        (["sentiment", "--k", "[1"], "BamConfig.k='[1' is not valid"),
        (["sentiment", "--max_grad_norm", "#5"], "Recipe.max_grad_norm='#5' is not valid"),
        (["sentiment", "--seed", "1_0"], "seed='1_0' is not valid"),
        (["sentiment", "--limit", "0x10"], "limit='0x10' is not valid"),
        (["sentiment", "--freeze_embeddings", "yes"], "Recipe.freeze_embeddings='yes' is not valid"),
        (["sentiment", "--epochs", "1", "--max_steps", "2"], "num_train_epochs=1 and max_steps=2 are both given"),
        (["sentiment", "--seeds", "0", "1", "0"], "seed-0 would hold two runs"),
        (["sentiment", "--resume", "--overwrite_output_dir"], "exclude each other"),
        (["glue", "--task", "rte", "rte"], "seed-0 would hold two runs"),
        (["glue", "--task", "rte", "--text_column", "a"], "--text_column is not an option of rte"),
        (["sentiment", "--hub_model_id", "me/it"], "--hub_model_id me/it has no effect without --push_to_hub"),
        (["sentiment", "--seeds", "0", "1", "--push_to_hub"], "one repository for 2 runs"),
    ],
)
def test_errors_are_one_line(argv, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert words in err
    assert len(err.splitlines()) == 1


def test_a_model_that_does_not_exist(custom, tmp_path, capsys):
    assert main(["custom", *custom, "--model", "./nowhere", "--output", str(tmp_path)]) == 2
    assert "model_name_or_path='./nowhere' cannot be loaded" in capsys.readouterr().err


def test_debug_raises_the_error(capsys):
    with pytest.raises(ValueError, match="learning_rate=-1"):
        main(["glue", "--task", "rte", "--lr", "-1", "--debug"])


@pytest.mark.parametrize(
    "argv",
    [["glue", "--task", "mrcp"], ["glue", "--task", "rte", "--family", "gauss"], ["squad", "--version", "3"]],
)
def test_choices(argv, capsys):
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    assert "choose from" in capsys.readouterr().err


def test_help(capsys):
    assert main([]) == 2
    assert main(["--help"]) == 0
    assert "hf-bam glue" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["translation", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "Weibull shape. The log weights" in text  # from the docstrings of the fields
    assert "Beams of the search" in text


def test_dashes(capsys):
    assert main(["glue", "--task", "rte", "--batch-size=0"]) == 2
    assert "Recipe.batch_size=0" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["run_glue", "run_squad", "run_translation"])
def test_scripts(name, monkeypatch, capsys):
    """They run the command of the same name."""
    path = SCRIPTS / f"{name}.py"
    assert len(path.read_text().splitlines()) < 60
    monkeypatch.setattr("sys.argv", [str(path), "--lr", "0", *(["--task", "rte"] if name == "run_glue" else [])])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(path), run_name="__main__")
    assert stop.value.code == 2
    assert (
        capsys.readouterr().err
        == "error: Recipe.learning_rate=0 is not valid; it must be a number above 0, 1000 at most.\n"
    )


def test_version_and_unknown_commands(capsys):
    assert main(["--version"]) == 0
    assert re.fullmatch(r"hf_bam \d+\.\d+\.\d+\n", capsys.readouterr().out)
    assert main(["gleu"]) == 2
    assert re.match(r"error: 'gleu' is not a command; choose one of .*glue", capsys.readouterr().err)


def test_the_help_shows_the_defaults_of_the_recipes():
    text = " ".join(make_parser("glue", "x").format_help().split())
    assert "Peak learning rate of AdamW. Default: 2e-05 (paper), 0.0001 (fast)." in text
    assert "Optimizer steps between two lines of log.jsonl. Default: 10." in text
    assert "Default: none." in text


def test_resuming_reads_the_settings_of_the_folder(start, kill):
    kill("--seed", "3")
    assert main(["custom", "--output_dir", str(start.folder), "--resume"]) == 0
    assert json.loads((start.folder / "results.json").read_text())["settings"]["seed"] == 3
