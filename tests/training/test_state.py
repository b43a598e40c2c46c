"""A checkpoint that does not fit the run raises an error that names the file and the tensor, and changes nothing."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save

from hf_bam.training import BestModelTracker, Recipe, train

from .cases import NO_DROPOUT, classifier, collate, examples, rewrite, same, weights
from .test_resume import Stopped, stopping_at

RECIPE = Recipe(learning_rate=5e-3, batch_size=8, max_steps=6, save_steps=2, logging_steps=1)


def go(folder, model=None, collator=collate, recipe=RECIPE, rows=None, **options):
    model = model or classifier(plain=True, **NO_DROPOUT)
    return train(model, rows or examples(), collator, recipe, folder, **options)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.raises(Stopped):
        go(folder, collator=stopping_at(5))
    return folder


@pytest.fixture
def folder(stopped, tmp_path):
    return shutil.copytree(stopped, tmp_path / "run")


def change(folder, file, action):
    """Change the tensors of a file and its digest, so that the checkpoint is complete."""
    path = folder / "checkpoints" / "step-00000004" / f"{file}.safetensors"
    tensors = load_file(path)
    action(tensors)
    rewrite(path, save(tensors))


def cut(name):
    return lambda tensors: tensors.update({name: tensors[name][:1].clone()})


def cast(name, dtype):
    return lambda tensors: tensors.update({name: tensors[name].to(dtype)})


def drop(*names):
    return lambda tensors: [tensors.pop(name) for name in names]


def put(**more):
    return lambda tensors: tensors.update(more)


CLASSIFIER = "classifier.weight"


@pytest.mark.parametrize(
    ("file", "action", "words"),
    [
        ("model", cut(CLASSIFIER), r"classifier\.weight is torch.float32 of shape \(1, 16\), and .* shape \(2, 16\)"),
        ("model", cast(CLASSIFIER, torch.float64), "classifier.weight is torch.float64 .*has torch.float32"),
        ("model", cast("bert.embeddings.LayerNorm.bias", torch.int64), "LayerNorm.bias is torch.int64"),
        ("model", drop(CLASSIFIER), "it has no classifier.weight"),
        ("model", put(more=torch.ones(1)), "it has more than this run: more"),
        ("optimizer", cut("0.exp_avg"), r"0.exp_avg is torch.float32 of shape \(1,"),
        ("optimizer", cut("3.exp_avg_sq"), r"3.exp_avg_sq is torch.float32 of shape \(1,"),
        ("optimizer", cast("0.exp_avg", torch.float16), "0.exp_avg is torch.float16"),
        ("optimizer", put(**{"1.step": torch.ones(2)}), r"1.step is torch.float32 of shape \(2,\)"),
        ("optimizer", cast("1.step", torch.int64), "1.step is torch.int64"),
        ("optimizer", drop("2.exp_avg"), "it has no 2.exp_avg"),
        ("optimizer", drop("2.step", "2.exp_avg", "2.exp_avg_sq"), "it has no 2.exp_avg"),
        ("optimizer", put(**{"99.step": torch.tensor(1.0)}), "more than this run: 99.step"),
        ("optimizer", put(what=torch.tensor(1.0)), "more than this run: what"),
        ("optimizer", dict.clear, "it has no 0.exp_avg"),
    ],
)
def test_tensors_that_do_not_fit(folder, file, action, words):
    change(folder, file, action)
    model = classifier(plain=True, **NO_DROPOUT)
    before = weights(model)
    with pytest.raises(ValueError, match=rf"step-00000004/{file}\.safetensors does not fit: .*{words}"):
        go(folder, model, resume=True)
    assert same(weights(model), before)
    assert (folder / "checkpoints" / "step-00000004").exists()


def test_the_best_weights_have_to_fit(folder):
    """They are loaded at the end of training, and checked when it resumes."""
    best_model = BestModelTracker(lambda model: {"score": -1.0}, "score")
    recipe, run = RECIPE.replace(eval_steps=2), folder.with_name("evaluated")
    with pytest.raises(Stopped):
        go(run, collator=stopping_at(5), best_model=best_model, recipe=recipe)
    best = run / "checkpoints" / "step-00000002"
    for name, words in {CLASSIFIER: "classifier.weight is", "classifier.bias": "classifier.bias is"}.items():
        path = best / "model.safetensors"
        content = path.read_bytes()
        rewrite(path, save({**load_file(path), name: torch.ones(1)}))
        with pytest.raises(ValueError, match=rf"step-00000002/model\.safetensors does not fit: {words}"):
            go(run, collator=stopping_at(0), best_model=best_model, recipe=recipe, resume=True)
        rewrite(path, content)
    shutil.rmtree(best)
    with pytest.raises(ValueError, match="step-00000002, the best checkpoint, is damaged or missing"):
        go(run, collator=stopping_at(0), best_model=best_model, recipe=recipe, resume=True)


def test_parameters_without_a_gradient_have_no_state(tmp_path):
    """A layer that the loss does not reach."""
    make = lambda: classifier(plain=True, **NO_DROPOUT)  # noqa: E731
    one, other = make(), make()
    for model in (one, other):
        model.spare = torch.nn.Linear(2, 2)
    with pytest.raises(Stopped):
        go(tmp_path, one, collator=stopping_at(5))
    assert go(tmp_path, other, resume=True).step == 6


def test_missing_values_and_another_step(folder):
    path = folder / "checkpoints" / "step-00000004" / "state.json"
    values = json.loads(path.read_text())
    rewrite(path, json.dumps({**values, "step": 2}).encode())
    with pytest.raises(ValueError, match="step-00000004 holds step 2, not the step in its name"):
        go(folder, resume=True)
    del values["waited"]
    rewrite(path, json.dumps(values).encode())
    with pytest.raises(ValueError, match=r"state.json has no 'waited'"):
        go(folder, resume=True)


def test_a_file_without_tensors(folder):
    rewrite(folder / "checkpoints" / "step-00000004" / "model.safetensors", b"nothing")
    with pytest.raises(ValueError, match=r"step-00000004/model\.safetensors cannot be read"):
        go(folder, resume=True)


def test_other_rows(folder):
    rows = examples()
    changed = rows.map(lambda row, i: {"labels": 1 - row["labels"] if i == 3 else row["labels"]}, with_indices=True)
    with pytest.raises(ValueError, match="was made with data='"):
        go(folder, rows=changed, resume=True)
    moved = rows.select(range(len(rows))).flatten_indices()
    assert go(folder, rows=moved, resume=True).step == 6


def test_other_frozen_weights(tmp_path):
    """Checkpoints do not contain them, so the model must have the same ones."""

    def make(change=0.0):
        model = classifier(plain=True, **NO_DROPOUT)
        model.get_input_embeddings().requires_grad_(False)
        model.get_input_embeddings().weight[5] += change
        return model

    with pytest.raises(Stopped):
        go(tmp_path, make(), collator=stopping_at(5))
    with pytest.raises(ValueError, match="was made with frozen='"):
        go(tmp_path, make(0.1), resume=True)
    assert go(tmp_path, make(), resume=True).step == 6


def test_only_damaged_checkpoints(folder, caplog):
    """The run begins again, and says so."""
    for checkpoint in (folder / "checkpoints").iterdir():
        (checkpoint / "state.json").write_text("{")
    assert go(folder, resume=True).step == 6
    assert "step-00000004 is damaged or incomplete and is passed over" in caplog.text
