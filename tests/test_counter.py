"""Position-based random numbers: uniform, independent along every axis, and the same wherever they are computed."""

import pytest
import torch
from scipy import stats

from hf_bam.counter import uniform

ROWS, COLUMNS = torch.arange(400)[:, None], torch.arange(500)


@pytest.mark.parametrize("seed", [0, 1, 2**62, -5])
def test_uniform(seed):
    u = uniform(seed, ROWS, COLUMNS)
    assert u.dtype == torch.float32
    assert stats.kstest(u.flatten().numpy(), "uniform").pvalue > 1e-3
    assert 0 < u.min() <= u.max() < 1


@pytest.mark.parametrize(
    "other",
    [
        uniform(0, ROWS, COLUMNS + 1),
        uniform(0, ROWS + 1, COLUMNS),
        uniform(1, ROWS, COLUMNS),
        uniform(0, torch.tensor(0), ROWS, COLUMNS),
        uniform(0, ROWS, COLUMNS).roll(7, dims=1),
    ],
    ids=["next column", "next row", "next seed", "one more axis", "shifted"],
)
def test_neighbours_are_independent(other):
    """A chi-squared test on an 8 x 8 table of pairs."""
    u = uniform(0, ROWS, COLUMNS)
    table = torch.zeros(64).scatter_add_(0, ((8 * u).long() * 8 + (8 * other).long()).flatten(), torch.ones(u.numel()))
    assert stats.chisquare(table.numpy()).pvalue > 1e-3


def test_a_position_gives_the_same_number_in_any_company():
    whole = uniform(3, ROWS, COLUMNS)
    assert torch.equal(whole[17:20, 5:9], uniform(3, ROWS[17:20], COLUMNS[5:9]))
    assert torch.equal(whole.flip(0), uniform(3, ROWS.flip(0), COLUMNS))
