"""Export of a demo as a Hugging Face Space."""

import ast
import importlib.metadata

import pytest
from huggingface_hub import SpaceCard

from hf_bam.demo import Session, export


@pytest.fixture(scope="module")
def folder(classifier, tmp_path_factory):
    target = tmp_path_factory.mktemp("run") / "reviews" / "model"
    classifier.predictor.save_pretrained(target)
    return target


def call_of(path):
    """Return the call of `launch` in a program, as (first argument, keywords)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (call,) = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "launch"]
    return ast.unparse(call.args[0]), {own.arg: ast.literal_eval(own.value) for own in call.keywords}


def test_a_space_with_a_local_model(folder, tmp_path):
    target = tmp_path / "space"
    export(target, folder, examples=[['it\'s "good"']], num_samples=8)
    card = SpaceCard.load(target / "README.md")
    assert (card.data.sdk, card.data.app_file, card.data.title) == ("gradio", "app.py", "reviews")
    assert card.data.sdk_version == importlib.metadata.version("gradio")
    first, keywords = call_of(target / "app.py")
    assert first == "Path(__file__).with_name('model')"
    assert keywords == {"title": "reviews", "examples": [['it\'s "good"']], "num_samples": 8}
    requirements = (target / "requirements.txt").read_text().split()
    assert requirements == ["torch", f"hf_bam[demo]=={importlib.metadata.version('hf_bam')}"]
    loaded = Session.load(target / "model")
    assert loaded.predictor.calibration.sets is not None
    with pytest.raises(ValueError, match="not an empty folder"):
        export(target, folder)


def test_a_space_with_a_model_of_the_hub(tmp_path):
    export(tmp_path / "space", "somebody/bam-mrpc", title='"quoted"\nlines')
    card = SpaceCard.load(tmp_path / "space" / "README.md")
    assert card.data.models == ["somebody/bam-mrpc"]
    assert call_of(tmp_path / "space" / "app.py") == ("'somebody/bam-mrpc'", {"title": '"quoted"\nlines'})
    assert {path.name for path in (tmp_path / "space").iterdir()} == {"app.py", "requirements.txt", "README.md"}


def test_models_that_a_demo_cannot_show(tokenizer, tmp_path):
    with pytest.raises(ValueError, match="cannot be loaded: it is not a folder of a model"):
        Session.load(tmp_path / "nothing")
