"""Fixtures of the task tests."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from .squad_scores import CONTEXT, INPUTS


@pytest.fixture(scope="session")
def end_tokenizer():
    """Words with the space before them, a classification token at the end, and padding on the left."""
    words = ["▁" + word.rstrip(".,") for word in set(f"Who? {CONTEXT}".split())]
    vocabulary = {word: index for index, word in enumerate(["<pad>", "<unk>", "<sep>", "<cls>", ",", ".", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <sep> <cls>", pair="$A <sep> $B:1 <sep>:1 <cls>:2", special_tokens=[("<sep>", 2), ("<cls>", 3)]
    )
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "sep_token": "<sep>", "cls_token": "<cls>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, padding_side="left", model_input_names=INPUTS, **special
    )
