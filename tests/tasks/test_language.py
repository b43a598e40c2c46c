"""The small parallel corpus. Its grammar is checked by a parser that shares only the word lists."""

import re
import runpy
import sys
from collections import Counter
from pathlib import Path

import pytest
from datasets import Dataset
from sacrebleu import sentence_bleu

from hf_bam.tasks import language, lexicon, parallel
from hf_bam.tasks.language import Phrase, Sentence, ambiguous, ceiling, generate

NOUNS = {
    sense
    for nouns in (lexicon.BEINGS, lexicon.THINGS, lexicon.RESOLVED, lexicon.OPEN, lexicon.NATURE, lexicon.TOWN)
    for noun in nouns
    for sense in noun.senses
}
ADJECTIVES = {stem for senses in (lexicon.ADJECTIVES | lexicon.OPEN_ADJECTIVES).values() for stem in senses}
NATURE = re.compile("river|lake|forest|hill")
ENDING = "(?P<gender>[aeo])(?P<plural>i?)(?P<case>[nr]?)"
ARTICLE = re.compile(f"l{ENDING}")
NOUN = re.compile(f"(?P<stem>{'|'.join(stem for stem, _ in NOUNS)}){ENDING}")
ADJECTIVE = re.compile(f"(?P<stem>{'|'.join(ADJECTIVES)}){ENDING}")
AUXILIARY = re.compile("(?:dor|ses|fal)(?P<plural>em)?")
POSTPOSITION = re.compile("thet|umber|kolin")
TIME = re.compile("tesho|veshi|nalu|emi|gorai|pivu")
VERB = re.compile("[a-z]+ut(?P<gender>[aeo])(?P<plural>i?)")


@pytest.fixture(scope="module")
def data():
    return generate(train=1500, dev=100, test=200)


@pytest.fixture(scope="module")
def rows(data):
    return list(data.train)


def noun_phrase(words):
    """Takes article, noun and adjective from the front of the words; they must agree. Gender, number and case."""
    article = ARTICLE.fullmatch(words[0])
    parts = [article, NOUN.fullmatch(words[1 if article else 0])]
    del words[: 2 if article else 1]
    if words and ADJECTIVE.fullmatch(words[0]):
        parts.append(ADJECTIVE.fullmatch(words.pop(0)))
    (ending,) = {(part["gender"], part["plural"], part["case"]) for part in parts if part}
    assert (parts[1]["stem"], ending[0]) in NOUNS
    return ending


def subject(words):
    """Number of the subject, one or two phrases."""
    endings = [noun_phrase(words)]
    if words[0] == "ke":
        del words[0]
        endings.append(noun_phrase(words))
    assert all(case == "" for _, _, case in endings)
    return "i" if len(endings) == 2 else endings[0][1]


def read(target):
    """Parse a sentence, fail where it breaks the grammar, and return whether it has a time and a place."""
    words = target.removesuffix(".").split()
    assert target.endswith(".")
    timed = bool(TIME.fullmatch(words[0]))
    if timed:
        auxiliary = AUXILIARY.fullmatch(words[1])
        del words[:2]
        plural = subject(words)
    else:
        plural = subject(words)
        auxiliary = AUXILIARY.fullmatch(words.pop(0))
    assert bool(auxiliary["plural"]) == bool(plural)
    endings = [noun_phrase(words)]
    placed = endings[0][2] == "r"
    if placed:
        assert POSTPOSITION.fullmatch(words.pop(0))
        endings.append(noun_phrase(words))
    (last,) = words
    verb = VERB.fullmatch(last)
    assert endings[-1] == (verb["gender"], verb["plural"], "n")
    return timed, placed


def test_every_translation_obeys_the_grammar(rows):
    for row in rows:
        for target in row["translations"]:
            timed, placed = read(target)
            assert timed == bool(re.search(r"\b(yesterday|once|today|now|tomorrow|soon)\b", row["source"]))
            assert placed == bool(re.search(r"\b(near|behind|beside)\b", row["source"]))


@pytest.mark.parametrize(
    "broken",
    [
        "lo kerra ses lan suran olmuta.",  # a noun of another gender than its article
        "lo kerro sesem lan suran olmuta.",  # one dog, and an auxiliary for several
        "lo kerro ses lan surain olmuta.",  # one article, several lamps
        "lo kerro ses lan suran olmuto.",  # a verb of another gender than its object
        "lo kerro ses olmuta lan suran.",  # a verb before its object
        "nalu lo kerro ses lan suran olmuta.",  # an auxiliary in the third place
    ],
)
def test_the_parser_of_these_tests_fails_on_broken_sentences(broken):
    read("lo kerro ses lan suran olmuta.")
    with pytest.raises((AssertionError, TypeError, ValueError)):
        read(broken)


def noun(word):
    groups = (lexicon.BEINGS, lexicon.THINGS, lexicon.RESOLVED, lexicon.OPEN, lexicon.NATURE, lexicon.TOWN)
    return next(noun for group in groups for noun in group if noun.singular == word)


def sentence_of(subjects, verb, tense, thing, place=None, time="", time_first=True):
    (meant,) = (one for one in lexicon.VERBS if f"{one.base} {one.particle}".strip() == verb)
    return Sentence(tuple(subjects), meant, tense, thing, place, "near", time, time_first)


def test_the_example_of_the_documentation():
    farmer, dog = Phrase(noun("farmer"), "", False, True), Phrase(noun("dog"), "", False, False)
    boats, lake = Phrase(noun("boat"), "old", True, True), Phrase(noun("lake"), "", False, True)
    sentence = sentence_of([farmer, dog], "take away", "past", boats, lake, "yesterday")
    english, translation = language.__doc__.splitlines()[2:4]
    assert [sentence.english(), *sentence.translations()] == [english.strip(), translation.strip()]


@pytest.mark.parametrize(("place", "bank"), [("river", "lan lervan olmuta."), ("market", "lon dugaton olmuto.")])
def test_a_place_decides_what_a_bank_is_and_article_and_verb_follow(place, bank):
    phrases = [Phrase(noun(word), "", False, True) for word in ("woman", "bank", place)]
    (translation,) = sentence_of(phrases[:1], "see", "future", *phrases[1:]).translations()
    assert translation.endswith(bank)


@pytest.mark.parametrize(("verb", "stem"), [("take", "jelk"), ("take away", "min"), ("take back", "rivosh")])
def test_a_particle_behind_the_object_decides_on_the_verb(verb, stem):
    phrases = [Phrase(noun(word), "", False, True) for word in ("woman", "apple")]
    sentence = sentence_of(phrases[:1], verb, "present", phrases[1], time="now", time_first=False)
    particle = verb.removeprefix("take")
    assert sentence.english() == f"the woman takes the apple{particle} now."
    assert sentence.translations() == [f"emi ses la selta lan yavlan {stem}uta."]


def test_english_articles_and_forms():
    assert Phrase(noun("apple"), "", False, False).english() == "an apple"
    assert Phrase(noun("apple"), "red", False, False).english() == "a red apple"
    assert Phrase(noun("child"), "old", False, False).english() == "an old child"
    assert Phrase(noun("mouse"), "", True, False).english() == "mice"
    dogs, cat = Phrase(noun("dog"), "", True, True), Phrase(noun("cat"), "", False, True)
    assert sentence_of([dogs], "see", "present", cat).english() == "the dogs see the cat."
    assert sentence_of([cat, cat], "see", "present", dogs).english() == "the cat and the cat see the dogs."
    assert sentence_of([cat], "see", "future", dogs).english() == "the cat will see the dogs."


def test_the_same_seed_gives_the_same_sentences(data):
    again, other = generate(1500, 100, 200), generate(1500, 100, 200, seed=1)
    assert again.train.to_dict() == data.train.to_dict()
    assert again.evaluation["test"].to_dict() == data.evaluation["test"].to_dict()
    assert other.train["source"][:10] != data.train["source"][:10]


def test_no_sentence_is_in_two_sets_or_twice_in_one(data):
    sources = [source for rows in (data.train, *data.evaluation.values()) for source in rows["source"]]
    assert len(sources) == len(set(sources)) == 1800
    assert list(data.evaluation) == ["dev", "test"]


def test_a_third_of_the_sentences_is_of_each_kind(rows):
    shares = Counter(row["kind"] for row in rows)
    assert all(abs(shares[kind] / len(rows) - 1 / 3) < 0.05 for kind in ("plain", "resolved", "open"))


def test_ambiguous_words_are_named():
    assert ambiguous("the uncles saw a cat.") == {"uncles": "open"}
    assert ambiguous("the dog saw a bank near the river.") == {"bank": "resolved"}
    assert ambiguous("a dog will find a mouse.") == {"mouse": "resolved"}
    assert ambiguous("the dog saw the river.") == {}


def test_kinds_fit_the_sentences_and_their_translations(rows):
    for row in rows:
        assert len(row["translations"]) == len(set(row["translations"])) == (2 if row["kind"] == "open" else 1)
        assert row["target"] in row["translations"]
        assert list(ambiguous(row["source"]).values()) == ([] if row["kind"] == "plain" else [row["kind"]])


def test_context_resolves_in_every_sentence(rows):
    senses = {"bank": ("lerv", "dugat"), "bat": ("nifl", "plesk"), "crane": ("avir", "hestrul")}
    senses["mouse"] = senses["mice"] = ("pipil", "drogan")
    for row in (row for row in rows if row["kind"] == "resolved"):
        (word,) = ambiguous(row["source"])
        wild, tame = senses[word if word in senses else word.removesuffix("s")]
        right, wrong = (wild, tame) if NATURE.search(row["source"]) else (tame, wild)
        assert f" {right}" in row["target"]
        assert f" {wrong}" not in row["target"]


def test_a_fair_coin_decides_on_open_words(rows):
    sides = [row["translations"].index(row["target"]) for row in rows if row["kind"] == "open"]
    deviation = (len(sides) / 4) ** 0.5
    assert abs(sum(sides) - len(sides) / 2) < 4 * deviation


def test_the_ceiling_is_the_mean_of_right_and_wrong_guesses():
    right, wrong = "la selta ses lon mabrion olmuto.", "la selta ses lon sotrion olmuto."
    open_row = Dataset.from_list([{"target": right, "translations": [right, wrong]}])
    expected = (100 + sentence_bleu(wrong, [right], use_effective_order=False).score) / 2
    assert ceiling(open_row, guesses=1000) == pytest.approx(expected, rel=0.02)
    plain_row = Dataset.from_list([{"target": right, "translations": [right]}])
    assert ceiling(plain_row) == pytest.approx(100)


def test_the_script_writes_files_that_are_read_back(tmp_path, monkeypatch, capsys):
    script = Path(__file__).parents[2] / "scripts" / "make_language.py"
    sizes = ["--train", "30", "--dev", "10", "--test", "20", "--seed", "3"]
    monkeypatch.setattr(sys, "argv", [str(script), str(tmp_path / "language"), *sizes])
    runpy.run_path(str(script), run_name="__main__")
    assert "train.qaa" in capsys.readouterr().out
    read_back, made = parallel.read_folder(tmp_path / "language", "en", "qaa"), generate(30, 10, 20, seed=3)
    sets = {"train": read_back.train, **read_back.evaluation}
    for name, rows in {"train": made.train, **made.evaluation}.items():
        assert sets[name].to_dict() == rows.select_columns(["source", "target"]).to_dict()
