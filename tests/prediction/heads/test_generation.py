"""Generated text, the uncertainty of its tokens, and hypotheses from several samples."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
import torch

import hf_bam
from hf_bam.prediction import Bam, BamPredictor, Dropout, Ensemble, Plain, Predictor
from hf_bam.prediction.batched import repeat_all, sample_seeds

from ...models import ARCHITECTURES, PAD
from ...patching.test_fixed_noise import GENERATORS

TEXTS = ["a film of rare beauty", "well, it exists"]
OPTIONS = {"max_new_tokens": 6, "min_new_tokens": 3, "do_sample": False, "pad_token_id": PAD}


@pytest.fixture(params=["marian", "gpt2", "bert2bert", "t5", "recurrent"])
def model(request, single_tokenizer):
    torch.manual_seed(1)
    model = ARCHITECTURES[request.param].build(vocab_size=len(single_tokenizer), **GENERATORS[request.param])
    # Half of the digits of single precision are lost in the scores of T5, which are not scaled.
    return hf_bam.patch(model.double(), k=1.0)


def test_the_text_is_that_of_the_mean_model_and_scores_are_its_own(model, single_tokenizer):
    """Token probabilities against the scores that generate itself reports."""
    results = Predictor(Plain(model), single_tokenizer, generation=OPTIONS)(TEXTS)
    for text, result in zip(TEXTS, results, strict=True):
        encoding = single_tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            out = model.eval().generate(**encoding, **OPTIONS, output_logits=True, return_dict_in_generate=True)
        skip = 1 if model.config.is_encoder_decoder else encoding["input_ids"].shape[1]
        ids = out.sequences[0, skip:]
        probabilities = torch.cat(out.logits).softmax(-1)
        expected = [probabilities[i, token].item() for i, token in enumerate(ids)][: len(result.tokens)]
        assert result.text == single_tokenizer.decode(ids, skip_special_tokens=True)
        assert [token.probability for token in result.tokens] == pytest.approx(expected, abs=1e-4)
        entropies = torch.special.entr(probabilities).sum(-1)[: len(result.tokens)].tolist()
        assert [token.entropy for token in result.tokens] == pytest.approx(entropies, abs=1e-3)
        assert result.epistemic == pytest.approx(0, abs=1e-6)


def test_uncertainty_of_several_samples(model, single_tokenizer):
    results = BamPredictor(model, single_tokenizer, num_samples=12, generation=OPTIONS)(TEXTS)
    for result in results:
        assert result.samples.shape == (12, len(result.tokens))
        assert result.epistemic > 0
        assert result.entropy == pytest.approx(result.aleatoric + result.epistemic, abs=1e-6)
        assert result.entropy == pytest.approx(np.mean([token.entropy for token in result.tokens]))
        means = result.samples.mean(0)
        assert [token.probability for token in result.tokens] == pytest.approx(means.tolist())
        assert result.probability == pytest.approx(math.exp(np.log(means).mean()))
        assert result.hypotheses == []
        assert math.isnan(result.agreement)


@pytest.mark.parametrize("decoding", [{}, {"num_beams": 3}, {"do_sample": True}])
def test_hypotheses_come_from_one_sample_each(model, single_tokenizer, decoding):
    options = {**OPTIONS, **decoding}
    predictor = BamPredictor(model, single_tokenizer, num_samples=2, hypotheses=5, generation=options)
    results, again = predictor(TEXTS), predictor(TEXTS)
    uncached = BamPredictor(
        model, single_tokenizer, num_samples=2, hypotheses=5, generation={**options, "use_cache": False}
    )(TEXTS)
    for result, same, plain in zip(results, again, uncached, strict=True):
        assert len(result.hypotheses) == 5
        assert result.hypotheses == same.hypotheses == plain.hypotheses
        pairs = combinations([text.split() for text in result.hypotheses], 2)
        overlaps = [2 * sum((Counter(a) & Counter(b)).values()) / len(a + b) if a + b else 1.0 for a, b in pairs]
        assert result.agreement == pytest.approx(np.mean(overlaps))


def test_a_deterministic_encoder_runs_once(single_tokenizer):
    torch.manual_seed(1)
    model = ARCHITECTURES["marian"].build(vocab_size=len(single_tokenizer), init_std=0.5)
    batches = []
    model.get_encoder().register_forward_hook(lambda module, args, output: batches.append(len(output[0])))
    once = BamPredictor(
        hf_bam.patch(model, k=1.0, attention="cross"), single_tokenizer, num_samples=8, generation=OPTIONS
    )(TEXTS)
    assert batches == [2, 2]  # to generate, and to score all samples
    batches.clear()
    BamPredictor(hf_bam.patch(model, k=1.0), single_tokenizer, num_samples=8, generation=OPTIONS)(TEXTS)
    assert batches == [2, 16]
    assert all(result.epistemic > 0 for result in once)


@pytest.mark.parametrize("decoding", [{}, {"num_beams": 3}])
def test_hypotheses_share_a_deterministic_encoder(decoding, single_tokenizer):
    torch.manual_seed(1)
    model = ARCHITECTURES["marian"].build(vocab_size=len(single_tokenizer), init_std=0.5).double()
    sampler = Bam(hf_bam.patch(model, k=1.0, attention="cross")).ready()
    inputs, seeds = dict(single_tokenizer(TEXTS, padding=True, return_tensors="pt")), torch.tensor([3, 4])
    batches = []
    sampler.model.get_encoder().register_forward_hook(lambda module, args, output: batches.append(len(output[0])))
    with torch.no_grad():
        together = sampler.hypotheses(inputs, 5, seeds, {**OPTIONS, **decoding})
        assert batches == [2]
        with sampler.noise(sample_seeds(seeds, torch.arange(5))):
            apart = sampler.model.generate(**repeat_all(inputs, 5), **OPTIONS, **decoding)
    assert batches == [2, 10]
    assert torch.equal(together.flatten(0, 1), apart)
    assert len(together[:, 0].unique(dim=0)) > 1


def test_other_samplers_generate_too(single_tokenizer):
    model = ARCHITECTURES["marian"].build(vocab_size=len(single_tokenizer), init_std=0.5)
    other = ARCHITECTURES["marian"].build(vocab_size=len(single_tokenizer), init_std=0.5)
    for sampler in (Dropout(model, rate=0.3), Ensemble([model, other])):
        result = Predictor(sampler, single_tokenizer, num_samples=4, hypotheses=3, generation=OPTIONS)(TEXTS)[0]
        assert result.epistemic > 0
        assert len(result.hypotheses) == min(3, sampler.limit or 3)
        assert model.training  # as it was built


def test_the_global_random_state_is_left_alone(model, single_tokenizer):
    before = torch.get_rng_state()
    BamPredictor(model, single_tokenizer, num_samples=2, hypotheses=2, generation={**OPTIONS, "do_sample": True})(
        TEXTS
    )
    assert torch.equal(torch.get_rng_state(), before)
