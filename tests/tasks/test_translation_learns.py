"""A small Marian with Bayesian attention learns the small corpus; its uncertainty is at the open words."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

import hf_bam
from hf_bam.tasks.language import ceiling
from hf_bam.tasks.translation import Translation

from .learning import learn

pytestmark = pytest.mark.slow

TASK = Translation("en", "qaa", dataset="language", max_target_length=48, vocabulary=400, width=128, layers=2)
STEPS = 1000


@pytest.fixture(scope="module")
def data():
    return TASK.load(None)


@pytest.fixture(scope="module")
def trained(data):
    torch.manual_seed(0)
    model, tokenizer = TASK.build("scratch", data)
    hf_bam.patch(model)
    return learn(TASK, data, model, tokenizer, STEPS, 2e-3), tokenizer


@pytest.fixture(scope="module")
def predictions(trained, data):
    return hf_bam.BamPredictor(*trained, num_samples=16)(TASK.inputs(data.evaluation["test"]))


def of_kind(rows, *kinds):
    return [index for index, kind in enumerate(rows["kind"]) if kind in kinds]


def test_it_translates(predictions, data):
    rows, texts = data.evaluation["test"], [result.text for result in predictions]
    solvable = of_kind(rows, "plain", "resolved")
    bleu = TASK.score(rows.select(solvable), [texts[i] for i in solvable])["bleu"]
    assert bleu > 95
    assert TASK.score(rows, texts)["bleu"] > ceiling(rows) - 4
    for kind in ("plain", "resolved", "open"):
        chosen = of_kind(rows, kind)
        assert np.mean([texts[i] in rows[i]["translations"] for i in chosen]) > 0.9


def test_open_words_are_uncertain(predictions, data):
    rows = data.evaluation["test"]
    highest = np.array([max(token.entropy for token in result.tokens) for result in predictions])
    means = {kind: highest[of_kind(rows, kind)].mean() for kind in ("plain", "resolved", "open")}
    assert means["open"] == pytest.approx(math.log(2), abs=0.2)  # the entropy of a coin
    assert max(means["plain"], means["resolved"]) < 0.35
    assert roc_auc_score(np.array(rows["kind"]) == "open", highest) > 0.9


def test_the_uncertainty_of_open_words_is_aleatoric(predictions, data):
    """Nearly all of it is aleatoric."""
    chosen = [predictions[index].tokens for index in of_kind(data.evaluation["test"], "open")]
    least_certain = [max(tokens, key=lambda token: token.entropy) for tokens in chosen]
    assert sum(token.epistemic for token in least_certain) < 0.05 * sum(token.entropy for token in least_certain)


def test_the_uncertainty_is_at_the_open_word(trained, predictions, data):
    """The token of the highest entropy is the first one in which the two right translations differ."""
    rows, tokenizer, found = data.evaluation["test"], trained[1], []
    for index in of_kind(rows, "open"):
        pair = zip(*(tokenizer.tokenize(text) for text in rows[index]["translations"]), strict=False)
        fork = next(position for position, (one, other) in enumerate(pair) if one != other)
        found.append(np.argmax([token.entropy for token in predictions[index].tokens]) == fork)
    assert np.mean(found) > 0.9
