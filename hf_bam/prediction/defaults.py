"""Defaults of a predictor, which follow from its model."""

from __future__ import annotations

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..patching.architectures import CLASSIFIERS, OUTPUTS
from .heads import HEADS

NO_LIMIT = int(1e6)  # tokenizers without a maximum length have a very large one


def longest(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the largest number of tokens that the model reads."""
    limits = [getattr(tokenizer, "model_max_length", None), getattr(model.config, "max_position_embeddings", None)]
    return min((limit for limit in limits if isinstance(limit, int) and 0 < limit < NO_LIMIT), default=NO_LIMIT)


def head_of(model: PreTrainedModel) -> str:
    """Return the name of the head that fits the class and the config of a model."""
    name = type(model).__name__
    if name.endswith(CLASSIFIERS):
        kind = model.config.problem_type
        if kind == "multi_label_classification":
            return "multi-label"
        return "regression" if kind == "regression" or model.config.num_labels == 1 else "classification"
    for ending, head in OUTPUTS.items():
        if name.endswith(ending):
            return head
    raise ValueError(
        f"What a {name} predicts cannot be told from its name; choose head={', '.join(map(repr, HEADS))}."
    )
