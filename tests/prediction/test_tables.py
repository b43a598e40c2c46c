"""Results as tables: rows, pandas, HTML, and the methods that scikit-learn users know."""

import dataclasses
import json
from typing import get_type_hints
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss
from transformers import BertForQuestionAnswering, BertForTokenClassification

import hf_bam
from hf_bam.config import BamSettings, option_fields
from hf_bam.evaluation import tables
from hf_bam.prediction import BamPredictor, Classification, Plain, Predictor, Settings
from hf_bam.prediction.settings import BamLoadingOptions, LoadingOptions, PredictorOptions, SettingChanges
from hf_bam.prediction.storage import LOADING

from ..models import bert
from .trained import LABELS, sentences

UNCERTAINTY = ["probability", "std", "entropy", "aleatoric", "epistemic"]


def test_classes(classify):
    texts, labels = sentences(12, seed=5)
    results = classify(texts)
    frame = results.to_pandas()
    assert list(frame.columns) == ["prediction", *UNCERTAINTY, "num_samples", "truncated"]
    assert frame["prediction"].tolist() == [result.label for result in results]
    np.testing.assert_allclose(frame["entropy"], frame["aleatoric"] + frame["epistemic"], atol=1e-9)
    probabilities = classify.predict_proba(texts)
    np.testing.assert_allclose(probabilities, results.samples.mean(axis=0))
    np.testing.assert_allclose(probabilities.max(axis=1), frame["probability"])
    assert classify.classes_.tolist() == LABELS
    assert classify.predict(texts).tolist() == frame["prediction"].tolist()
    assert log_loss(labels, probabilities, labels=range(4)) > 0
    assert classify.predict_proba([]).shape == (0, 4)


def test_fitted_columns_appear_after_a_fit(classify):
    texts, labels = sentences(300, seed=6)
    classify.fit(texts[:200], labels[:200], false_alarms=0.1).conformal(texts[200:], labels[200:])
    result = classify(texts[:1])[0]
    row = result.row()
    assert row["novelty"] == result.novelty.score
    assert row["novelty_percentile"] == result.novelty.percentile
    assert row["in_distribution"] is result.in_distribution
    assert row["prediction_set"] == result.prediction_set
    assert "answered" not in row


def test_other_kinds_of_results(tokenizer, regress):
    texts = ["a film of rare beauty", "well, it exists"]
    sizes = {"vocab_size": len(tokenizer), "num_labels": 2, "initializer_range": 0.3}
    several = hf_bam.patch(bert(**sizes, problem_type="multi_label_classification"), k=1.0)
    row = BamPredictor(several, tokenizer, num_samples=4, progress=False)(texts)[0].row()
    assert row["prediction"] == [name for name, p in row["probability"].items() if p > 0.5]
    assert row["entropy"] == pytest.approx(row["aleatoric"] + row["epistemic"])
    tagger = hf_bam.patch(BertForTokenClassification(bert(**sizes).config), k=1.0)
    row = BamPredictor(tagger, tokenizer, num_samples=4, progress=False)(texts)[0].row()
    assert [token["text"] for token in row["tokens"]] == texts[0].split()
    assert row["entropy"] == pytest.approx(np.mean([token["entropy"] for token in row["tokens"]]))
    reader = hf_bam.patch(BertForQuestionAnswering(bert(**sizes).config), k=1.0)
    row = BamPredictor(reader, tokenizer, num_samples=4, progress=False)([("where?", texts[0])])[0].row()
    assert row["prediction"] == texts[0][row["start"] : row["end"]]
    assert json.loads(json.dumps(row))["num_samples"] == 4
    row = regress(texts)[0].row()
    assert row["low"] <= row["prediction"] <= row["high"]
    with pytest.raises(ValueError, match=r"predict_proba\(\) needs head='classification' or 'multi-label'"):
        regress.predict_proba(texts)


def test_html_is_escaped_and_short(classify):
    results = classify([f"music {i}" for i in range(30)])
    html = results._repr_html_()
    assert html.count("<tr>") == 21
    assert "30 results, the first 20 of them" in html
    cells = [cell.text for cell in ElementTree.fromstring(f"<div>{html}</div>").iterfind(".//tbody/tr/td[1]")]
    assert cells == [result.label for result in results[:20]]
    assert "&lt;b&gt; &amp; &quot;x&quot;" in tables.as_html([{'<b> & "x"': 1.0}])
    assert "<script>" not in tables.Table([{"a": "<script>"}])._repr_html_()


def test_a_comparison_is_a_table(classify):
    texts, labels = sentences(20, seed=7)
    plain = Predictor(Plain(classify.sampler.model), classify.tokenizer, progress=False)
    comparison = hf_bam.compare({"<plain>": plain, "BAM": classify}, texts, labels)
    frame = comparison.to_pandas()
    assert frame.index.tolist() == ["<plain>", "BAM"]
    assert frame.loc["BAM", "nll"] == pytest.approx(log_loss(labels, classify.predict_proba(texts), labels=range(4)))
    html = comparison._repr_html_()
    assert "&lt;plain&gt;" in html
    assert "<plain>" not in html
    row, result = comparison.predictions("BAM")[0], classify(texts[:1])[0]
    assert [row[name] for name in UNCERTAINTY] == pytest.approx([getattr(result, name) for name in UNCERTAINTY])


def keys(cls):
    return set(get_type_hints(cls))


def test_typed_keywords_are_those_of_the_settings():
    fields = {item.name for item in dataclasses.fields(Settings)}
    assert keys(SettingChanges) == fields
    own = {"head", "batch_size", "progress"}
    assert keys(PredictorOptions) == fields - {"num_samples"} | own
    assert keys(LoadingOptions) == fields | own | set(LOADING)
    assert keys(BamLoadingOptions) == keys(LoadingOptions) | {"dropout", "token_budget"}
    assert keys(BamSettings) == option_fields().keys()


def test_the_class_of_results_can_be_named(classify):
    typed = BamPredictor[Classification](classify.sampler.model, classify.tokenizer, num_samples=2, progress=False)
    assert isinstance(typed("music")[0], Classification)
    assert torch.is_tensor(next(typed.sampler.model.parameters()))
