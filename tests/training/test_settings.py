"""Settings of a run: recipes, layers, checks."""

from dataclasses import make_dataclass

import pytest
import yaml

from hf_bam import BamConfig
from hf_bam.families.presets import TABLE_9
from hf_bam.fields import check_fields
from hf_bam.tasks import TASKS, get_task
from hf_bam.training import resolve
from hf_bam.training.files import read_yaml, write_yaml
from hf_bam.training.settings import RECIPES, merge, recipe_layers

BASE = {"task_name": "mrpc", "model_name_or_path": "some/model"}

# lr, batch, dropout, classifier dropout, steps, warm-up, longest input: Table 9 of the paper
PUBLISHED = {
    "cola": (1e-5, 16, 0, 0.1, 5336, 320, 512),
    "sts-b": (2e-5, 16, 0, 0.1, 3598, 214, 512),
    "sst-2": (1e-5, 32, 0, 0.1, 20935, 1256, 512),
    "mnli": (3e-5, 128, 0, 0.1, 10000, 1000, 512),
    "qnli": (1e-5, 32, 0, 0.1, 33112, 1986, 512),
    "qqp": (5e-5, 128, 0.1, 0.1, 14000, 1000, 512),
    "rte": (3e-5, 32, 0.1, 0.1, 800, 200, 512),
    "mrpc": (2e-5, 32, 0, 0.1, 800, 200, 512),
    "squad-1.1": (5e-5, 48, 0, 0.1, 3649, 365, 384),
    "squad-2.0": (3e-5, 48, 0, 0.1, 8144, 814, 512),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_recipes_of_the_paper(name):
    task, _, version = name.partition("-") if name.startswith("squad") else (name, "", "")
    options = {"version": version} if version else {}
    recipe = resolve(
        {"task_name": task, "model_name_or_path": "albert-base-v2", "recipe": "paper", "options": options}
    ).recipe
    rates = recipe.learning_rate, recipe.batch_size, recipe.dropout, recipe.classifier_dropout
    assert (*rates, recipe.max_steps, recipe.warmup_steps, recipe.max_length) == PUBLISHED[name]
    assert recipe.bam == BamConfig(**TABLE_9[name])


@pytest.mark.parametrize(
    ("settings", "dropout"),
    [
        ({"task_name": "mrpc"}, 0),
        ({"task_name": "mrpc", "attention": "plain"}, None),
        ({"task_name": "mrpc", "dropout": 0.2}, 0.2),
        ({"task_name": "translation"}, None),
        ({"task_name": "translation", "model_name_or_path": "scratch"}, 0.1),
        ({"task_name": "translation", "model_name_or_path": "recurrent"}, 0.1),
    ],
)
def test_the_fast_recipe_has_noise_instead_of_dropout(settings, dropout):
    """None, the rate of the model, with plain attention and for translation."""
    assert resolve({"model_name_or_path": "some/model", "recipe": "fast", **settings}).recipe.dropout == dropout


@pytest.mark.parametrize(
    ("settings", "k"),
    [
        ({"task_name": "cola"}, 1),
        ({"task_name": "mrpc"}, 2),
        ({"task_name": "mrpc", "bam": {"k": 1.0}}, 1),
        ({"task_name": "mrpc", "bam": {"preset": "mrpc"}}, 100),
        ({"task_name": "translation"}, 1),
        ({"task_name": "translation", "model_name_or_path": "scratch"}, 2),
        ({"task_name": "translation", "model_name_or_path": "recurrent"}, 2),
    ],
)
def test_the_fast_recipe_has_less_noise_for_pairs_of_texts(settings, k):
    assert resolve({"model_name_or_path": "some/model", "recipe": "fast", **settings}).recipe.bam.k == k


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_a_recipe(recipe, task):
    columns = {"text_column": "a", "label_column": "b"} if task == "custom" else {}
    job = resolve({"task_name": task, "model_name_or_path": "scratch", "recipe": recipe, "options": columns})
    assert job.recipe.max_steps or job.recipe.num_train_epochs
    trained = ("autoencode", "clinc150", "cola", "sst-2", "text2text", "translation", "vqa")
    assert job.recipe.freeze_embeddings == (recipe == "fast" and task not in trained)


def test_later_layers_override_earlier_ones():
    paper = {**BASE, "recipe": "paper"}
    file = {"learning_rate": 1e-3, "num_train_epochs": 7, "bam": {"k": 3.0, "beta": 2.0}}
    line = {"learning_rate": 5e-4, "bam": {"k": 4.0}}
    recipe = resolve(paper, file, line).recipe
    assert (recipe.learning_rate, recipe.num_train_epochs, recipe.batch_size) == (5e-4, 7, 32)
    assert (recipe.bam.k, recipe.bam.beta) == (4.0, 2.0)
    assert recipe.bam.kl_weight == TABLE_9["mrpc"]["kl_weight"]


def test_a_preset_replaces_earlier_settings():
    recipe = resolve(
        {**BASE, "recipe": "paper"}, {"bam": {"beta": 2.0}}, {"bam": {"preset": "bam-lc", "sigma": 0.5}}
    ).recipe
    assert recipe.bam == BamConfig.preset("bam-lc", sigma=0.5)


@pytest.mark.parametrize("recipe", RECIPES)
def test_another_family_drops_settings_that_it_does_not_have(recipe, tmp_path):
    """The fast recipe sets k itself, the paper's by a preset; settings of both families are kept."""
    base = {**BASE, "recipe": recipe}
    assert "k" in resolve(base).recipe.bam.to_dict()
    job = resolve(base, {"bam": {"d_mid": 7}}, {"bam": {"family": "lognormal", "sigma": 0.5}})
    changes = {"prior": "contextual", "kl_weight": 1.0} if recipe == "paper" else {}
    assert job.recipe.bam == BamConfig(family="lognormal", sigma=0.5, d_mid=7, **changes)
    write_yaml(tmp_path / "config.yaml", job.to_dict())
    assert resolve(base, read_yaml(tmp_path / "config.yaml")) == job


def test_a_setting_of_another_family_in_the_same_layer_is_an_error():
    with pytest.raises(ValueError, match="BamConfig has no 'k' with family='lognormal'"):
        resolve(BASE, {"bam": {"family": "lognormal", "k": 2.0}})
    with pytest.raises(ValueError, match="BamConfig has no 'sigma' with family='weibull'"):
        resolve({**BASE, "recipe": "fast"}, {"bam": {"sigma": 2.0}})


def test_a_file_may_name_the_recipe():
    assert resolve({**BASE, "recipe": "paper"}, {"recipe": "fast"}).recipe.freeze_embeddings


def test_resolve_takes_written_settings(tmp_path):
    layers = {
        "recipe": "paper",
        "task_name": "squad",
        "model_name_or_path": "x",
        "options": {"version": "2.0"},
        "seed": 3,
        "limit": 9,
    }
    job = resolve(layers, {"bam": {"layers": [0, 1]}, "lora": True})
    write_yaml(tmp_path / "config.yaml", job.to_dict())
    assert resolve(read_yaml(tmp_path / "config.yaml")) == job
    assert (
        resolve(
            {"recipe": "fast", "task_name": "mrpc", "model_name_or_path": "y"}, read_yaml(tmp_path / "config.yaml")
        )
        == job
    )


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ({"task_name": "mrcp"}, "task_name='mrcp' is not known; choose one of cola"),
        ({"recipe": "slow"}, "recipe='slow' is not known; choose one of paper, fast"),
        ({"attention": "hard"}, "Job.attention='hard' is not valid; it must be one of 'bam', 'plain'"),
        ({"limit": 0}, "limit=0 is not valid"),
        ({"seed": -1}, "seed=-1 is not valid"),
        ({"options": {"version": "2.0"}}, "'version' is not an option of mrpc; it has none"),
        ({"task_name": "custom"}, "The task custom needs text_column"),
        ({"lr": 1}, "'lr' is not a field of Recipe"),
        ({"lora": "false"}, "lora='false' is not valid; it must be true or false"),
        ({"lora": 1}, "lora=1 is not valid; it must be true or false"),
        ({"lora": None}, "lora=None is not valid; it must be true or false"),
        ({"seed": "0"}, "seed='0' is not valid; it must be a whole number"),
        ({"seed": 1.0}, "seed=1.0 is not valid; it must be a whole number"),
        ({"seed": True}, "seed=True is not valid; it must be a whole number"),
        ({"limit": "1_000"}, "Job.limit='1_000' is not valid; it must be a whole number, 1 or above, or none"),
        ({"eval_limit": -3}, "eval_limit=-3 is not valid"),
        ({"holdout": 2.5}, "holdout=2.5 is not valid"),
        ({"model_name_or_path": 5}, "model_name_or_path=5 is not valid; it must be text"),
        ({"model_name_or_path": None}, "model_name_or_path=None is not valid; it must be text"),
        ({"task_name": ["mrpc"]}, r"task_name=\['mrpc'\] is not valid; it must be text"),
        ({"data_dir": 2020}, "data_dir=2020 is not valid; it must be text .* or none"),
        ({"attention": False}, "attention=False is not valid; it must be one of 'bam', 'plain'"),
        ({"options": "none"}, "options='none' is not valid; it must be a mapping"),
        ({"bam": "weibull"}, "bam='weibull' is not valid; it must be a mapping"),
        ({"recipe": ["fast"]}, r"recipe=\['fast'\] is not known"),
        ({"freeze_embeddings": "no"}, "Recipe.freeze_embeddings='no' is not valid; it must be true or false"),
        ({"max_length": "12:30:45"}, "Recipe.max_length='12:30:45' is not valid; it must be a whole number"),
        (
            {"num_train_epochs": 2, "max_steps": 5},
            "num_train_epochs=2 and max_steps=5 are both given; leave one of them out",
        ),
    ],
)
def test_wrong_settings(layer, words):
    with pytest.raises(ValueError, match=words):
        resolve(BASE, layer)


def test_a_task_and_a_model_are_needed():
    with pytest.raises(ValueError, match="model_name_or_path is not given"):
        resolve({"task_name": "mrpc"})


@pytest.mark.parametrize(
    ("task", "option", "value", "words"),
    [
        ("custom", "regression", "false", "regression='false' is not valid; it must be true or false"),
        ("custom", "text_column", True, "text_column=True is not valid; it must be text"),
        ("squad", "n_best", "many", "n_best='many' is not valid; it must be a whole number"),
        ("squad", "doc_stride", 1.5, "doc_stride=1.5 is not valid; it must be a whole number"),
        ("squad", "null_threshold", float("nan"), "null_threshold=nan is not valid; it must be a number"),
        ("squad", "train_file", False, "train_file=False is not valid; it must be text .* or none"),
        ("translation", "heads", True, "heads=True is not valid; it must be a whole number"),
        ("sentiment", "domain", None, "Sentiment.domain=None is not valid; it must be one of 'movies', "),
    ],
)
def test_options_of_the_wrong_type(task, option, value, words):
    columns = {"text_column": "a", "label_column": "b"} if task == "custom" else {}
    with pytest.raises(ValueError, match=words):
        resolve({"task_name": task, "model_name_or_path": "m", "options": {**columns, option: value}})
    with pytest.raises(ValueError, match=words):
        get_task(task, **{**columns, option: value})


def test_fields_of_another_task():
    """With annotations that are types, and with one that is not known."""
    made = make_dataclass("Mine", [("rows", int), ("name", str | None), ("parts", tuple[int, ...]), ("on", bool)])
    check_fields(made(3, None, "anything", True))
    for values, words in (((3.5, None, (), True), "rows=3.5"), ((3, 5, (), True), "name=5"), ((3, "", (), 1), "on=1")):
        with pytest.raises(ValueError, match=f"{words} is not valid"):
            check_fields(made(*values))


@pytest.mark.parametrize(
    ("layers", "epochs", "steps"),
    [
        ([], None, 800),
        ([{"num_train_epochs": 2}], 2, None),
        ([{"max_steps": 9}], None, 9),
        ([{"max_steps": None}], 5, None),  # the default of the recipe
        ([{"max_steps": 9}, {"num_train_epochs": 2}], 2, None),
        ([{"num_train_epochs": 2}, {"max_steps": 9}], None, 9),
        ([{"num_train_epochs": 2}, {"max_steps": 9}, {"max_steps": None}], 2, None),
        ([{"num_train_epochs": 2, "max_steps": None}], 2, None),
    ],
)
def test_epochs_and_steps_replace_each_other(layers, epochs, steps):
    recipe = resolve({**BASE, "recipe": "paper"}, *layers).recipe
    assert recipe.max_steps == steps
    assert epochs is None or recipe.num_train_epochs == epochs


def test_epochs_or_steps_in_written_settings(tmp_path):
    for given in ({"num_train_epochs": 2}, {"max_steps": 9}):
        job = resolve({**BASE, "recipe": "paper"}, given)
        write_yaml(tmp_path / "config.yaml", job.to_dict())
        assert resolve({"recipe": "paper"}, read_yaml(tmp_path / "config.yaml")) == job
        assert {"num_train_epochs", "max_steps"} & {
            k for k, v in read_yaml(tmp_path / "config.yaml").items() if v
        } == {*given}


def test_a_version_is_text():
    assert (
        resolve({"task_name": "squad", "model_name_or_path": "x", "options": {"version": 2.0}}).make_task().version
        == "2.0"
    )


def test_none_in_a_file(tmp_path):
    (tmp_path / "config.yaml").write_text("max_grad_norm: none\nbam: {prior: none}\n")
    recipe = resolve(BASE, read_yaml(tmp_path / "config.yaml")).recipe
    assert (recipe.max_grad_norm, recipe.bam.prior) == (None, "none")


def test_recipes_are_plain_yaml():
    """Any YAML reader reads the same numbers."""
    from importlib import resources

    for name in RECIPES:
        text = resources.files("hf_bam.training").joinpath("recipes", f"{name}.yaml").read_text()
        for key, values in yaml.safe_load(text).items():
            assert merge(*recipe_layers(name, key)).items() >= values.items()
