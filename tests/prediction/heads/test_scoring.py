"""Scores of given texts, against the logits of the unpatched model and against generated texts."""

import copy

import numpy as np
import pytest
import torch

import hf_bam
from hf_bam.prediction import BamPredictor, Plain, Predictor

from ...models import ARCHITECTURES, PAD
from ...patching.test_fixed_noise import GENERATORS

SOURCES, TARGETS = ["a film of rare beauty", "well"], ["ein Film", "gut , und noch mehr"]
OPTIONS = {"max_new_tokens": 5, "min_new_tokens": 3, "do_sample": False, "pad_token_id": PAD}


def build(name, tokenizer):
    torch.manual_seed(1)
    return ARCHITECTURES[name].build(vocab_size=len(tokenizer), **GENERATORS[name]).double().eval()


def expected(model, tokenizer, source, target):
    """Return the log-probabilities of the tokens of one target and their distributions, from labels of the model."""
    inputs = tokenizer(source, return_tensors="pt")
    if model.config.is_encoder_decoder:
        labels = tokenizer(text_target=target, return_tensors="pt")["input_ids"]
        log_p = model(**inputs, labels=labels).logits.log_softmax(-1)[0]
    else:
        labels = tokenizer(target, add_special_tokens=False, return_tensors="pt")["input_ids"]
        ids = torch.cat([inputs["input_ids"], labels], dim=1)
        log_p = model(ids).logits.log_softmax(-1)[0, inputs["input_ids"].shape[1] - 1 : -1]
    return log_p.gather(-1, labels[0, :, None])[:, 0], log_p


@pytest.mark.parametrize("name", ["marian", "gpt2", "t5"])
def test_one_pass_has_the_scores_of_the_model(name, single_tokenizer):
    model = build(name, single_tokenizer)
    results = Predictor(Plain(model), single_tokenizer, progress=False).score_targets(SOURCES, TARGETS)
    for result, source, target in zip(results, SOURCES, TARGETS, strict=True):
        with torch.no_grad():
            log_p, whole = expected(model, single_tokenizer, source, target)
        assert result.text == target
        assert [token.log_probability for token in result.tokens] == pytest.approx(log_p.tolist(), abs=1e-5)
        assert result.log_probability == pytest.approx(log_p.sum().item(), abs=1e-4)
        assert result.log_likelihood == pytest.approx(result.log_probability)
        assert result.log_probability_std == 0
        entropy = -(whole.exp() * whole).sum(-1)
        assert [token.entropy for token in result.tokens] == pytest.approx(entropy.tolist(), abs=1e-4)


@pytest.mark.parametrize("name", ["marian", "gpt2"])
def test_samples_are_those_of_a_generation(name, single_tokenizer):
    """The scores of its own text are those that the predictor gave it; sequence scores are sums over its tokens."""
    model = hf_bam.patch(build(name, single_tokenizer), k=1.0)
    predictor = BamPredictor(model, single_tokenizer, num_samples=6, generation=OPTIONS, progress=False)
    generated = predictor(SOURCES)
    head = predictor.head()
    ids = [head.tokenizer(result.text)["input_ids"] for result in generated]
    assert all(ids)
    scored = predictor.score_targets(SOURCES, TARGETS)
    again = predictor.score_targets(SOURCES[::-1], TARGETS[::-1])[::-1]
    for result, same in zip(scored, again, strict=True):
        np.testing.assert_allclose(same.samples, result.samples, rtol=1e-4)  # whatever else is in the batch
        logs = torch.tensor(result.samples).log()
        whole = logs.sum(-1)
        assert result.samples.shape == (6, len(result.tokens))
        assert [token.log_probability for token in result.tokens] == pytest.approx(logs.mean(0).tolist(), abs=1e-6)
        assert [token.log_probability_std for token in result.tokens] == pytest.approx(logs.std(0).tolist(), abs=1e-6)
        assert result.log_probability == pytest.approx(whole.mean().item(), abs=1e-6)
        assert result.log_probability_std == pytest.approx(whole.std().item(), abs=1e-6)
        assert result.log_likelihood == pytest.approx((whole.logsumexp(0) - np.log(6)).item(), abs=1e-6)
        assert result.log_likelihood >= result.log_probability
        assert result.epistemic > 0
        row = result.row()
        assert [token["text"] for token in row["tokens"]] == [token.text for token in result.tokens]
        assert row["prediction"] == result.text


def test_a_generated_text_scores_as_it_was_generated(single_tokenizer):
    model = hf_bam.patch(build("gpt2", single_tokenizer), k=1.0)
    predictor = BamPredictor(model, single_tokenizer, num_samples=4, generation=OPTIONS, progress=False)
    head = predictor.head()
    with torch.inference_mode():
        (generated,) = predictor(SOURCES[:1])
        inputs, _, skip = head.prompts(SOURCES[:1])
        ids = model.generate(**inputs, **OPTIONS)
        (scored,) = head.results(SOURCES[:1], inputs, ids, head.up_to_end(ids, skip), skip, [[]], [False])
    assert scored.log_probability == pytest.approx(generated.log_probability)
    assert generated.log_probability == pytest.approx(sum(token.log_probability for token in generated.tokens))


def test_wrong_calls_raise(single_tokenizer, classify):
    with pytest.raises(ValueError, match=r"score_targets\(\) needs head='generation'"):
        classify.score_targets(["a"], ["b"])
    predictor = Predictor(Plain(build("gpt2", single_tokenizer)), single_tokenizer, progress=False)
    with pytest.raises(ValueError, match="There are 1 targets for 2 inputs"):
        predictor.score_targets(SOURCES, TARGETS[:1])
    with pytest.raises(ValueError, match="The target '' has no tokens"):
        predictor.score_targets(["a"], "")
    with pytest.raises(TypeError, match="must be single texts"):
        predictor.score_targets([("a", "b")], ["c"])
    without = copy.deepcopy(single_tokenizer)
    without.pad_token = None
    with pytest.raises(ValueError, match="no token for padding"):
        Predictor(Plain(build("gpt2", single_tokenizer)), without, progress=False).head().targets(["a"])
