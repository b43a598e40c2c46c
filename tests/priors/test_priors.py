import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from hf_bam.priors import ContextualPrior, FixedPrior

KEYS = (2, 3, 5, 8)  # (B, H, S, D)
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], dtype=torch.bool)[:, None, None]  # (B, 1, 1, S)


def test_contextual_is_a_softmax_over_allowed_keys_of_a_two_layer_network():
    prior, key = ContextualPrior(8, 4), torch.randn(KEYS)
    log_psi = prior(key, MASK).detach().numpy()
    w1, b1, w2 = (p.detach().numpy() for p in prior.parameters())
    logits = np.maximum(key.numpy() @ w1.T + b1, 0) @ w2[0]  # (B, H, S)
    np.testing.assert_allclose(log_psi[0, :, 0], log_softmax(logits[0], axis=-1), rtol=1e-5)
    np.testing.assert_allclose(log_psi[1, :, 0, :2], log_softmax(logits[1, :, :2], axis=-1), rtol=1e-5)
    assert (np.exp(log_psi[1, :, 0, 2:]) == 0).all()


def test_contextual_does_not_see_masked_keys():
    prior, key = ContextualPrior(8, 4), torch.randn(KEYS)
    changed = key.clone()
    changed[1, :, 2:] = 1e4
    assert torch.equal(prior(key, MASK), prior(changed, MASK))


def test_every_query_has_its_own_normalisation_under_a_causal_mask():
    causal = torch.ones(5, 5, dtype=torch.bool).tril()[None, None]
    psi = ContextualPrior(8, 4)(torch.randn(KEYS), causal).exp()  # (B, H, T, S)
    torch.testing.assert_close(psi.sum(-1), torch.ones(2, 3, 5))
    torch.testing.assert_close(psi[..., 1, 0] / psi[..., 1, 1], psi[..., 4, 0] / psi[..., 4, 1])  # one value per key


def test_fixed_is_uniform_over_allowed_keys():
    psi = FixedPrior()(torch.randn(KEYS), MASK).exp()
    torch.testing.assert_close(psi[:, 0, 0], torch.tensor([[0.2] * 5, [0.5, 0.5, 0, 0, 0]]))


@pytest.mark.parametrize("prior", [ContextualPrior(8, 4), FixedPrior()])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_log_psi_is_float32_at_least(prior, dtype):
    log_psi = prior.to(dtype)(torch.randn(KEYS, dtype=dtype), MASK)
    assert log_psi.dtype == torch.float32
    torch.testing.assert_close(log_psi.exp().sum(-1), torch.ones(log_psi.shape[:-1]))
    prior.float()


def test_an_empty_mask_is_finite():
    prior = ContextualPrior(8, 4)
    log_psi = prior(torch.randn(KEYS), torch.zeros(2, 1, 1, 5, dtype=torch.bool))
    log_psi.sum().backward()
    assert torch.isfinite(log_psi).all()
    assert all(torch.isfinite(p.grad).all() for p in prior.parameters())
