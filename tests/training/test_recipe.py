import json

import pytest

from hf_bam import BamConfig
from hf_bam.training import Recipe


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("lr", 0, "a number, above 0"),
        ("lr", "fast", "a number, above 0"),
        ("lr", float("nan"), "a number"),
        ("batch_size", 2.5, "a whole number, 1 or above"),
        ("batch_size", True, "a whole number"),
        ("max_steps", 0, "a whole number, 1 or above, or none"),
        ("dropout", 1.5, "0 or above, 1 at most, or none"),
        ("epochs", None, "above 0"),
        ("precision", "fp8", "'fp32', 'bf16', 'fp16'"),
        ("buckets", "yes", "True or False"),
        ("bam", 3, "a BamConfig or a mapping"),
    ],
)
def test_wrong_values(field, value, words):
    with pytest.raises(ValueError, match=rf"Recipe\.{field}=.* is not valid; .*{words}"):
        Recipe(**{field: value})


def test_fields_that_do_not_exist():
    with pytest.raises(ValueError, match=r"'learning_rate' is not a field of Recipe; the fields are lr, "):
        Recipe.from_dict({"learning_rate": 1e-4})
    with pytest.raises(ValueError, match=r"'kay' is not a field of BamConfig"):
        Recipe(bam={"kay": 3})


def test_whole_numbers_may_come_as_floats():
    recipe = Recipe(batch_size=8.0, epochs=3)
    assert isinstance(recipe.batch_size, int)
    assert isinstance(recipe.epochs, float)


def test_there_and_back():
    recipe = Recipe(lr=1e-3, max_steps=5, bam={"preset": "BAM-LC", "layers": [0, 1]})
    assert recipe.bam == BamConfig.preset("BAM-LC", layers=(0, 1))
    assert Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe
    assert recipe.replace(lr=1e-4).lr == 1e-4
