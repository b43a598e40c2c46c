"""`generate` of the recurrent model against a loop of its equations, and against enumeration."""

from itertools import product

import pytest
import torch
from scipy import stats

from .cases import EOS, PAD, build, source
from .reference import Decoder, teacher_forced

SHAPES = {"input feeding": {}, "no input feeding": {"input_feeding": False, "num_attention_heads": 2}}
LARGE = {"initializer_factor": 3.0}
"""Weights with which the text of a tiny model depends on its source."""


@pytest.fixture(params=SHAPES)
def shape(request):
    return {**SHAPES[request.param], **LARGE}


def rows(inputs):
    return [ids[mask.bool()].tolist() for ids, mask in zip(inputs["input_ids"], inputs["attention_mask"], strict=True)]


def test_greedy_decoding_takes_the_most_probable_token(shape):
    model, inputs = build(**shape), source()
    texts = model.generate(**inputs, max_new_tokens=8, do_sample=False)
    for ids, text in zip(rows(inputs), texts.tolist(), strict=True):
        decoder, expected = Decoder(model, ids), [PAD]
        while len(expected) < 9 and expected[-1] != EOS:
            expected.append(decoder.step(expected[-1]).argmax().item())
        assert text[: len(expected)] == expected
        assert set(text[len(expected) :]) <= {PAD}
    assert len({tuple(text) for text in texts.tolist()}) > 1


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_beam_search_with_enough_beams_finds_the_best_text(shape, penalty):
    """Five tokens, at most three steps: 25 beams are all prefixes, so the search is exhaustive."""
    model = build(**shape, vocab_size=5)
    inputs = {
        "input_ids": torch.tensor([[2, 4, 3], [3, 2, 1]]),
        "attention_mask": torch.tensor([[1, 1, 1], [1, 1, 0]]),
    }
    options = {"num_beams": 25, "length_penalty": penalty, "early_stopping": "never", "do_sample": False}
    texts = model.generate(**inputs, **options, max_new_tokens=3)
    for ids, text in zip(rows(inputs), texts.tolist(), strict=True):
        scores = {}
        for tokens in product(range(5), repeat=3):
            target = tokens[: tokens.index(EOS) + 1] if EOS in tokens else tokens
            log_p = teacher_forced(model, ids, list(target))[0].log_softmax(-1)
            total = sum(log_p[step, token].item() for step, token in enumerate(target))
            scores[target] = total / len(target) ** penalty
        best = max(scores, key=scores.get)
        assert tuple(text[1 : 1 + len(best)]) == best
        assert set(text[1 + len(best) :]) <= {PAD}


def test_sampling_follows_the_probabilities():
    model, inputs = build(vocab_size=6, **LARGE), {"input_ids": torch.tensor([[2, 5, 3]])}
    texts = model.generate(**inputs, do_sample=True, top_k=0, max_new_tokens=2, num_return_sequences=4000)
    ids = inputs["input_ids"][0].tolist()
    first = teacher_forced(model, ids, [3])[0][0].softmax(-1)
    counts = torch.bincount(texts[:, 1], minlength=6)
    assert stats.chisquare(counts, 4000 * first).pvalue > 1e-3
    common = counts[2:].argmax().item() + 2
    second = teacher_forced(model, ids, [common, 3])[0][1].softmax(-1)
    counts = torch.bincount(texts[texts[:, 1] == common, 2], minlength=6)
    assert stats.chisquare(counts, counts.sum() * second).pvalue > 1e-3


STRATEGIES = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True},
    "beams": {"num_beams": 4, "num_return_sequences": 2},
    "beams and sampling": {"num_beams": 3, "do_sample": True},
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_cache_changes_nothing(shape, strategy):
    """Without a cache the decoder reads the whole text again at every step, so that there is no state to reorder."""
    model, inputs, texts = build(**shape), source(), []
    encoded = model.get_encoder()(**inputs)
    again = {"encoder_outputs": encoded, "attention_mask": inputs["attention_mask"]}
    for given, use_cache in ((inputs, True), (inputs, False), (again, True)):
        torch.manual_seed(3)
        texts.append(model.generate(**given, **STRATEGIES[strategy], use_cache=use_cache, max_new_tokens=7))
    assert torch.equal(texts[0], texts[1])
    assert torch.equal(texts[0], texts[2])


def test_generation_continues_a_prompt(shape):
    model, inputs = build(**shape), source()
    whole = model.generate(**inputs, max_new_tokens=6, min_new_tokens=6, do_sample=False)
    rest = model.generate(
        **inputs, decoder_input_ids=whole[:, :4], max_new_tokens=3, min_new_tokens=3, do_sample=False
    )
    assert torch.equal(rest, whole)


def test_alignments_of_a_generated_text(shape):
    model, inputs = build(**shape), source()
    asked = {"output_attentions": True, "output_scores": True, "return_dict_in_generate": True}
    out = model.generate(**inputs, max_new_tokens=4, min_new_tokens=4, do_sample=False, **asked)
    ids = rows(inputs)[1]
    _, expected = teacher_forced(model, ids, out.sequences[1, 1:].tolist())
    given = torch.cat([step[0][1] for step in out.cross_attentions], dim=1)  # (H, T, S)
    torch.testing.assert_close(given[..., : len(ids)], expected)


def test_a_cache_is_reordered_repeated_and_reset():
    model, inputs = build(**LARGE), source()
    cache = model(**inputs, decoder_input_ids=torch.tensor([[PAD, 4]] * 3), use_cache=True).past_key_values
    assert cache.get_seq_length() == 2
    assert not cache.is_croppable
    before = [*cache.state.layers[1], cache.state.context, *cache.memory]
    cache.reorder_cache(torch.tensor([2, 0, 0]))
    after = [*cache.state.layers[1], cache.state.context, *cache.memory]
    for old, new in zip(before[:2], after[:2], strict=True):
        assert torch.equal(new, old[:, [2, 0, 0]])
    for old, new in zip(before[2:], after[2:], strict=True):
        assert torch.equal(new, old[[2, 0, 0]])
    cache.batch_repeat_interleave(2)
    assert torch.equal(cache.state.context, before[2][[2, 2, 0, 0, 0, 0]])
    with pytest.raises(NotImplementedError, match="cannot be taken back"):
        cache.crop(1)
    cache.reset()
    assert cache.get_seq_length() == 0
    cache.reorder_cache(torch.tensor([0]))
