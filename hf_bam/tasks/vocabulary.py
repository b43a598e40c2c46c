"""Tokenizer of a model from scratch: byte pair encoding, fitted on the training text."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

END, UNKNOWN, PAD = "</s>", "<unk>", "<pad>"
COMMON = 50
"""Lowest frequency of a token. Rarer words are split into parts that occur more often, so that all are learned."""


def fit(texts: Iterable[str], size: int, max_length: int) -> PreTrainedTokenizerBase:
    """Return a tokenizer with at most `size` tokens; the same texts give the same tokens.

    Words are split at spaces and punctuation. Every text gets an end token. Decoding restores a text whose characters
    occur in `texts`.

    Args:
        texts: training text; both sides of a parallel corpus give a shared vocabulary.
        max_length: number of tokens that the model reads.
    """
    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN, fuse_unk=True))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()])
    tokenizer.decoder = decoders.Metaspace()
    special = [END, UNKNOWN, PAD]
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=COMMON, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", special_tokens=[(END, tokenizer.token_to_id(END))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        unk_token=UNKNOWN,
        pad_token=PAD,
        model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
        split_special_tokens=True,  # a text that happens to contain "</s>" does not end there
    )
