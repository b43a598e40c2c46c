"""Exact match and F1: values by hand, and torchmetrics as the oracle of 1.1."""

import numpy as np
import pytest
from torchmetrics.functional.text import squad as oracle

from hf_bam.tasks.squad_metrics import normalise, squad_1, squad_2

# prediction, gold answers, exact match and F1 by the rules of 1.1
CASES = [
    ("Denver Broncos", ["Denver Broncos", "Broncos"], 1, 1),
    ("the Denver Broncos!", ["denver  broncos"], 1, 1),  # article, punctuation, case, white space
    ("U.S.", ["us"], 1, 1),
    ("a-ha", ["aha"], 1, 1),  # punctuation goes first: no article is left
    ("an apple a day", ["apple day"], 1, 1),
    ("theatre", ["the atre"], 0, 0),  # articles are whole words
    ("Carolina Panthers", ["Denver Broncos", "Panthers"], 0, 2 / 3),  # the best of several golds
    ("in the north", ["north of the river"], 0, 2 / 5),  # {in, north} and {north, of, river}
    ("no no no", ["no"], 0, 1 / 2),  # a word counts as often as it occurs
    ("CAFÉ", ["café"], 1, 1),
    ("1914\u20131918", ["1914-1918"], 0, 0),  # only ASCII punctuation is removed
    ("", ["north"], 0, 0),
    ("the", ["a"], 1, 0),  # nothing is left of both: equal, and yet no word in common
]


@pytest.mark.parametrize(("text", "golds", "exact", "f1"), CASES)
def test_a_question_of_1_1(text, golds, exact, f1):
    assert squad_1([golds], [text]) == {"exact_match": 100 * exact, "f1": pytest.approx(100 * f1)}


def test_1_1_agrees_with_torchmetrics():
    cases = CASES[:-1]  # in the last one torchmetrics follows the rules of 2.0
    texts, golds = [case[0] for case in cases], [case[1] for case in cases]
    expected = oracle(
        [{"prediction_text": text, "id": str(index)} for index, text in enumerate(texts)],
        [
            {"answers": {"text": own, "answer_start": [0] * len(own)}, "id": str(index)}
            for index, own in enumerate(golds)
        ],
    )
    found = squad_1(golds, texts)
    assert found["exact_match"] == pytest.approx(expected["exact_match"].item())
    assert found["f1"] == pytest.approx(expected["f1"].item())


def test_normalise():
    assert normalise(' The "Quick",\tbrown  fox; (an) A-Z ') == "quick brown fox az"
    assert normalise("A. the an") == ""


# prediction, gold answers, exact match and F1 by the rules of 2.0
CASES_2 = [
    ("", [], 1, 1),
    ("north", [], 0, 0),
    ("the", [], 1, 1),  # nothing is left of it, as of no answer
    ("", ["north"], 0, 0),
    ("", ["the"], 1, 1),  # a gold of which nothing is left is none
    ("the north", ["the", "north"], 1, 1),
    ("far north", ["north", "the"], 0, 2 / 3),
]


@pytest.mark.parametrize(("text", "golds", "exact", "f1"), CASES_2)
def test_a_question_of_2_0(text, golds, exact, f1):
    scores = squad_2([golds], [text], [text], [0.0])
    assert (scores["exact"], scores["f1"], scores["total"]) == (100 * exact, pytest.approx(100 * f1), 1)


def test_2_0_by_kind_of_question():
    predictions, golds = ["north", "far south", "", "east"], [["north"], ["south"], [], []]
    scores = squad_2(golds, predictions, predictions, [0.0] * 4)
    named = {name: value for name, value in scores.items() if not name.startswith("best")}
    assert named == {
        "exact": 50,
        "f1": pytest.approx(100 * (1 + 2 / 3 + 1 + 0) / 4),
        "total": 4,
        "HasAns_exact": 50,
        "HasAns_f1": pytest.approx(100 * (1 + 2 / 3) / 2),
        "HasAns_total": 2,
        "NoAns_exact": 50,
        "NoAns_f1": 50,
        "NoAns_total": 2,
    }


def test_2_0_without_one_kind_of_question():
    assert not any(name.startswith("NoAns") for name in squad_2([["north"]], ["north"], ["north"], [0.0]))
    assert not any(name.startswith("HasAns") for name in squad_2([[]], [""], ["north"], [0.0]))


def test_the_best_threshold_by_hand():
    # In the order of their odds: right, wrong (no answer exists), right, right with F1 2/3, wrong.
    spans = ["north", "south", "east", "far west", "up"]
    golds = [["north"], [], ["east"], ["west"], []]
    odds = [-2.0, -1.0, 0.5, 1.5, 3.0]
    scores = squad_2(golds, [""] * 5, spans, odds)
    # Answered so far and what the sums become, of 5: none 2; 3, 2, 3, 3 (F1 3 2/3), 2 (F1 2 2/3).
    assert (scores["exact"], scores["f1"]) == (40, 40)
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (60, -2.0)  # the first of equals
    assert (scores["best_f1"], scores["best_f1_thresh"]) == (pytest.approx(100 * (3 + 2 / 3) / 5), 1.5)


def test_the_best_threshold_reaches_what_it_says():
    generator, number = np.random.default_rng(0), 60
    words = np.array(["north", "south", "east", "west"])
    golds = [[str(words[i])] if i < 4 else [] for i in generator.integers(0, 7, number)]
    spans = [
        own[0] if own and i else "far east" for own, i in zip(golds, generator.integers(0, 3, number), strict=True)
    ]
    odds = generator.normal(size=number) + [0.0 if own else 1.0 for own in golds]

    def scores(threshold):
        texts = [span if own <= threshold else "" for span, own in zip(spans, odds, strict=True)]
        return squad_2(golds, texts, spans, odds)

    for name in ("exact", "f1"):
        best = max(scores(threshold)[name] for threshold in odds)
        found = scores(0.0)
        assert found[name] < found[f"best_{name}"] == pytest.approx(best)
        assert scores(found[f"best_{name}_thresh"])[name] == pytest.approx(best)


def test_the_best_threshold_may_be_to_answer_nothing():
    scores = squad_2([[], []], ["up"] * 2, ["up"] * 2, [-5.0, -4.0])
    assert scores["best_f1"] == 100
    assert scores["best_f1_thresh"] < -5
