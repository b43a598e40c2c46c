import json

import pytest

from hf_bam import BamConfig
from hf_bam.training import Recipe


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("learning_rate", 0, "it must be a number above 0"),
        ("learning_rate", "fast", "it must be a number above 0"),
        ("learning_rate", float("nan"), "a number"),
        ("batch_size", 2.5, "a whole number, 1 or above"),
        ("batch_size", True, "a whole number"),
        ("max_steps", 0, "a whole number, 1 or above, 1000000000 at most, or none"),
        ("dropout", 1.5, "a number, 0 or above and below 1, or none"),
        ("num_train_epochs", None, "above 0"),
        ("precision", "fp8", "'fp32', 'bf16', 'fp16'"),
        ("group_by_length", "yes", "true or false"),
        ("bam", 3, "a BamConfig or a mapping"),
    ],
)
def test_wrong_values(field, value, words):
    with pytest.raises(ValueError, match=rf"Recipe\.{field}=.* is not valid; .*{words}"):
        Recipe(**{field: value})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"ensemble_checkpoints": 3, "early_stopping_patience": 2}, "=3 and early_stopping_patience=2 cannot be"),
        ({"average_checkpoints": True}, "average_checkpoints=True and ensemble_checkpoints=0 leave no weights"),
    ],
)
def test_fields_that_exclude_each_other(fields, words):
    with pytest.raises(ValueError, match=words):
        Recipe(**fields)


def test_unknown_fields():
    with pytest.raises(ValueError, match=r"'lr' is not a field of Recipe; the fields are learning_rate, "):
        Recipe.from_dict({"lr": 1e-4})
    with pytest.raises(
        ValueError, match=r"BamConfig has no 'kay' with family='weibull'; the settings of this family are"
    ):
        Recipe(bam={"kay": 3})


def test_whole_numbers_may_come_as_floats():
    recipe = Recipe(batch_size=8.0, num_train_epochs=3)
    assert isinstance(recipe.batch_size, int)
    assert isinstance(recipe.num_train_epochs, float)


def test_to_dict_and_from_dict():
    recipe = Recipe(learning_rate=1e-3, max_steps=5, bam={"preset": "BAM-LC", "layers": [0, 1]})
    assert recipe.bam == BamConfig.preset("BAM-LC", layers=(0, 1))
    assert Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe
    assert recipe.replace(learning_rate=1e-4).learning_rate == 1e-4
