"""Tables of everything that is specific to an architecture of transformers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any


def albert_layers(config: Any, path: str) -> tuple[int, ...]:
    """Return the layers in which the module at `path` runs, in their order: ALBERT shares one module."""
    found = re.search(r"albert_layer_groups\.(\d+)\.", path)
    if found is None:
        raise ValueError(f"{path!r} is not a module of an ALBERT layer group.")
    layers_per_group = config.num_hidden_layers / config.num_hidden_groups
    return tuple(i for i in range(config.num_hidden_layers) if int(i / layers_per_group) == int(found[1]))


SHARED_LAYERS: dict[str, Callable[[Any, str], tuple[int, ...]]] = {"albert": albert_layers}
"""Models that run one attention module in several layers, by `model_type`."""
SHARES_PREFIX = {"albert", "bert", "distilbert", "electra", "roberta", "vit", "xlm-roberta"}
"""Model types whose forward needs nothing of its inputs after the layers, so that these can repeat the batch."""
NO_TOKENS = {"blt": "patches of bytes and not over tokens"}
"""Models whose queries do not correspond to the tokens that an attention mask is about, by `model_type`."""

CROSS = re.compile(r"cross|encoder_attn|EncDec", re.IGNORECASE)
"""Names of cross-attention within a layer."""
HEAD_DIM = ("qk_head_dim", "head_dim", "attention_head_size", "key_value_proj_dim", "head_size", "out_channels")
"""Names that attention modules have for the size of a head."""
VALUE_DIM = ("v_head_dim",)
"""Names that attention modules have for the size of the values of a head, where keys have another one."""
HEADS = ("num_heads", "num_attention_heads", "n_heads")
"""Names that attention modules have for the number of their heads."""

PROJECTIONS: dict[str, str | None] = {
    "bart": "out_proj",
    "bert": None,
    "marian": "out_proj",
    "recurrent": None,
    "t5": "o",
}
"""Name of the output projection inside an attention module, by `model_type`; None: it is outside. Of models in which
everything behind the last cross-attention is a function of one target position and broadcasts over more dimensions."""
READOUTS = {"recurrent": "readout"}
"""Layer beside an attention module that reads its output behind the decoder's state, by `model_type`; of models that
feed this output back."""
CLASSIFIERS = ("ForSequenceClassification", "ForImageClassification")
"""Ends of the class names of models that classify by the state of their first token, for types of `SHARES_PREFIX`."""
NO_CACHE = {"bart", "marian", "recurrent"}
"""Models whose forward with labels makes no cache."""
MASKS_TARGET = {"encoder-decoder"}
"""Models that mask the padding of decoder inputs which they make from labels."""

DROPOUT_ATTRIBUTES = ("dropout", "attention_dropout", "activation_dropout", "attn_dropout")
"""Names that modules have for rates that they pass to the dropout function."""
DROPOUT = ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout")
CLASSIFIER_DROPOUT = ("classifier_dropout_prob", "classifier_dropout", "seq_classif_dropout")
"""Names that configs have for the rates of the layers and of the classifier."""

ADAPTED = ("query", "value", "q_proj", "v_proj", "q_lin", "v_lin", "q", "v", "query_proj", "value_proj")
"""Projections of queries and values, in the names of different models."""
COMMON_PROJECTIONS = ("query_key_value", "in_proj")
"""Common projections of queries, keys and values, for models that have no others."""
NEW_HEADS = ("classifier", "qa_outputs", "score")
"""New layers at the end of a pretrained model."""

VISUAL = "ForVisualQuestionAnswering"
"""End of the class names of models that classify pairs of an image and a question."""
OUTPUTS = {
    VISUAL: "classification",
    "ForTokenClassification": "tokens",
    "ForQuestionAnswering": "question-answering",
    "ForCausalLM": "generation",
    "LMHeadModel": "generation",
    "MTModel": "generation",
    "ForConditionalGeneration": "generation",
    "EncoderDecoderModel": "generation",
    "Model": "embeddings",
}
"""Kind of prediction, by the end of a model's class name; the first that fits."""

POOLING = {"eurobert": "mean", "t5gemma": "next"}
"""Token whose logits a classifier of every token returns, by `model_type`; for others it is the last one.

"mean": the mean of all. "next": the one behind the last, because the decoder reads the text shifted by one.
"""
