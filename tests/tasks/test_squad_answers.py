"""Answers of SQuAD: from hand-made scores of tokens to predictions."""

from dataclasses import replace

import numpy as np
import pytest

from hf_bam.tasks.squad import Squad

from .squad_scores import CONTEXT, answers, rows, windows_of

TASK = Squad(version="2.0", doc_stride=16)
QUESTIONS = [("Who kept lighthouse 2?", "Nr2"), ("Who kept lighthouse 11?", "Nr11"), ("Who kept the moon?", None)]


@pytest.fixture(scope="module", params=["start", "end"])
def tokenizer(request, tokenizer, end_tokenizer):
    """Tokenizers with the classification token at the start, and at the end behind left padding."""
    return tokenizer if request.param == "start" else end_tokenizer


@pytest.fixture(scope="module")
def data():
    return rows(*QUESTIONS)


@pytest.fixture(scope="module")
def features(data, tokenizer):
    return windows_of(data, tokenizer, 64, TASK.doc_stride)


def flat_scores(features, null=0.0):
    found = []
    for feature in features:
        scores = np.full((2, len(feature["begins"])), -4.0)
        scores[:, feature["null"]] = null / 2
        found.append({"start_logits": scores[0], "end_logits": scores[1]})
    return found


def text_begins(feature):
    """First characters of the tokens, without the space that some tokenizers include."""
    return [begin + (begin >= 0 and CONTEXT[begin].isspace()) for begin in feature["begins"]]


def peak(features, found, row, text, start, end):
    """Raise the scores of a text in all windows of a row that contain it; return the number of these windows."""
    begin, windows = CONTEXT.index(text), 0
    for feature, output in zip(features, found, strict=True):
        begins = text_begins(feature)
        if feature["row"] == row and begin in begins and begin + len(text) in feature["ends"]:
            output["start_logits"][begins.index(begin)] = start
            output["end_logits"][feature["ends"].index(begin + len(text))] = end
            windows += 1
    return windows


def test_the_best_span_of_all_windows_is_the_answer(data, features, tokenizer):
    found = flat_scores(features, null=-2.0)
    assert peak(features, found, 0, "lighthouse 2 was called Nr2", 3.0, 1.0) == 1
    assert peak(features, found, 1, "Nr11", 2.0, 2.5) >= 1
    assert peak(features, found, 1, "harbour 133", 1.0, 1.0) == 1  # in the last window
    first, second, third = answers(TASK, data, features, found, tokenizer)
    assert (first.text, second.text) == ("lighthouse 2 was called Nr2", "Nr11")
    assert (first.null_odds, second.null_odds) == (-2.0 - 4.0, -2.0 - 4.5)
    assert (third.text, third.null_odds) == ("", -2.0 + 8.0)
    assert third.span in CONTEXT
    assert [choice.text for choice in second.n_best][:2] == ["Nr11", "harbour 133"]
    chosen = second.n_best[0]
    assert (chosen.start_logit, chosen.end_logit) == (2.0, 2.5)


def test_probabilities_are_the_softmax_over_the_best(data, features, tokenizer):
    found = flat_scores(features, null=1.0)
    peak(features, found, 0, "Nr2", 2.0, 1.0)
    answer = answers(replace(TASK, n_best=3), data, features, found, tokenizer)[0]
    scores = [choice.start_logit + choice.end_logit for choice in answer.n_best]
    assert scores == [3.0, 1.0, -2.0, -2.0]  # the span, no answer, and two that share one end with the span
    assert [choice.probability for choice in answer.n_best] == pytest.approx(np.exp(scores) / np.exp(scores).sum())
    assert answer.probability == answer.n_best[0].probability
    assert [choice.text for choice in answer.n_best][:2] == ["Nr2", ""]
    always = answers(Squad(n_best=3, doc_stride=16), data, features, found, tokenizer)[0]
    assert [choice.start_logit + choice.end_logit for choice in always.n_best] == [3.0, -2.0, -2.0]


def test_no_answer_needs_odds_above_the_threshold(data, features, tokenizer):
    found = flat_scores(features, null=5.0)
    peak(features, found, 0, "Nr2", 2.0, 1.0)
    texts = {
        threshold: answers(replace(TASK, null_threshold=threshold), data, features, found, tokenizer)[0].text
        for threshold in (-1.0, 1.9, 2.0, 2.1)
    }
    assert texts == {-1.0: "", 1.9: "", 2.0: "Nr2", 2.1: "Nr2"}
    always = Squad(null_threshold=-100.0, doc_stride=16)
    assert answers(always, data, features, found, tokenizer)[0].text == "Nr2"


def test_one_window_with_the_answer_is_enough(data, features, tokenizer):
    found = flat_scores(features, null=10.0)
    holder = next(i for i, f in enumerate(features) if f["row"] == 1 and CONTEXT.index("Nr11") in text_begins(f))
    peak(features, found, 1, "Nr11", 2.0, 2.0)
    found[holder]["start_logits"][features[holder]["null"]] = -6.0
    answer = answers(TASK, data, features, found, tokenizer)[1]
    assert (answer.text, answer.null_odds) == ("Nr11", -6.0 + 5.0 - 4.0)


def test_answers_keep_to_the_context_and_to_their_length(data, features, tokenizer):
    found = flat_scores(features)
    for feature, output in zip(features, found, strict=True):
        outside = np.flatnonzero(np.array(feature["begins"]) < 0)
        output["start_logits"][outside], output["end_logits"][outside] = 20.0, 20.0
    peak(features, found, 0, "Nr2, and he came from harbour 14", 9.0, 9.0)
    places = tokenizer(CONTEXT, add_special_tokens=False, return_offsets_mapping=True, verbose=False)["offset_mapping"]

    def number_of_tokens(text):
        begin = CONTEXT.index(text)
        return sum(a + CONTEXT[a].isspace() >= begin and b <= begin + len(text) for a, b in places)

    length = number_of_tokens("Nr2, and he came from harbour 14")
    enough, short = (
        answers(Squad(max_answer_length=most, doc_stride=16), data, features, found, tokenizer)[0]
        for most in (length, length - 1)
    )
    assert enough.text == "Nr2, and he came from harbour 14"
    assert short.text != enough.text
    assert all(0 < number_of_tokens(choice.text) < length for choice in short.n_best)


def test_a_span_in_two_windows_is_one_answer(data, features, tokenizer):
    begin = next(
        begin
        for begin in text_begins(features[0])
        if begin >= 0 and begin in text_begins(features[1]) and CONTEXT[begin:].startswith("lighthouse")
    )
    found = flat_scores(features)
    for score, feature, output in zip((2.0, 3.0), features, found, strict=False):
        for name in ("start_logits", "end_logits"):
            output[name][text_begins(feature).index(begin)] = score
    answer = answers(TASK, data, features, found, tokenizer)[0]
    assert [choice.text for choice in answer.n_best].count("lighthouse") == 1
    assert (answer.text, answer.n_best[0].start_logit) == ("lighthouse", 3.0)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_an_error(data, features, tokenizer, wrong):
    found = flat_scores(features)
    found[-1]["end_logits"][3] = wrong
    with pytest.raises(ValueError, match=f"1 of {len(features)} outputs are not finite: training has diverged"):
        answers(TASK, data, features, found, tokenizer)
