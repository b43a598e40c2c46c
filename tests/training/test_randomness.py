import json
import random

import numpy as np
import torch

from hf_bam.training import randomness


def draw():
    return random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn(), torch.rand(3).tolist()  # noqa: NPY002


def test_states_survive_json():
    randomness.seed_all(1)
    draw()  # leaves the second number of a normal pair in the state
    state = json.loads(json.dumps(randomness.random_state()))
    first = draw()
    randomness.restore(state)
    assert draw() == first


def test_seeds_and_processes_differ():
    drawn = []
    for seed, process in ((0, 0), (0, 0), (0, 1), (1, 0)):
        randomness.seed_all(seed, process)
        drawn.append(draw())
    assert drawn[0] == drawn[1]
    for one, two in ((0, 2), (0, 3), (2, 3)):
        assert all(a != b for a, b in zip(drawn[one], drawn[two], strict=True))


def test_preserved():
    randomness.seed_all(2)
    with randomness.preserved():
        inside = draw()
    assert draw() == inside
