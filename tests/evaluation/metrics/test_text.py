import math

import numpy as np
import pytest
from scipy.stats import entropy

from hf_bam.evaluation.metrics import distinct, pairwise_agreement, token_entropy

from .cases import random_samples


def test_token_entropy():
    assert token_entropy([0.25, 0.25, 0.25, 0.25]) == pytest.approx(math.log(4))
    assert token_entropy([[1.0, 0.0], [0.5, 0.5]]) == pytest.approx([0, math.log(2)])
    samples, _ = random_samples(classes=6)
    assert token_entropy(samples).shape == (7, 60)
    np.testing.assert_allclose(token_entropy(samples), entropy(samples, axis=-1))


def test_token_entropy_errors():
    with pytest.raises(ValueError, match="probabilities sums to 2 over its last axis"):
        token_entropy([1.0, 1.0])
    with pytest.raises(ValueError, match=r"probabilities has the negative value -1; .*not logits"):
        token_entropy([-1.0, 2.0])


def test_distinct():
    texts = ["the cat sat", "the  cat\nran"]
    assert distinct(texts) == pytest.approx(4 / 6)  # the cat sat ran
    assert distinct(texts, n=2) == pytest.approx(3 / 4)  # the-cat cat-sat cat-ran; none across the texts
    assert distinct(texts, n=3) == 1.0
    assert distinct(["a a a a"]) == pytest.approx(1 / 4)
    assert distinct(["a", "A"]) == 1.0


def test_distinct_without_ngrams():
    assert distinct(["a b"], n=3) == 0.0
    assert distinct(["", " "]) == 0.0


def test_exact_agreement():
    # Of the pairs 12, 13, 23 only the first agrees.
    assert pairwise_agreement(["yes", "yes", "no"]) == pytest.approx(1 / 3)
    assert pairwise_agreement(["yes", "yes"]) == 1.0
    assert pairwise_agreement(["yes", "Yes"]) == 0.0


def test_token_f1_agreement():
    # Precision 2/2, recall 2/3.
    assert pairwise_agreement(["the cat", "the cat sat"], "token_f1") == pytest.approx(4 / 5)
    # A token counts as often as both have it.
    assert pairwise_agreement(["a a b", "a c"], "token_f1") == pytest.approx(2 * 1 / 5)
    assert pairwise_agreement(["a", "a", "b"], "token_f1") == pytest.approx(1 / 3)
    assert pairwise_agreement(["", ""], "token_f1") == 1.0
    assert pairwise_agreement(["", "a"], "token_f1") == 0.0


def test_errors():
    with pytest.raises(ValueError, match="metric='bleu' is not known; choose one of 'exact', 'token_f1'"):
        pairwise_agreement(["a", "b"], "bleu")
    with pytest.raises(ValueError, match="texts has 1 strings; expected at least 2"):
        pairwise_agreement(["a"])
    with pytest.raises(ValueError, match="texts has 0 strings; expected at least 1"):
        distinct([])
    with pytest.raises(ValueError, match="n=0 is not valid"):
        distinct(["a"], n=0)
    for texts in ("a b", ["a", 1]):
        with pytest.raises(ValueError, match="expected a list of strings"):
            distinct(texts)
        with pytest.raises(ValueError, match="expected a list of strings"):
            pairwise_agreement(texts)
