"""Samples of a latent alignment in the results of a predictor, against the plain model and its attention."""

import numpy as np
import pytest
import torch
from scipy import stats

import hf_bam

from ..models import bert, marian, recurrent, recurrent_parallel
from ..patching.forced import Oracle

SOURCES = ["a good film", "the actors were bad and the plot was worse"]
OPTIONS = {"progress": False, "seed": 0, "generation": {"max_new_tokens": 5}}


def build(name, tokenizer, **changes):
    special = {"vocab_size": len(tokenizer), "pad_token_id": 0, "decoder_start_token_id": 0, "eos_token_id": 102}
    kinds = {"marian": marian, "recurrent": recurrent_parallel, "input feeding": recurrent}
    large = {"init_std": 0.5} if name == "marian" else {"initializer_factor": 3.0}
    return kinds[name](**special, **large, **changes).eval()


def predictor(model, tokenizer, num_samples=16, **changes):
    return hf_bam.BamPredictor(model, tokenizer, num_samples=num_samples, **OPTIONS | changes)


@pytest.mark.parametrize("name", ["marian", "recurrent"])
def test_every_sample_is_the_plain_model_with_the_alignment(name, single_tokenizer):
    model = build(name, single_tokenizer)
    oracle = Oracle.of(name, model)
    hf_bam.patch(model, family="categorical")
    with torch.no_grad():
        for source, found in zip(SOURCES, predictor(model, single_tokenizer)(SOURCES), strict=True):
            inputs = single_tokenizer(source, return_tensors="pt")
            ids = model.generate(**inputs, max_new_tokens=5)
            length = len(found.tokens)
            assert found.alignments.shape == (16, length, inputs["input_ids"].shape[1])
            assert ((found.alignments == 0) | (found.alignments == 1)).all()
            positions = found.alignments.argmax(axis=-1)
            assert len(np.unique(positions, axis=0)) > 1
            batch = {**inputs, "decoder_input_ids": ids[:, :length], "labels": ids[:, 1 : 1 + length]}
            for z, own in zip(positions, found.samples, strict=True):
                expected = oracle.run(batch, tuple(z.tolist())).log_f.exp()[0]
                np.testing.assert_allclose(own, expected.numpy(), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", ["marian", "recurrent", "input feeding"])
def test_samples_follow_the_prior(name, single_tokenizer):
    model = hf_bam.patch(build(name, single_tokenizer), family="categorical")
    (found,) = predictor(model, single_tokenizer, num_samples=300)(SOURCES[1])
    inputs = single_tokenizer(SOURCES[1], return_tensors="pt")
    ids = model.generate(**inputs, max_new_tokens=5)
    p = hf_bam.alignments(model, inputs, {"labels": ids[:, 1:]}).p[0].double().numpy()
    counts = found.alignments.sum(axis=0)
    for own, probabilities in zip(counts, p, strict=False):
        often = 300 * probabilities > 5
        observed, expected = (np.append(x[often], x[~often].sum() + 1e-9) for x in (own, 300 * probabilities))
        assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-4


@pytest.mark.parametrize("family", ["gumbel", "dirichlet"])
@pytest.mark.parametrize("name", ["marian", "input feeding"])
def test_relaxed_samples_are_rows_of_weights(name, family, single_tokenizer):
    model = hf_bam.patch(build(name, single_tokenizer), family=family)
    found = predictor(model, single_tokenizer)(SOURCES)
    for result in found:
        np.testing.assert_allclose(result.alignments.sum(axis=-1), 1, rtol=1e-5)
        assert len(np.unique(result.alignments, axis=0)) == 16
    again = predictor(model, single_tokenizer)(SOURCES[1])[0].alignments
    np.testing.assert_allclose(again, found[1].alignments, rtol=1e-3, atol=1e-5)  # padding has no effect


def test_every_sample_of_a_classifier_reads_one_token(tokenizer):
    """At S positions there are S different predictions: those of the plain model that is forced to them."""
    model = bert(vocab_size=len(tokenizer), initializer_range=0.4).eval()
    oracle = Oracle.of("bert.encoder.layer.1.attention.self", model)
    results = predictor(hf_bam.patch(model, family="categorical"), tokenizer, num_samples=64)(SOURCES)
    for source, found in zip(SOURCES, results, strict=True):
        inputs = tokenizer(source, return_tensors="pt")
        assert found.alignments.shape == (64, inputs["input_ids"].shape[1])
        positions = found.alignments.argmax(axis=-1)
        assert len(np.unique(positions)) > 1
        for position in np.unique(positions):
            with torch.no_grad():
                expected = oracle.classify(inputs, int(position)).exp()[0].numpy()
            for own in found.samples[positions == position]:
                np.testing.assert_allclose(own, expected, rtol=1e-3, atol=1e-5)


def test_other_predictions_have_no_alignments(tokenizer):
    model = bert(vocab_size=len(tokenizer))
    assert predictor(hf_bam.patch(model), tokenizer)(SOURCES)[0].alignments is None
    hf_bam.patch(model, family="categorical", objective="hard", estimator="score", layers=2)
    assert predictor(model, tokenizer)(SOURCES)[0].alignments is None  # two of them
    hf_bam.patch(model, family="categorical", layers=1)
    assert predictor(model, tokenizer, adaptive=True)(SOURCES)[0].alignments is None


def test_the_output_of_a_sampled_forward_has_the_alignment(single_tokenizer):
    model = hf_bam.patch(build("marian", single_tokenizer), family="categorical")
    inputs = single_tokenizer(SOURCES, return_tensors="pt", padding=True)
    ids = torch.tensor([[0, 7, 9], [0, 4, 8]])
    with torch.no_grad(), hf_bam.sampling(model, seed=3):
        out = model(**inputs, decoder_input_ids=ids, output_attentions=True)
        assert isinstance(model(**inputs, decoder_input_ids=ids, return_dict=False), tuple)
    torch.testing.assert_close(out.alignment, out.cross_attentions[-1][:, 0])
    assert "alignment" not in model(**inputs, decoder_input_ids=ids)
