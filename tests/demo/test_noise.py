"""Level of the noise of a patched model."""

import numpy as np
import pytest
import torch

import hf_bam
from hf_bam.demo.noise import has_level, scaled, with_noise
from hf_bam.families import FAMILIES

from ..models import bert, classification


@pytest.mark.parametrize(("family", "name"), [("weibull", "k"), ("lognormal", "sigma")])
def test_the_standard_deviation_of_log_weights_is_multiplied(family, name):
    uniform = torch.linspace(1e-4, 1 - 1e-4, 20001, dtype=torch.float64)
    own = FAMILIES[family]()
    before, after = (one.posterior.quantile(uniform).std() for one in (own, scaled(own, 2.5)))
    assert after / before == pytest.approx(2.5, rel=1e-6)


def test_counts_stay_whole_numbers():
    own = FAMILIES["multinomial"](counts=16)
    assert scaled(own, 2.0).counts == 4
    assert scaled(own, 100.0).counts == 1


def test_families_without_a_level():
    assert {name for name, cls in FAMILIES.items() if has_level(cls())} == {"weibull", "lognormal", "multinomial"}


def test_a_copy_has_other_noise_and_the_same_weights():
    model, batch = hf_bam.patch(bert(initializer_range=0.2), k=2.0).eval(), classification()
    other = with_noise(model, 4.0)
    assert hf_bam.get_config(model).settings.k == 2.0
    assert all(one is two for one, two in zip(model.parameters(), other.parameters(), strict=True))
    with torch.no_grad():
        torch.testing.assert_close(model(**batch).logits, other(**batch).logits)  # mean attention
        spreads = []
        for one in (model, other):
            with hf_bam.sampling(one, seed=0):
                spreads.append(np.std([one(**batch).logits.numpy() for _ in range(30)], axis=0).mean())
    assert spreads[1] > 1.5 * spreads[0]
    assert with_noise(model, 1.0) is model
