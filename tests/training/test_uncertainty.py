"""Tables of uncertainty, against scipy, scikit-learn and values by hand."""

from dataclasses import replace

import numpy as np
import pytest
from accelerate import Accelerator
from datasets import Dataset
from scipy.stats import spearmanr
from sklearn.metrics import brier_score_loss, log_loss
from transformers import BertForQuestionAnswering

import hf_bam
from hf_bam.prediction import Answer, Candidate, Predictions, Regression
from hf_bam.tasks.custom import Custom
from hf_bam.tasks.squad import Squad
from hf_bam.training import Recipe
from hf_bam.training.evaluation import Evaluator
from hf_bam.training.uncertainty import make_predictors, measure_uncertainty

from ..models import bert
from ..tasks.squad_scores import rows as questions

TASK = Custom("text", "label")


@pytest.fixture
def rows():
    rows = Dataset.from_dict({"sentence1": ["good film", "bad film", " "] * 2, "label": ["a", "b", "a"] * 2})
    return rows.class_encode_column("label")


@pytest.fixture
def model(tokenizer):
    return bert(vocab_size=len(tokenizer), num_labels=2, initializer_range=0.3)


def test_a_plain_model_samples_by_dropout(tokenizer, model, rows):
    found = measure_uncertainty(TASK, model, tokenizer, rows, Recipe(num_samples=3, uncertainty_rows=9))
    assert len(found.comparison.labels) == 4  # rows with an empty text are not measured
    names = [row["method"] for row in found.table]
    assert names == ["plain", "MC dropout, 3 samples", "plain + temperature", "MC dropout, 3 samples + temperature"]
    assert [row["samples"] for row in found.table] == [1, 3, 1, 3]
    predictors = make_predictors(TASK, hf_bam.patch(model), tokenizer, Recipe(num_samples=5, max_length=9))
    assert list(predictors) == ["mean attention", "BAM, 5 samples"]
    assert predictors["BAM, 5 samples"].settings.max_length == 9
    assert list(make_predictors(TASK, model, tokenizer, Recipe(num_samples=1))) == ["mean attention"]


def evaluator(task, tokenizer, recipe):
    return Evaluator(task, tokenizer, recipe, Accelerator(cpu=True))


def test_an_evaluation_predicts_rows_with_an_empty_text(tokenizer, model, rows):
    recipe = Recipe(per_device_eval_batch_size=4, max_length=8)
    predictions = evaluator(TASK, tokenizer, recipe).predict(model.eval(), rows)
    expected = [model(**tokenizer(text, return_tensors="pt")).logits.argmax().item() for text in rows["sentence1"]]
    assert predictions == expected
    correct = np.mean([guess == label for guess, label in zip(expected, rows["label"], strict=True)])
    assert evaluator(TASK, tokenizer, recipe).scores(model, rows)["accuracy"] == correct


def test_a_context_without_text_has_no_answer(tokenizer):
    model = BertForQuestionAnswering(bert(vocab_size=len(tokenizer), num_labels=2, initializer_range=0.3).config)
    data = questions(("Who?", None), ("", None), context=" \n")
    for version in ("1.1", "2.0"):
        task = Squad(version=version)
        predictions = evaluator(task, tokenizer, Recipe(max_length=32)).predict(model, data)
        assert [prediction.text for prediction in predictions] == ["", ""]
        assert [[choice.text for choice in prediction.n_best] for prediction in predictions] == [[""], [""]]
        assert [prediction.null_odds for prediction in predictions] == [0, 0]
        assert predictions[0].n_best[0].probability == 1


def test_the_batch_size_limits_the_forward_passes(tokenizer, model):
    rows = Dataset.from_dict({"sentence1": [f"film {i}" for i in range(7)], "label": [0] * 7})
    sizes = []
    model.classifier.register_forward_hook(lambda module, args, output: sizes.append(len(output)))
    evaluator(TASK, tokenizer, Recipe(per_device_eval_batch_size=3)).predict(model, rows)
    assert sizes == [3, 3, 1]


def test_results_of_the_evaluation_are_measured_without_another_pass(tokenizer, model, rows):
    recipe = Recipe(num_samples=3, uncertainty_rows=3)
    hf_bam.patch(model, k=1.0).eval()
    done = evaluator(TASK, tokenizer, recipe).evaluate(model, rows)
    samplings = []
    model.register_forward_hook(lambda module, args, output: samplings.append(model._bam.runtime.sampling))
    found = measure_uncertainty(TASK, model, tokenizer, rows, recipe, deterministic=done)
    assert samplings
    assert None not in samplings  # no deterministic pass
    # Of the rows with a text (0, 1, 3, 4), three evenly spaced ones.
    logits = [model(**tokenizer(rows["sentence1"][index], return_tensors="pt")).logits for index in (0, 1, 3)]
    probabilities = [own.double().softmax(-1)[0].tolist() for own in logits]
    mean, drawn, *_ = found.table
    assert mean["nll"] == pytest.approx(log_loss([0, 1, 0], probabilities, labels=[0, 1]), rel=1e-5)
    assert mean["seconds"] == pytest.approx(done.seconds * 3 / 6)
    assert (mean["samples"], drawn["samples"]) == (1, 3)
    assert drawn["nll"] != mean["nll"]
    samplings.clear()
    again = measure_uncertainty(TASK, model, tokenizer, rows, recipe).table[0]
    assert None in samplings
    assert {name: mean[name] for name in ("nll", "brier", "aurc")} == pytest.approx(
        {name: again[name] for name in ("nll", "brier", "aurc")}, abs=1e-6
    )


def test_numbers():
    random = np.random.default_rng(1)
    targets = random.normal(size=40)
    samples = targets + random.normal(size=(30, 40)) * random.uniform(0.1, 2, size=40)
    results = Predictions(Regression(own.mean(), own.std(ddof=1), 0.0, 0.0, False, 30, own) for own in samples.T)
    rows = Dataset.from_dict({"sentence1": ["x"] * 40, "label": targets.tolist()})
    found = Custom("text", "label", regression=True).measures(rows, results)
    errors = abs(samples.mean(axis=0) - targets)
    assert found["error_spearman"] == pytest.approx(spearmanr(samples.std(axis=0), errors).statistic)
    assert found["pearson"] == pytest.approx(np.corrcoef(samples.mean(axis=0), targets)[0, 1])
    assert found["samples"] == 30


def answer(texts, probabilities, null=float("nan"), odds=float("nan")):
    logits = np.log(probabilities)
    n_best = [
        Candidate(text, 0, len(text), p, 0.0, score / 4, score * 3 / 4)
        for text, p, score in zip(texts, probabilities, logits, strict=True)
    ]
    values = {"std": 0.0, "p_value": 0.0, "significant": True, "entropy": 0.0, "aleatoric": 0.0, "epistemic": 0.0}
    return Answer(
        **values,
        probability=probabilities[0],
        num_samples=1,
        answer=texts[0],
        start=0,
        end=1,
        n_best=n_best,
        null_probability=null,
        null_odds=odds,
        samples=np.array([probabilities]),
    )


def test_answers_as_the_task_scores_them():
    rows = Dataset.from_dict({"answers": [{"text": ["Rome"], "answer_start": [0]}, {"text": [], "answer_start": []}]})
    results = [
        answer(["Rome", "Paris"], [0.6, 0.2], 0.2, np.log(1 / 3)),
        answer(["", "Paris"], [0.7, 0.1], 0.7, np.log(7)),
    ]
    task = Squad(version="2.0", doc_stride=7)
    predictions = [task.prediction(result) for result in results]
    assert [prediction.span for prediction in predictions] == ["Rome", "Paris"]
    assert predictions[1].null_odds == pytest.approx(np.log(7))
    # The probabilities in the official file are those among the best answers.
    assert [choice.probability for choice in predictions[0].n_best] == pytest.approx([0.75, 0.25])
    assert predictions[1].probability == pytest.approx(7 / 8)
    assert predictions[1].n_best[0].end_logit == pytest.approx(np.log(0.7) * 3 / 4)
    assert task.score(rows, predictions)["exact"] == 100.0
    options = task.predictor_options
    assert (options["null_answer"], options["stride"]) == (True, 7)
    assert not Squad(version="1.1").predictor_options["null_answer"]


def test_the_uncertainty_of_answers():
    """Two answers are right, one in part and one not at all; the last two are the least certain."""
    golds, texts = ["Rome", "Oslo", "New York City", "Bern"], ["Rome", "Oslo", "York City", "Lima"]
    rows = Dataset.from_dict({"answers": [{"text": [gold], "answer_start": [0]} for gold in golds]})
    given = zip(texts, [0.9, 0.8, 0.3, 0.6], [0.1, 0.2, 0.9, 0.8], [0.01, 0.2, 0.3, 0.01], strict=True)
    results = Predictions(
        replace(answer([text], [p]), entropy=entropy, p_value=p_value, num_samples=4)
        for text, p, entropy, p_value in given
    )
    found = Squad(version="1.1").measures(rows, results)
    lost = [0, 0, 1 - 0.8, 1]  # two words of two and of three: F1 is 0.8
    assert found["f1"] == pytest.approx(70)
    assert found["error_auroc"] == 1
    assert found["aurc"] == pytest.approx(np.mean([0, 0, 1 / 3, 1.2 / 4]))
    assert found["error_spearman"] == pytest.approx(spearmanr([0.1, 0.2, 0.9, 0.8], lost).statistic)
    assert found["ece"] == pytest.approx(np.mean([0.1, 0.2, 0.3, 0.6]))  # each has a bin of its own
    assert found["brier"] == pytest.approx(2 * brier_score_loss([1, 1, 0, 0], [0.9, 0.8, 0.3, 0.6]))
    assert found["pavpu"] == pytest.approx(np.mean([1, 0, 0.2, 0]))
    assert found["samples"] == 4


def test_right_answers_alone_and_single_samples_leave_measures_undefined():
    rows = Dataset.from_dict({"answers": [{"text": [gold], "answer_start": [0]} for gold in ("Rome", "Oslo")]})
    results = Predictions(answer([text], [0.5]) for text in ("Rome", "Oslo"))
    found = Squad(version="1.1").measures(rows, results)
    assert np.isnan(found["pavpu"])
    assert np.isnan(found["error_auroc"])
    assert found["ece"] == 0.5
