"""Prediction sets, intervals and abstention: their coverage on simulated and on real predictions."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from transformers import BertConfig, BertForSequenceClassification

from hf_bam.prediction import BamPredictor, Plain, Predictor

from .given import Given
from .trained import LABELS, scores, sentences

CLASSES = 6


def covered(results, labels):
    return np.mean([LABELS[label] in result.prediction_set for result, label in zip(results, labels, strict=True)])


def simulated(tokenizer, classes=CLASSES, **options):
    """Return a predictor whose logits are a known function of the text, and its inputs."""
    table = np.random.default_rng(0).normal(size=(len(tokenizer), classes)) * 2
    config = BertConfig(num_labels=classes, hidden_size=8, num_attention_heads=1, num_hidden_layers=1)
    model = BertForSequenceClassification(config)
    sampler = Given(model, lambda ids, _: {"logits": np.array([[table[row[1]] for row in ids]])})
    tokens = range(2000, 22000)
    words = [word for word in tokenizer.convert_ids_to_tokens(list(tokens)) if word.isalpha()]
    return Predictor(sampler, tokenizer, batch_size=512, progress=False, **options), np.array(words), table


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_sets_of_simulated_predictions_have_their_coverage(alpha, tokenizer):
    """The model claims sharper probabilities than those that the labels are drawn from."""
    predict, words, table = simulated(tokenizer)
    random = np.random.default_rng(1)
    logits = table[tokenizer.convert_tokens_to_ids(words.tolist())] / 2
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.array([random.choice(CLASSES, p=row) for row in true])
    coverage = []
    for _ in range(6):
        order = random.permutation(len(words))[:3000]
        held_out, new = order[:1000], order[1000:]
        results = predict.conformal(words[held_out].tolist(), labels[held_out].tolist(), alpha)(words[new].tolist())
        names = [f"LABEL_{label}" for label in labels[new]]
        coverage.append(np.mean([name in result.prediction_set for name, result in zip(names, results, strict=True)]))
    assert np.mean(coverage) == pytest.approx(1 - alpha, abs=0.02)
    assert all(result.probability > 0 for result in results)


def test_sets_of_a_trained_model_have_their_coverage(classify):
    new, truth = sentences(1000, seed=50)
    coverage = [covered(classify.conformal(*sentences(300, seed=seed))(new), truth) for seed in range(8)]
    assert np.mean(coverage) == pytest.approx(0.9, abs=0.025)
    sizes = np.array([len(result.prediction_set) for result in classify(new)])
    uncertain = np.array([result.entropy for result in classify(new)]) > 1
    assert sizes[uncertain].mean() > 1.3 * sizes[~uncertain].mean()


def test_sets_are_in_the_order_of_the_probabilities(classify):
    results = classify.conformal(*sentences(300, seed=1), alpha=0.02)(sentences(200, seed=2)[0])
    for result in results:
        mean = dict(zip(LABELS, result.samples.mean(axis=0), strict=True))
        assert result.prediction_set == sorted(result.prediction_set, key=mean.get, reverse=True)
    assert max(len(result.prediction_set) for result in results) > 1


def test_sets_are_a_function_of_seed_and_text(classify, classifier, tokenizer):
    held_out, (new, _) = sentences(300, seed=1), sentences(100, seed=2)
    expected = [result.prediction_set for result in classify.conformal(*held_out)(new)]
    assert [classify([text])[0].prediction_set for text in new[:10]] == expected[:10]
    assert [result.prediction_set for result in classify(new[::-1])][::-1] == expected
    again = BamPredictor(classifier, tokenizer, num_samples=8, batch_size=9, progress=False).conformal(*held_out)
    assert [result.prediction_set for result in again(new)] == expected
    other = BamPredictor(classifier, tokenizer, num_samples=8, seed=1, progress=False).conformal(*held_out)
    assert [result.prediction_set for result in other(new)] != expected


def test_intervals_of_a_trained_model_have_their_coverage(regress):
    new, _ = sentences(1000, seed=50)
    truth = scores(new, seed=50)

    def coverage(results):
        return np.mean([one.low <= target <= one.high for one, target in zip(results, truth, strict=True)])

    assert coverage(regress(new)) < 0.6  # the samples of the model know nothing of the noise of the targets
    found = []
    for seed in range(5):
        texts, _ = sentences(300, seed=seed)
        found.append(coverage(regress.conformal(texts, scores(texts, seed=seed), alpha=0.2)(new)))
    assert np.mean(found) == pytest.approx(0.8, abs=0.03)
    one = regress(new[:1])[0]
    assert one.low < one.value < one.high


def test_results_from_before_a_fit_get_its_intervals(regress):
    texts, _ = sentences(100, seed=0)

    def intervals(results):
        return np.array([(one.low, one.high) for one in results])

    before = regress(texts)
    assert (intervals(regress.head().fitted(texts, before)) == intervals(before)).all()
    regress.conformal(texts, scores(texts, seed=0), alpha=0.2)
    after = regress.head().fitted(texts, before)
    assert intervals(after) == pytest.approx(intervals(regress(texts)))
    assert (intervals(after) != intervals(before)).any()
    assert [one.value for one in after] == [one.value for one in before]


def test_answered_inputs_keep_the_risk(classify):
    held_out, (new, truth) = sentences(1000, seed=1), sentences(1000, seed=2)
    results = classify.abstain(*held_out, risk=0.1)(new)
    wrong = np.array([result.prediction != label for result, label in zip(results, truth, strict=True)])
    answered = np.array([result.answered for result in results])
    assert wrong.mean() > 0.15
    assert wrong[answered].mean() < 0.1
    assert answered.mean() > 0.2
    assert max(result.entropy for result in results if result.answered) < min(
        result.entropy for result in results if not result.answered
    )


def test_guarantees_hold_for_the_probabilities_of_their_fit(classify):
    held_out = sentences(300, seed=1)
    classify.fit(*sentences(400)).conformal(*held_out).abstain(*held_out, risk=0.2)
    same = classify.with_settings(threshold=0.01, seed=3)
    assert same.calibration is classify.calibration
    for changes in ({"temperature": 2.0}, {"num_samples": 4}, {"adaptive": True}, {"max_length": 5}):
        other = classify.with_settings(**changes).calibration
        assert (other.sets, other.abstention) == (None, None)
        assert other.novelty is classify.calibration.novelty
    assert classify.calibrated(*held_out).calibration.sets is None
    assert classify.calibration.sets is not None


def test_a_fit_replaces_its_own_part_alone(classify):
    held_out = sentences(300, seed=1)
    classify.conformal(*held_out, alpha=0.1)
    first = classify.calibration
    assert classify.fit(*sentences(400)) is classify
    assert classify.calibration.sets is first.sets
    assert first.novelty is None
    assert classify.conformal(*held_out, alpha=0.3).calibration.sets.threshold < first.sets.threshold


def test_eight_threads_give_exactly_the_sequential_results(classify):
    held_out, (new, _) = sentences(300, seed=1), sentences(120, seed=2)
    classify.fit(*sentences(400)).conformal(*held_out).abstain(*held_out, risk=0.2)
    calls = [new[i : i + 1 + i % 5] for i in range(0, 80, 2)]

    def predict(texts):
        return [(r.novelty, r.in_distribution, r.prediction_set, r.answered, r.probability) for r in classify(texts)]

    expected = [predict(texts) for texts in calls]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(predict, calls)) == expected
        scores = list(pool.map(classify.ood_scores, calls))
    assert all(
        np.array_equal(one[name], other) for one, texts in zip(scores, calls, strict=True)
        for name, other in classify.ood_scores(texts).items()
    )  # fmt: skip


def test_errors_name_the_way_out(classify, regress, tokenizer):
    texts, labels = sentences(40, seed=1)
    with pytest.raises(ValueError, match=r"5 held-out inputs are too few for alpha=0.1; it needs at least 9"):
        classify.conformal(texts[:5], labels[:5])
    with pytest.raises(ValueError, match="confidence=90 is not valid; it must be a number between 0 and 1"):
        classify.abstain(texts, labels, confidence=90)
    with pytest.raises(ValueError, match=r"alpha=1.5 is not valid"):
        classify.conformal(texts, labels, alpha=1.5)
    with pytest.raises(ValueError, match="There are 3 labels for 40 inputs"):
        classify.conformal(texts, labels[:3])
    with pytest.raises(ValueError, match="There are 3 labels for 40 inputs"):
        regress.conformal(texts, [0.5] * 3)
    with pytest.raises(ValueError, match=r"labels\[1\] is not finite"):
        regress.conformal(texts, [0.5, math.nan, *[0.5] * 38])
    with pytest.raises(ValueError, match=r"abstain\(\) needs head='classification'; this predictor has head='regress"):
        regress.abstain(texts, labels)
    with pytest.raises(ValueError, match=r"No entropy keeps the error .* at risk=0.01 with confidence=0.9, on 40 inp"):
        classify.abstain(texts, labels, risk=0.01)
    many = Predictor(Plain(classify.sampler.model), tokenizer, head="multi-label")
    with pytest.raises(
        ValueError, match=r"conformal\(\) needs head='classification' or 'regression'; .*'multi-label'"
    ):
        many.conformal(texts, labels)
