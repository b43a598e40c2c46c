"""Folders and repositories of predictors: a predictor that was saved or pushed predicts the same when it is loaded."""

import json
from functools import partial

import numpy as np
import pytest
from huggingface_hub import ModelCard
from peft import LoraConfig, get_peft_model
from safetensors.numpy import save_file

import hf_bam
from hf_bam.prediction import BamPredictor, Dropout, Ensemble, Plain, Predictor
from hf_bam.prediction.calibration import FILE

from ..models import bert
from .trained import sentences

NEW, HELD_OUT = sentences(40, seed=2)[0], sentences(300, seed=1)


def fitted(predictor):
    predictor = predictor.calibrated(*HELD_OUT)
    return predictor.fit(*sentences(400)).conformal(*HELD_OUT).abstain(*HELD_OUT, risk=0.2)


def distances(predictor):
    return [result.novelty.mahalanobis for result in predictor(NEW)]


def assert_same_predictions(one, other):
    np.testing.assert_allclose(one(NEW).samples, other(NEW).samples, atol=1e-6)
    assert distances(one) == pytest.approx(distances(other), rel=1e-4)
    for name in ("label", "in_distribution", "prediction_set", "answered"):
        assert [getattr(r, name) for r in one(NEW)] == [getattr(r, name) for r in other(NEW)]


def test_a_saved_predictor_predicts_the_same(classify, tmp_path):
    predictor = fitted(classify)
    predictor.save_pretrained(tmp_path)
    loaded = BamPredictor.from_pretrained(tmp_path, batch_size=64)
    assert type(loaded) is BamPredictor
    assert loaded.settings == predictor.settings
    assert loaded.settings.temperature != 1
    assert hf_bam.get_config(loaded.sampler.model) == hf_bam.get_config(predictor.sampler.model)
    assert_same_predictions(loaded, predictor)


def test_other_options_keep_what_still_holds(classify, tmp_path):
    predictor = fitted(classify)
    predictor.save_pretrained(tmp_path)
    same = BamPredictor.from_pretrained(tmp_path, threshold=0.01, seed=4)
    assert same.settings.threshold == 0.01
    assert same.calibration.sets == predictor.calibration.sets
    for options in ({"num_samples": 4}, {"temperature": 1.0}, {"dropout": 0.1}):
        other = BamPredictor.from_pretrained(tmp_path, **options)
        assert (other.calibration.sets, other.calibration.abstention) == (None, None)
        assert other.calibration.novelty.fields(predictor.features(NEW)) is not None
    plain = Predictor.from_pretrained(tmp_path, sampler=Plain, batch_size=64)
    assert isinstance(plain.sampler, Plain)
    assert plain.calibration.sets is None
    assert distances(plain) == pytest.approx(distances(predictor), rel=1e-3)


def test_dropout_beside_the_attention_comes_back(classifier, tokenizer, tmp_path):
    predictor = BamPredictor(classifier, tokenizer, num_samples=4, dropout=0.2, progress=False).conformal(*HELD_OUT)
    predictor.save_pretrained(tmp_path)
    loaded = BamPredictor.from_pretrained(tmp_path)
    assert loaded.sampler.dropout == 0.2
    np.testing.assert_allclose(loaded(NEW).samples, predictor(NEW).samples, atol=1e-6)
    assert loaded.calibration == predictor.calibration


def test_a_plain_model_with_any_sampler(tokenizer, tmp_path, log):
    model = bert(vocab_size=len(tokenizer), initializer_range=0.3).eval()
    predictor = Predictor(Dropout(model, rate=0.1), tokenizer, num_samples=4, seed=3).fit(HELD_OUT[0])
    predictor.save_pretrained(tmp_path)
    loaded = Predictor.from_pretrained(tmp_path, sampler=partial(Dropout, rate=0.1))
    assert not hf_bam.is_patched(loaded.sampler.model)
    np.testing.assert_allclose(loaded(NEW).samples, predictor(NEW).samples, atol=1e-6)
    assert distances(loaded) == pytest.approx(distances(predictor), rel=1e-3)
    assert log.messages == []
    with pytest.raises(ValueError, match="not patched; call hf_bam"):
        BamPredictor.from_pretrained(tmp_path)


def test_the_folder_of_a_model_alone(classifier, tokenizer, tmp_path):
    classifier.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded = BamPredictor.from_pretrained(tmp_path, num_samples=4)
    assert loaded.calibration.describe() == {}
    expected = BamPredictor(classifier, tokenizer, num_samples=4)(NEW).samples
    np.testing.assert_allclose(loaded(NEW).samples, expected, atol=1e-6)


def test_an_adapter(tokenizer, tmp_path):
    bert(vocab_size=len(tokenizer), initializer_range=0.3).save_pretrained(tmp_path / "base")
    base = type(bert()).from_pretrained(tmp_path / "base")
    lora = LoraConfig(target_modules=["query"], init_lora_weights=False, task_type="SEQ_CLS")
    model = hf_bam.patch(get_peft_model(base, lora), k=2.0).eval()
    predictor = BamPredictor(model, tokenizer, num_samples=4, progress=False).fit(HELD_OUT[0])
    predictor.save_pretrained(tmp_path / "adapter")
    loaded = BamPredictor.from_pretrained(tmp_path / "adapter")
    np.testing.assert_allclose(loaded(NEW).samples, predictor(NEW).samples, atol=1e-5)
    assert distances(loaded) == pytest.approx(distances(predictor), rel=1e-3)


def test_a_pushed_predictor_comes_back_with_its_card(hub, classify, capsys):
    predictor = fitted(classify)
    predictor.push_to_hub("tiny", private=True)
    assert {FILE, "bam.safetensors", "tokenizer.json", "model.safetensors"} <= set(hub.repos["somebody/tiny"].files())
    loaded = BamPredictor.from_pretrained("somebody/tiny", batch_size=64)
    assert_same_predictions(loaded, predictor)
    card = ModelCard.load("somebody/tiny").text
    assert "\n| prediction sets | coverage of at least 0.9 |\n" in card
    assert "\n| novelty | false alarms 0.05 |\n" in card
    assert f"\n| temperature | {predictor.settings.temperature:.4g} |\n" in card
    assert "\n\n\n" not in card
    (code,) = [part.split("```")[0] for part in card.split("```python\n") if "BamPredictor.from_pretrained" in part]
    exec(compile(code, "card", "exec"), {})
    assert "prediction_set=[" in capsys.readouterr().out


def test_a_predictor_without_fits_has_no_table(hub, classify):
    classify.push_to_hub("tiny")
    card = ModelCard.load("somebody/tiny").text
    assert "## Calibration" not in card
    assert "BamPredictor.from_pretrained" in card
    assert BamPredictor.from_pretrained("somebody/tiny", revision="main").calibration.describe() == {}


def test_what_cannot_be_stored_is_an_error(classifier, tokenizer, hub, tmp_path):
    with pytest.raises(ValueError, match="An ensemble has several models"):
        Predictor(Ensemble([classifier, classifier]), tokenizer).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="not patched"):
        Predictor(Plain(bert()), tokenizer).push_to_hub("tiny")
    assert hub.requests == []


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"head": "classification"}, "missing .* required positional arguments"),
        ({"architecture": 3}, "About.architecture=3 is not valid"),
        ({"settings": {"num_sample": 3}}, "'num_sample' is not a field of Settings"),
    ],
)
def test_a_foreign_description_is_an_error_that_names_the_file(classify, tmp_path, about, message):
    classify.save_pretrained(tmp_path)
    whole = {"architecture": "X", "bayesian": True, "head": "classification", "sampler": {}, "settings": {}}
    about = about if "head" in about else {**whole, **about}
    save_file({}, tmp_path / FILE, {"calibration_format": "1", "numbers": "{}", "about": json.dumps(about)})
    with pytest.raises(ValueError, match=f"{FILE} describes a predictor that this hf_bam does not know: .*{message}"):
        BamPredictor.from_pretrained(tmp_path)
