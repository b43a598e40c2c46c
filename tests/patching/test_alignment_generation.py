"""Generation with latent alignments: beams, caches, expectations and samples."""

import pytest
import torch

import hf_bam

from ..models import PAD, translation
from .forced import BUILDERS


@pytest.fixture(params=BUILDERS)
def name(request):
    return request.param


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"num_beams": 2, "do_sample": True}], ids=str)
@pytest.mark.parametrize("top_k", [None, 2])
def test_generation_with_and_without_a_cache(name, options, top_k):
    model = hf_bam.patch(BUILDERS[name](), family="categorical", test_time="expectation", top_k=top_k).eval()
    inputs = {n: x for n, x in translation((7, 4), 7).items() if n != "labels"}
    texts = []
    for use_cache in (True, False):
        torch.manual_seed(0)
        texts.append(model.generate(**inputs, max_new_tokens=6, pad_token_id=PAD, use_cache=use_cache, **options))
    assert torch.equal(*texts)


def test_greedy_generation_follows_the_expectation(name):
    model = hf_bam.patch(BUILDERS[name](), family="categorical", test_time="expectation").eval()
    inputs = {n: x for n, x in translation((7, 4), 7).items() if n != "labels"}
    ids = model.generate(**inputs, max_new_tokens=5, pad_token_id=PAD)
    logits = model(**inputs, decoder_input_ids=ids).logits
    torch.testing.assert_close(logits.exp().sum(dim=-1), torch.ones(logits.shape[:2]))
    text = (ids[:, 1:] != PAD).cumprod(dim=1).bool()
    assert torch.equal(logits[:, :-1].argmax(dim=-1)[text], ids[:, 1:][text])
    hf_bam.patch(model, hf_bam.get_config(model), test_time="soft")
    assert not torch.allclose(model(**inputs, decoder_input_ids=ids).logits.log_softmax(dim=-1), logits, atol=1e-3)


@pytest.mark.parametrize("family", ["categorical", "gumbel", "dirichlet"])
@pytest.mark.parametrize("options", [{}, {"num_beams": 2}], ids=str)
def test_fixed_noise_within_generate(name, family, options):
    """One alignment of every position for a whole text, with and without a cache."""
    model = hf_bam.patch(BUILDERS[name](), family=family).eval()
    inputs = {n: x for n, x in translation((7, 4), 7).items() if n != "labels"}
    texts = []
    for use_cache in (True, False):
        with hf_bam.sampling(model, seed=0, fixed=True, groups=2):
            texts.append(model.generate(**inputs, max_new_tokens=8, pad_token_id=PAD, use_cache=use_cache, **options))
    assert torch.equal(*texts)
