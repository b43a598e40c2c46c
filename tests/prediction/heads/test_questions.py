"""Question answering: spans, n-best, windows, no answer."""

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import entropy
from transformers import BertForQuestionAnswering, ByT5Tokenizer

import hf_bam
from hf_bam.prediction import BamPredictor, Plain, Predictor
from hf_bam.prediction.heads.spans import Spans, best_spans, joined, window_spans, windows

from ...models import bert

CONTEXT = "The tower is three hundred metres tall. It was built in Paris by a company of engineers in two years."
QUESTION = "Where was the tower built?"


@pytest.fixture
def model(tokenizer):
    config = bert(vocab_size=len(tokenizer), initializer_range=0.3, max_position_embeddings=512, num_labels=2).config
    return hf_bam.patch(BertForQuestionAnswering(config), k=1.0)


def best_span(model, tokenizer, most=30):
    """Brute force over all spans of the context, from the logits of the model."""
    encoding = tokenizer(QUESTION, CONTEXT, return_tensors="pt", return_offsets_mapping=True)
    offsets = encoding.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        output = model.eval()(**encoding)
    inside = [i for i, kind in enumerate(encoding.sequence_ids(0)) if kind == 1]
    start, end = output.start_logits[0].tolist(), output.end_logits[0].tolist()
    spans = {(i, j): start[i] + end[j] for i in inside for j in inside if i <= j < i + most}
    i, j = max(spans, key=spans.get)
    return (offsets[i][0], offsets[j][1]), spans, start[0] + end[0]


def test_the_answer_is_the_most_probable_span(model, tokenizer):
    (start, end), spans, _ = best_span(model, tokenizer)
    result = Predictor(Plain(model), tokenizer, n_best=500)([(QUESTION, CONTEXT)])[0]
    assert (result.start, result.end, result.answer) == (start, end, CONTEXT[start:end])
    scores = np.array(list(spans.values()))
    expected = np.exp(scores.max()) / np.exp(scores).sum()
    assert result.probability == pytest.approx(expected, rel=1e-4)
    assert np.isnan(result.null_probability)


def test_no_answer_is_a_choice_by_its_log_odds(model, tokenizer):
    _, spans, null = best_span(model, tokenizer)
    result = Predictor(Plain(model), tokenizer, n_best=500, null_answer=True)([(QUESTION, CONTEXT)])[0]
    expected = np.exp(null) / (np.exp(list(spans.values())).sum() + np.exp(null))
    assert result.null_probability == pytest.approx(expected, rel=1e-4)
    odds = null - max(spans.values())
    assert result.null_odds == pytest.approx(odds, abs=1e-4)
    for threshold, answered in ((odds + 0.01, True), (odds - 0.01, False)):
        settings = {"null_answer": True, "null_threshold": float(threshold)}
        other = Predictor(Plain(model), tokenizer, **settings)([(QUESTION, CONTEXT)])[0]
        assert bool(other.answer) == answered
        if not answered:
            assert (other.start, other.end) == (0, 0)
            assert other.probability == other.null_probability


def test_the_log_odds_of_several_samples_are_those_of_the_mean_probabilities(model, tokenizer):
    predictor = BamPredictor(model, tokenizer, num_samples=6, n_best=500, null_answer=True)
    result = predictor([(QUESTION, CONTEXT)])[0]
    best = next(own for own in result.n_best if own.answer)
    assert result.null_odds == pytest.approx(np.log(result.null_probability / best.probability))
    assert [own.probability for own in result.n_best if not own.answer] == [result.null_probability]
    probabilities = [own.probability for own in result.n_best]
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) == pytest.approx(1)


def test_samples_are_averaged(model, tokenizer):
    result = BamPredictor(model, tokenizer, num_samples=12, n_best=6)({"question": QUESTION, "context": CONTEXT})[0]
    assert len(result.n_best) == 6
    assert result.samples.shape == (12, 6)
    probabilities = [candidate.probability for candidate in result.n_best]
    assert probabilities == sorted(probabilities, reverse=True)
    assert probabilities == pytest.approx(result.samples.mean(0).tolist())
    assert result.answer == result.n_best[0].answer
    assert result.std > 0
    assert result.epistemic > 0
    assert result.entropy == pytest.approx(result.aleatoric + result.epistemic)


@pytest.mark.parametrize("n_best", [16, 500])
def test_the_uncertainty_is_that_of_all_spans(model, tokenizer, n_best):
    _, spans, _ = best_span(model, tokenizer)
    result = Predictor(Plain(model), tokenizer, n_best=n_best)([(QUESTION, CONTEXT)])[0]
    assert len(spans) < 16**2  # number of candidates
    assert result.entropy == pytest.approx(entropy(softmax(list(spans.values()))), rel=1e-3)


def test_long_contexts_are_split_and_answers_keep_their_offsets(model, tokenizer):
    long = " ".join(f"{CONTEXT} Number {i}." for i in range(12))
    predictor = BamPredictor(model, tokenizer, num_samples=3, max_length=64, stride=16, n_best=20)
    result = predictor([(QUESTION, long)])[0]
    assert all(long[c.start : c.end] == c.answer for c in result.n_best)
    assert max(c.start for c in result.n_best) > 300  # beyond the first window
    whole = BamPredictor(model, tokenizer, num_samples=3)([(QUESTION, CONTEXT)])[0]
    assert whole.answer in CONTEXT


def test_answers_are_not_longer_than_allowed(model, tokenizer):
    result = BamPredictor(model, tokenizer, num_samples=2, max_answer_tokens=2)([(QUESTION, CONTEXT)])[0]
    assert all(len(tokenizer.tokenize(c.answer)) <= 2 for c in result.n_best)


def test_invalid_questions_are_errors(model, tokenizer):
    predictor = BamPredictor(model, tokenizer, num_samples=2, max_length=40)
    with pytest.raises(TypeError, match=r"comes as the pair \(question, context\)"):
        predictor(["only a question"])
    with pytest.raises(ValueError, match="leaves no room for a context"):
        predictor([("why " * 60, CONTEXT)])
    with pytest.raises(ValueError, match=r"' \\u200b' is empty"):
        predictor([(QUESTION, " \u200b")])


@pytest.mark.parametrize("longest", [1, 3, 30])
@pytest.mark.parametrize("number", [1, 7, 500])
def test_the_best_spans_of_all(longest, number):
    generator = np.random.default_rng(0)
    start, end = generator.normal(size=(2, 25))
    inside = np.arange(25) >= 6
    every = [(i, j) for i in range(6, 25) for j in range(i, min(25, i + longest))]
    expected = sorted(every, key=lambda span: -(start[span[0]] + end[span[1]]))[:number]
    assert list(zip(*best_spans(start, end, inside, longest, number), strict=True)) == expected


def test_without_tokens_of_the_context_there_are_no_spans():
    first, last = best_spans(np.zeros(5), np.zeros(5), np.zeros(5, dtype=bool), 3, 2)
    assert first.size == last.size == 0


def test_a_slow_tokenizer_is_an_error():
    with pytest.raises(ValueError, match=r"needs a fast tokenizer.*ByT5Tokenizer is not one"):
        windows(ByT5Tokenizer(), [QUESTION], [CONTEXT], 64, 16)


def test_a_span_in_several_windows_counts_once_with_its_highest_score_in_every_sample():
    first = Spans(np.array([[0, 5], [6, 11]]), start=np.array([[1.0, 0.0], [0.0, 0.0]]), end=np.zeros((2, 2)))
    second = Spans(np.array([[12, 17], [6, 11]]), start=np.array([[0.0, 3.0], [2.0, -1.0]]), end=np.ones((2, 2)) / 2)
    both = joined([first, second]).distinct()
    assert both.places.tolist() == [[0, 5], [6, 11], [12, 17]]
    assert both.start.tolist() == [[1.0, 3.0, 0.0], [0.0, 0.0, 2.0]]
    assert both.end.tolist() == [[0.0, 0.5, 0.5], [0.0, 0.0, 0.5]]


def test_whitespace_is_no_part_of_a_span():
    context = "  one \u2003two \n"
    offsets = np.array([[0, 0], [0, 2], [2, 6], [6, 10], [10, 12], [0, 0]])  # of which some are whitespace alone
    logits = np.arange(6.0)[None]
    inside = np.array([False, True, True, True, True, False])
    spans = window_spans(logits, -logits, inside, offsets, context, longest=4, number=100).distinct()
    assert [context[a:b] for a, b in spans.places] == ["one", "one \u2003two", "two"]


def test_the_windows_of_a_question_do_not_depend_on_the_other_questions(model, tokenizer):
    """The overlap is limited by the length of the question; a longer one beside it changes nothing."""
    long = " ".join(f"{CONTEXT} Number {i}." for i in range(4))
    predictor = BamPredictor(model, tokenizer, num_samples=3, max_length=64, stride=500)
    alone = predictor([(QUESTION, long)])[0]
    beside = predictor([("why " * 30, long), (QUESTION, long), ("Who?", long)])[1]
    assert [own.answer for own in alone.n_best] == [own.answer for own in beside.n_best]
    np.testing.assert_allclose(beside.samples, alone.samples, atol=1e-5)


def test_an_empty_context_is_an_error_unless_it_is_allowed(model, tokenizer):
    predictor = BamPredictor(model, tokenizer, num_samples=3)
    with pytest.raises(ValueError, match="' ' is empty"):
        predictor([(QUESTION, " ")])
    result = predictor.with_settings(allow_empty=True)([(QUESTION, " ")])[0]
    assert (result.answer, result.probability, result.entropy) == ("", 1, 0)
    assert predictor([(QUESTION, "north")])[0].answer == "north"  # a single span
