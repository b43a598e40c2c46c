import importlib
import sys

import pytest

import hf_bam
from hf_bam.tasks import TASKS, get_task

GLUE = ["cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli"]


def test_names():
    assert list(TASKS) == [
        *GLUE,
        "autoencode",
        "clinc150",
        "custom",
        "sentiment",
        "squad",
        "text2text",
        "translation",
        "vqa",
    ]


@pytest.mark.parametrize("name", [*GLUE, "sentiment"])
def test_a_task_has_the_name_that_it_is_asked_for_by(name):
    assert get_task(name).name == name


def test_options_are_fields_of_the_task():
    assert get_task("sentiment", domain="news").domain == "news"
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        get_task("sentiment", colour="red")


def test_an_unknown_name_is_an_error_with_the_choices():
    with pytest.raises(ValueError, match="name='sst2' is not a task; choose one of cola, sst-2, mrpc"):
        get_task("sst2")


def test_tasks_are_imported_when_they_are_asked_for(monkeypatch):
    monkeypatch.setattr(hf_bam, "tasks", hf_bam.tasks)
    for module in [name for name in sys.modules if name.startswith("hf_bam.tasks")]:
        monkeypatch.delitem(sys.modules, module)
    fresh = importlib.import_module("hf_bam.tasks")
    assert [name for name in sys.modules if name.startswith("hf_bam.tasks.")] == []
    assert fresh.get_task("cola").name == "cola"
    assert "hf_bam.tasks.glue" in sys.modules
