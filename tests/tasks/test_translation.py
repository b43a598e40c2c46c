"""The translation task, from rows to scores, with a tiny Marian from scratch."""

import pickle

import pytest
import torch
from datasets import Dataset
from sacrebleu import corpus_bleu
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import hf_bam
from hf_bam.prediction import Plain, Predictor
from hf_bam.tasks import get_task
from hf_bam.tasks.base import DataError
from hf_bam.tasks.language import generate
from hf_bam.tasks.translation import Translation

TASK = Translation("en", "qaa", num_beams=2, max_target_length=40, vocabulary=150, width=32, layers=1, heads=2)
PAIRS = {"source": ["a dog", "a cat"], "target": ["ein Hund", "eine Katze"]}


@pytest.fixture(scope="module")
def data():
    return generate(600, 10, 10)


@pytest.fixture
def built(data):
    """The model is made anew for every test, as some train or patch it."""
    return TASK.build("scratch", data, dropout=0.0)


def batch_of(task, built, rows):
    model, tokenizer = built
    return task.collator(tokenizer, model)(list(task.encode(rows, tokenizer, 64)))


def predicted(task, built, rows, max_length=64):
    model, tokenizer = built
    predictor = Predictor(Plain(model), tokenizer, max_length=max_length, batch_size=4, **task.predictor_options)
    return [task.prediction(result) for result in predictor(task.inputs(rows))]


def generated(task, built, texts):
    """Translations by transformers alone, one text at a time, so that nothing is padded."""
    model, tokenizer = built
    search = {"num_beams": task.num_beams, "max_length": 1 + task.max_target_length}
    with torch.no_grad():
        ids = [model.eval().generate(**tokenizer(text, return_tensors="pt"), **search)[0] for text in texts]
    return [tokenizer.decode(own, skip_special_tokens=True).strip() for own in ids]


def test_the_registry_has_it():
    task = get_task("translation", source="de", target="en")
    assert (task.name, task.metric, task.greater_is_better) == ("de-en", "bleu", True)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"source": "de"}, "source='de' is also the target; a translation needs two languages"),
        ({"num_beams": 0}, "num_beams=0 is not valid; it must be a whole number, 1 or above"),
        ({"layers": 2.5}, "layers=2.5 is not valid; it must be a whole number"),
        ({"width": 20, "heads": 8}, r"width=20 is not a multiple of 2 \* heads=16"),
    ],
)
def test_invalid_options_are_errors(options, match):
    with pytest.raises(ValueError, match=match):
        Translation(**options)


class TestLoad:
    def test_files(self, tmp_path):
        for name in ("train", "val", "test_2016"):
            (tmp_path / f"{name}.en").write_text("a dog\na cat\n")
            (tmp_path / f"{name}.de").write_text("ein Hund\neine Katze\n")
        data = Translation().load(tmp_path)
        assert data.train.to_dict() == PAIRS
        assert list(data.evaluation) == ["val", "test_2016"]

    def test_the_small_language(self):
        data = Translation("en", "qaa", dataset="language").load(None)
        assert (len(data.train), list(data.evaluation)) == (4000, ["dev", "test"])

    @pytest.mark.parametrize(("source", "target"), [("en", "de"), ("qaa", "en")])
    def test_the_small_language_has_one_direction(self, source, target):
        with pytest.raises(
            ValueError, match="are not the languages of dataset='language'; choose source='en', target='qaa'"
        ):
            Translation(source, target, dataset="language").load(None)

    @pytest.mark.parametrize("nested", [False, True])
    def test_a_dataset_of_the_hub(self, tmp_path, nested):
        """A folder of JSON lines is loaded by the same function, and has the two layouts of the Hub."""
        for name in ("train", "validation", "test"):
            rows = [{"de": t, "en": s, "fr": "?"} for s, t in zip(*PAIRS.values(), strict=True)]
            rows = [{"id": 0, "translation": row} for row in rows] if nested else rows
            Dataset.from_list(rows).to_json(tmp_path / f"{name}.jsonl")
        data = Translation(dataset=str(tmp_path)).load(None)
        assert data.train.to_dict() == PAIRS
        assert {name: rows.to_dict() for name, rows in data.evaluation.items()} == {"validation": PAIRS, "test": PAIRS}
        with pytest.raises(DataError, match="no column 'cs'; its columns are de, en, fr"):
            Translation(target="cs", dataset=str(tmp_path)).load(None)

    def test_an_unreachable_dataset(self, tmp_path):
        with pytest.raises(
            DataError, match=r"nowhere could not be loaded .*data_dir, a folder with train.en, train.de"
        ):
            Translation(dataset=str(tmp_path / "nowhere")).load(None)

    def test_a_dataset_without_a_development_set(self, tmp_path):
        Dataset.from_dict({"en": ["a"], "de": ["b"]}).to_json(tmp_path / "train.jsonl")
        with pytest.raises(DataError, match="has train; expected train, validation and maybe test"):
            Translation(dataset=str(tmp_path)).load(None)


class TestBuild:
    def test_a_small_marian(self, built):
        model, tokenizer = built
        config = model.config
        assert (config.vocab_size, len(tokenizer), config.d_model, config.encoder_layers) == (150, 150, 32, 1)
        assert (config.decoder_ffn_dim, config.decoder_attention_heads, config.dropout) == (128, 2, 0.0)
        assert config.decoder_start_token_id == config.pad_token_id == tokenizer.pad_token_id
        assert config.eos_token_id == model.generation_config.forced_eos_token_id == tokenizer.eos_token_id
        assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
        assert model.model.encoder.embed_tokens.weight is model.model.decoder.embed_tokens.weight

    def test_settings_come_last(self, data):
        model, tokenizer = TASK.build("scratch", data, decoder_layers=2, max_position_embeddings=64)
        assert (model.config.encoder_layers, model.config.decoder_layers) == (1, 2)
        assert model.config.max_position_embeddings == tokenizer.model_max_length == 64

    def test_a_saved_model_translates_as_before(self, built, data, tmp_path):
        """Also when it is called with nothing but a text, as users do."""
        model, tokenizer = built
        model.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        rows = data.evaluation["test"]
        expected = predicted(TASK, built, rows)
        again = TASK.build(str(tmp_path), data)
        assert predicted(TASK, again, rows) == expected
        loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
        tokenizer = AutoTokenizer.from_pretrained(tmp_path)
        ids = loaded.generate(**tokenizer(list(rows["source"]), padding=True, return_tensors="pt"))
        assert tokenizer.batch_decode(ids, skip_special_tokens=True) == expected

    def test_options_of_the_search_reach_a_pretrained_model(self, built, data, tmp_path):
        for part in built:
            part.save_pretrained(tmp_path)
        model, _ = Translation(num_beams=7, max_target_length=9).build(str(tmp_path), data)
        assert (model.generation_config.num_beams, model.generation_config.max_length) == (7, 10)


class TestFeatures:
    def test_sources_and_labels(self, built, data):
        rows = data.evaluation["dev"]
        features = TASK.encode(rows, built[1], 64)
        assert features.column_names == ["input_ids", "attention_mask", "labels"]
        for name, column in (("input_ids", "source"), ("labels", "target")):
            assert built[1].batch_decode(list(features[name]), skip_special_tokens=True) == list(rows[column])

    def test_long_texts_are_truncated_before_the_end_token(self, built):
        rows = Dataset.from_dict({"source": ["the dog " * 400], "target": ["lo kerro " * 400]})
        (feature,) = TASK.encode(rows, built[1], 1000)
        assert len(feature["input_ids"]) == built[1].model_max_length == 512
        assert len(feature["labels"]) == 40
        assert feature["input_ids"][-1] == feature["labels"][-1] == built[1].eos_token_id
        assert len(TASK.encode(rows, built[1], 20)[0]["input_ids"]) == 20

    def test_a_prefix_is_put_before_every_source(self, built, data):
        task, rows = Translation(prefix="soon "), data.evaluation["dev"]
        texts = built[1].batch_decode(list(task.encode(rows, built[1], 64)["input_ids"]))
        assert all(text.startswith("soon ") for text in [*texts, *task.inputs(rows)])

    def test_a_batch(self, built, data):
        batch = batch_of(TASK, built, data.evaluation["dev"])
        assert set(batch) == {"input_ids", "attention_mask", "labels", "decoder_input_ids"}
        labels, begun = batch["labels"], batch["decoder_input_ids"]
        assert (labels == -100).any()
        assert (begun[:, 0] == built[0].config.pad_token_id).all()
        kept = labels[:, :-1] >= 0
        assert torch.equal(begun[:, 1:][kept], labels[:, :-1][kept])

    def test_other_columns_are_left_out_and_other_processes_can_collate(self, built):
        collator = pickle.loads(pickle.dumps(TASK.collator(*built[::-1])))
        assert set(collator([{"input_ids": [5, 0], "attention_mask": [1, 1], "row": 3}])) == {
            "input_ids",
            "attention_mask",
        }


class TestTranslations:
    def test_predictions_are_those_of_generate(self, built, data):
        """Texts of different lengths are padded in a batch; the translations do not depend on it."""
        rows = data.evaluation["dev"]
        assert predicted(TASK, built, rows) == generated(TASK, built, rows["source"])

    def test_long_inputs_are_truncated_to_the_limit_of_the_tokenizer(self, built):
        rows = Dataset.from_dict({"source": ["the dog " * 400]})
        assert TASK.input_length(1000, built[1]) == 512
        assert TASK.input_length(20, built[1]) == 20
        with pytest.raises(IndexError):
            predicted(TASK, built, rows, max_length=1000)
        assert len(predicted(TASK, built, rows, max_length=TASK.input_length(1000, built[1]))) == 1

    def test_a_file_has_one_translation_a_line(self, data, tmp_path):
        path = TASK.write(data.evaluation["dev"], ["one", "two\nlines", ""], "test_2016", tmp_path / "out")
        assert path == tmp_path / "out" / "test_2016.qaa"
        assert path.read_text() == "one\ntwo lines\n\n"


class TestScore:
    def test_known_cases(self):
        rows = Dataset.from_dict({"target": ["the cat sat on the mat"]})
        perfect = TASK.score(rows, ["the cat sat on the mat"])
        assert perfect == pytest.approx({"bleu": 100.0, "chrf": 100.0, "ter": 0.0})
        # 5/6, 3/5, 2/4 and 1/3 of the 1- to 4-grams are right, and the lengths are the same; one edit in six words.
        found = TASK.score(rows, ["the cat lay on the mat"])
        assert found["bleu"] == pytest.approx(100 * (5 / 6 * 3 / 5 * 1 / 4 * (1 / 2) / 3) ** 0.25)
        assert found["ter"] == pytest.approx(100 / 6)

    def test_a_corpus_is_scored_as_sacrebleu_does_it(self, data):
        rows = data.evaluation["test"]
        guesses = [target.replace("a", "e") for target in rows["target"]]
        assert TASK.score(rows, guesses)["bleu"] == corpus_bleu(guesses, [list(rows["target"])]).score

    def test_signatures(self):
        signatures = TASK.signatures
        assert list(signatures) == list(TASK.score(Dataset.from_dict({"target": ["a"]}), ["a"]))
        assert signatures["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
        assert signatures["ter"].startswith("nrefs:1|case:lc|tok:tercom|")
        assert "tok:zh" in Translation(target="zh").signatures["bleu"]


@pytest.mark.parametrize("bayesian", [False, True])
def test_training_from_rows_to_scores(built, data, bayesian):
    model, _ = built
    if bayesian:
        hf_bam.patch(model)
    rows = data.train.select(range(32))
    batch = batch_of(TASK, built, rows)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(40):
        loss = model.train()(**batch).loss
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert losses[-1] < losses[0] / 2
    guesses = predicted(TASK, built, rows)
    assert len(guesses) == 32
    assert TASK.score(rows, guesses)["chrf"] > 10


def test_a_predictor_with_samples_gives_the_same_translations(built, data):
    model, tokenizer = built
    hf_bam.patch(model)
    rows = data.evaluation["dev"]
    results = hf_bam.BamPredictor(model, tokenizer, num_samples=2)(TASK.inputs(rows))
    assert [TASK.prediction(result) for result in results] == generated(TASK, built, rows["source"])
    assert all(token.entropy > 0 <= token.epistemic for result in results for token in result.tokens)
