import numpy as np
import pytest
import torch

from hf_bam.evaluation.metrics import alignment_accuracy, token_alignment

REFERENCE = [[1, 0, 0], [0, 1, 1], [0, 0, 0]]  # the last token, the end of the text, has no source token


def test_by_hand():
    assert alignment_accuracy(REFERENCE, [[0.8, 0.1, 0.1], [0.1, 0.2, 0.7], [1.0, 0.0, 0.0]]) == 1
    assert alignment_accuracy(REFERENCE, [[0.1, 0.8, 0.1], [0.1, 0.7, 0.2], [0.0, 0.0, 1.0]]) == 0.5
    assert alignment_accuracy(REFERENCE, [[0.1, 0.8, 0.1], [0.7, 0.2, 0.1], [0.0, 0.0, 1.0]]) == 0


def test_tokens_of_all_pairs_count_alike():
    reference = torch.zeros(2, 3, 4, dtype=torch.bool)
    reference[0, :3, 0] = reference[1, 0, 1] = True
    weights = torch.zeros(2, 3, 4)
    weights[..., 0] = 1.0
    assert alignment_accuracy(reference, weights) == 3 / 4


def test_random_weights_find_one_of_all_source_tokens():
    generator = np.random.default_rng(0)
    truth = np.eye(10)[generator.integers(10, size=20_000)]
    assert alignment_accuracy(truth, generator.random(truth.shape)) == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize(
    ("reference", "weights", "match"),
    [
        ([[1, 0]], [[0.5, 0.2, 0.3]], r"reference has shape \(1, 2\) and weights \(1, 3\); expected the same"),
        ([1, 0], [0.5, 0.5], r"expected the same, \(..., T, S\)"),
        ([[0, 0]], [[0.5, 0.5]], "reference aligns no target token"),
        ([[1, 0]], [[np.nan, 0.5]], "weights has 1 NaN or infinite values"),
    ],
)
def test_invalid_arguments(reference, weights, match):
    with pytest.raises(ValueError, match=match):
        alignment_accuracy(reference, weights)


def test_tokens_are_aligned_if_their_words_are():
    """Target: word 0, two tokens of word 1, end. Source: start, word 0, two tokens of word 1, word 2."""
    found = token_alignment([[2], [0, 1]], [0, 1, 1, None], [None, 0, 1, 1, 2])
    assert found.astype(int).tolist() == [[0, 0, 0, 0, 1], [0, 1, 1, 1, 0], [0, 1, 1, 1, 0], [0, 0, 0, 0, 0]]
    first = token_alignment([[2], [0, 1]], [0, 1, 1, None], [None, 0, 1, 1, 2], first_only=True)
    assert first.astype(int).tolist() == [[0, 0, 0, 0, 1], [0, 1, 1, 1, 0], [0] * 5, [0] * 5]
