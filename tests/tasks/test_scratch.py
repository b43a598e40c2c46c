"""Models from scratch: their sizes, and the recurrent one from rows to scores."""

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, MarianMTModel

import hf_bam
from hf_bam.models import RecurrentForConditionalGeneration
from hf_bam.prediction import Plain, Predictor
from hf_bam.tasks.language import generate
from hf_bam.tasks.scratch import SCRATCH
from hf_bam.tasks.translation import Translation

TASK = Translation("en", "qaa", num_beams=2, max_target_length=40, vocabulary=150, width=32)


@pytest.fixture(scope="module")
def data():
    return generate(600, 10, 10)


@pytest.fixture
def built(data):
    torch.manual_seed(0)
    return TASK.build("recurrent", data, dropout=0.0)


def test_the_recurrent_model_has_the_sizes_of_the_task(data):
    task = Translation("en", "qaa", vocabulary=150, width=32, layers=2, heads=4)
    model, tokenizer = task.build("recurrent", data, dropout=0.3, input_feeding=False)
    config = model.config
    assert type(model) is RecurrentForConditionalGeneration
    assert (config.vocab_size, len(tokenizer), config.hidden_size, config.num_hidden_layers) == (150, 150, 32, 2)
    assert (config.num_attention_heads, config.dropout, config.input_feeding) == (4, 0.3, False)
    assert config.decoder_start_token_id == config.pad_token_id == tokenizer.pad_token_id
    assert config.eos_token_id == model.generation_config.forced_eos_token_id == tokenizer.eos_token_id
    assert (model.generation_config.num_beams, tokenizer.model_max_length) == (5, 512)


def test_usual_numbers_of_layers_and_heads(data, built):
    assert (built[0].config.num_hidden_layers, built[0].config.num_attention_heads) == (1, 1)
    marian, _ = TASK.build("scratch", data)
    assert type(marian) is MarianMTModel
    assert (marian.config.encoder_layers, marian.config.decoder_attention_heads) == (3, 4)
    assert marian.config.max_position_embeddings == 512
    with pytest.raises(ValueError, match=r"width=20 is not a multiple of 2 \* heads=8; it must be"):
        Translation(width=20).build("scratch", data)


def test_new_configs_are_those_of_the_table():
    assert {name: type(TASK.new_config(name)).model_type for name in SCRATCH} == {
        "scratch": "marian",
        "recurrent": "recurrent",
    }
    assert TASK.new_config("Helsinki-NLP/opus-mt-de-en") is None


def translations(model, tokenizer, rows):
    predictor = Predictor(Plain(model), tokenizer, batch_size=4, **TASK.predictor_options)
    return [TASK.prediction(result) for result in predictor(TASK.inputs(rows))]


def test_a_saved_model_translates_as_before(built, data, tmp_path):
    model, tokenizer = built
    rows = data.evaluation["dev"]
    before = translations(model, tokenizer, rows)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded, again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    assert translations(loaded, again, rows) == before
    text = rows["source"][0]
    ids = loaded.generate(**again(text, return_tensors="pt"))  # the decoding of the task is in the generation config
    assert again.decode(ids[0], skip_special_tokens=True).strip() == before[0]


@pytest.mark.parametrize("bayesian", [pytest.param(False, marks=pytest.mark.slow), True])
def test_training_from_rows_to_scores(built, data, bayesian):
    model, tokenizer = built
    if bayesian:
        hf_bam.patch(model)
    rows = data.train.select(range(32))
    batch = TASK.collator(tokenizer, model)(list(TASK.encode(rows, tokenizer, 64)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
    losses = []
    for _ in range(60):
        loss = model.train()(**batch).loss
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert losses[-1] < losses[0] / 3
    assert TASK.score(rows, translations(model, tokenizer, rows))["chrf"] > 30


def test_a_predictor_with_samples_gives_the_same_translations(built, data):
    model, tokenizer = built
    rows = data.evaluation["dev"]
    expected = translations(model, tokenizer, rows)
    results = hf_bam.BamPredictor(hf_bam.patch(model), tokenizer, num_samples=3, hypotheses=2)(TASK.inputs(rows))
    assert [TASK.prediction(result) for result in results] == expected
    assert all(token.entropy > 0 <= token.epistemic for result in results for token in result.tokens)
    assert any(result.epistemic > 0 for result in results)
