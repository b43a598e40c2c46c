"""Novelty of inputs: distances of their features from the training set of `fit`."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import mahalanobis
from sklearn.covariance import LedoitWolf
from sklearn.metrics import roc_auc_score

import hf_bam
from hf_bam.prediction import Bam, BamPredictor, Dropout, Ensemble, Plain, Predictor

from ..reliability.test_independence import KINDS, TEXTS, predictor, writer
from .trained import other_sentences, sentences

TRAINING, HELD_OUT, NEW = sentences(600), sentences(400, seed=1)[0], sentences(50, seed=2)[0]


def distances(results):
    return np.array([result.novelty.mahalanobis for result in results])


def novelties(results):
    return np.array([result.novelty.score for result in results])


def test_results_say_nothing_before_the_fit(classify):
    result = classify(NEW[:1])[0]
    assert (result.novelty, result.in_distribution, result.prediction_set, result.answered) == (None,) * 4
    for name in ("novelty", "in_distribution", "prediction_set", "answered"):
        assert name not in repr(result)
    assert "novelty=Novelty(score=" in repr(classify.fit(*TRAINING)(NEW[:1])[0])


def test_distances_are_those_of_scikit_learn_and_scipy(classify):
    (texts, labels), labels_of = TRAINING, np.array(TRAINING[1])
    features, new = (classify.features(part)["features"] for part in (texts, NEW))
    results = classify.fit(texts, labels, held_out=HELD_OUT, false_alarms=0.1)(NEW)
    means = np.stack([features[labels_of == index].mean(axis=0) for index in range(4)])
    precision = LedoitWolf(assume_centered=True).fit(features - means[labels_of]).precision_
    total = LedoitWolf().fit(features)

    def nearest(x):
        return np.array([min(mahalanobis(row, mean, precision) ** 2 for mean in means) for row in x])

    np.testing.assert_allclose(distances(results), nearest(new), rtol=1e-3)
    relative = [result.novelty.relative_mahalanobis for result in results]
    np.testing.assert_allclose(relative, nearest(new) - total.mahalanobis(new), rtol=1e-3, atol=1e-2)


def test_percentiles_and_alarms_are_those_of_held_out_inputs(classify):
    classify.fit(*TRAINING, held_out=HELD_OUT, false_alarms=0.1)
    results, reference = classify(NEW), novelties(classify(HELD_OUT))
    shares = [(reference < result.novelty.score).mean() for result in results]
    np.testing.assert_allclose([result.novelty.percentile for result in results], shares, atol=0.005)
    largest = np.sort(reference)[np.ceil(0.9 * 401).astype(int) - 1]  # of 401 scores, a tenth is larger
    assert [result.in_distribution for result in results] == (novelties(results) <= largest).tolist()


def test_other_topics_are_recognised_and_false_alarms_are_as_rare_as_asked(classify):
    known, other = sentences(1000, seed=3)[0], other_sentences(300)
    alarms = []
    for seed in range(5):
        classify.fit(*TRAINING, held_out=sentences(400, seed=10 + seed)[0], false_alarms=0.1)
        alarms.append(np.mean([not result.in_distribution for result in classify(known)]))
    assert np.mean(alarms) == pytest.approx(0.1, abs=0.03)
    results = classify(other)
    assert np.mean([not result.in_distribution for result in results]) > 0.7
    truth = [0] * len(known) + [1] * len(other)
    for scores in (novelties, distances):
        assert roc_auc_score(truth, np.concatenate([scores(classify(known)), scores(results)])) > 0.93


def test_novelty_is_a_function_of_the_text_alone(classify, classifier, tokenizer):
    """Neither the batch, the order of the training set, the samples nor the sampler change it."""
    texts, labels = TRAINING
    expected = distances(classify.fit(texts, labels)(NEW))
    backwards = BamPredictor(classifier, tokenizer, num_samples=2, seed=5, batch_size=7)
    backwards.fit(texts[::-1], labels[::-1])
    np.testing.assert_allclose(distances(backwards(NEW[::-1]))[::-1], expected, rtol=1e-3)
    for sampler in (Plain(classifier), Dropout(classifier, rate=0.3), Ensemble([classifier, classifier])):
        other = Predictor(sampler, tokenizer, num_samples=2, progress=False).fit(texts, labels)
        np.testing.assert_allclose(distances(other(NEW)), expected, rtol=1e-3)
    np.testing.assert_allclose(distances([classify([text])[0] for text in NEW[:5]]), expected[:5], rtol=1e-3)
    adaptive = classify.with_settings(adaptive=True)
    np.testing.assert_allclose(distances(adaptive(NEW)), expected, rtol=1e-3)


@pytest.mark.parametrize(("sampler", "passes"), [(Plain, 1), (lambda m: Ensemble([m]), 1), (Bam, 2)])
def test_a_deterministic_sampler_needs_no_further_pass(classify, classifier, tokenizer, sampler, passes):
    predict = Predictor(sampler(classifier), tokenizer, num_samples=2, progress=False).fit(*TRAINING)
    calls = []
    hook = classifier.bert.register_forward_hook(lambda *_: calls.append(1))
    predict(NEW[:3])
    hook.remove()
    assert len(calls) == passes


def test_classes_are_predicted_where_no_labels_are_given(classify):
    texts = TRAINING[0]
    predicted = [result.label for result in Predictor(Plain(classify.sampler.model), classify.tokenizer)(texts)]
    with_labels = distances(classify.fit(texts, predicted)(NEW))
    assert np.array_equal(distances(classify.fit(texts)(NEW)), with_labels)
    assert not np.allclose(distances(classify.fit(*TRAINING)(NEW)), with_labels, rtol=1e-3)


def test_the_held_out_tenth_is_no_part_of_the_fit(classify):
    texts, labels = TRAINING
    fit = classify.fit(texts, labels).calibration.novelty
    assert len(fit.reference) == 60
    center = classify.features(texts)["features"].mean(axis=0)
    own = fit.gaussians.layers["features"].center
    assert np.abs(own - center).max() > 1e-4
    copies = classify.fit(texts * 3, labels * 3).calibration.novelty  # copies of a text stay on one side
    np.testing.assert_allclose(copies.gaussians.layers["features"].center, own, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_has_novelty(kind, tokenizer):
    predict, inputs = predictor(kind, tokenizer, batch_size=16), KINDS[kind][2]
    before = predict(inputs)
    together = predict.fit(inputs, false_alarms=0.3)(inputs)
    for one, other in zip(before, together, strict=True):
        np.testing.assert_allclose(other.samples, one.samples, atol=1e-5)
        assert other.novelty.mahalanobis > 0
        assert np.isnan(other.novelty.relative_mahalanobis) == (kind != "classification")
    assert len({result.in_distribution for result in together}) == 2
    for index in (0, 17, 59):
        (alone,) = predict([inputs[index]])
        assert alone.novelty.mahalanobis == pytest.approx(together[index].novelty.mahalanobis, rel=1e-3)


@pytest.mark.parametrize("name", ["marian", "gpt2"])
def test_generators_have_novelty(name, single_tokenizer):
    write = writer(name, single_tokenizer, batch_size=8, num_samples=2)
    results = write.fit(TEXTS, false_alarms=0.3)(TEXTS[:4])
    assert results[0].text == writer(name, single_tokenizer, num_samples=2)(TEXTS[:1])[0].text
    (alone,) = write([TEXTS[3]])
    assert alone.novelty.mahalanobis == pytest.approx(results[3].novelty.mahalanobis, rel=1e-3)


def test_half_precision(classifier, tokenizer):
    expected = distances(BamPredictor(classifier, tokenizer, num_samples=2, progress=False).fit(*TRAINING)(NEW))
    state = {name: tensor.clone() for name, tensor in classifier.state_dict().items()}
    try:
        half = BamPredictor(classifier.to(torch.bfloat16), tokenizer, num_samples=2, progress=False).fit(*TRAINING)
        found = distances(half(NEW))
    finally:
        classifier.to(torch.float32).load_state_dict(state)
    assert np.corrcoef(found, expected)[0, 1] > 0.9


def test_errors_name_the_way_out(classify, regress, tokenizer):
    texts, labels = TRAINING
    with pytest.raises(
        ValueError, match=r"10 held-out inputs are too few for false_alarms=0.05; it needs at least 19"
    ):
        classify.fit(texts[:100], labels[:100])
    with pytest.raises(ValueError, match=r"3 held-out inputs are too few for false_alarms=0.05"):
        classify.fit(texts, labels, held_out=HELD_OUT[:3])
    classify.fit(texts[:40], labels[:40], held_out=HELD_OUT[:19])  # and these are enough
    with pytest.raises(ValueError, match=r"false_alarms=1.5 is not valid"):
        classify.fit(texts, labels, false_alarms=1.5)
    with pytest.raises(ValueError, match=r"labels\[1\] is 'cars'; it must be one of \['music'"):
        classify.fit(texts, ["music", "cars"])
    with pytest.raises(ValueError, match=r"labels are for classification.*Leave them out: predictor.fit\(inputs\)"):
        regress.fit(texts, labels)
    with pytest.raises(ValueError, match=r"call predictor.fit\(inputs\) first"):
        regress.ood_scores(texts[:2])
    wide = BamPredictor(hf_bam.patch(predictor("classification", tokenizer).sampler.model), tokenizer, progress=False)
    wide.calibration = classify.fit(texts, labels).calibration
    with pytest.raises(ValueError, match=r"The calibration is one of .* this model has .*; fit the predictor again"):
        wide(["a"])
