"""Tiny random models of many architectures, and batches for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForSequenceClassification,
    BertLMHeadModel,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    EncoderDecoderConfig,
    EncoderDecoderModel,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    PreTrainedModel,
    RobertaConfig,
    RobertaForSequenceClassification,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

from hf_bam.models import RecurrentConfig, RecurrentForConditionalGeneration

from .adapted import bloom, deberta, deberta_v2, falcon, falcon_alibi, gpt_neo, gptj, mpnet
from .sizes import LABELS, PAD, SMALL, SMALL_SEQ2SEQ, VOCABULARY

Batch = dict[str, torch.Tensor]


def text(lengths: tuple[int, ...] = (7, 5, 3), width: int = 7) -> Batch:
    """Return token ids with padding on the right; no other token has the id of the padding."""
    mask = (torch.arange(width) < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(3, VOCABULARY, mask.shape)
    return {"input_ids": ids.where(mask.bool(), torch.tensor(PAD)), "attention_mask": mask}


def classification(lengths: tuple[int, ...] = (7, 5, 3), width: int = 7) -> Batch:
    return text(lengths, width) | {"labels": torch.arange(len(lengths)) % LABELS}


def language_model(lengths: tuple[int, ...] = (7, 5, 3), width: int = 7) -> Batch:
    batch = text(lengths, width)
    return batch | {"labels": batch["input_ids"].where(batch["attention_mask"].bool(), torch.tensor(-100))}


def translation(lengths: tuple[int, ...] = (7, 5, 3), width: int = 7) -> Batch:
    """Return a batch with targets one token shorter than the source, padded with -100, and no decoder mask."""
    labels = language_model(tuple(n - 1 for n in lengths), width - 1)["labels"]
    return text(lengths, width) | {"labels": labels}


def image(lengths: tuple[int, ...] = (7, 5, 3), width: int = 7) -> Batch:
    return {"pixel_values": torch.randn(len(lengths), 3, 8, 8), "labels": torch.arange(len(lengths)) % LABELS}


def speech(lengths: tuple[int, ...] = (7, 5, 3), width: int = 7) -> Batch:
    return {"input_features": torch.randn(len(lengths), 8, 24), "labels": translation(lengths, width)["labels"]}


def albert(**changes: Any) -> PreTrainedModel:
    sizes = {**SMALL, "embedding_size": 16, "num_hidden_layers": 12, **changes}
    return AlbertForSequenceClassification(AlbertConfig(**sizes))


def bert(**changes: Any) -> PreTrainedModel:
    return BertForSequenceClassification(BertConfig(**{**SMALL, **changes}))


def bert_decoder(**changes: Any) -> PreTrainedModel:
    return BertLMHeadModel(BertConfig(**{**SMALL, "is_decoder": True, **changes}))


def bert2bert(**changes: Any) -> PreTrainedModel:
    encoder = BertConfig(**{**SMALL, **changes})
    decoder = BertConfig(**{**SMALL, **changes, "is_decoder": True, "add_cross_attention": True})
    config = EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.pad_token_id, config.decoder_start_token_id = PAD, 2
    return EncoderDecoderModel(config)


def marian(**changes: Any) -> PreTrainedModel:
    return MarianMTModel(MarianConfig(**{**SMALL_SEQ2SEQ, **changes}))


def bart(**changes: Any) -> PreTrainedModel:
    return BartForConditionalGeneration(BartConfig(**{**SMALL_SEQ2SEQ, **changes}))


def roberta(**changes: Any) -> PreTrainedModel:
    return RobertaForSequenceClassification(RobertaConfig(**{**SMALL, **changes}))


def distilbert(**changes: Any) -> PreTrainedModel:
    sizes = {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "pad_token_id": PAD}
    rates = {"dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0, "num_labels": LABELS}
    return DistilBertForSequenceClassification(DistilBertConfig(**{**sizes, **rates, **changes}))


def gpt2(**changes: Any) -> PreTrainedModel:
    sizes = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
    rates = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 2, "eos_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(**{**sizes, **rates, **changes}))


def llama(**changes: Any) -> PreTrainedModel:
    sizes = {name: SMALL[name] for name in list(SMALL)[:6]}
    special = {"num_key_value_heads": 2, "pad_token_id": PAD, "bos_token_id": 2, "eos_token_id": 0}
    return LlamaForCausalLM(LlamaConfig(**{**sizes, **special, **changes}))


def gemma2(**changes: Any) -> PreTrainedModel:
    sizes = {name: SMALL[name] for name in list(SMALL)[:6]}
    special = {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 4, "pad_token_id": PAD}
    return Gemma2ForCausalLM(Gemma2Config(**{**sizes, **special, "bos_token_id": 2, "eos_token_id": 0, **changes}))


def t5(**changes: Any) -> PreTrainedModel:
    sizes = {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    special = {"dropout_rate": 0.0, "pad_token_id": PAD, "eos_token_id": 0, "decoder_start_token_id": PAD}
    return T5ForConditionalGeneration(T5Config(**{**sizes, **special, **changes}))


def vit(**changes: Any) -> PreTrainedModel:
    sizes = {name: SMALL[name] for name in ("hidden_size", "num_hidden_layers", "num_attention_heads")}
    special = {"intermediate_size": 48, "image_size": 8, "patch_size": 4, "num_labels": LABELS}
    return ViTForImageClassification(ViTConfig(**{**sizes, **special, **changes}))


def whisper(**changes: Any) -> PreTrainedModel:
    special = {
        "num_mel_bins": 8,
        "max_source_positions": 12,
        "max_target_positions": 64,
        "begin_suppress_tokens": None,
    }
    sizes = {name: value for name, value in SMALL_SEQ2SEQ.items() if name != "max_position_embeddings"}
    return WhisperForConditionalGeneration(WhisperConfig(**{**sizes, **special, **changes}))


def recurrent(**changes: Any) -> PreTrainedModel:
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_attention_heads": 4, "dropout": 0.0}
    special = {"pad_token_id": PAD, "eos_token_id": 0}
    return RecurrentForConditionalGeneration(RecurrentConfig(**{**sizes, **special, **changes}))


def recurrent_parallel(**changes: Any) -> PreTrainedModel:
    return recurrent(**{"input_feeding": False, **changes})


@dataclass(frozen=True)
class Architecture:
    """Builder of a model and of batches for it."""

    build: Callable[..., PreTrainedModel]
    batch: Callable[..., Batch]


PROMISED = {
    "albert": Architecture(albert, classification),
    "bert": Architecture(bert, classification),
    "bert-decoder": Architecture(bert_decoder, language_model),
    "bert2bert": Architecture(bert2bert, translation),
    "marian": Architecture(marian, translation),
}
OTHERS = {
    "bart": Architecture(bart, translation),
    "distilbert": Architecture(distilbert, classification),
    "gemma2": Architecture(gemma2, language_model),
    "gpt2": Architecture(gpt2, language_model),
    "llama": Architecture(llama, language_model),
    "recurrent": Architecture(recurrent, translation),
    "recurrent-parallel": Architecture(recurrent_parallel, translation),
    "roberta": Architecture(roberta, classification),
    "t5": Architecture(t5, translation),
    "vit": Architecture(vit, image),
    "whisper": Architecture(whisper, speech),
}
ADAPTED = {
    "bloom": Architecture(bloom, language_model),
    "deberta": Architecture(deberta, classification),
    "deberta-v2": Architecture(deberta_v2, classification),
    "falcon": Architecture(falcon, language_model),
    "falcon-alibi": Architecture(falcon_alibi, language_model),
    "gpt-neo": Architecture(gpt_neo, language_model),
    "gptj": Architecture(gptj, language_model),
    "mpnet": Architecture(mpnet, classification),
}
"""Models that do not use the attention interface."""
ARCHITECTURES = PROMISED | OTHERS | ADAPTED
