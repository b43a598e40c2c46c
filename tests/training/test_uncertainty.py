"""What the tables of doubt say, against scipy and by hand."""

from dataclasses import replace

import numpy as np
import pytest
from datasets import Dataset
from scipy.stats import spearmanr
from sklearn.metrics import brier_score_loss

import hf_bam
from hf_bam.prediction import Regression
from hf_bam.prediction.questions import Answer, Candidate
from hf_bam.tasks.custom import Custom
from hf_bam.tasks.squad import Squad
from hf_bam.training import Recipe
from hf_bam.training.predictions import prediction_of, predictor_options
from hf_bam.training.uncertainty import make_predictors, measure_results, measure_uncertainty, regression

from ..models import bert


def test_a_plain_model_draws_by_dropout(tokenizer):
    model = bert(vocab_size=len(tokenizer), num_labels=2, initializer_range=0.3)
    task = Custom("text", "label")
    rows = Dataset.from_dict({"sentence1": ["good film", "bad film", " "] * 2, "label": ["a", "b", "a"] * 2})
    rows = rows.class_encode_column("label")
    found = measure_uncertainty(task, model, tokenizer, rows, Recipe(samples=3, uncertainty_rows=9))
    assert len(found.comparison.labels) == 4  # predictors have nothing to say of empty texts
    names = [row["method"] for row in found.table]
    assert names == ["plain", "MC dropout, 3 draws", "plain + temperature", "MC dropout, 3 draws + temperature"]
    predictors = make_predictors(task, hf_bam.patch(model), tokenizer, Recipe(samples=5, max_length=9))
    assert list(predictors) == ["mean attention", "BAM, 5 draws"]
    assert predictors["BAM, 5 draws"].settings.max_length == 9
    assert list(make_predictors(task, model, tokenizer, Recipe(samples=1))) == ["mean attention"]


def test_numbers():
    random = np.random.default_rng(1)
    targets = random.normal(size=40)
    samples = targets + random.normal(size=(30, 40)) * random.uniform(0.1, 2, size=40)
    results = hf_bam.prediction.Predictions(
        Regression(own.mean(), own.std(ddof=1), 0.0, 0.0, False, 30, own) for own in samples.T
    )
    rows = Dataset.from_dict({"sentence1": ["x"] * 40, "label": targets.tolist()})
    found = regression(Custom("text", "label", regression=True), rows, results)
    errors = abs(samples.mean(axis=0) - targets)
    assert found["error_spearman"] == pytest.approx(spearmanr(samples.std(axis=0), errors).statistic)
    assert found["pearson"] == pytest.approx(np.corrcoef(samples.mean(axis=0), targets)[0, 1])
    assert found["draws"] == 30


def answer(texts, probabilities, null=float("nan")):
    n_best = [Candidate(text, 0, len(text), p, 0.0) for text, p in zip(texts, probabilities, strict=True)]
    doubt = {"std": 0.0, "p_value": 0.0, "significant": True, "entropy": 0.0, "aleatoric": 0.0, "epistemic": 0.0}
    samples = np.array([probabilities])
    return Answer(
        **doubt,
        probability=probabilities[0],
        num_samples=1,
        answer=texts[0],
        start=0,
        end=1,
        n_best=n_best,
        null_probability=null,
        samples=samples,
    )


def test_answers_as_the_task_scores_them():
    rows = Dataset.from_dict({"answers": [{"text": ["Rome"], "answer_start": [0]}, {"text": [], "answer_start": []}]})
    results = [answer(["Rome", "Paris"], [0.6, 0.2], 0.2), answer(["", "Paris"], [0.7, 0.1], 0.7)]
    predictions = [prediction_of(result) for result in results]
    assert [prediction.span for prediction in predictions] == ["Rome", "Paris"]
    assert predictions[1].null_odds == pytest.approx(np.log(7))
    assert Squad(version="2.0").score(rows, predictions)["exact"] == 100.0
    options = predictor_options(Squad(version="2.0", doc_stride=7))
    assert (options["null_answer"], options["stride"]) == (True, 7)


def test_the_doubt_about_answers():
    """Two answers are right, one in part and one not at all; the last two are the most doubtful."""
    golds, texts = ["Rome", "Oslo", "New York City", "Bern"], ["Rome", "Oslo", "York City", "Lima"]
    rows = Dataset.from_dict({"answers": [{"text": [gold], "answer_start": [0]} for gold in golds]})
    given = zip(texts, [0.9, 0.8, 0.3, 0.6], [0.1, 0.2, 0.9, 0.8], [0.01, 0.2, 0.3, 0.01], strict=True)
    results = hf_bam.prediction.Predictions(
        replace(answer([text], [p]), entropy=entropy, p_value=p_value, num_samples=4)
        for text, p, entropy, p_value in given
    )
    found = measure_results(Squad(version="1.1"), rows, results)
    lost = [0, 0, 1 - 0.8, 1]  # two words of two and of three: F1 is 0.8
    assert found["f1"] == pytest.approx(70)
    assert found["error_auroc"] == 1
    assert found["aurc"] == pytest.approx(np.mean([0, 0, 1 / 3, 1.2 / 4]))
    assert found["error_spearman"] == pytest.approx(spearmanr([0.1, 0.2, 0.9, 0.8], lost).statistic)
    assert found["ece"] == pytest.approx(np.mean([0.1, 0.2, 0.3, 0.6]))  # each has a bin of its own
    assert found["brier"] == pytest.approx(2 * brier_score_loss([1, 1, 0, 0], [0.9, 0.8, 0.3, 0.6]))
    assert found["pavpu"] == pytest.approx(np.mean([1, 0, 0.2, 0]))


def test_right_answers_alone_and_single_predictions_leave_measures_open():
    rows = Dataset.from_dict({"answers": [{"text": [gold], "answer_start": [0]} for gold in ("Rome", "Oslo")]})
    results = hf_bam.prediction.Predictions(answer([text], [0.5]) for text in ("Rome", "Oslo"))
    found = measure_results(Squad(version="1.1"), rows, results)
    assert np.isnan(found["pavpu"])
    assert np.isnan(found["error_auroc"])
    assert found["ece"] == 0.5
