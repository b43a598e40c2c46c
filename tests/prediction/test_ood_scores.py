"""Scores of out-of-distribution inputs from one call."""

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from hf_bam.prediction import Plain, Predictor

from .trained import other_sentences, sentences

TRAINING, NEW = sentences(400), sentences(100, seed=2)[0]
OF_CLASSES = {"msp", "entropy", "energy", "max_logit", "mutual_information"}
OF_FEATURES = {"mahalanobis", "relative_mahalanobis", "sampled_mahalanobis", "feature_spread"}


def test_scores_are_those_of_the_results(classify):
    assert classify.ood_scores(NEW).keys() == OF_CLASSES
    scores, results = classify.fit(*TRAINING).ood_scores(NEW), classify(NEW)
    assert scores.keys() == OF_CLASSES | OF_FEATURES
    assert all(values.shape == (100,) for values in scores.values())
    expected = {
        "msp": [1 - result.probability for result in results],
        "entropy": [result.entropy for result in results],
        "mutual_information": [result.epistemic for result in results],
        "mahalanobis": [result.novelty.mahalanobis for result in results],
        "relative_mahalanobis": [result.novelty.relative_mahalanobis for result in results],
    }
    for name, values in expected.items():
        np.testing.assert_allclose(scores[name], values, rtol=1e-4, atol=1e-6)
    assert scores["feature_spread"].min() > 0


def test_scores_of_one_pass_are_those_of_its_logits(classifier, tokenizer):
    predict = Predictor(Plain(classifier), tokenizer, progress=False, temperature=2.0)
    scores = predict.fit(*TRAINING).ood_scores(NEW)
    assert scores.keys() == OF_CLASSES - {"mutual_information"} | {"mahalanobis", "relative_mahalanobis"}
    with torch.no_grad():
        logits = classifier(**tokenizer(NEW, padding=True, return_tensors="pt")).logits
    np.testing.assert_allclose(scores["energy"], -logits.logsumexp(-1), rtol=1e-4)
    np.testing.assert_allclose(scores["max_logit"], -logits.max(-1).values, rtol=1e-4)
    np.testing.assert_allclose(scores["msp"], 1 - (logits / 2).softmax(-1).max(-1).values, rtol=1e-3, atol=1e-6)


def test_other_topics_have_higher_scores(classify):
    classify.fit(*TRAINING)
    known, other = classify.ood_scores(NEW), classify.ood_scores(other_sentences(100))
    for name in ("entropy", "energy", "max_logit", "mahalanobis", "sampled_mahalanobis"):
        assert roc_auc_score([0] * 100 + [1] * 100, np.concatenate([known[name], other[name]])) > 0.9, name


def test_models_without_classes_have_distances(regress):
    assert regress.fit(TRAINING[0]).ood_scores(NEW).keys() == {"mahalanobis"}


def test_no_inputs_have_no_scores(classify):
    assert classify.ood_scores([]) == {}
