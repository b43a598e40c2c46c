"""True alignments of the small parallel corpus, against the word lists."""

import re
from itertools import chain

import pytest

from hf_bam.tasks import lexicon, vocabulary
from hf_bam.tasks.alignments import token_alignments
from hf_bam.tasks.language import generate, split

NOUNS = [*lexicon.BEINGS, *lexicon.THINGS, *lexicon.RESOLVED, *lexicon.OPEN, *lexicon.NATURE, *lexicon.TOWN]
STEMS = {
    **{form: [stem for stem, _ in noun.senses] for noun in NOUNS for form in (noun.singular, noun.plural)},
    **{word: [*senses] for word, senses in (lexicon.ADJECTIVES | lexicon.OPEN_ADJECTIVES).items()},
    **{time: [word] for time, (word, _) in lexicon.TIMES.items()},
    **{word: [translation] for word, translation in lexicon.PREPOSITIONS.items()},
    "and": ["ke"],
    "the": ["l"],
    ".": ["."],
}
ENDING = "(?:[aeo]i?[nr]?)?"
AUXILIARY = re.compile("(?:dor|ses|fal)(?:em)?")


@pytest.fixture(scope="module")
def rows():
    return generate(800, 1, 1).train


def test_every_target_word_has_its_words_in_the_source(rows):
    """A word and its translation are in the word lists; auxiliaries and verbs are what is left."""
    for row in rows:
        source, target = split(row["source"]), split(row["target"])
        assert len(row["alignment"]) == len(target)
        for word, numbers in zip(target, row["alignment"], strict=True):
            words = [source[number] for number in numbers]
            if AUXILIARY.fullmatch(word) or word == target[-2]:
                (verb,) = (verb for verb in lexicon.VERBS if f"{verb.stem}ut" in target[-2])
                forms = [verb.base, verb.third, verb.past]
                expected = ["will"] if word.startswith("fal") else [form for form in forms if form in source][:1]
                if word == target[-2]:
                    expected = [form for form in forms if form in source][:1] + [verb.particle] * bool(verb.particle)
                assert words == expected
            else:
                (own,) = words
                assert any(re.fullmatch(f"{stem}{ENDING}", word) for stem in STEMS[own]), (word, own)


def test_no_source_word_is_left_over(rows):
    """Except for indefinite articles, which have no translation."""
    for row in rows:
        aligned = set(chain(*row["alignment"]))
        left = {word for number, word in enumerate(split(row["source"])) if number not in aligned}
        assert left <= {"a", "an"}


def test_each_article_belongs_to_its_own_noun(rows):
    for row in rows:
        source, target = split(row["source"]), split(row["target"])
        for position, numbers in enumerate(row["alignment"]):
            if source[numbers[0]] == "the":
                (noun,) = row["alignment"][position + 1]
                assert target[position][1:] in target[position + 1]
                assert noun - numbers[0] in (1, 2)  # an adjective may be between them


def test_the_tokens_of_aligned_words(rows):
    """Words of the tokenizer are those of the corpus, so that a token of a word is in exactly its words."""
    tokenizer = vocabulary.fit(chain(rows["source"], rows["target"]), 150, 64)
    some = rows.select(range(40))
    found, first = (token_alignments(some, tokenizer, first_only=only) for only in (False, True))
    encoded = {name: tokenizer(list(some[name])) for name in ("source", "target")}
    sizes = {name: max(map(len, own["input_ids"])) for name, own in encoded.items()}
    assert found.shape == (40, sizes["target"], sizes["source"])
    for row in range(40):
        words = {name: own.word_ids(row) for name, own in encoded.items()}
        assert 1 + max(words["target"][:-1]) == len(split(some[row]["target"]))
        assert 1 + max(words["source"][:-1]) == len(split(some[row]["source"]))
        for t, s in zip(*found[row].nonzero(), strict=True):
            assert words["source"][s] in some[row]["alignment"][words["target"][t]]
        length = len(words["target"])
        assert found[row, : length - 1].any(axis=1).all()
        assert not found[row, length - 1 :].any()
        own = first[row].any(axis=1)[: length - 1]
        assert own.tolist() == [word not in words["target"][:t] for t, word in enumerate(words["target"][:-1])]
        assert (first[row] <= found[row]).all()
