"""Config, saving and loading of the recurrent model, and its registration with the auto classes."""

import json

import pytest
import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

import hf_bam
from hf_bam.models import RecurrentConfig, RecurrentForConditionalGeneration, RecurrentModel

from .cases import VOCABULARY, batch, build


@pytest.mark.parametrize("tied", [True, False])
def test_a_saved_model_gives_the_same_logits(tmp_path, tied):
    model, inputs = build(tie_word_embeddings=tied, input_feeding=False, feedback="gumbel"), batch()
    model.save_pretrained(tmp_path)
    for cls in (AutoModelForSeq2SeqLM, RecurrentForConditionalGeneration):
        loaded = cls.from_pretrained(tmp_path)
        assert type(loaded) is RecurrentForConditionalGeneration
        assert loaded.config.to_dict() == {**model.config.to_dict(), "_name_or_path": str(tmp_path)}
        assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        tables = [name for name in file.keys() if VOCABULARY in file.get_slice(name).get_shape()]  # noqa: SIM118
    assert len(tables) == (1 if tied else 3)


def test_the_base_model_has_the_same_decoder(tmp_path):
    model, inputs = build(), batch()
    model.save_pretrained(tmp_path)
    base = AutoModel.from_pretrained(tmp_path)
    assert type(base) is RecurrentModel
    ids = model.prepare_decoder_input_ids_from_labels(inputs.pop("labels"))
    states = base(**inputs, decoder_input_ids=ids).last_hidden_state
    torch.testing.assert_close(model.lm_head(states), model(**inputs, decoder_input_ids=ids).logits)


def test_a_patched_model_is_saved_and_loaded(tmp_path):
    model, inputs = hf_bam.patch(build(), k=2.0), batch()
    model.save_pretrained(tmp_path)
    loaded = hf_bam.from_pretrained(tmp_path)
    assert hf_bam.get_config(loaded) == hf_bam.get_config(model)
    with hf_bam.sampling(model, seed=1), hf_bam.sampling(loaded, seed=1):
        assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)


def test_the_auto_classes_know_it(tmp_path):
    config = RecurrentConfig(vocab_size=50, hidden_size=8)
    config.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "recurrent"
    assert type(AutoConfig.from_pretrained(tmp_path)) is RecurrentConfig
    assert type(AutoModelForSeq2SeqLM.from_config(config)) is RecurrentForConditionalGeneration
    assert config.is_encoder_decoder
    assert config.decoder_start_token_id == config.pad_token_id


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"hidden_size": 9}, "hidden_size=9 is not valid; it must be a multiple of 2"),
        ({"hidden_size": 10, "num_attention_heads": 3}, "and of num_attention_heads=3"),
        ({"scheduled_sampling": 1.5}, "scheduled_sampling=1.5 is not valid; it must be a probability"),
        ({"feedback": "beam"}, "feedback='beam' is not valid; it must be one of argmax, sample, gumbel"),
        ({"gumbel_temperature": 0.0}, "gumbel_temperature=0.0 is not valid; it must be above 0"),
    ],
)
def test_invalid_settings_are_errors(settings, match):
    with pytest.raises(ValueError, match=match):
        RecurrentConfig(**settings)


def test_initial_weights_are_uniform_and_inputs_have_variance_1():
    model = build(hidden_size=64, vocab_size=2000, initializer_factor=0.5)
    for parameter in model.parameters():
        assert parameter.abs().max() <= 0.5 * (3 / 64) ** 0.5
    weights = model.model.decoder.readout.weight
    assert weights.std().item() == pytest.approx(0.5 / 8, rel=0.05)
    assert build(hidden_size=64).get_input_embeddings()(torch.arange(30)).std().item() == pytest.approx(1, rel=0.05)


def test_more_tokens():
    model = build()
    model.resize_token_embeddings(VOCABULARY + 3)
    inputs = batch()
    inputs["labels"][0, 0] = inputs["input_ids"][0, 0] = VOCABULARY + 2
    assert model(**inputs).logits.shape[-1] == model.config.vocab_size == VOCABULARY + 3
    assert model.lm_head.weight is model.get_decoder().embed_tokens.weight is model.get_encoder().embed_tokens.weight
    embeds = model.get_input_embeddings()(torch.tensor([0]))
    torch.testing.assert_close(embeds, model.lm_head.weight[:1] * 12**0.5)
