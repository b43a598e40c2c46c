"""A tokenizer of one's own: byte pair encoding, fitted on the training text."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

END, UNKNOWN, PAD = "</s>", "<unk>", "<pad>"
COMMON = 50
"""How often a token has to be there at least, to be learnt well; longer ones are cut into parts that are."""


def fit(texts: Iterable[str], size: int, max_length: int) -> PreTrainedTokenizerBase:
    """A tokenizer with at most `size` tokens; the same texts give the same tokens.

    Words are cut at spaces and punctuation. Every text gets an end token, and decoding gives it back as it was, if its
    characters were seen in `texts`.

    Args:
        texts: both sides of a parallel text make a vocabulary that they share.
        max_length: tokens that the model can read.
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
