"""One draw of the attention for a whole generation."""

from itertools import product

import pytest
import torch
from scipy import stats

import hf_bam
from hf_bam.attention.call import AttentionCall
from hf_bam.attention.mask import AttentionMask

from ..models import ARCHITECTURES, PAD, bert, classification, gpt2, language_model, llama, marian, text, translation

# Option of each for larger weights: the text of a tiny model should depend on its attention.
GENERATORS = {
    "bert-decoder": {"initializer_range": 0.5},
    "gpt2": {"initializer_range": 0.5},
    "llama": {"initializer_range": 0.5},
    "bert2bert": {"initializer_range": 0.5},
    "marian": {"init_std": 0.5},
    "bart": {"init_std": 0.5},
    "t5": {"initializer_factor": 4.0},
    "recurrent": {"initializer_factor": 3.0},
    "recurrent-parallel": {"initializer_factor": 3.0},
}
ADAPTED = ("bloom", "falcon", "falcon-alibi", "gptj", "gpt-neo")
CASES = [*product(GENERATORS, ["entry", "key", "token"]), *product(ADAPTED, ["key"])]


def generate(model, batch, **options):
    options = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False, "pad_token_id": PAD, **options}
    return model.generate(**batch, **options)


def prompt(name):
    # Decoders are fed prompts of equal length, so that padding plays no part.
    return text((7, 7, 7)) if ARCHITECTURES[name].batch is language_model else text()


@pytest.mark.parametrize(
    ("name", "noise"), [*product(GENERATORS, ["entry", "key", "token"]), *product(ADAPTED, ["key"])]
)
@pytest.mark.parametrize("beams", [1, 3])
def test_cache_and_beams_do_not_change_the_draw(name, noise, beams):
    torch.manual_seed(2)
    model = (
        ARCHITECTURES[name].build(**GENERATORS.get(name, {"initializer_range": 0.5})).double()
    )  # large weights amplify rounding
    hf_bam.patch(model, k=1.0, noise=noise).eval()
    batch = prompt(name)
    asked = {"num_beams": beams, "output_scores": True, "return_dict_in_generate": True}
    outputs = []
    for seed, use_cache in ((4, True), (4, False), (5, True)):
        with hf_bam.sampling(model, seed=seed, fixed=True, groups=3):
            outputs.append(generate(model, batch, use_cache=use_cache, **asked))
    cached, uncached, other = outputs
    assert torch.equal(cached.sequences, uncached.sequences)
    torch.testing.assert_close(cached.scores, uncached.scores, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(torch.stack(cached.scores), torch.stack(other.scores), atol=1e-2)


def test_forwards_repeat_within_the_context_and_rows_differ():
    model = hf_bam.patch(bert(), k=1.0).eval()
    batch = {name: tensor[:1].expand(4, *tensor.shape[1:]) for name, tensor in classification().items()}
    with hf_bam.sampling(model, fixed=True):
        first, second = model(**batch).logits, model(**batch).logits
    with hf_bam.sampling(model, fixed=True, groups=2):
        grouped = model(**batch).logits
    assert torch.equal(first, second)
    # Not bit for bit: matrix products may round equal rows of a batch differently.
    assert torch.pdist(first).min() > 1e-6
    distances = torch.cdist(grouped, grouped, compute_mode="donot_use_mm_for_euclid_dist")
    assert distances[0, 1] < 1e-7
    assert distances[2, 3] < 1e-7
    assert distances[:2, 2:].min() > 1e-6


def call(layer, batch, length):
    tensors = torch.zeros(3, batch, 4, length, 8)
    return AttentionCall(layer, 0, *tensors, AttentionMask((batch, 4, length, length)), scale=1.0)


def test_fixed_noise_follows_its_distribution():
    model = hf_bam.patch(bert(), k=2.0).eval()
    with hf_bam.sampling(model, seed=0, fixed=True):
        layer = model.bert.encoder.layer[0].attention.self.bam
        noise = layer.family.log_noise(call(layer, 40, 30))
    s = noise.double().exp().flatten().numpy()
    from ..families.test_weibull import scipy_weibull

    assert stats.kstest(s[::7], scipy_weibull(2.0, 1.0).cdf).pvalue > 1e-3


def test_layers_have_different_fixed_noise():
    model = hf_bam.patch(marian(), k=2.0).eval()
    layers = [module.bam for module in model.modules() if hasattr(module, "bam")]
    with hf_bam.sampling(model, seed=0, fixed=True):
        noises = torch.stack([layer.family.log_noise(call(layer, 2, 5)) for layer in layers])
    assert noises.flatten(1).unique(dim=0).shape[0] == len(layers)


def test_groups_must_divide_the_batch():
    model = hf_bam.patch(bert()).eval()
    with hf_bam.sampling(model, fixed=True, groups=2), pytest.raises(ValueError, match="groups=2 does not divide"):
        model(**classification())


@pytest.mark.parametrize("build", [gpt2, llama])
def test_mean_mode_generates_like_the_unpatched_model(build):
    model = build(initializer_range=0.5).eval()
    batch = text((7, 7))
    expected = generate(model, batch)
    hf_bam.patch(model)
    for use_cache in (True, False):
        assert torch.equal(generate(model, batch, use_cache=use_cache), expected)


def test_translation_in_mean_mode_is_that_of_the_unpatched_model():
    model, batch = marian(init_std=0.5).eval(), translation()
    batch.pop("labels")
    expected = generate(model, batch, num_beams=3)
    assert torch.equal(generate(hf_bam.patch(model), batch, num_beams=3), expected)
