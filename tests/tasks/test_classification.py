"""Tasks of sentences: features, batches, predictions and scores with a tiny BERT."""

import pickle

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model

import hf_bam
from hf_bam.prediction import Plain, Predictor
from hf_bam.tasks import get_task
from hf_bam.tasks.base import Data
from hf_bam.tasks.classification import make_rows
from tests import models
from tests.prediction.given import Given

LONG = "a much longer sentence that " + "goes on and " * 20 + "ends"
SINGLE = make_rows([["a fine one", LONG, "poor"]], [1, 1, 0], ["negative", "positive"])
PAIRS = make_rows([["a fine one", LONG, "poor"], ["so", "no", "yes"]], [1, 2, 0], ["x", "y", "z"])
NUMBERS = make_rows([["a fine one", LONG, "poor"], ["so", "no", "yes"]], [1.5, 4.0, 0.0], [])
CASES = {"sst-2": SINGLE, "mnli": PAIRS, "sts-b": NUMBERS}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory, tokenizer):
    folder = tmp_path_factory.mktemp("bert")
    sizes = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    models.bert(**sizes, hidden_size=16, num_hidden_layers=1, num_labels=2).base_model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def predicted(task, rows, model, tokenizer):
    predictor = Predictor(Plain(model), tokenizer, max_length=32, **task.predictor_options)
    return [task.prediction(result) for result in predictor(task.inputs(rows))]


@pytest.mark.parametrize("name", CASES)
def test_from_rows_to_scores(checkpoint, name):
    task, rows = get_task(name), CASES[name]
    model, tokenizer = task.build(checkpoint, Data(rows, {"dev": rows}))
    predictions = predicted(task, rows, model.eval(), tokenizer)

    texts = [rows[column][:] for column in ("sentence1", "sentence2") if column in rows.column_names]
    whole = tokenizer(*texts, truncation=True, max_length=32, padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = model(**whole).logits
    expected = logits.argmax(-1).tolist() if name != "sts-b" else logits[:, 0].double().tolist()
    assert predictions == pytest.approx(expected)
    assert task.score(rows, predictions)[task.metric] == pytest.approx(
        task.measure(rows["label"][:], expected)[task.metric]
    )


@pytest.mark.parametrize("name", CASES)
def test_training_batches_have_labels_that_give_a_loss(checkpoint, name):
    task, rows = get_task(name), CASES[name]
    model, tokenizer = task.build(checkpoint, Data(rows, {"dev": rows}))
    features = task.encode(rows, tokenizer, 32)
    batch = task.collator(tokenizer, model)(list(features))
    assert set(batch) == {"input_ids", "attention_mask", "token_type_ids", "labels"}
    assert batch["labels"].tolist() == list(rows["label"])
    assert model.config.problem_type == ("regression" if name == "sts-b" else "single_label_classification")
    logits = model.eval()(**{key: batch[key] for key in batch if key != "labels"}).logits
    if name == "sts-b":
        expected = torch.nn.functional.mse_loss(logits[:, 0], batch["labels"])
    else:
        expected = torch.nn.functional.cross_entropy(logits, batch["labels"])
    torch.testing.assert_close(model(**batch).loss, expected)


def test_features_are_truncated_and_not_padded(tokenizer):
    features = get_task("mnli").encode(PAIRS, tokenizer, 16)
    assert [len(ids) for ids in features["input_ids"]] == [7, 16, 5]
    assert set(features.column_names) == {"input_ids", "attention_mask", "token_type_ids", "labels"}
    assert features[0]["input_ids"] == tokenizer("a fine one", "so")["input_ids"]


def test_encoding_is_silent_and_leaves_no_files(tokenizer, capfd, caplog):
    features = get_task("mnli").encode(PAIRS, tokenizer, 16)
    assert features.cache_files == []
    assert capfd.readouterr() == ("", "")
    assert caplog.text == ""


def test_columns_that_the_model_does_not_accept_are_left_out(tokenizer):
    task = get_task("sst-2")
    features = task.encode(SINGLE, tokenizer, 16).add_column("length", [5, 16, 3])
    assert set(task.collator(tokenizer, models.distilbert())(list(features))) == {
        "input_ids",
        "attention_mask",
        "labels",
    }
    collator = task.collator(
        tokenizer, get_peft_model(hf_bam.patch(models.bert()), LoraConfig(target_modules=["query"]))
    )
    batch = pickle.loads(pickle.dumps(collator))(list(features))
    assert set(batch) == {"input_ids", "attention_mask", "token_type_ids", "labels"}
    assert batch["input_ids"].shape == (3, 16)


def test_inputs_and_labels_fit_the_predictor(checkpoint):
    task = get_task("mnli")
    model, tokenizer = task.build(checkpoint, Data(PAIRS, {"dev": PAIRS}))
    predictor = hf_bam.BamPredictor(hf_bam.patch(model), tokenizer, num_samples=2)
    comparison = hf_bam.compare({"BAM": predictor}, task.inputs(PAIRS), task.labels(PAIRS))
    assert comparison.labels.tolist() == [1, 2, 0]
    assert comparison.label_names == ["x", "y", "z"]
    assert get_task("sst-2").inputs(SINGLE) == SINGLE["sentence1"][:]
    assert get_task("sts-b").labels(NUMBERS) is None


def test_outputs_that_are_not_finite_are_an_error(tokenizer):
    logits = torch.tensor([[[0.0, value] for value in (1.0, np.nan, np.inf)]])
    sampler = Given(models.bert(num_labels=2), lambda ids, mask: {"logits": logits})
    with pytest.raises(ValueError, match="2 of 3 outputs are not finite: training has diverged"):
        Predictor(sampler, tokenizer)(get_task("sst-2").inputs(SINGLE))


def test_rows_without_labels_have_no_score():
    rows = make_rows([["a"]], [None], ["x", "y"])
    with pytest.raises(ValueError, match="These rows have no labels"):
        get_task("sst-2").score(rows, [0])
