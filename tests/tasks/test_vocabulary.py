"""The tokenizer that is fitted on the training text."""

import random
import re

import pytest
from transformers import AutoTokenizer

from hf_bam.tasks import vocabulary
from hf_bam.tasks.language import generate

from ..models import marian

AWKWARD = [
    "Two  spaces, a tab\tand 3.14% (approximately).",
    "„Größe“ ist's — so wie Übermut!",
    "don't; can't... won't?!",
    "ein-zwei-drei/vier",
    "a page with </s> and <pad> in it",
]


@pytest.fixture(scope="module")
def texts():
    rows = generate(400, 1, 1).train
    return [*rows["source"], *rows["target"], *AWKWARD]


@pytest.fixture(scope="module")
def own(texts):
    return vocabulary.fit(texts, 200, 48)


def test_special_tokens_and_limits(own):
    assert own.convert_ids_to_tokens([0, 1, 2]) == ["</s>", "<unk>", "<pad>"]
    assert (own.eos_token_id, own.unk_token_id, own.pad_token_id) == (0, 1, 2)
    assert len(own) == 200
    assert own.model_max_length == 48


def test_decoding_gives_every_text_back(own, texts):
    ids = own(texts)["input_ids"]
    assert own.batch_decode(ids, skip_special_tokens=True) == texts
    assert not any(own.unk_token_id in one for one in ids)


def test_source_and_target_end_with_the_end_token_also_when_they_are_cut(own):
    long = "the dog sees the cat. " * 20
    for encoded in (own(long, truncation=True), own(text_target=long, truncation=True)):
        assert len(encoded["input_ids"]) == 48
        assert encoded["input_ids"].count(own.eos_token_id) == 1
        assert encoded["input_ids"][-1] == own.eos_token_id
    assert list(own("the dog")) == ["input_ids", "attention_mask"]


def test_punctuation_is_not_part_of_a_word(own):
    assert own.tokenize("dog,")[-1] == ","
    assert not [token for token in own.get_vocab() if re.search(r"[^\W▁][.,]|[.,][^\W▁]", token)]


def test_composed_and_decomposed_letters_are_the_same(own):
    assert own("Gro\u0308ße") == own("Größe")


def test_letters_that_were_never_seen(own):
    assert own("学校 dog")["input_ids"].count(own.unk_token_id) == 1
    assert own.decode(own("学校 dog")["input_ids"], skip_special_tokens=True).endswith("dog")


def test_the_same_texts_in_any_order_give_the_same_tokens(own, texts):
    mixed = random.Random(0).sample(texts, len(texts))
    assert vocabulary.fit(mixed, 200, 48).get_vocab() == own.get_vocab()
    assert vocabulary.fit(texts[:-100], 200, 48).get_vocab() != own.get_vocab()


def test_rare_words_are_cut_into_parts():
    texts = ["walking talking"] * 30 + ["walking"] * 30
    own = vocabulary.fit(texts, 1000, 48)
    assert own.tokenize("walking talking")[0] == "▁walking"
    assert len(own.tokenize("talking")) > 1


def test_auto_tokenizer_finds_it_beside_a_marian(own, texts, tmp_path):
    marian(vocab_size=len(own)).save_pretrained(tmp_path)
    own.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.is_fast
    assert loaded(texts, text_target=texts[::-1]) == own(texts, text_target=texts[::-1])
    assert (loaded.eos_token, loaded.unk_token, loaded.pad_token) == ("</s>", "<unk>", "<pad>")
    assert loaded.model_max_length == 48
    assert loaded.batch_decode(loaded(texts)["input_ids"], skip_special_tokens=True) == texts
