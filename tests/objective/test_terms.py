import math

import pytest
import torch

from hf_bam.objective import KlTerm, LossTerm, annealed, reduce_terms


def term(total, count, queries=None):
    as_tensor = torch.tensor(queries) if queries is not None else None
    return KlTerm(torch.tensor(total), torch.tensor(count), as_tensor)


def test_mean_is_over_the_entries_of_an_example_and_then_over_examples():
    # Example 1: (6 + 2) / (3 + 1) = 2. Example 2: its second query is padding: 10 / 5 = 2, not (10 + 90) / (5 + 5).
    kl = term([[6.0, 2.0], [10.0, 90.0]], [[3, 1], [5, 5]], [[True, True], [True, False]])
    assert kl.reduce("mean").item() == 2.0
    assert kl.reduce("sum").item() == (8 + 10) / 2


def test_an_example_without_entries_does_not_count():
    kl = term([[6.0], [0.0]], [[3], [0]])
    assert kl.reduce("mean").item() == 2.0
    assert kl.reduce("sum").item() == 6.0


def test_layers_are_averaged_or_summed():
    terms = [term([[2.0]], [[1]]), term([[6.0]], [[1]])]
    assert reduce_terms(terms, "mean")["kl"].item() == 4.0
    assert reduce_terms(terms, "sum")["kl"].item() == 8.0


def test_calls_with_some_of_the_queries_are_one_term():
    """Two steps of two examples, the second of which ends after the first step; the same numbers as above."""
    steps = [
        term([[6.0], [10.0]], [[3], [5]], [[True], [True]]),
        term([[2.0], [90.0]], [[1], [5]], [[True], [False]]),
    ]
    joined = KlTerm.join(steps)
    assert joined.reduce("mean").item() == 2.0
    assert joined.reduce("sum").item() == (8 + 10) / 2
    assert KlTerm.join([term([[6.0]], [[3]]), term([[2.0]], [[1]])]).reduce("mean").item() == 2.0


def test_a_term_that_cannot_be_joined_says_so():
    class Whole(LossTerm):
        name = "whole"

        def reduce(self, reduction, labels, output):
            raise AssertionError

    with pytest.raises(NotImplementedError, match="Whole is for attention calls with all queries"):
        Whole.join([Whole()])


def test_without_terms_there_are_no_values():
    assert reduce_terms([], "mean") == {}


@pytest.mark.parametrize(
    ("annealing", "expected"),
    [
        ("constant", {0: 1.0, 10: 1.0}),
        ("sigmoid", {0: 0.5, 10: 1 / (1 + math.exp(-1)), 10_000: 1.0}),
        ("linear", {0: 0.0, 5: 0.5, 10: 1.0, 500: 1.0}),
        ("logistic", {0: 1 / (1 + math.e**5), 5: 0.5, 10: 1 / (1 + math.e**-5)}),
        ("cyclic", {0: 0.0, 2: 0.4, 5: 1.0, 9: 1.0, 10: 0.0, 12: 0.4}),
    ],
)
def test_annealing(annealing, expected):
    for step, factor in expected.items():
        assert annealed(2.0, annealing, 0.1, torch.tensor(step)).item() == pytest.approx(2 * factor, abs=1e-6)
