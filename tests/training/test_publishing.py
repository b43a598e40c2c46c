"""Model card of a run: names on the Hub, settings and files."""

import huggingface_hub
import pytest
import yaml
from huggingface_hub import ModelCard

import hf_bam
from hf_bam.training import publishing
from hf_bam.training.recipe import Recipe
from hf_bam.training.results import Result
from hf_bam.training.settings import Job

from ..models import bert

SCORES = {"dev": {"accuracy": 0.75, "f1": 0.8, "average": 0.775}}


def card(folder, scores=SCORES, task="mrpc", pages=(), **changes):
    job = Job(task, "minilm", recipe=Recipe(num_train_epochs=1), **changes)
    result = Result(task, folder, scores, {}, {})
    return publishing.card(result, hf_bam.patch(bert()), job, job.make_task(), "somebody/bam-mrpc", pages)


def test_names_are_those_of_the_hub(tmp_path):
    made = card(tmp_path)
    made.write(tmp_path)
    header = ModelCard.load(tmp_path / "README.md").data
    assert header.base_model == "sentence-transformers/all-MiniLM-L6-v2"
    assert header.datasets == ["nyu-mll/glue"]
    found = {own.metric_type: own for own in header.eval_results}
    assert found.keys() == {"accuracy", "f1"}
    one = found["accuracy"]
    assert (one.dataset_type, one.dataset_config, one.dataset_split) == ("nyu-mll/glue", "mrpc", "validation")


@pytest.mark.parametrize(
    ("task", "scores", "expected"),
    [("mrpc", SCORES["dev"], ("accuracy", 0.75)), ("cola", {"matthews": 0.5}, ("matthews_correlation", 0.5))],
)
def test_the_main_score_is_in_eval_results(task, scores, expected, tmp_path):
    """It is the score of the task, or the first one if the Hub has no such metric."""
    card(tmp_path, {"dev": scores}, task=task).write(tmp_path)
    content = yaml.safe_load((tmp_path / ".eval_results" / "hf_bam.yaml").read_text())
    if hasattr(huggingface_hub, "parse_eval_result_entries"):
        (entry,) = huggingface_hub.parse_eval_result_entries(content)
        assert (entry.dataset_id, entry.task_id, entry.value) == ("nyu-mll/glue", task, expected[1])
        assert entry.notes.startswith(f"{expected[0]}, split validation")


@pytest.mark.parametrize("changes", [{"data_dir": "data"}, {"eval_limit": 5}, {"limit": 5}])
def test_other_rows_than_those_of_the_hub_are_not_claimed(changes, tmp_path):
    made = card(tmp_path, **changes)
    assert made.eval_results is None
    assert "model-index" not in made.text
    assert "dev accuracy" in made.text


def test_settings_without_an_effect_are_left_out(tmp_path):
    text = card(tmp_path).text.split("## Training")[1].split("## Limitations")[0]
    assert "| learning_rate |" in text
    assert "| seed | 0 |" in text
    for name in ("lora_rank", "save_steps", "logging_steps", "gradient_checkpointing", "ensemble_tail"):
        assert name not in text
    assert "lora_rank" in card(tmp_path, lora=True).text


def test_figures_of_the_first_report(tmp_path):
    page = tmp_path / "report" / "dev" / "report.html"
    (page.parent / "figures").mkdir(parents=True)
    (page.parent / "figures" / "risk-coverage.png").write_bytes(b"png")
    made = card(tmp_path, pages=[page])
    (tmp_path / "model").mkdir()
    made.write(tmp_path / "model")
    assert "![risk-coverage](figures/risk-coverage.png)" in made.text
    assert (tmp_path / "model" / "figures" / "risk-coverage.png").read_bytes() == b"png"
