"""The training loop in one process."""

import json
from dataclasses import dataclass, field

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType

from hf_bam.training import BestModelTracker, Recipe, train

from .cases import NO_DROPOUT, classifier, collate, examples, pairs, same, translator, weights

RECIPE = Recipe(learning_rate=5e-3, batch_size=4, max_steps=9, warmup_steps=2, logging_steps=2)


def log(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def close(one, other):
    """Compare weights, except biases of keys: their gradient is 0, so that AdamW follows rounding errors."""
    for name, tensor in one.items():
        if not name.endswith(("key.bias", "k_proj.bias")):
            torch.testing.assert_close(tensor, other[name], atol=2e-5, rtol=1e-4)


@dataclass
class Scores:
    """Evaluation that returns given scores in turn and records the weights."""

    values: list
    weights: list = field(default_factory=list)

    def __call__(self, model):
        assert not model.training
        torch.rand(3)  # random numbers of an evaluation must not change training
        self.weights.append(weights(model))
        return {"score": self.values[len(self.weights) - 1]}


def test_it_learns(tmp_path):
    model, rows = classifier(), examples(64)
    state = train(model, rows, collate, RECIPE.replace(max_steps=150, learning_rate=1e-2, batch_size=16), tmp_path)
    batch = collate(list(rows))
    assert state.step == 150
    assert not model.training
    assert (model(**batch).logits.argmax(-1) == batch["labels"]).float().mean() > 0.9


def test_log(tmp_path):
    train(classifier(), examples(), collate, RECIPE, tmp_path)
    lines = log(tmp_path)
    assert [line["step"] for line in lines] == [2, 4, 6, 8, 9]
    for line in lines:
        assert line["samples_per_second"] > 0
        assert line["kl_weight"] == pytest.approx(1e-4 * 0.02 * (line["step"] - 1))  # linear annealing
        assert line["epoch"] == pytest.approx(line["step"] / 6)  # 22 examples in batches of 4
    # The terms of a single step add up.
    last = lines[-1]
    assert last["loss"] == pytest.approx(last["task_loss"] + last["kl_weight"] * last["kl"], rel=1e-5)
    assert [line["learning_rate"] for line in lines] == pytest.approx(
        [RECIPE.learning_rate * share for share in (1, 6 / 7, 4 / 7, 2 / 7, 1 / 7)]
    )


def test_a_plain_model_has_no_kl(tmp_path):
    train(classifier(plain=True), examples(), collate, RECIPE, tmp_path)
    assert "kl" not in log(tmp_path)[0]
    assert "loss" in log(tmp_path)[0]


def test_annealing_counts_optimizer_steps(tmp_path):
    model = classifier()
    train(model, examples(), collate, RECIPE.replace(gradient_accumulation_steps=2), tmp_path)
    assert model.bam_step.item() == 9


@pytest.mark.parametrize(("make", "rows"), [(lambda: classifier(True, **NO_DROPOUT), examples), (translator, pairs)])
def test_accumulation_does_not_change_a_step(make, rows, tmp_path):
    """Also if batches have different numbers of tokens: the loss is the mean over all tokens of a step."""
    whole, parts = make(), make()
    recipe = RECIPE.replace(max_steps=3, batch_size=8)
    train(whole, rows(), collate, recipe, tmp_path / "1")
    train(parts, rows(), collate, recipe.replace(gradient_accumulation_steps=4), tmp_path / "4")
    close(weights(whole), weights(parts))
    assert [line["loss"] for line in log(tmp_path / "4")] == pytest.approx(
        [line["loss"] for line in log(tmp_path / "1")], rel=1e-4
    )


def test_the_first_step_is_a_step_of_adamw(tmp_path):
    """Compare with torch: one step, clipped, with decay on matrices only."""
    model, reference = classifier(True, **NO_DROPOUT), classifier(True, **NO_DROPOUT)
    recipe = RECIPE.replace(max_steps=1, batch_size=22, warmup_steps=0, weight_decay=0.1, max_grad_norm=0.5)
    train(model, examples(), collate, recipe, tmp_path)
    reference.train()(**collate(list(examples()))).loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(reference.parameters(), 0.5)
    for decay, chosen in ((0.1, lambda p: p.ndim > 1), (0.0, lambda p: p.ndim == 1)):
        torch.optim.AdamW(
            [p for p in reference.parameters() if chosen(p)], lr=recipe.learning_rate, weight_decay=decay
        ).step()
    assert log(tmp_path)[0]["grad_norm"] == pytest.approx(norm.item(), rel=1e-4)
    close(weights(model), weights(reference))


def test_best_weights_are_loaded_at_the_end(tmp_path):
    model, scores = classifier(), Scores([0.1, 0.9, 0.9, 0.5])
    state = train(
        model,
        examples(),
        collate,
        RECIPE.replace(eval_steps=3, max_steps=10),
        tmp_path,
        best_model=BestModelTracker(scores, "score"),
    )
    assert state.best == {"step": 6, "score": 0.9, "scores": {"score": 0.9}}
    assert same(weights(model), scores.weights[1])
    assert not same(scores.weights[1], scores.weights[3])


def test_a_lower_score_can_be_better(tmp_path):
    best_model = BestModelTracker(Scores([3.0, float("nan"), 2.0]), "score", greater_is_better=False)
    state = train(classifier(), examples(), collate, RECIPE.replace(eval_steps=3), tmp_path, best_model=best_model)
    assert state.best["step"] == 9


def test_early_stopping(tmp_path):
    best_model = BestModelTracker(Scores([0.5, 0.4, 0.3, 0.2]), "score")
    recipe = RECIPE.replace(eval_steps=2, early_stopping_patience=2)
    state = train(classifier(), examples(), collate, recipe, tmp_path, best_model=best_model)
    assert (state.step, state.best["step"], state.stopped) == (6, 2, True)


def test_evaluation_does_not_change_training(tmp_path):
    one, other = classifier(), classifier()
    train(one, examples(), collate, RECIPE, tmp_path / "1")
    best_model = BestModelTracker(Scores([1.0, 2.0, 3.0]), "score")
    train(other, examples(), collate, RECIPE.replace(eval_steps=3), tmp_path / "2", best_model=best_model)
    assert same(weights(one), weights(other))


def test_weights_depend_on_the_seed(tmp_path):
    models = [classifier() for _ in range(3)]
    for i, (model, seed) in enumerate(zip(models, (1, 1, 2), strict=True)):
        torch.manual_seed(i)
        train(model, examples(), collate, RECIPE, tmp_path / str(i), seed=seed)
    assert same(weights(models[0]), weights(models[1]))
    assert not same(weights(models[0]), weights(models[2]))


def test_a_loss_that_is_not_finite(tmp_path):
    model = classifier()
    with torch.no_grad():
        model.classifier.bias.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match=r"loss is nan at step 2"):
        train(model, examples(), collate, RECIPE, tmp_path)


def test_frozen_weights_do_not_change(tmp_path):
    model = classifier()
    model.get_input_embeddings().requires_grad_(False)
    before = weights(model)
    train(model, examples(), collate, RECIPE, tmp_path)
    changed = {name for name, tensor in weights(model).items() if not torch.equal(tensor, before[name])}
    assert "bert.embeddings.word_embeddings.weight" not in changed
    assert "classifier.weight" in changed
    assert any(".bam.prior." in name for name in changed)


def test_mixed_precision(tmp_path):
    """Weights stay in single precision, and the forward of the model is restored."""
    model = classifier()
    forward = model.forward.__func__
    train(model, examples(), collate, RECIPE.replace(precision="bf16"), tmp_path)
    assert log(tmp_path)[-1]["loss"] > 0
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert model.forward.__func__ is forward


@pytest.mark.skipif(torch.cuda.is_available(), reason="of a CPU")
def test_a_precision_that_would_not_be_used(tmp_path):
    with pytest.raises(ValueError, match="precision='fp16' is not possible on a CPU"):
        train(classifier(), examples(), collate, RECIPE.replace(precision="fp16"), tmp_path)


@pytest.mark.parametrize("kind", [DistributedType.FSDP, DistributedType.DEEPSPEED])
def test_sharded_models(kind, tmp_path):
    accelerator = Accelerator(cpu=True)
    accelerator.state.distributed_type = kind
    try:
        with pytest.raises(ValueError, match=f"one process or DDP, not with {kind.value}: "):
            train(classifier(), examples(), collate, RECIPE, tmp_path, accelerator=accelerator)
    finally:
        AcceleratorState._reset_state(reset_partial_state=True)
    assert not any(tmp_path.iterdir())


def test_the_accumulation_is_that_of_the_recipe(tmp_path, monkeypatch):
    """`accelerate launch` sets a number of its own."""
    recipe, found = RECIPE.replace(gradient_accumulation_steps=2), []
    for steps in ("1", "2"):
        monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", steps)
        train(model := classifier(), examples(), collate, recipe, tmp_path / steps)
        found.append(weights(model))
    assert same(*found)
