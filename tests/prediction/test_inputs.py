"""Inputs of a predictor: all formats of the same texts give the same results, anything else is an error."""

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset
from transformers.pipelines.pt_utils import KeyDataset

import hf_bam
from hf_bam.prediction import BamPredictor

from ..models import bert

TEXTS = ["a film of rare beauty", "well, it exists", "two hours"]
PAIRS = [("it rains", "it is wet"), ("it rains", "it is dry"), ("the sun", "the moon")]
FIRST, SECOND = map(list, zip(*PAIRS, strict=True))


@pytest.fixture(scope="module")
def predict(tokenizer):
    torch.manual_seed(0)
    model = hf_bam.patch(bert(vocab_size=len(tokenizer), initializer_range=0.3), k=1.0).eval()
    return BamPredictor(model, tokenizer, num_samples=3, progress=False)


def rows(**columns):
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


SINGLE = {
    "tuple of three": tuple(TEXTS),
    "generator": (text for text in TEXTS),
    "array": np.array(TEXTS),
    "Series": pd.Series(TEXTS, index=[5, 6, 7]),
    "DataFrame": pd.DataFrame({"label": [0, 1, 0], "text": TEXTS}, index=[5, 6, 7]),
    "dictionaries": rows(text=TEXTS, label=[0, 1, 0]),
    "dictionaries without a second text": rows(text=TEXTS, text_pair=[None] * 3),
    "Dataset": Dataset.from_dict({"text": TEXTS}),
    "column of a Dataset": Dataset.from_dict({"text": TEXTS})["text"],
    "KeyDataset": KeyDataset(Dataset.from_dict({"text": TEXTS}), "text"),
    "stream": Dataset.from_dict({"text": TEXTS}).to_iterable_dataset(),
    "mapped stream": Dataset.from_dict({"text": TEXTS}).to_iterable_dataset().map(lambda row: {"length": len(row)}),
}


@pytest.mark.parametrize("way", SINGLE)
def test_single_texts(predict, way):
    results = predict(SINGLE[way])
    np.testing.assert_allclose(results.samples, predict(TEXTS).samples, atol=1e-6)


PAIRED = {
    "lists": [list(pair) for pair in PAIRS],
    "dictionaries": rows(text=FIRST, text_pair=SECOND),
    "DataFrame": pd.DataFrame({"text": FIRST, "text_pair": SECOND}),
    "Dataset": Dataset.from_dict({"text": FIRST, "text_pair": SECOND, "label": [0, 1, 2]}),
    "stream": Dataset.from_dict({"text": FIRST, "text_pair": SECOND}).to_iterable_dataset(),
}


@pytest.mark.parametrize("way", PAIRED)
def test_pairs(predict, way):
    expected = predict(PAIRS).samples
    np.testing.assert_allclose(predict(PAIRED[way]).samples, expected, atol=1e-6)
    assert np.abs(expected - predict(FIRST).samples).max() > 1e-3


NAMED = {
    "DataFrame": pd.DataFrame({"premise": FIRST, "hypothesis": SECOND, "text": TEXTS}),
    "dictionaries": rows(premise=FIRST, hypothesis=SECOND, text=TEXTS),
}


@pytest.mark.parametrize("way", NAMED)
def test_columns_by_name(predict, way):
    results = predict(NAMED[way], columns=("premise", "hypothesis"))
    np.testing.assert_allclose(results.samples, predict(PAIRS).samples, atol=1e-6)
    single = predict(NAMED[way], columns="premise")
    np.testing.assert_allclose(single.samples, predict(FIRST).samples, atol=1e-6)


def test_a_column_that_is_named_alone_is_read_alone(predict):
    table = pd.DataFrame({"text": FIRST, "text_pair": SECOND})
    np.testing.assert_allclose(predict(table, columns="text").samples, predict(FIRST).samples, atol=1e-6)


def test_a_single_dictionary_is_one_input(predict):
    (result,) = predict({"text": FIRST[0], "text_pair": SECOND[0]})
    np.testing.assert_allclose(result.samples, predict(PAIRS[:1])[0].samples, atol=1e-6)


WRONG = {
    "encoding": (lambda tokenizer: tokenizer(TEXTS), TypeError, "inputs is a BatchEncoding"),
    "encoded dictionary": (lambda tokenizer: dict(tokenizer("a")), TypeError, r"inputs\[0\] has the keys input_ids"),
    "encoded rows": (lambda tokenizer: [dict(tokenizer("a"))], TypeError, "the predictor encodes them itself"),
    "dictionary of lists": (lambda _: {"text": TEXTS}, TypeError, r"inputs\[0\] is \(\["),
    "dictionary of something else": (lambda _: {"sentence": "a"}, TypeError, "texts under 'text'"),
    "DataFrame of something else": (lambda _: pd.DataFrame({"sentence": TEXTS}), ValueError, "columns are sentence"),
    "DataFrame with a gap": (lambda _: pd.DataFrame({"text": ["a", None]}), TypeError, r"inputs\[1\]"),
    "Series of numbers": (lambda _: pd.Series([1, 2]), TypeError, r"inputs\[0\] is 1"),
    "set": (lambda _: {"a", "b"}, TypeError, "inputs is a set"),
    "keys": (lambda _: {"a": 1}.keys(), TypeError, "inputs is a dict_keys"),
    "bytes": (lambda _: b"text", TypeError, "inputs is a bytes"),
    "number": (lambda _: 3, TypeError, "inputs is a int"),
    "half a character": (lambda _: ["a", "\ud800"], ValueError, r"inputs\[1\] is not Unicode text"),
    "mapped stream of something else": (
        lambda _: Dataset.from_dict({"a": TEXTS}).to_iterable_dataset().map(lambda row: {"b": 1}),
        ValueError,
        "column 'text' is not in the table; its columns are a, b",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_anything_else_is_an_error(predict, tokenizer, case):
    make, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        predict(make(tokenizer))


def test_a_significant_lead_is_no_confidence(predict):
    """The test compares means, so it gets significant with the number of samples, however small the lead."""
    few, many = (predict.with_settings(num_samples=number)(TEXTS) for number in (4, 400))
    assert sum(result.significant for result in many) >= sum(result.significant for result in few)
    assert any(result.significant and result.probability < 0.6 for result in many)
    assert all(result.significant == (result.p_value < 0.05) for result in many)
    assert not hasattr(many[0], "certain")
