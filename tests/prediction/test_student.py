"""Students: samples from one deterministic pass, against known distributions and the predictors that they repeat."""

import numpy as np
import pytest
from scipy import stats

from hf_bam.prediction import BamPredictor, Plain, Predictor
from hf_bam.prediction.samplers import Student
from hf_bam.prediction.student import StudentFit

from ..models import bert
from .trained import other_sentences, scores, sentences

NEW, TRUTH = sentences(400, seed=9)


@pytest.fixture(scope="module")
def distilled(classifier, tokenizer):
    """Return a predictor of topics, and its student."""
    teacher = BamPredictor(classifier, tokenizer, num_samples=16, batch_size=64, progress=False)
    return teacher, teacher.distill(sentences(1500, seed=3)[0])


def known(number, samples, seed=0):
    """Return deterministic logits, features, means and deviations of logits, their correlation, and samples."""
    random = np.random.default_rng(seed)
    features = random.normal(3, 2, size=(number, 5))
    logits = features @ random.normal(size=(5, 3))
    mean = logits + 0.3 * features @ random.normal(size=(5, 3)) + 1
    std = np.exp(0.1 * features @ random.normal(size=(5, 3)) - 1)
    correlation = np.array([[1, 0.8, -0.5], [0.8, 1, 0], [-0.5, 0, 1]])
    noise = random.multivariate_normal(np.zeros(3), correlation, size=(samples, number))
    return logits, features, mean, std, correlation, mean + std * noise


def test_a_known_distribution_is_found():
    logits, features, *_, samples = known(2000, 8)
    fit = StudentFit.fit(logits, features, samples)
    logits, features, mean, std, correlation, _ = (part[:50] for part in known(2000, 8))
    drawn = fit.draw(logits, features, np.random.default_rng(1).normal(size=(20000, 50, 3)))
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.05)
    np.testing.assert_allclose(drawn.std(axis=0), std, rtol=0.05)
    standard = ((drawn - mean) / std).reshape(-1, 3)
    np.testing.assert_allclose(np.corrcoef(standard.T), correlation, atol=0.03)


def test_probabilities_and_their_spread_are_those_of_the_samples(distilled):
    teacher, student = distilled
    exact = teacher.with_settings(num_samples=256)(NEW)
    found = student.with_settings(num_samples=256)(NEW)
    plain = Predictor(Plain(teacher.sampler.model), teacher.tokenizer, batch_size=64, progress=False)(NEW)
    target, own, mean_attention = (np.stack([one.samples.mean(axis=0) for one in x]) for x in (exact, found, plain))
    assert abs(own - target).mean() < 0.7 * abs(mean_attention - target).mean()
    for name in ("epistemic", "std", "entropy"):
        columns = [[getattr(one, name) for one in results] for results in (exact, found)]
        assert stats.spearmanr(*columns).statistic > 0.8
        assert np.mean(columns[1]) == pytest.approx(np.mean(columns[0]), rel=0.4)  # the noise is not Gaussian


def test_one_pass_for_all_samples_and_the_novelty(distilled):
    teacher, student = distilled
    fitted = student.with_settings(num_samples=32).fit(*sentences(300, seed=3), false_alarms=0.1)
    calls = []
    hook = teacher.sampler.model.bert.register_forward_hook(lambda *_: calls.append(1))
    results = fitted(NEW[:10])
    hook.remove()
    assert len(calls) == 1
    assert {one.num_samples for one in results} == {32}
    assert np.mean([one.in_distribution for one in fitted(other_sentences(100))]) < 0.5
    assert np.mean([one.in_distribution for one in fitted(NEW)]) > 0.8


def test_samples_are_a_function_of_seed_and_text(distilled):
    student = distilled[1]
    alone = student(NEW[3])[0].samples
    np.testing.assert_allclose(student(NEW[:8])[3].samples, alone, atol=1e-6)
    np.testing.assert_allclose(student.with_settings(num_samples=4)(NEW[3])[0].samples, alone[:4], atol=1e-6)
    assert abs(student.with_settings(seed=1)(NEW[3])[0].samples - alone).max() > 1e-3


def test_a_saved_student_is_loaded(distilled, tmp_path):
    student = distilled[1].conformal(NEW, TRUTH, alpha=0.2)
    student.save_pretrained(tmp_path)
    again = Predictor.from_pretrained(tmp_path, progress=False)
    assert isinstance(again.sampler, Student)
    before, after = student(NEW[:20]), again(NEW[:20])
    np.testing.assert_allclose([one.samples for one in after], [one.samples for one in before], atol=1e-6)
    assert [one.prediction_set for one in after] == [one.prediction_set for one in before]
    assert again.describe()["student"] == "samples from one deterministic pass"


def test_guarantees_of_the_teacher_do_not_hold_for_the_student(classify):
    student = classify.conformal(NEW, TRUTH, alpha=0.2).distill(NEW)
    assert student.calibration.sets is None
    assert classify.calibration.sets is not None
    assert classify.calibration.student is None


def test_regression(regress):
    student = regress.with_settings(num_samples=64).distill(sentences(1000, seed=3)[0])
    exact, found = (predictor.with_settings(num_samples=256)(NEW) for predictor in (regress, student))
    error = [abs(a.value - b.value) for a, b in zip(exact, found, strict=True)]
    assert np.mean(error) < 0.5 * np.mean([one.std for one in exact])
    variance = [np.mean([one.std**2 for one in results]) for results in (exact, found)]
    assert variance[1] == pytest.approx(variance[0], rel=0.2)
    student.conformal(NEW, scores(NEW, seed=9), alpha=0.2)
    assert student(NEW[:1])[0].low < student(NEW[:1])[0].high


def test_errors_name_the_way_out(classify, tokenizer):
    with pytest.raises(ValueError, match=r"2 samples of at least 20 inputs; .* draws 8, and there are 3 inputs"):
        classify.distill(NEW[:3])
    with pytest.raises(ValueError, match="draws 1, and there are 400"):
        classify.with_settings(num_samples=1).distill(NEW)
    with pytest.raises(ValueError, match="one vector of logits for an input; with head='embeddings'"):
        Predictor(Plain(bert()), tokenizer, head="embeddings").distill(NEW)
    fit = StudentFit(np.zeros((6, 3)), np.zeros((6, 3)), np.eye(3))
    with pytest.raises(ValueError, match="5 features and 3 outputs, this model has 4 and 2; distill"):
        fit.draw(np.zeros((1, 2)), np.zeros((1, 4)), np.zeros((1, 1, 2)))
    with pytest.raises(ValueError, match="do not fit each other"):
        StudentFit(np.zeros((6, 3)), np.zeros((5, 3)), np.eye(3))
