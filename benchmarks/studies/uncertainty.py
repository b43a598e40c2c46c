"""Evaluation of everything that a user can do about the uncertainty of a trained model.

Held-out rows are divided: the first part selects settings and temperatures, the second one fits prediction sets,
intervals and the standardisation of the novelty. Nothing is selected on the rows that are measured.
"""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

import hf_bam
from hf_bam.evaluation import metrics
from hf_bam.evaluation.conformal import IntervalFit, fit_sets, prediction_sets
from hf_bam.evaluation.outcomes import measure
from hf_bam.evaluation.temperature import apply_temperature, fit_temperature
from hf_bam.prediction import Bam, Dropout, Ensemble, Plain
from hf_bam.training.evaluation import subsample
from hf_bam.training.members import read

from . import laplace, ood
from .methods import SAMPLES_FOR_SELECTION

MAIN = "clinc150"
"""Task with all methods and the curve over the number of samples."""
ALPHA = 0.1
BATCH = 64
ROWS = {"fit": 500, "sets": 500, "test": 2250, "ood": 1000, "known_ood": 100, "shift": 400}
"""Most rows of each part."""
POST_HOC = {"weibull": {"k": (5.0, 2.0, 1.0, 0.5)}, "multinomial": {"counts": (64, 16, 4, 1)}}
"""Families of noise without training, and candidates of their level."""
ROWS_OF_CURVE, CURVE = 400, (1, 2, 4, 8, 16, 32, 64)
FEW_SEEDS = 3
"""Number of seeds with which costly evaluations are done."""
MEASURES = ("accuracy", "nll", "ece", "brier", "error_auroc", "aurc", "epistemic")


@dataclass(frozen=True)
class Parts:
    """Inputs and labels of the parts of an evaluation by name; parts without labels have inputs only.

    `fit` and `sets` are held-out rows, `test` the measured ones, `ood` out-of-distribution inputs, `known_ood` others
    that may be used for a fit. Further parts are labelled sets of other distributions.
    """

    inputs: dict[str, list[Any]]
    labels: dict[str, np.ndarray]

    @property
    def shifted(self):
        return [name for name in self.labels if name not in ROWS]


def parts_of(trained, data, evaluation, limits=ROWS):
    """Return the parts of an evaluation, with at most this many rows each; without limits: all rows."""
    task = trained.task
    held_out = data.evaluation.get("holdout", next(iter(data.evaluation.values())))
    names = [name for name in data.evaluation if data.evaluation[name] is not held_out]
    test = evaluation.evaluation_set or names[0]
    outside = ood.read(evaluation.ood, task, data, trained.job.data_dir)
    rows = {
        "fit": held_out.select(range(0, len(held_out), 2)),
        "sets": held_out.select(range(1, len(held_out), 2)),
        "test": ood.remove(task, data.evaluation[test], outside),
    }
    rows = {name: subsample(own, limits.get(name)) for name, own in rows.items()}
    for name in evaluation.shift or ():
        rows[name] = subsample(data.evaluation[name], limits.get("shift"))
    inputs = {name: task.inputs(own) for name, own in rows.items()}
    if test in data.ood:
        inputs["ood"] = task.inputs(subsample(data.ood[test], limits.get("ood")))
        inputs["known_ood"] = task.inputs(next(iter(data.ood.values())))
    elif outside:
        inputs["ood"] = list(outside[: limits.get("ood")])
    targets = {name: own["label"] for name, own in rows.items()} if is_number(trained) else {}
    labels = {name: np.array(targets.get(name) or task.labels(own)) for name, own in rows.items()}
    return Parts(inputs, labels)


def is_number(trained):
    return trained.model.config.problem_type == "regression" or trained.model.config.num_labels == 1


def evaluate(trained, data, evaluation):
    """Return the record of all methods of a run."""
    parts = parts_of(trained, data, evaluation)
    if is_number(trained):
        found = samples_of(trained, parts, sampled=evaluation.sampled)
        return {"methods": [number_row(name, own, parts) for name, own in found]}
    plain = trained.predictor(Plain(trained.model), num_samples=1, batch_size=BATCH)
    plain.fit(trained.task.inputs(data.train), trained.task.labels(data.train), held_out=parts.inputs["sets"])
    scores = {name: plain.ood_scores(own) for name, own in parts.inputs.items()}
    rows, temperatures = [], {}
    for name, found in samples_of(trained, parts, data, evaluation.sampled):
        temperatures[name] = fit_temperature(parts.labels["fit"], found["fit"])
        rows += class_rows(name, found, scores, parts, temperatures[name])
    record = {"methods": rows, "temperatures": temperatures, "rows": {k: len(own) for k, own in parts.inputs.items()}}
    if trained.job.task_name == MAIN and evaluation.ensemble is None:
        record["one_pass"] = one_pass(plain, parts_of(trained, data, evaluation, limits={}))
    if "ood" in parts.inputs:
        record["ood_scores"] = {
            name: metrics.ood_auroc(scores["test"][name], scores["ood"][name]) for name in scores["test"]
        }
    main = trained.job.task_name == MAIN and trained.job.seed < FEW_SEEDS and not trained.job.recipe.consistency
    if main and evaluation.sampled and not trained.members:
        record["curve"] = curve(trained, parts)
    return record


def one_pass(plain, parts):
    """Return the rows of one deterministic pass, which is cheap enough for all rows of the sets."""
    scores = {name: plain.ood_scores(own) for name, own in parts.inputs.items()}
    found = {name: plain(own).samples for name, own in parts.inputs.items()}
    return class_rows("one pass", found, scores, parts, fit_temperature(parts.labels["fit"], found["fit"]))


def class_rows(name, samples, scores, parts, temperature):
    """Return the measures of a method without and with a temperature."""
    scaled = {part: apply_temperature(own, temperature) for part, own in samples.items()}
    both = {name: samples, f"{name} + temperature": scaled}
    return [{"method": key, "passes": len(own["test"]), **class_row(own, scores, parts)} for key, own in both.items()]


def samples_of(trained, parts, data=None, sampled=True):
    """Yield methods with their samples of each part, (S, B, C) or (S, B) each; the first one is deterministic.

    Args:
        data: all rows, for methods without training, which are those of `MAIN` only.
        sampled: with samples of attention or dropout.
    """
    model, recipe = trained.model, trained.job.recipe
    bayesian = hf_bam.is_patched(model)

    def predicted(predictor):
        return {part: predictor(inputs).samples for part, inputs in parts.inputs.items()}

    if trained.members and not recipe.ensemble_checkpoints:  # trained apart from each other
        members = [read(folder, model) for folder in trained.members]
        yield f"ensemble of {len(members)}", predicted(trained.predictor(Ensemble(members), batch_size=BATCH))
        return
    yield "mean" if bayesian else "plain", predicted(trained.predictor(Plain(model), num_samples=1, batch_size=BATCH))
    sampler = Bam(model) if bayesian else Dropout(model)
    if sampled and (bayesian or recipe.dropout != 0):
        yield "samples" if bayesian else "MC dropout", predicted(trained.predictor(sampler, batch_size=BATCH))
    if trained.members:
        members = [read(folder, model) for folder in trained.members]
        yield "checkpoints", predicted(trained.predictor(Ensemble(members), batch_size=BATCH))
    others = recipe.consistency or not sampled or trained.job.task_name != MAIN
    if bayesian or data is None or others or trained.job.seed >= FEW_SEEDS:
        return
    for family, candidates in POST_HOC.items():
        options = {"num_samples": SAMPLES_FOR_SELECTION, "max_length": recipe.max_length, "batch_size": BATCH}
        arguments = (copy.deepcopy(model), trained.tokenizer, parts.inputs["fit"], parts.labels["fit"])
        found = hf_bam.calibrate(*arguments, family=family, layers=("all", 2), **candidates, **options)
        yield f"post-hoc {family}", predicted(found.with_settings(temperature=1.0, num_samples=recipe.num_samples))
    if laplace.is_available():
        predictor = trained.predictor(Plain(model), num_samples=1, batch_size=BATCH)
        features = {part: predictor.features(inputs) for part, inputs in parts.inputs.items()}
        training, labels = predictor.features(trained.task.inputs(data.train)), trained.task.labels(data.train)
        yield (
            "Laplace",
            laplace.laplace_samples(model, training, labels, features, recipe.num_samples, trained.job.seed),
        )


def class_row(samples, scores, parts):
    """Return the measures of a method from its samples of each part."""
    labels, novelty = parts.labels["test"], {name: own["novelty"] for name, own in scores.items()}
    found = measure(labels, samples["test"])
    row = {name: found[name] for name in MEASURES} | set_measures(samples, parts)
    entropy = {name: metrics.predictive_entropy(own) for name, own in samples.items()}
    if "ood" in samples:
        for name, score in {"entropy": entropy, "novelty": novelty}.items():
            row |= {f"ood_{key}_{name}": value for key, value in detection(score).items()}
            if "known_ood" in score:
                row |= {f"joint_{key}_{name}": value for key, value in joint(samples, score, labels).items()}
        row["joint_ece"], row["joint_accuracy"] = combined(samples, labels)
    for name in parts.shifted:
        other = measure(parts.labels[name], samples[name])
        row |= {f"{name}_{key}": other[key] for key in ("accuracy", "nll", "ece", "error_auroc")}
        row[f"{name}_novelty"] = metrics.ood_auroc(novelty["test"], novelty[name])
    return row


def set_measures(samples, parts):
    """Return coverage and mean size of prediction sets."""
    uniform = np.random.default_rng(0)
    mean = {name: samples[name].mean(axis=0) for name in ("sets", "test")}
    threshold = fit_sets(parts.labels["sets"], mean["sets"], uniform.uniform(size=len(mean["sets"])), ALPHA)
    sets = prediction_sets(mean["test"], uniform.uniform(size=len(mean["test"])), threshold)
    covered = sets[np.arange(len(sets)), parts.labels["test"]]
    return {"set_coverage": float(covered.mean()), "set_size": float(sets.sum(axis=1).mean())}


def detection(score):
    """Return AUROC and average precision of out-of-distribution inputs among both."""
    truth = np.repeat([0, 1], [len(score["test"]), len(score["ood"])])
    both = np.concatenate([score["test"], score["ood"]])
    return {
        "auroc": metrics.ood_auroc(score["test"], score["ood"]),
        "auprc": float(average_precision_score(truth, both)),
    }


def combined(samples, labels):
    """Return ECE and accuracy on known and out-of-scope questions together; each answer to the latter is wrong."""
    both = np.concatenate([samples["test"].mean(axis=0), samples["ood"].mean(axis=0)])
    none = np.zeros((len(both), 1))  # a class that no answer names
    truth = np.concatenate([labels, np.full(samples["ood"].shape[1], both.shape[1])])
    together = np.concatenate([both, none], axis=1)
    return metrics.ece(truth, together), metrics.accuracy(truth, together)


def joint(samples, score, labels):
    """Return measures of classification with one more class, out of scope.

    Its probability is a logistic function of a score, which is fitted to held-out questions of both kinds.
    """
    x = np.concatenate([score["fit"], score["known_ood"]])[:, None]
    truth = np.repeat([0, 1], [len(score["fit"]), len(score["known_ood"])])
    center, scale = x.mean(), x.std()
    model = LogisticRegression().fit((x - center) / scale, truth)
    probabilities, targets = [], []
    for part in ("test", "ood"):
        outside = model.predict_proba((score[part][:, None] - center) / scale)[:, 1:]
        mean = samples[part].mean(axis=0)
        probabilities.append(np.concatenate([(1 - outside) * mean, outside], axis=1))
        targets.append(labels if part == "test" else np.full(len(mean), mean.shape[1]))
    together, targets = np.concatenate(probabilities), np.concatenate(targets)
    names = ("nll", "ece", "accuracy")
    return {name: getattr(metrics, name)(targets, together) for name in names}


def curve(trained, parts):
    """Return the quality by the number of samples, without a temperature."""
    model = trained.model
    predictor = trained.predictor(Bam(model) if hf_bam.is_patched(model) else Dropout(model), num_samples=CURVE[-1])
    samples = {name: predictor(parts.inputs[name][::2][:ROWS_OF_CURVE]).samples for name in ("test", "ood")}
    labels, rows = parts.labels["test"][::2][:ROWS_OF_CURVE], []
    for number in CURVE:
        own = {name: x[:number] for name, x in samples.items()}
        found = measure(labels, own["test"])
        entropy = {name: metrics.predictive_entropy(x) for name, x in own.items()}
        row = {"samples": number, "ood_auroc": metrics.ood_auroc(entropy["test"], entropy["ood"])}
        rows.append(row | {name: found[name] for name in ("accuracy", "nll", "ece", "error_auroc")})
    return rows


def coverage_of_halves(truth, mean, std):
    """Return the share of targets in intervals that were fitted to the other half of the same rows, at random."""
    covered, order = np.zeros(len(truth), dtype=bool), np.random.default_rng(0).permutation(len(truth))
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    for fitted, measured in (halves, halves[::-1]):
        fit = IntervalFit.fit(truth[fitted], mean[fitted], std[fitted], ALPHA)
        low, high = fit.intervals(mean[measured], std[measured])
        covered[measured] = (low <= truth[measured]) & (truth[measured] <= high)
    return float(covered.mean())


def number_row(name, samples, parts):
    """Return the measures of a method whose predictions are numbers."""
    mean = {part: own.mean(axis=0) for part, own in samples.items()}
    std = {part: own.std(axis=0, ddof=1) if len(own) > 1 else np.zeros_like(own[0]) for part, own in samples.items()}
    fit = IntervalFit.fit(parts.labels["sets"], mean["sets"], std["sets"], ALPHA)
    low, high = fit.intervals(mean["test"], std["test"])
    truth = parts.labels["test"]
    halves = coverage_of_halves(truth, mean["test"], std["test"])
    several = len(samples["test"]) > 1
    return {
        "method": name,
        "passes": len(samples["test"]),
        "pearson": metrics.pearson(truth, mean["test"]),
        "crps": metrics.crps(truth, samples["test"]),
        "sample_coverage": metrics.interval_coverage(truth, samples["test"]) if several else None,
        "interval_coverage": float(((low <= truth) & (truth <= high)).mean()),
        "interval_width": float((high - low).mean()),
        "interval_coverage_of_halves": halves,
        "error_spearman": metrics.spearman(abs(mean["test"] - truth), std["test"]) if several else None,
    }
