"""Check of inputs against the number of positions of a model, before it is trained."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..tasks.base import Data, Task

TABLES = ("position_embeddings", "embed_positions", "wpe")
"""Names of tables with a row for each position."""
AFTER_PADDING = ("roberta", "camembert", "data2vec-text", "esm", "ibert", "longformer", "mpnet")
"""Parts of the names of models whose first position follows the index of the padding token."""


def position_limit(model: PreTrainedModel) -> int | None:
    """Return the number of tokens for which a model has positions; None if it has no such limit."""
    names = (name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, nn.Embedding))
    limit = getattr(model.config, "max_position_embeddings", None)
    if limit is None or not any(name in TABLES for name in names):
        return None
    after = any(part in model.config.model_type for part in AFTER_PADDING)
    return int(limit) - (int(model.config.pad_token_id or 0) + 1 if after else 0)


def check_positions(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, task: Task, data: Data, max_length: int
) -> None:
    """Raise `ValueError` if inputs that are cut at `max_length` tokens are longer than the model allows."""
    limit, max_length = position_limit(model), task.input_length(max_length, tokenizer)
    output: int = task.predictor_options.get("max_length", 0)
    if limit is not None and output > limit:
        raise ValueError(
            f"max_target_length={output - 1} is too long: {type(model).__name__} has positions for {limit} tokens; "
            f"give max_target_length={limit - 1} or less."
        )
    if limit is None or max_length <= limit:
        return
    for name, rows in data.sets.items():
        found = tokenizer(task.inputs(rows), truncation=True, max_length=max_length)["input_ids"]
        longest = max(map(len, found), default=0)
        if longest > limit:
            raise ValueError(
                f"max_length={max_length} is too long: {type(model).__name__} has positions for {limit} tokens, and "
                f"the set {name} has inputs of {longest}; give max_length={limit} or less."
            )
