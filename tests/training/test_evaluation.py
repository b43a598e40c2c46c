"""Subsamples of rows."""

import pytest
from datasets import Dataset

from hf_bam.training.evaluation import holdout_split, subsample

ROWS = Dataset.from_dict({"number": list(range(10))})


def test_a_subsample_is_evenly_spaced():
    assert subsample(ROWS, 4)["number"][:] == [0, 2, 5, 7]
    assert len(subsample(ROWS, None)) == len(subsample(ROWS, 99)) == 10


def test_a_holdout_split_takes_evenly_spaced_rows_out():
    rest, held_out = holdout_split(ROWS, 4)
    assert held_out["number"][:] == [0, 2, 5, 7]
    assert rest["number"][:] == [1, 3, 4, 6, 8, 9]
    with pytest.raises(ValueError, match="holdout=10 is not possible: there are 10 rows"):
        holdout_split(ROWS, 10)
