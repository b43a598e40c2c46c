import numpy as np
import pytest
from datasets import Dataset

from hf_bam.training.batching import Batches, feature_lengths, padding, sorted_batches

LENGTHS = np.random.default_rng(0).integers(3, 60, 1000)


def test_every_example_is_in_an_epoch():
    batches = Batches(LENGTHS[:30], 8)
    steps = batches.steps(0)
    assert steps.shape == (4, 8)
    counts = np.bincount(steps.ravel(), minlength=30)
    assert counts.min() == 1
    assert counts.sum() == 32  # the last batch is filled up


def test_fewer_examples_than_a_batch():
    assert set(Batches(LENGTHS[:3], 8).steps(0).ravel()) == {0, 1, 2}


def test_batches_depend_on_seed_and_epoch_alone():
    first = Batches(LENGTHS, 16, seed=1)
    np.random.seed(5)  # noqa: NPY002  (the global random state has no effect)
    assert np.array_equal(first.steps(2), Batches(LENGTHS, 16, seed=1).steps(2))
    assert not np.array_equal(first.steps(2), first.steps(3))
    assert not np.array_equal(first.steps(2), Batches(LENGTHS, 16, seed=2).steps(2))


def test_batches_differ_between_epochs():
    def batches(epoch):
        return {frozenset(step) for step in Batches(LENGTHS, 16).steps(epoch).tolist()}

    assert not batches(0) & batches(1)


def test_grouping_by_length_saves_padding():
    sorted_, mixed = (Batches(LENGTHS, 16, sort=sort).share(0, 0) for sort in (True, False))
    assert padding(LENGTHS, mixed) > 0.35
    assert padding(LENGTHS, sorted_) < 0.05


def test_long_and_short_batches_are_mixed():
    """Otherwise training would go from long to short examples."""
    means = LENGTHS[Batches(LENGTHS, 16).steps(0)].mean(axis=1)
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.3


@pytest.mark.parametrize(("parts", "processes"), [(1, 1), (4, 1), (1, 2), (2, 4)])
def test_a_step_does_not_depend_on_its_division(parts, processes):
    steps = Batches(LENGTHS, 16).steps(1)
    divided = Batches(LENGTHS, 16, parts, processes)
    shares = [np.array(divided.share(1, process)).reshape(len(steps), -1) for process in range(processes)]
    assert np.array_equal(np.sort(np.concatenate(shares, axis=1)), np.sort(steps))
    assert {len(batch) for batch in divided.share(1, 0)} == {16 // parts // processes}
    assert divided.share(1, processes - 1, start=3) == divided.share(1, processes - 1)[3 * parts :]


def test_processes_work_on_similar_lengths():
    divided = Batches(LENGTHS, 32, 2, 2)
    longest = [np.array([LENGTHS[batch].max() for batch in divided.share(0, process)]) for process in (0, 1)]
    assert np.abs(longest[0] - longest[1]).max() <= 4


def test_a_batch_that_cannot_be_divided():
    with pytest.raises(
        ValueError, match=r"batch_size=10 .* gradient_accumulation_steps=2 .* 2 processes; .* multiple of 4"
    ):
        Batches(LENGTHS, 10, 2, 2)


def test_nothing_to_train_on():
    with pytest.raises(ValueError, match="no examples"):
        Batches(LENGTHS[:0], 8)


def test_evaluation_takes_the_longest_first():
    batches = sorted_batches(np.array([3, 9, 1, 7, 5]), 2)
    assert batches == [[1, 3], [4, 0], [2]]


def test_lengths_of_features():
    rows = Dataset.from_dict({"input_ids": [[1, 2], [3], [4, 5, 6]], "labels": [[1], [1, 2], []], "other": ["a"] * 3})
    assert feature_lengths(rows).tolist() == [3, 3, 3]
    assert feature_lengths(rows.select([2, 0]).remove_columns("labels")).tolist() == [3, 2]
    assert feature_lengths(rows.remove_columns("labels").add_column("labels", [0, 1, 1])).tolist() == [2, 1, 3]


def test_fraction_of_padding():
    assert padding(np.array([4, 2, 3, 3]), [[0, 1], [2, 3]]) == pytest.approx(2 / 14)
