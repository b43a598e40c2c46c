"""Gaussian latent variables in the place of encoder states, against torch.distributions and a loop over positions."""

import pytest
import torch
from torch.distributions import Normal, kl_divergence

import hf_bam
from hf_bam.models import RecurrentConfig

from ..models import ARCHITECTURES, recurrent, translation
from .test_quantized import NAMES, build, states_of


@torch.no_grad()
def expected_kl(memory, z, mean, log_sigma, length):
    """Return the KL of one example, position by position, with the LSTM run anew for each of them."""
    total = 0.0
    for t in range(length):
        before = torch.cat([torch.zeros(1, 1, z.shape[-1]), z[None, :t]], dim=1)
        hidden = memory.lstm(before)[0][0, -1]
        prior = memory.prior
        p_mean = hidden @ prior.mean_weight.T + prior.mean_bias
        p_sigma = (hidden @ prior.sigma_weight.T + prior.sigma_bias).exp()
        total += kl_divergence(Normal(mean[t], log_sigma[t].exp()), Normal(p_mean, p_sigma)).sum().item()
    return total


def test_kl_by_torch():
    model, plain, batch = build(latent="gaussian", latent_size=4)
    memory, mask = model.get_decoder().bam.memory, batch["attention_mask"].bool()
    mean, log_sigma = memory.posterior(states_of(plain, batch))
    z = mean + torch.randn_like(mean)
    found = memory.kl(z, mean, log_sigma, mask)
    lengths = mask.sum(1).tolist()
    expected = [expected_kl(memory, *(x[i] for x in (z, mean, log_sigma)), n) for i, n in enumerate(lengths)]
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("latent", ["gaussian", "sentence"])
@pytest.mark.parametrize("name", NAMES)
def test_training_and_generation(name, latent):
    model, _, batch = build(name, latent=latent, latent_size=4)
    out = model.train()(**batch)
    assert out.kl > 0
    assert out.loss.item() == pytest.approx((out.task_loss + out.kl).item(), rel=1e-5)
    out.loss.backward()
    assert all(p.grad.abs().sum() > 0 for p in model.get_decoder().bam.memory.parameters())
    inputs = {key: batch[key] for key in ("input_ids", "attention_mask")}
    texts = []
    for use_cache in (True, False):
        with hf_bam.sampling(model.eval(), seed=3, fixed=True):
            texts.append(model.generate(**inputs, max_new_tokens=5, num_beams=1, use_cache=use_cache))
    assert torch.equal(*texts)


def test_a_sentence_is_the_only_position():
    model, _, batch = build(latent="sentence")
    with torch.no_grad():
        weights = model.eval()(**batch, output_attentions=True).cross_attentions
    assert all(own.shape[-1] == 1 for own in weights)


def test_latent_variables_of_evaluation_mode_can_be_measured():
    model, plain, batch = build(latent="sentence")
    memory, states = model.get_decoder().bam.memory, states_of(plain, batch)
    means = torch.stack([own[: int(n)].mean(0) for own, n in zip(states, batch["attention_mask"].sum(1), strict=True)])
    mean, log_sigma = memory.posterior(means)
    with torch.no_grad(), model._bam.runtime.measuring() as terms, hf_bam.sampling(model.eval(), seed=0):
        model(**batch)
    assert len(terms) == 1
    expected = kl_divergence(Normal(mean, log_sigma.exp()), Normal(0.0, 1.0)).sum(1)
    torch.testing.assert_close(terms[0].total, expected)
    model(**batch)
    assert len(terms) == 1


class TestInitialState:
    def test_the_decoder_knows_the_source_by_attention_alone(self):
        """With attention to nothing but equal states, sources of one length give the same logits."""
        torch.manual_seed(0)
        model = recurrent(initial_state="zero").eval()
        torch.nn.init.zeros_(model.model.decoder.cross_attn.v_proj.weight)
        one, other = translation((7,), 7), translation((7,), 7)
        other["labels"] = one["labels"]
        assert torch.equal(model(**one).logits, model(**other).logits)
        usual = recurrent().eval()
        torch.nn.init.zeros_(usual.model.decoder.cross_attn.v_proj.weight)
        assert not torch.allclose(usual(**one).logits, usual(**other).logits)

    def test_values(self):
        with pytest.raises(ValueError, match="initial_state='one' is not valid; it must be 'encoder' or 'zero'"):
            RecurrentConfig(initial_state="one")
        assert ARCHITECTURES["recurrent"].build().config.initial_state == "encoder"
