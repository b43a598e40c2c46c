"""Codes, their prior and texts from it, against a count model, brute force and the parts of the model."""

import math
from collections import Counter

import pytest
import torch
from transformers import GPT2LMHeadModel

import hf_bam
from hf_bam.prediction.bound import measure_bound
from hf_bam.prediction.codes import code_log_likelihood, code_sequences, fit_prior
from hf_bam.tasks import vocabulary

from ..models import ARCHITECTURES, marian, recurrent

SIZES = {"n_embd": 16, "n_layer": 1, "n_head": 2}
ROWS = [{"input_ids": [5, 6, 7, 0], "labels": [5, 6, 7, 0]}, {"input_ids": [8, 0], "labels": [8, 0]}]


@pytest.fixture
def built():
    """A tokenizer, and a model with random codes."""
    torch.manual_seed(0)
    tokenizer = vocabulary.fit(["a b c d e f g h"] * 60, 60, 32)
    model = recurrent(
        vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, eos_token_id=0, initial_state="zero"
    )
    return hf_bam.patch(model.eval(), family="quantized", num_codes=6), tokenizer


def grammar(number, generator):
    """Return sequences of a Markov chain: 0 or 1, several times, and then 2 or the end."""
    found = []
    for _ in range(number):
        code = int(torch.randint(2, (), generator=generator))
        own = [code]
        while code != 2 and len(own) < 6:
            code = code if torch.rand((), generator=generator) < 0.6 else 2
            own.append(code)
        found.append(own)
    return found


def count_model(sequences):
    """Return the mean negative log-likelihood of sequences under counts of their prefixes, the best of all models."""
    following, total = {}, 0.0
    for own in sequences:
        for t, code in enumerate([*own, "end"]):
            following.setdefault(tuple(own[:t]), Counter())[code] += 1
    for own in sequences:
        for t, code in enumerate([*own, "end"]):
            counts = following[tuple(own[:t])]
            total -= math.log(counts[code] / counts.total())
    return total / len(sequences)


def test_the_prior_of_a_toy_grammar_is_that_of_a_count_model():
    sequences = grammar(400, torch.Generator().manual_seed(0))
    prior = fit_prior(sequences, 3, SIZES, 0.0, 30, 64, 1e-2)
    found = -code_log_likelihood(prior, sequences).mean().item()
    assert found == pytest.approx(count_model(sequences), abs=0.03)


def test_log_likelihood_adds_up_to_one_and_is_that_of_the_loss():
    torch.manual_seed(0)
    prior = fit_prior([[0, 1], [1]], 2, SIZES, 0.0, 1, 2, 1e-3)
    sequences = [[0, 1, 1], [1]]
    found = code_log_likelihood(prior, sequences)
    for own, value in zip(sequences, found, strict=True):
        ids = torch.tensor([[2, *own, 2]])
        assert value.item() == pytest.approx(-prior(ids, labels=ids).loss.item() * (len(own) + 1), rel=1e-5)


def test_codes_of_texts_do_not_depend_on_the_batch(built):
    model, _ = built
    rows = [{"input_ids": row} for row in ([5, 6, 7, 0], [8, 0], [5, 5, 5, 5, 5, 0])]
    found = code_sequences(model, rows)
    assert [len(own) for own in found] == [4, 2, 6]
    book = model.get_decoder().bam.memory
    for row, own in zip(rows, found, strict=True):
        assert code_sequences(model, [row]) == [own]
        with torch.no_grad():
            states = model.get_encoder()(torch.tensor([row["input_ids"]]))[0][0]
        assert torch.cdist(states, book.codes).argmin(1).tolist() == own


def test_texts_from_the_prior(built, tmp_path):
    model, tokenizer = built
    with pytest.raises(ValueError, match=r"no prior of its codes yet; call hf_bam.fit_code_prior\(model, dataset\)"):
        hf_bam.generate_from_prior(model, tokenizer)
    state = torch.get_rng_state()
    prior = hf_bam.fit_code_prior(model, ROWS, num_train_epochs=2, hidden_size=16, num_heads=2)
    assert torch.equal(torch.get_rng_state(), state)
    assert isinstance(prior, GPT2LMHeadModel)
    assert not any("code_prior" in name for name, _ in model.named_parameters())
    options = {"max_new_tokens": 6, "num_beams": 1}
    texts = hf_bam.generate_from_prior(model, tokenizer, num=4, seed=1, **options)
    assert len(texts) == 4
    assert texts == hf_bam.generate_from_prior(model, tokenizer, num=4, seed=1, **options)
    model.save_pretrained(tmp_path)
    loaded = hf_bam.from_pretrained(tmp_path)
    assert hf_bam.generate_from_prior(loaded, tokenizer, num=4, seed=1, **options) == texts
    again = type(model).from_pretrained(tmp_path, attn_implementation="bam")
    assert hf_bam.generate_from_prior(again, tokenizer, num=4, seed=1, **options) == texts
    hf_bam.patch(model, family="quantized", num_codes=7)
    model.save_pretrained(tmp_path)  # other codes have no prior yet
    assert hf_bam.from_pretrained(tmp_path)._bam.code_prior is None


def test_a_text_is_that_of_its_codes(built):
    """The decoder gets the codes that the prior gave, and stops at its end token."""
    model, tokenizer = built
    hf_bam.fit_code_prior(model, ROWS, num_train_epochs=1, hidden_size=16, num_heads=2)
    seen = []
    handle = model.get_decoder().cross_attn.k_proj.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    hf_bam.generate_from_prior(model, tokenizer, num=3, max_new_tokens=2)
    handle.remove()
    codes = model.get_decoder().bam.memory.codes
    assert torch.cdist(seen[0].flatten(0, 1), codes).min(1).values.max() < 1e-5


@pytest.mark.parametrize("name", ["marian", "t5", "bart"])
def test_other_models(name):
    torch.manual_seed(0)
    tokenizer = vocabulary.fit(["a b c d e f g h"] * 60, 60, 32)
    model = hf_bam.patch(ARCHITECTURES[name].build(), family="quantized", num_codes=6).eval()
    hf_bam.fit_code_prior(model, ROWS, num_train_epochs=1, hidden_size=16, num_heads=2)
    assert len(hf_bam.generate_from_prior(model, tokenizer, num=2, max_new_tokens=3)) == 2


def test_wrong_models_are_errors(built):
    _, tokenizer = built
    with pytest.raises(ValueError, match="has no codebook; patch it with"):
        hf_bam.fit_code_prior(hf_bam.patch(marian()), ROWS)
    model = hf_bam.patch(recurrent(), family="quantized", num_codes=4).eval()
    hf_bam.fit_code_prior(model, ROWS, num_train_epochs=1, hidden_size=16, num_heads=2)
    with pytest.raises(ValueError, match=r"RecurrentConfig\(initial_state='zero'\)"):
        hf_bam.generate_from_prior(model, tokenizer)


class TestBound:
    def test_codes(self, built):
        model, _ = built
        prior = hf_bam.fit_code_prior(model, ROWS, num_train_epochs=1, hidden_size=16, num_heads=2)
        found = measure_bound(model, ROWS)
        losses = []
        for row in ROWS:
            labels = torch.tensor([row["labels"]])
            with torch.no_grad():
                losses.append(model(torch.tensor([row["input_ids"]]), labels=labels).loss.item() * labels.numel())
        assert found.reconstruction == pytest.approx(sum(losses) / 2, rel=1e-5)
        assert found.kl == pytest.approx(-code_log_likelihood(prior, code_sequences(model, ROWS)).mean().item())
        assert found.tokens == 3
        assert found.perplexity == pytest.approx(math.exp((found.reconstruction + found.kl) / 3))
        assert found.reconstruction_perplexity < found.perplexity

    def test_a_plain_model_has_no_kl(self):
        found = measure_bound(recurrent(), ROWS)
        assert found.kl == 0
        assert found.bound == found.reconstruction

    @pytest.mark.parametrize("latent", ["gaussian", "sentence"])
    def test_gaussian_variables(self, latent):
        torch.manual_seed(0)
        model = hf_bam.patch(recurrent(initial_state="zero").eval(), family="quantized", latent=latent)
        found = measure_bound(model, ROWS)
        assert found == measure_bound(model, ROWS)
        assert found.reconstruction != measure_bound(model, ROWS, seed=1).reconstruction
        with torch.no_grad(), model._bam.runtime.measuring() as terms, hf_bam.sampling(model, seed=0):
            ids, labels = torch.tensor([[5, 6, 7, 0], [8, 0, 1, 1]]), torch.tensor([[5, 6, 7, 0], [8, 0, -100, -100]])
            model(ids, attention_mask=(ids != 1).long(), labels=labels)
        assert found.kl == pytest.approx(terms[0].total.mean().item(), rel=1e-5)
