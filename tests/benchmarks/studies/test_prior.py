"""Contextual prior: it concentrates on the key that matters with the default beta, and not with that of the paper."""

import pytest

from benchmarks.studies.prior import LENGTH, train


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_the_default_prior_finds_the_key_that_matters(seed):
    run = train(seed)
    assert run["accuracy"] > 0.95
    assert run["entropy"] < 0.85
    assert run["mass"] > 4 / LENGTH


@pytest.mark.slow
@pytest.mark.parametrize("prior_shape", ["beta*psi", "psi"])
def test_with_the_beta_of_the_paper_the_prior_stays_uniform(prior_shape):
    run = train(k=10.0, beta=1e-2, prior_shape=prior_shape)  # k as for CoLA
    assert run["accuracy"] > 0.95
    assert run["entropy"] > 0.99
    assert run["mass"] < 1.6 / LENGTH
