"""Tiny random models that do not use transformers' attention interface."""

from __future__ import annotations

from typing import Any

from transformers import (
    BloomConfig,
    BloomForCausalLM,
    DebertaConfig,
    DebertaForSequenceClassification,
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    FalconConfig,
    FalconForCausalLM,
    GPTJConfig,
    GPTJForCausalLM,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    MPNetConfig,
    MPNetForSequenceClassification,
    PreTrainedModel,
)

from .sizes import PAD, SMALL, VOCABULARY

SPECIAL = {"vocab_size": VOCABULARY, "pad_token_id": PAD, "bos_token_id": 2, "eos_token_id": 0}
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": 4}
HIDDEN = {"hidden_size": 32, "num_attention_heads": 4}


def deberta(**changes: Any) -> PreTrainedModel:
    return DebertaForSequenceClassification(DebertaConfig(**{**SMALL, **RELATIVE, **changes}))


def deberta_v2(**changes: Any) -> PreTrainedModel:
    """Return a model with the settings of version 3, whose positions use the projections of the content."""
    special = {"share_att_key": True, "position_buckets": 4, "norm_rel_ebd": "layer_norm"}
    return DebertaV2ForSequenceClassification(DebertaV2Config(**{**SMALL, **RELATIVE, **special, **changes}))


def mpnet(**changes: Any) -> PreTrainedModel:
    return MPNetForSequenceClassification(MPNetConfig(**{**SMALL, **changes}))


def bloom(**changes: Any) -> PreTrainedModel:
    sizes = {"hidden_size": 32, "n_layer": 2, "n_head": 4}
    return BloomForCausalLM(BloomConfig(**{**SPECIAL, **sizes, **changes}))


def falcon(**changes: Any) -> PreTrainedModel:
    return FalconForCausalLM(FalconConfig(**{**SPECIAL, **HIDDEN, "num_hidden_layers": 2, **changes}))


def falcon_alibi(**changes: Any) -> PreTrainedModel:
    return falcon(**{"alibi": True, "multi_query": False, "parallel_attn": False, "bias": True, **changes})


def gptj(**changes: Any) -> PreTrainedModel:
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 4}
    rates = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "tie_word_embeddings": False}
    return GPTJForCausalLM(GPTJConfig(**{**SPECIAL, **sizes, **rates, **changes}))


def gpt_neo(**changes: Any) -> PreTrainedModel:
    """Return a model whose second layer attends to the last three tokens."""
    sizes = {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 64, "window_size": 3}
    rates = {"resid_dropout": 0.0, "embed_dropout": 0.0, "attention_dropout": 0.0}
    kinds = {"attention_types": [[["global", "local"], 1]]}
    return GPTNeoForCausalLM(GPTNeoConfig(**{**SPECIAL, **sizes, **rates, **kinds, **changes}))
