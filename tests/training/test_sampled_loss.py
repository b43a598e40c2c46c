"""Consistency and the multi-sample bound in the training loop."""

import itertools
import json

import pytest
import torch
from torch.distributions import Categorical, kl_divergence

import hf_bam
from hf_bam.training import Recipe, randomness, train
from hf_bam.training.batching import Batches, feature_lengths

from .cases import NO_DROPOUT, classifier, collate, examples, pairs, rewrite, same, translator, weights
from .test_loop import close, log
from .test_resume import Stopped, stopping_at

RECIPE = Recipe(learning_rate=5e-3, batch_size=4, max_steps=6, warmup_steps=2, logging_steps=1, save_steps=2)
BOTH = {"consistency": 0.7, "num_train_samples": 3}


def quiet(model):
    """Return a model with vanishing noise, whose samples are all equal."""
    return hf_bam.patch(model, k=1e7, kl_weight=1e-3)


def noisy_translator():
    return hf_bam.patch(translator(), k=2.0)


@pytest.mark.parametrize("options", [{"consistency": 2.0}, {"num_train_samples": 2}, BOTH], ids=str)
@pytest.mark.parametrize("plain", [True, False], ids=["dropout", "attention and dropout"])
def test_the_first_step_is_that_of_the_formula(options, plain, tmp_path):
    """The loss, its terms and the gradient by torch's distributions; the KL of the attention counts once."""
    recipe = RECIPE.replace(max_steps=1, batch_size=22, warmup_steps=0, max_grad_norm=0.5, weight_decay=0, **options)
    model, reference = classifier(plain), classifier(plain)
    train(model, examples(), collate, recipe, tmp_path, seed=5)

    torch.manual_seed(0)
    batch = collate([examples()[int(index)] for index in order(recipe)])
    samples = options.get("num_train_samples", 2)
    restart(5)
    out = reference.train()(**{name: torch.cat([x] * samples) for name, x in batch.items()})
    log_p = out.logits.log_softmax(-1).reshape(samples, 22, 2)
    of_labels = log_p[..., torch.arange(22), batch["labels"]]
    if "num_train_samples" in options:
        of_labels = of_labels.exp().mean(0).log()
    p = [Categorical(logits=x) for x in log_p]
    divergence = torch.stack([kl_divergence(*two) for two in itertools.permutations(p, 2)]).mean()
    loss = -of_labels.mean() + options.get("consistency", 0) * divergence + out.get("kl_loss", 0)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(reference.parameters(), 0.5)
    torch.optim.AdamW(reference.parameters(), lr=recipe.learning_rate, weight_decay=0).step()

    (line,) = log(tmp_path)
    assert line["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert line["grad_norm"] == pytest.approx(norm.item(), rel=1e-4)
    if "consistency" in options:
        assert line["consistency"] == pytest.approx(divergence.item(), rel=1e-4)
        assert line["task_loss"] == pytest.approx(-of_labels.mean().item(), rel=1e-5)
    else:
        assert "consistency" not in line
    assert ("kl" in line) == (not plain)
    close(weights(model), weights(reference))


def order(recipe):
    """Return the examples of the first step, in the order of the loop."""
    return Batches(feature_lengths(examples()), recipe.batch_size, seed=5).steps(0)[0]


def restart(seed):
    """Seed the generators as the loop does."""
    randomness.seed_all(seed, 0)


@pytest.mark.parametrize(
    ("make", "rows"), [(lambda: quiet(classifier(**NO_DROPOUT)), examples), (lambda: quiet(translator()), pairs)]
)
def test_accumulation_does_not_change_a_step(make, rows, tmp_path):
    """Also if batches have different numbers of tokens."""
    whole, parts = make(), make()
    recipe = RECIPE.replace(max_steps=3, batch_size=8, **BOTH)
    train(whole, rows(), collate, recipe, tmp_path / "1")
    train(parts, rows(), collate, recipe.replace(gradient_accumulation_steps=4), tmp_path / "4")
    close(weights(whole), weights(parts))
    one, other = ([line["loss"] for line in log(tmp_path / name)] for name in ("1", "4"))
    assert one == pytest.approx(other, rel=1e-3)


def test_equal_samples_train_as_one(tmp_path):
    one, many = quiet(classifier(**NO_DROPOUT)), quiet(classifier(**NO_DROPOUT))
    train(one, examples(), collate, RECIPE, tmp_path / "1")
    train(many, examples(), collate, RECIPE.replace(**BOTH), tmp_path / "3")
    close(weights(one), weights(many))


def test_consistency_brings_samples_together(tmp_path):
    """The weight of the term is what makes the difference: the noise is the same."""
    spread = {}
    for weight in (1e-9, 5.0):
        model = classifier(**NO_DROPOUT)
        recipe = RECIPE.replace(max_steps=60, batch_size=16, learning_rate=1e-2, consistency=weight, logging_steps=10)
        train(model, examples(64), collate, recipe, tmp_path / str(weight))
        spread[weight] = log(tmp_path / str(weight))[-1]["consistency"]
    assert spread[5.0] < 0.5 * spread[1e-9]


@pytest.mark.parametrize("make", [classifier, noisy_translator])
def test_a_resumed_run_has_the_same_weights(make, tmp_path):
    rows = examples() if make is classifier else pairs()
    recipe = RECIPE.replace(gradient_accumulation_steps=2, **BOTH)
    train(whole := make(), rows, collate, recipe, tmp_path / "whole", seed=3)
    with pytest.raises(Stopped):
        train(make(), rows, stopping_at(7), recipe, tmp_path / "stopped", seed=3)
    train(resumed := make(), rows, collate, recipe, tmp_path / "stopped", seed=3, resume=True)
    assert same(weights(whole), weights(resumed))
    assert without_times(tmp_path / "whole") == without_times(tmp_path / "stopped")


def without_times(folder):
    return [{name: value for name, value in line.items() if name != "samples_per_second"} for line in log(folder)]


def test_other_options_do_not_resume(tmp_path):
    train(classifier(), examples(), collate, RECIPE.replace(consistency=0.7), tmp_path)
    with pytest.raises(ValueError, match=r"was made with consistency=0.7, and this run has 0.0"):
        train(classifier(), examples(), collate, RECIPE, tmp_path, resume=True)


def test_a_checkpoint_of_an_earlier_version_has_the_defaults(tmp_path):
    with pytest.raises(Stopped):
        train(classifier(), examples(), stopping_at(3), RECIPE, tmp_path)
    (state,) = tmp_path.glob("checkpoints/step-00000002/state.json")
    values = json.loads(state.read_text())
    added = ("consistency", "num_train_samples", "ensemble_checkpoints", "ensemble_tail", "average_checkpoints")
    for name in added:
        del values["about"][name]
    rewrite(state, json.dumps(values).encode())
    with pytest.raises(ValueError, match=r"was made with num_train_samples=1, and this run has 2"):
        train(classifier(), examples(), collate, RECIPE.replace(num_train_samples=2), tmp_path, resume=True)
    assert train(classifier(), examples(), collate, RECIPE, tmp_path, resume=True).step == 6


def test_mixed_precision_and_gradient_checkpointing(tmp_path):
    found = {}
    for name, precision, checkpointing in (("plain", "fp32", False), ("again", "fp32", True), ("half", "bf16", False)):
        model = classifier()
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        train(model, examples(), collate, RECIPE.replace(precision=precision, **BOTH), tmp_path / name)
        found[name] = weights(model), log(tmp_path / name)
    close(found["plain"][0], found["again"][0])
    for one, half in zip(found["plain"][1], found["half"][1], strict=True):
        assert half["task_loss"] == pytest.approx(one["task_loss"], rel=0.1)
        assert half["consistency"] > 0


def test_a_model_without_noise_raises(tmp_path):
    for options, words in (({"consistency": 1.0}, "consistency=1.0"), ({"num_train_samples": 2}, "_samples=2")):
        with pytest.raises(ValueError, match=rf"{words} and dropout=0 cannot be combined"):
            train(classifier(True, **NO_DROPOUT), examples(), collate, RECIPE.replace(**options), tmp_path)
    assert not (tmp_path / "checkpoints").exists()
