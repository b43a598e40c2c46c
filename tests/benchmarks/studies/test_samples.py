"""Estimators with few samples against many independent ones, measured by scikit-learn."""

import numpy as np
import pytest
from scipy import special
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.studies import samples


def bank(noise, rows=300, classes=5):
    """Softmax probabilities of random logits with Gaussian noise in every sample."""
    random = np.random.default_rng(0)
    found = {}
    for name, scale in (("test", 2.0), ("ood", 1.0)):
        logits = random.normal(size=(1, rows, classes)) * scale
        noisy = logits + noise * random.normal(size=(samples.BANK, rows, classes))
        found |= {f"mean_{name}": special.softmax(logits, -1), f"samples_{name}": special.softmax(noisy, -1)}
        if name == "test":
            found["labels"] = np.array([random.choice(classes, p=p) for p in special.softmax(logits[0], -1)])
    return found


def test_the_measures_are_those_of_scikit_learn():
    found = bank(0.5)
    labels, test, ood = found["labels"], found["mean_test"][0], found["mean_ood"][0]
    everything = np.arange(len(labels))
    values = samples.measures(samples.by_row(labels, test, ood), everything, everything)
    entropy, others = special.entr(test).sum(-1), special.entr(ood).sum(-1)
    assert values["nll"] == pytest.approx(log_loss(labels, test, labels=range(5)), rel=1e-6)
    assert values["error_auroc"] == pytest.approx(roc_auc_score(test.argmax(-1) != labels, entropy))
    truth = np.repeat([0, 1], len(labels))
    assert values["ood_auroc"] == pytest.approx(roc_auc_score(truth, np.concatenate([entropy, others])))


def test_the_reference_and_the_others_have_no_sample_in_common():
    found = {"mean_test": np.zeros((1, 2, samples.BANK)), "mean_ood": np.zeros((1, 2, samples.BANK))}
    one_hot = np.eye(samples.BANK)[:, None].repeat(2, axis=1)  # the mean of some samples tells which they are
    found |= {"samples_test": one_hot, "samples_ood": one_hot}
    drawn = {
        (name, passes): both[0][0] > 0 for name, passes, both in samples.estimators(found, np.random.default_rng(1))
    }
    assert drawn["reference", 32].sum() == 32
    assert np.array_equal(drawn["samples", 32], ~drawn["reference", 32])
    assert drawn["mean attention and samples", 4].sum() == 3
    for (name, _), used in drawn.items():
        assert name == "reference" or not (used & drawn["reference", 32]).any()


def test_few_samples_are_as_good_where_the_noise_is_small_and_only_there():
    found = {
        noise: {(row["measure"], row["estimator"], row["passes"]): row for row in samples.compare(bank(noise), 4, 40)}
        for noise in (0.02, 1.5)
    }
    key = ("nll", "samples", 1)
    assert found[0.02][key]["as_good"]
    assert not found[1.5][key]["as_good"]
    assert found[1.5][key]["differs"]
    assert found[1.5][key]["difference"] > 0
    assert found[1.5]["nll", "reference", 32]["difference"] == 0
