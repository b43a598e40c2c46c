"""Fixed noise is a function of positions: no kind of cache, window or padding changes it."""

import pytest
import torch
from transformers import StaticCache

import hf_bam

from ..adapted import bloom, falcon, falcon_alibi, gpt_neo, gptj
from ..models import PAD, bert2bert, gemma2, gpt2, llama, marian, t5, text

LARGE = {"initializer_range": 0.5}
# Not GPT-Neo and Falcon with ALiBi, whose plain models have no cache of fixed size or another text with it.
BUILDS = [(build, noise) for build in (gpt2, llama, gemma2) for noise in ("entry", "key", "token")]
BUILDS += [(bloom, "entry"), (falcon, "key"), (gptj, "token")]


def scores(model, batch, seed=4, **options):
    asked = {"max_new_tokens": 9, "min_new_tokens": 9, "do_sample": False, "pad_token_id": PAD, **options}
    with hf_bam.sampling(model, seed=seed, fixed=True):
        out = model.generate(**batch, **asked, output_scores=True, return_dict_in_generate=True)
    return out.sequences, torch.stack(out.scores)


@pytest.mark.parametrize(("build", "noise"), BUILDS)
@pytest.mark.parametrize("lengths", [(7, 7, 7), (7, 4, 2)], ids=["unpadded", "padded"])
def test_every_cache_gives_the_same_text(build, noise, lengths):
    """Without a cache, with a growing one, with one of fixed size, and with one that drops old keys (Gemma 2)."""
    torch.manual_seed(0)
    model = hf_bam.patch(build(**LARGE).double(), k=1.0, noise=noise).eval()
    batch = {name: x.flip(1) for name, x in text(lengths).items()}  # padding on the left
    results = [
        scores(model, batch, use_cache=False),
        scores(model, batch),
        scores(model, batch, cache_implementation="static", disable_compile=True),
    ]
    for sequences, values in results[1:]:
        assert torch.equal(sequences, results[0][0])
        torch.testing.assert_close(values, results[0][1], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(scores(model, batch, seed=5)[1], results[0][1], atol=1e-2)


@pytest.mark.parametrize("build", [marian, t5, bert2bert])
def test_encoder_decoders(build):
    torch.manual_seed(0)
    changes = {marian: {"init_std": 0.5}, t5: {"initializer_factor": 4.0}}.get(build, LARGE)
    model = hf_bam.patch(build(**changes).double(), k=1.0).eval()
    batch = text()
    (plain, first), (cached, second) = (scores(model, batch, use_cache=use) for use in (False, True))
    assert torch.equal(plain, cached)
    torch.testing.assert_close(first, second, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("build", [gpt2, llama, marian, t5])
def test_static_caches_in_single_precision(build, beams):
    """The compiled kernel instead of blocks, encoder-decoder models, and beams."""
    torch.manual_seed(0)
    changes = {marian: {"init_std": 0.5}, t5: {"initializer_factor": 2.0}}.get(build, LARGE)
    model = hf_bam.patch(build(**changes), k=1.0).eval()
    batch = {name: x if model.config.is_encoder_decoder else x.flip(1) for name, x in text((7, 4, 2)).items()}
    growing = scores(model, batch, num_beams=beams)
    static = scores(model, batch, num_beams=beams, cache_implementation="static", disable_compile=True)
    assert torch.equal(static[0], growing[0])
    torch.testing.assert_close(static[1], growing[1], atol=1e-3, rtol=1e-4)
    assert not torch.allclose(scores(model, batch, seed=5, num_beams=beams)[1], growing[1], atol=1e-2)


def test_a_static_cache_in_a_loop_of_ones_own():
    torch.manual_seed(0)
    model = hf_bam.patch(llama(**LARGE).double(), k=1.0).eval()
    ids = text((7,), 7)["input_ids"]
    with torch.no_grad(), hf_bam.sampling(model, seed=1, fixed=True):
        whole = model(ids).logits
        cache = StaticCache(model.config, max_cache_len=20)
        parts = [model(part, past_key_values=cache).logits for part in ids.split([4, 2, 1], dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("build", [gpt2, llama, bloom, falcon, falcon_alibi, gptj, gpt_neo])
def test_left_padding_does_not_change_the_noise_of_a_text(build):
    torch.manual_seed(0)
    model = hf_bam.patch(build(**LARGE).double(), k=1.0).eval()
    ids = text((4,), 4)["input_ids"]
    padded = torch.cat([torch.full((1, 3), PAD), ids], dim=1)
    mask = (torch.arange(7) >= 3).long()[None]
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    for fixed in (False, True):
        with torch.no_grad(), hf_bam.sampling(model, seed=1, fixed=fixed):
            expected = model(ids).logits
        with torch.no_grad(), hf_bam.sampling(model, seed=1, fixed=fixed):
            actual = model(padded, attention_mask=mask, position_ids=positions).logits[:, 3:]
        torch.testing.assert_close(actual, expected, atol=1e-6, rtol=1e-5)
