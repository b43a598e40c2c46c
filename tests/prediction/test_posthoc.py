"""Noise of finetuned models without training: scores of the table, the choice, and the state of the model."""

import copy

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import gumbel_l, norm
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

import hf_bam
from hf_bam.prediction import BamPredictor, Plain, Predictor
from hf_bam.prediction.posthoc import LEVELS

from ..models import bert
from .trained import LABELS, scores, sentences, train

TEXTS, TRUTH = sentences(120, seed=1)
NEW = sentences(30, seed=2)[0]
OPTIONS = {"num_samples": 6, "batch_size": 64, "progress": False}
ONE_SAMPLE = {**OPTIONS, "num_samples": 1}
SMALL = {"layers": ("all", 1), "k": (5.0, 1.0)}


@pytest.fixture(scope="module")
def finetuned(tokenizer):
    """Return a plain classifier with two layers, trained without noise."""
    model = train(tokenizer, *sentences(2000), steps=60, num_hidden_layers=2)
    return hf_bam.unpatch(model)


@pytest.fixture(scope="module")
def finetuned_regressor(tokenizer):
    texts, _ = sentences(2000)
    targets = scores(texts).astype("float32")
    return hf_bam.unpatch(train(tokenizer, texts, targets, steps=60, num_labels=1, problem_type="regression"))


@pytest.fixture
def model(finetuned):
    return copy.deepcopy(finetuned)


def logits_of(model, tokenizer, texts):
    with torch.no_grad():
        return model(**tokenizer(texts, padding=True, return_tensors="pt")).logits.double()


def probabilities(predictor, texts):
    return predictor(texts).samples.mean(axis=0)


def chosen(predictor):
    (row,) = [row for row in predictor.table if row["chosen"]]
    return row


def test_every_combination_has_a_row_and_the_smallest_nll_is_chosen(model, tokenizer):
    predictor = hf_bam.calibrate(model, tokenizer, TEXTS, TRUTH, **SMALL, **OPTIONS)
    tried = [(row["layers"], row["k"]) for row in predictor.table]
    assert tried == [(None, None), ("all", 5.0), ("all", 1.0), (1, 5.0), (1, 1.0)]
    assert chosen(predictor)["nll"] == min(row["nll"] for row in predictor.table)
    lines = str(predictor.table).splitlines()
    assert lines[0].split()[:4] == ["layers", "k", "temperature", "nll"]
    assert len(lines) == 6


def test_the_row_without_noise_is_the_plain_model_at_its_best_temperature(model, tokenizer):
    logits = logits_of(model, tokenizer, TEXTS)

    def loss(log_temperature):
        scaled = logits / float(np.exp(log_temperature))
        return torch.nn.functional.cross_entropy(scaled, torch.tensor(TRUTH)).item()

    best = minimize_scalar(loss)
    row = hf_bam.calibrate(model, tokenizer, TEXTS, TRUTH, k=1.0, layers="all", **OPTIONS).table[0]
    assert row["nll"] == pytest.approx(best.fun, abs=1e-5)
    assert row["temperature"] == pytest.approx(np.exp(best.x), rel=1e-2)
    assert row["accuracy"] == accuracy_score(TRUTH, logits.argmax(-1))


def test_the_row_of_a_noise_has_the_scores_of_the_predictor(model, tokenizer):
    predictor = hf_bam.calibrate(model, tokenizer, TEXTS, TRUTH, criterion="error_auroc", **SMALL, **OPTIONS)
    for row in predictor.table[1:]:
        hf_bam.patch(model, family="weibull", prior="none", layers=row["layers"], k=row["k"])
        own = BamPredictor(model, tokenizer, temperature=row["temperature"], **OPTIONS)
        mean = probabilities(own, TEXTS)
        wrong, entropy = mean.argmax(-1) != TRUTH, -(mean * np.log(mean)).sum(-1)
        assert row["nll"] == pytest.approx(log_loss(TRUTH, mean), abs=1e-9)
        assert row["accuracy"] == accuracy_score(TRUTH, mean.argmax(-1))
        assert row["error_auroc"] == pytest.approx(roc_auc_score(wrong, entropy))
        for factor in (0.9, 1.1):
            other = own.with_settings(temperature=factor * row["temperature"])
            assert log_loss(TRUTH, probabilities(other, TEXTS)) > row["nll"]


@pytest.mark.parametrize(
    ("criterion", "best"), [("error_auroc", max), ("accuracy", max), ("ece", min), ("brier", min), ("aurc", min)]
)
def test_the_criterion_chooses(model, tokenizer, criterion, best):
    predictor = hf_bam.calibrate(model, tokenizer, TEXTS, TRUTH, criterion=criterion, **SMALL, **OPTIONS)
    values = [row[criterion] for row in predictor.table]
    assert [row["chosen"] for row in predictor.table].index(True) == values.index(best(values))


NOISES = {"weibull": {"k": 0.3}, "lognormal": {"sigma": 4.0}, "multinomial": {"counts": 1}}


def labels_of_noise(model, tokenizer, **config):
    """Return the predictions of one sample, as labels with which its noise has an accuracy of 1 at any temperature."""
    noisy = hf_bam.patch(copy.deepcopy(model), **config)
    return [result.label for result in BamPredictor(noisy, tokenizer, **ONE_SAMPLE)(TEXTS)]


@pytest.mark.parametrize("family", NOISES)
def test_the_predictor_has_the_chosen_noise_and_comes_back(model, tokenizer, family, tmp_path):
    ((level, value),) = NOISES[family].items()
    labels = labels_of_noise(model, tokenizer, family=family, layers=1, **NOISES[family])
    grid = {"layers": ("all", 1), level: [4 * value, value]}
    predictor = hf_bam.calibrate(
        model, tokenizer, TEXTS, labels, family=family, criterion="accuracy", **grid, **ONE_SAMPLE
    )
    row, config = chosen(predictor), hf_bam.get_config(model)
    assert (row["layers"], row[level], row["accuracy"]) == (1, value, 1.0)
    assert predictor.table[0]["accuracy"] < 1
    assert type(predictor) is BamPredictor
    assert predictor.sampler.model is model
    assert (config.family, config.layers, getattr(config, level)) == (family, 1, value)
    assert predictor.settings.temperature == row["temperature"]
    truth = [LABELS.index(label) for label in labels]
    assert log_loss(truth, probabilities(predictor, TEXTS), labels=range(4)) == pytest.approx(row["nll"], abs=1e-9)
    assert not any("prior" in name for name, _ in model.named_parameters())
    out = model.train()(**tokenizer(NEW, return_tensors="pt", padding=True), labels=torch.zeros(30, dtype=torch.long))
    assert out.kl_loss.item() == 0
    predictor.save_pretrained(tmp_path)
    loaded = BamPredictor.from_pretrained(tmp_path, batch_size=64)
    assert hf_bam.get_config(loaded.sampler.model) == config
    assert loaded.settings == predictor.settings
    np.testing.assert_allclose(loaded(NEW).samples, predictor(NEW).samples, atol=1e-6)


def test_a_seed_makes_it_reproducible(model, finetuned, tokenizer):
    grid = {"k": (0.3,), "layers": (1,)}
    first = hf_bam.calibrate(model, tokenizer, TEXTS, TRUTH, seed=3, **grid, **OPTIONS)
    assert first.settings.seed == 3
    torch.manual_seed(5)  # the global state has no effect
    again, other = (
        hf_bam.calibrate(copy.deepcopy(finetuned), tokenizer, TEXTS, TRUTH, seed=seed, **grid, **OPTIONS).table
        for seed in (3, 4)
    )
    assert again == first.table
    assert other[0] | {"chosen": None} == first.table[0] | {"chosen": None}  # the row without noise
    assert other[1]["nll"] != first.table[1]["nll"]


def test_where_no_noise_is_best_the_model_stays_plain(model, finetuned, tokenizer, tmp_path):
    labels = [LABELS[i] for i in logits_of(model, tokenizer, TEXTS).argmax(-1)]
    predictor = hf_bam.calibrate(model, tokenizer, TEXTS, labels, k=(0.2,), criterion="accuracy", **OPTIONS)
    assert chosen(predictor) is predictor.table[0]
    assert isinstance(predictor.sampler, Plain)
    assert_plain(model, finetuned, tokenizer)
    predictor.save_pretrained(tmp_path)
    loaded = Predictor.from_pretrained(tmp_path, batch_size=64)
    np.testing.assert_allclose(loaded(NEW).samples, predictor(NEW).samples, atol=1e-6)
    expected = (logits_of(model, tokenizer, NEW) / chosen(predictor)["temperature"]).softmax(-1)
    np.testing.assert_allclose(probabilities(loaded, NEW), expected, atol=1e-5)


def assert_plain(model, original, tokenizer):
    """Check that nothing of a model differs from the original, in training mode neither."""
    assert not hf_bam.is_patched(model)
    assert model.state_dict().keys() == original.state_dict().keys()
    assert model.config.to_dict() == original.config.to_dict()
    assert model.config._attn_implementation == original.config._attn_implementation
    assert torch.equal(logits_of(model, tokenizer, NEW), logits_of(original, tokenizer, NEW))
    assert vars(model).keys() == vars(original).keys()


def test_numbers_have_the_scores_of_gaussians(finetuned_regressor, tokenizer, tmp_path):
    model, targets = copy.deepcopy(finetuned_regressor), scores(TEXTS, seed=1)
    mean = logits_of(model, tokenizer, TEXTS)[:, 0].numpy()
    predictor = hf_bam.calibrate(model, tokenizer, TEXTS, targets, k=(2.0, 0.5), criterion="crps", **OPTIONS)
    plain = predictor.table[0]
    error = np.sqrt(np.mean((targets - mean) ** 2))
    assert plain["target_std"] == pytest.approx(error, rel=1e-3)
    assert plain["nll"] == pytest.approx(-norm.logpdf(targets, mean, error).mean(), abs=1e-6)
    assert [row["chosen"] for row in predictor.table].index(True) == np.argmin(
        [row["crps"] for row in predictor.table]
    )
    for row in predictor.table[1:]:
        noisy = BamPredictor(hf_bam.patch(model, prior="none", k=row["k"]), tokenizer, **OPTIONS)(TEXTS)
        value, std = (np.array([getattr(result, name) for result in noisy]) for name in ("value", "std"))
        assert row["pearson"] == pytest.approx(np.corrcoef(targets, value)[0, 1])
        best = minimize(lambda x: -norm.logpdf(targets, value, np.sqrt(std**2 + x[0] ** 2)).mean(), [error])  # noqa: B023
        assert row["nll"] == pytest.approx(best.fun, abs=1e-5)


def test_an_error_leaves_the_model_plain(model, finetuned, tokenizer, monkeypatch):
    calls = []

    def interrupt(*args, **options):
        calls.append(hf_bam.is_patched(model))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return forward(*args, **options)

    forward = model.classifier.forward
    monkeypatch.setattr(model.classifier, "forward", interrupt)
    with pytest.raises(KeyboardInterrupt):
        hf_bam.calibrate(model.train(), tokenizer, TEXTS, TRUTH, **SMALL, **OPTIONS)
    assert calls[-1]
    assert model.training
    monkeypatch.undo()
    assert_plain(model.eval(), finetuned, tokenizer)


def test_the_default_grid_fits_the_depth_of_the_model(model, finetuned_regressor, tokenizer):
    table = hf_bam.calibrate(model, tokenizer, TEXTS[:20], TRUTH[:20], num_samples=1, progress=False).table
    assert [row["layers"] for row in table] == [None, *["all"] * 5, *[1] * 5]
    assert [row["k"] for row in table[1:6]] == [5.0, 2.0, 1.0, 0.5, 0.25]
    one = copy.deepcopy(finetuned_regressor)
    table = hf_bam.calibrate(one, tokenizer, TEXTS[:20], TRUTH[:20], num_samples=1, progress=False).table
    assert {row["layers"] for row in table} == {None, "all"}


def test_default_levels_of_both_noises_on_scores_are_equally_wide():
    widths = [gumbel_l(scale=1 / k).std() for k in LEVELS["weibull"][1]]  # of the logarithm of a Weibull variable
    assert list(LEVELS["lognormal"][1]) == pytest.approx(widths, rel=0.02)


def test_further_settings_are_candidates(model, tokenizer):
    grid = {"k": 1.0, "layers": [[0], [0, 1]], "noise": ("entry", "token"), "attention": "self"}
    table = hf_bam.calibrate(model, tokenizer, TEXTS[:20], TRUTH[:20], **grid, **OPTIONS).table
    assert [(row["layers"], row["noise"]) for row in table[1:]] == [
        ([0], "entry"),
        ([0], "token"),
        ([0, 1], "entry"),
        ([0, 1], "token"),
    ]
    assert table[3]["nll"] != table[4]["nll"]


def test_a_bar_shows_the_progress(model, tokenizer, capsys):
    shown = {}
    for progress in (True, False):
        options = {**ONE_SAMPLE, "progress": progress, "layers": "all", "k": (2.0, 1e6), "criterion": "accuracy"}
        predictor = hf_bam.calibrate(copy.deepcopy(model), tokenizer, TEXTS[:20], TRUTH[:20], **options)
        assert predictor.progress is progress
        shown[progress] = capsys.readouterr().err
    assert "0/3" in shown[True]
    assert "setting/s" in shown[True]
    assert shown[False] == ""


def test_an_adapter(tokenizer):
    base = bert(vocab_size=len(tokenizer), num_labels=4, initializer_range=0.3).eval()
    model = get_peft_model(base, LoraConfig(target_modules=["query"], init_lora_weights=False, task_type="SEQ_CLS"))
    labels = labels_of_noise(model.eval(), tokenizer, k=0.3)
    indices = [int(label.removeprefix("LABEL_")) for label in labels]
    grid = {"k": 0.3, "layers": "all", "criterion": "accuracy"}
    predictor = hf_bam.calibrate(model, tokenizer, TEXTS, indices, **grid, **ONE_SAMPLE)
    assert hf_bam.is_patched(model)
    assert predictor.table[1]["accuracy"] == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"family": "categorical"}, "family='categorical' does not work without training; choose one of weibull,"),
        ({"criterion": "crps"}, "criterion='crps' is not known for classification; choose one of nll, ece,"),
        ({"inputs": TEXTS[:19], "labels": TRUTH[:19]}, "19 held-out inputs are too few for a choice"),
        ({"labels": TRUTH[:20]}, "20 labels for 120 inputs"),
        ({"labels": ["noise"] * 120}, "'noise'; it must be one of"),
        ({"sigma": (0.1, 1.0)}, "has no 'sigma' with family='weibull'; the settings of this family are noise, prior"),
        ({"layers": ("all", 3)}, "BamConfig.layers=3 .* this model does not have"),
        ({"k": (1.0, 0.0)}, "BamConfig.k=0.0 is not valid"),
        ({"k": ()}, "k=() has no candidates"),
    ],
)
def test_wrong_arguments_are_errors_before_anything_runs(model, finetuned, tokenizer, changes, message):
    arguments = {"inputs": TEXTS, "labels": TRUTH, **changes}
    model.forward = None
    with pytest.raises(ValueError, match=message.replace("()", r"\(\)")):
        hf_bam.calibrate(model, tokenizer, **arguments)
    del model.forward
    assert_plain(model, finetuned, tokenizer)


def test_models_that_cannot_be_calibrated_are_errors(model, tokenizer):
    several = bert(vocab_size=len(tokenizer), problem_type="multi_label_classification")
    with pytest.raises(ValueError, match="classification or regression; the head of this one is 'multi-label'"):
        hf_bam.calibrate(several, tokenizer, TEXTS, TRUTH)
    with pytest.raises(ValueError, match=r"patched already; .* chooses the noise of a plain model"):
        hf_bam.calibrate(hf_bam.patch(model), tokenizer, TEXTS, TRUTH)
    assert hf_bam.is_patched(model)


def test_a_score_that_is_not_defined(model, finetuned, tokenizer):
    labels = logits_of(model, tokenizer, TEXTS).argmax(-1).tolist()
    with pytest.raises(ValueError, match="criterion='error_auroc' is not defined on these inputs"):
        hf_bam.calibrate(model, tokenizer, TEXTS, labels, k=1e6, layers="all", criterion="error_auroc", **OPTIONS)
    assert_plain(model, finetuned, tokenizer)
