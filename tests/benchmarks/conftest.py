"""Fixtures of the study: the tiny model and the rows of the training tests, and a grid of two configurations."""

import pytest

from ..training.conftest import _libraries, data_folder, model_folder  # noqa: F401  (fixtures)


@pytest.fixture
def grid(model_folder, data_folder):  # noqa: F811
    columns = {"text_column": "text", "label_column": "label"}
    tiny = {"num_train_epochs": 1, "holdout": 12, "num_samples": 3, "uncertainty_rows": 10, "logging_steps": 1}
    return {
        "common": {"recipe": "fast", "model_name_or_path": str(model_folder), **tiny},
        "tasks": {"custom": {"data": data_folder.name, "options": columns}},
        "configurations": {"plain": {"attention": "plain"}, "BAM k=2": {"bam": {"k": 2.0}}},
        "plan": [{"tasks": ["custom"], "configurations": ["plain", "BAM k=2"], "seeds": [0]}],
    }
