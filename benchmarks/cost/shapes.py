"""Random models in the shapes of well-known ones, batches for them, and three kinds of attention."""

import torch
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    MarianConfig,
    MarianMTModel,
)

import hf_bam

from . import naive

KINDS = ("plain", "BAM", "naive")


def bert(dropout=0.0):
    return BertForSequenceClassification(
        BertConfig(hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout, num_labels=2)
    )


def bert_with_dropout():
    """Return BERT with the dropout of its config, for which plain attention does not use its fused kernel."""
    return bert(dropout=0.1)


def albert():
    return AlbertForSequenceClassification(
        AlbertConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072, num_labels=2)
    )


def marian():
    """Return a model in the shape of opus-mt."""
    size = {"d_model": 512, "vocab_size": 58101, "max_position_embeddings": 512, "scale_embedding": True}
    stacks = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in MARIAN_STACK.items()}
    tokens = {"pad_token_id": 58100, "decoder_start_token_id": 58100, "eos_token_id": 0, "forced_eos_token_id": None}
    return MarianMTModel(MarianConfig(**size, **stacks, **tokens, activation_function="swish", dropout=0.0))


def minilm(layers=6):
    size = {"hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": layers, "num_labels": 2}
    return BertForSequenceClassification(
        BertConfig(
            **size,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            problem_type="single_label_classification",  # transformers would set it in the first step
        )
    )


def short_minilm():
    return minilm(layers=3)


MARIAN_STACK = {"layers": 6, "attention_heads": 8, "ffn_dim": 2048}
MODELS = {
    "BERT-base": bert,
    "BERT-base, dropout 0.1": bert_with_dropout,
    "ALBERT-base": albert,
    "Marian": marian,
    "MiniLM": minilm,
    "MiniLM, 3 layers": short_minilm,
}


def build(model, kind, **settings):
    """Return a model in training mode; its weights are the same for all kinds of attention."""
    torch.manual_seed(0)
    built = MODELS[model]()
    if kind != "plain":
        hf_bam.patch(built, hf_bam.BamConfig.preset("BAM-WC").replace(**settings))
    if kind == "naive":
        built.set_attn_implementation(naive.NAME)
    return built.train()


def batch_for(model, batch, length):
    ids = torch.randint(1000, 20000, (batch, length), generator=torch.Generator().manual_seed(0))
    labels = ids if model == "Marian" else torch.zeros(batch, dtype=torch.long)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


def training_step(model, kind, batch, length, compiled=False, **settings):
    """Return a function that makes one step: forward, backward, optimizer."""
    built, inputs = build(model, kind, **settings), batch_for(model, batch, length)
    optimizer = torch.optim.AdamW(built.parameters(), lr=1e-5)
    forward = torch.compile(built) if compiled else built

    def step():
        forward(**inputs).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def inference(model, kind, batch, length):
    """Return a function that makes one forward pass in evaluation mode; kind `"BAM, sampled"` draws one sample."""
    built, inputs = build(model, kind.split(",")[0]).eval(), batch_for(model, batch, length)
    if model != "Marian":
        del inputs["labels"]

    def run():
        with torch.inference_mode():
            if kind.endswith("sampled"):
                with hf_bam.sampling(built):
                    built(**inputs)
            else:
                built(**inputs)

    return run
