"""The predictor on texts: inputs, results and errors."""

import gc
import math

import numpy as np
import psutil
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import BertForNextSentencePrediction, BertForTokenClassification

import hf_bam
from hf_bam.evaluation.metrics import top_two_p_values
from hf_bam.prediction import BamPredictor, Dropout, Ensemble, Plain, Predictor

from ..models import albert, bert

TEXTS = ["a film of rare beauty", "well, it exists", "bad", "one of the better films of this or of any other year"]


@pytest.fixture
def model(tokenizer):
    return hf_bam.patch(bert(vocab_size=len(tokenizer), initializer_range=0.3, num_labels=3), k=1.0)


def words(model, head):
    """The same weights under another head."""
    other = head(model.config)
    other.bert.load_state_dict(hf_bam.unpatch(model).bert.state_dict(), strict=False)
    return hf_bam.patch(other, k=1.0)


def test_the_fields_of_a_classification(model, tokenizer):
    results = BamPredictor(model, tokenizer, num_samples=16)(TEXTS)
    assert len(results) == 4
    assert results.samples.shape == (16, 4, 3)
    np.testing.assert_allclose(results.samples.sum(-1), 1, atol=1e-6)
    for index, result in enumerate(results):
        own = results.samples[:, index]
        best = own.mean(0).argmax()
        assert result.label == f"LABEL_{best}"
        assert result.probability == pytest.approx(own.mean(0).max())
        assert result.std == pytest.approx(own[:, best].std(ddof=1))
        assert result.p_value == pytest.approx(top_two_p_values(own[:, None])[0])
        assert result.significant == (result.p_value < 0.05)
        assert result.entropy == pytest.approx(result.aleatoric + result.epistemic)
        assert result.epistemic > 0
        assert result.num_samples == 16
        assert not result.truncated


def test_results_do_not_depend_on_how_inputs_are_given(model, tokenizer):
    predictor = BamPredictor(model, tokenizer, num_samples=4)
    listed = predictor(TEXTS)
    dataset = predictor(Dataset.from_dict({"text": TEXTS}))
    streamed = list(predictor.stream(iter(TEXTS)))
    renamed = predictor(Dataset.from_dict({"sentence": TEXTS, "text": ["x"] * 4}), columns="sentence")
    for results in (dataset, streamed, renamed):
        assert [r.label for r in results] == [r.label for r in listed]
        assert all(np.array_equal(a.samples, b.samples) for a, b in zip(results, listed, strict=True))
    assert predictor("bad")[0].label == predictor(["bad"])[0].label


def test_pairs(model, tokenizer):
    predictor = BamPredictor(model, tokenizer, num_samples=2)
    pairs = [("first", "second"), ("third", "fourth")]
    columns = Dataset.from_dict({"a": ["first", "third"], "b": ["second", "fourth"]})
    assert np.array_equal(predictor(pairs).samples, predictor(columns, columns=("a", "b")).samples)
    assert not np.array_equal(predictor(pairs).samples, predictor(["first second", "third fourth"]).samples)


def test_peft_models(model, tokenizer):
    pairs = [("first", "second"), ("third one", "fourth")]
    before = BamPredictor(model, tokenizer, num_samples=4)(pairs).samples
    wrapped = get_peft_model(model, LoraConfig(target_modules=["query"], r=2, task_type="SEQ_CLS"))
    after = BamPredictor(wrapped, tokenizer, num_samples=4)(pairs)
    np.testing.assert_allclose(after.samples, before, atol=1e-5)  # a fresh adapter changes nothing


def test_order_is_kept_over_many_batches(model, tokenizer):
    """Against the deterministic model, one text at a time."""
    texts = [f"{word} " * (1 + i % 4) + str(i) for i, word in enumerate(TEXTS * 20)]
    results = Predictor(Plain(model), tokenizer, batch_size=3)(texts)
    with torch.no_grad():
        expected = [
            model.eval()(**tokenizer(text, return_tensors="pt")).logits.softmax(-1)[0].numpy() for text in texts
        ]
    np.testing.assert_allclose(results.samples[0], expected, atol=1e-5)


def test_seeds(model, tokenizer):
    samples = {seed: BamPredictor(model, tokenizer, num_samples=4, seed=seed)(TEXTS).samples for seed in (0, 1)}
    assert np.array_equal(samples[0], BamPredictor(model, tokenizer, num_samples=4, seed=0)(TEXTS).samples)
    assert not np.array_equal(samples[0], samples[1])
    afresh = BamPredictor(model, tokenizer, num_samples=4, seed=None)
    assert not np.array_equal(afresh(TEXTS).samples, afresh(TEXTS).samples)


def test_a_deterministic_model_has_no_epistemic_uncertainty(model, tokenizer):
    for predictor in (
        Predictor(Plain(model), tokenizer),
        Predictor(Ensemble([model, model]), tokenizer),
        BamPredictor(hf_bam.patch(model, k=1e12), tokenizer),
    ):
        for result in predictor(TEXTS):
            assert result.epistemic == pytest.approx(0, abs=1e-9)
            assert result.std == pytest.approx(0, abs=1e-6)
    plain = Predictor(Plain(model), tokenizer)(TEXTS)[0]
    assert math.isnan(plain.p_value)
    assert not plain.significant


def test_long_texts_are_truncated_and_marked(model, tokenizer):
    results = BamPredictor(model, tokenizer, num_samples=2)(["word " * 500, "word"])
    assert [result.truncated for result in results] == [True, False]
    short = BamPredictor(model, tokenizer, num_samples=2, max_length=4)(["a b c d e f"])
    assert short[0].truncated


def test_adaptive_sampling_saves_samples_and_keeps_the_decision(model, tokenizer):
    texts = [f"{text} {i}" for i in range(12) for text in TEXTS]
    full = BamPredictor(model, tokenizer, num_samples=32)(texts)
    adaptive = BamPredictor(model, tokenizer, num_samples=32, adaptive=True, error=0.05)(texts)
    assert set(adaptive.num_samples) <= {4, 8, 16, 32}
    assert adaptive.num_samples.mean() < 32
    assert all(len(result.samples) == result.num_samples for result in adaptive)
    # Decisions on inputs close to the threshold may differ.
    agreement = np.mean([a.significant == b.significant for a, b in zip(full, adaptive, strict=True)])
    assert agreement > 0.8
    assert np.isnan(adaptive.samples[-1][adaptive.num_samples < 32]).all()
    with pytest.raises(ValueError, match="adaptive=True is not possible with head='regression'"):
        BamPredictor(hf_bam.patch(albert(num_labels=1)), tokenizer, adaptive=True)


def test_multi_label(model, tokenizer):
    model.config.problem_type = "multi_label_classification"
    results = BamPredictor(model, tokenizer, num_samples=16)(TEXTS)
    assert results.samples.shape == (16, 4, 3)
    for index, result in enumerate(results):
        means = results.samples[:, index].mean(0)
        assert result.labels == [f"LABEL_{i}" for i in range(3) if means[i] > 0.5]
        assert list(result.probabilities.values()) == pytest.approx(means.tolist())
        for i, own in enumerate(result.uncertainties.values()):
            assert own.probability == pytest.approx(max(means[i], 1 - means[i]))
            assert own.entropy == pytest.approx(own.aleatoric + own.epistemic)


def test_regression(tokenizer):
    model = hf_bam.patch(bert(vocab_size=len(tokenizer), initializer_range=0.3, num_labels=1), k=1.0)
    predictor = BamPredictor(model, tokenizer, num_samples=40, level=0.8)
    assert predictor.head_name == "regression"
    with pytest.raises(ValueError, match="this model gives 3"):
        BamPredictor(hf_bam.patch(bert(vocab_size=len(tokenizer))), tokenizer, head="regression")(TEXTS)
    results = predictor(TEXTS)
    assert results.samples.shape == (40, 4)
    for index, result in enumerate(results):
        own = results.samples[:, index]
        assert (result.value, result.std) == pytest.approx((own.mean(), own.std(ddof=1)))
        assert (result.low, result.high) == pytest.approx(tuple(np.quantile(own, [0.1, 0.9])))
        assert result.low < result.value < result.high


def test_token_classification(model, tokenizer):
    results = BamPredictor(words(model, BertForTokenClassification), tokenizer, num_samples=8)(
        ["Rare beauty!", "unbelievably bad"]
    )
    first = results[0].tokens
    assert [token.text for token in first] == ["Rare", "beauty", "!"]
    assert [(token.start, token.end) for token in first] == [(0, 4), (5, 11), (11, 12)]
    assert results[0].samples.shape == (8, 3, 3)
    for position, token in enumerate(first):
        means = results[0].samples[:, position].mean(0)
        assert token.label == f"LABEL_{means.argmax()}"
        assert token.probability == pytest.approx(means.max())
    assert "".join(token.text for token in results[1].tokens) == "unbelievablybad"


def test_the_temperature_is_fitted_by_likelihood(model, tokenizer):
    """Labels drawn from the model's own, cooled probabilities are explained best at their temperature."""
    texts = [f"{text} {i}" for i in range(250) for text in TEXTS]
    predictor = Predictor(Plain(model), tokenizer, batch_size=64)
    logits = np.log(predictor(texts).samples[0]) / 2.5
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    random = np.random.default_rng(0)
    labels = [int(random.choice(3, p=row)) for row in weights / weights.sum(-1, keepdims=True)]
    calibrated = predictor.calibrated(texts, labels)
    assert calibrated.settings.temperature == pytest.approx(2.5, rel=0.25)
    assert predictor.settings.temperature == 1.0
    assert [r.label for r in calibrated(TEXTS)] == [r.label for r in predictor(TEXTS)]
    assert (
        BamPredictor(model, tokenizer, num_samples=4).calibrated(texts[:40], labels[:40]).settings.temperature != 1.0
    )


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ([""], ValueError, r"inputs\[0\] is empty"),
        (["fine", "  \n"], ValueError, r"inputs\[1\] is empty"),
        (["fine", None], TypeError, r"inputs\[1\] is None"),
        ([3], TypeError, r"inputs\[0\] is 3"),
        ([("a", "b", "c")], TypeError, r"inputs\[0\] is \('a', 'b', 'c'\)"),
        (("a", "b"), TypeError, "may be a pair or two texts"),
        (None, TypeError, "inputs is a NoneType"),
        (
            Dataset.from_dict({"sentence": ["a"]}),
            ValueError,
            "column 'text' is not in the table; its columns are sentence",
        ),
    ],
)
def test_invalid_inputs_are_errors(model, tokenizer, inputs, error, message):
    with pytest.raises(error, match=message):
        BamPredictor(model, tokenizer, num_samples=2)(inputs)


def test_invalid_settings_are_errors(model, tokenizer):
    for wrong in (0, 2.5, True):
        with pytest.raises(ValueError, match="num_samples="):
            BamPredictor(model, tokenizer, num_samples=wrong)
    for name, wrong in {
        "threshold": 5,
        "error": 0,
        "level": 1.0,
        "temperature": 0.0,
        "max_length": 0,
        "n_best": 0,
    }.items():
        with pytest.raises(ValueError, match=f"{name}={wrong!r} is not valid"):
            BamPredictor(model, tokenizer, **{name: wrong})
    with pytest.raises(ValueError, match="head='words' is not known; choose one of classification"):
        BamPredictor(model, tokenizer, head="words")
    with pytest.raises(ValueError, match="What a BertForNextSentencePrediction predicts cannot be told"):
        BamPredictor(hf_bam.patch(BertForNextSentencePrediction(model.config)), tokenizer)
    with pytest.raises(ValueError, match="not patched"):
        BamPredictor(bert(), tokenizer)


def test_batches_have_texts_of_similar_numbers_of_tokens(model, tokenizer):
    few, many = "beautiful station", "a b c d e f g h i"  # the same number of characters
    widths = []
    model.register_forward_pre_hook(
        lambda module, args, kwargs: widths.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    Predictor(Plain(model), tokenizer, batch_size=2)([many, few, many, few])
    assert widths == [4, 11]


def test_nothing_in_nothing_out(model, tokenizer):
    assert len(BamPredictor(model, tokenizer)([])) == 0


def memory():
    """Bytes in use by Python and torch, after what is not needed any more is gone."""
    gc.collect()
    return psutil.Process().memory_info().rss


@pytest.mark.slow
def test_a_stream_does_not_keep_what_it_gave_out(tokenizer):
    """100,000 inputs: memory stays bounded, and the model is not sampling between the batches."""
    model = hf_bam.patch(bert(vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=1, num_attention_heads=1))
    predictor = BamPredictor(model, tokenizer, num_samples=2, batch_size=512, token_budget=100_000)
    stream = predictor.stream(f"text {i % 50}" for i in range(100_000))
    for _ in range(6_000):
        next(stream)
    assert model._bam.runtime.sampling is None
    before = memory()
    for count, _ in enumerate(stream, start=6_001):  # noqa: B007
        pass
    assert count == 100_000
    # Kept results would be 94,000 objects of about a kilobyte.
    assert memory() - before < 40e6


def test_progress_is_shown_when_asked_for(model, tokenizer, capsys):
    BamPredictor(model, tokenizer, num_samples=2)(TEXTS)
    assert capsys.readouterr().err == ""
    BamPredictor(model, tokenizer, num_samples=2, progress=True)(TEXTS)
    assert "input/s" in capsys.readouterr().err


def test_inference_mode_and_dropout_through_the_same_interface(model, tokenizer):
    with torch.inference_mode():
        results = Predictor(Dropout(model, rate=0.2), tokenizer, num_samples=8)(TEXTS)
    assert results.samples.shape == (8, 4, 3)
    assert all(result.epistemic > 0 for result in results)
