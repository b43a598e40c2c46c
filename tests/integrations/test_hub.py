"""Patched models on the Hub: the real clients against the local server."""

import re

import pytest
import torch
from huggingface_hub import HfApi, ModelCard
from peft import LoraConfig, get_peft_model
from transformers import AutoModel, AutoModelForSequenceClassification, BertForSequenceClassification

import hf_bam
from hf_bam.integrations.cards import model_card
from hf_bam.patching.state import patch_of

from ..models import bert, marian, text, translation
from .cases import assert_same_model, sample_logits

REPO = "somebody/tiny"
PUSHES = {"of the model": lambda model, *args, **kw: model.push_to_hub(*args, **kw), "of hf_bam": hf_bam.push_to_hub}


@pytest.fixture(params=PUSHES.values(), ids=PUSHES.keys())
def push(request, hub):
    return request.param


def trained(build=bert, **settings):
    """Return a patched model whose prior network is not the initial one."""
    model = hf_bam.patch(build(), **(settings or {"k": 2.0})).eval()
    for name, parameter in model.named_parameters():
        if ".bam." in name:
            torch.nn.init.normal_(parameter)
    return model


@pytest.mark.parametrize(("build", "batch"), [(bert, text), (marian, translation)], ids=["bert", "marian"])
def test_a_pushed_model_can_be_loaded_by_its_name(push, build, batch):
    model, batch = trained(build), batch()
    push(model, "tiny")
    loaded = hf_bam.from_pretrained(REPO)
    assert_same_model(loaded, model, batch)
    assert not torch.allclose(sample_logits(loaded, batch), loaded(**batch).logits)


def test_files_and_header_are_those_of_a_bam_model(push):
    push(trained(), "tiny", private=True, commit_message="First", tags=["reviews"])
    info = HfApi().model_info(REPO)
    assert {file.rfilename for file in info.siblings} == {
        ".gitattributes",
        "README.md",
        "bam.safetensors",
        "config.json",
        "model.safetensors",
    }
    assert info.private
    assert (info.library_name, info.pipeline_tag) == ("hf_bam", "text-classification")
    assert {"hf_bam", "bayesian-attention", "uncertainty", "transformers", "reviews"} == {*info.tags}


def test_revisions_are_kept_apart(push):
    first, second, third = trained(), trained(family="lognormal"), trained()
    push(first, "tiny")
    api = HfApi()
    commit = api.model_info(REPO).sha
    api.create_tag(REPO, tag="v1")
    push(second, "tiny", revision="lognormal")
    push(third, "tiny")
    for revision, model in {commit: first, "v1": first, "lognormal": second, None: third}.items():
        assert_same_model(hf_bam.from_pretrained(REPO, revision=revision), model, text())


def test_a_pull_request_does_not_change_main(hub):
    model = trained()
    hf_bam.push_to_hub(model, "tiny", create_pr=True)
    assert list(hub.repos[REPO].files()) == [".gitattributes"]
    assert_same_model(hf_bam.from_pretrained(REPO, revision="refs/pr/1"), model, text())


def test_shards(hub):
    model = trained()
    hf_bam.push_to_hub(model, "tiny", max_shard_size="50KB")
    assert sum(name.startswith("model-0000") for name in hub.repos[REPO].files()) > 1
    assert_same_model(hf_bam.from_pretrained(REPO), model, text())


def test_plain_transformers_loads_the_deterministic_model_with_a_warning(hub, log):
    model = trained()
    hf_bam.push_to_hub(model, "tiny")
    log.clear()
    plain = AutoModelForSequenceClassification.from_pretrained(REPO)
    (message,) = log.messages
    assert f"hf_bam.from_pretrained({REPO!r})" in message
    AutoModel.from_pretrained(REPO)  # the classifier is an unexpected key here
    assert "classifier.weight" in log.text
    assert type(plain) is BertForSequenceClassification
    assert not hf_bam.is_patched(plain)
    batch = text()
    expected = hf_bam.unpatch(model)(**batch).logits
    torch.testing.assert_close(plain(**batch).logits, expected, rtol=0, atol=0)


def test_the_snippets_of_the_card_run(hub, tokenizer, capsys):
    model = hf_bam.patch(bert(vocab_size=tokenizer.vocab_size))
    hf_bam.push_to_hub(model, "tiny", tokenizer=tokenizer)
    for code in re.findall(r"^```python\n(.*?)^```", ModelCard.load(REPO).text, re.DOTALL | re.MULTILINE):
        exec(compile(code, "card", "exec"), {})
    assert "Classification(" in capsys.readouterr().out


def test_a_given_card_is_uploaded_with_its_figures(hub, tmp_path):
    model, figure = trained(), tmp_path / "risk.png"
    figure.write_bytes(b"\x89PNG")
    card = model_card(model, repo_id=REPO, metrics={"accuracy": 0.9}, dataset="stanfordnlp/sst2", figures=[figure])
    hf_bam.push_to_hub(model, REPO, card=card, figures=[figure], eval_results="- value: 1\n")
    assert hub.repos[REPO].files()["figures/risk.png"].content == b"\x89PNG"
    assert hub.repos[REPO].files()[".eval_results/hf_bam.yaml"].content == b"- value: 1\n"
    pushed = ModelCard.load(REPO)
    assert "![risk](figures/risk.png)" in pushed.text
    assert [(r.metric_type, r.metric_value) for r in pushed.data.eval_results] == [("accuracy", 0.9)]


def test_the_repository_keeps_the_card_that_it_has(hub):
    hf_bam.push_to_hub(trained(), "tiny")
    content = b"---\nlicense: mit\n---\nA custom card.\n"
    HfApi().upload_file(path_or_fileobj=content, path_in_repo="README.md", repo_id=REPO)
    hf_bam.push_to_hub(trained(), "tiny")
    card = ModelCard.load(REPO)
    assert card.data.license == "mit"
    assert "A custom card." in card.text


def test_an_adapter_is_loaded_with_its_prior(hub):
    bert().push_to_hub("base")
    base = AutoModelForSequenceClassification.from_pretrained("somebody/base")
    lora = LoraConfig(target_modules=["query"], init_lora_weights=False)
    model, batch = trained(lambda: get_peft_model(base, lora)), text()
    hf_bam.push_to_hub(model, "tiny")
    card = ModelCard.load(REPO)
    assert (card.data.base_model, card.data.base_model_relation) == ("somebody/base", "adapter")
    assert_same_model(hf_bam.from_pretrained(REPO), model, batch)
    plain = AutoModelForSequenceClassification.from_pretrained(REPO)
    torch.testing.assert_close(plain(**batch).logits, model(**batch).logits)


def test_missing_models_raise_with_the_way_out(hub):
    with pytest.raises(OSError, match="somebody/else is not a local folder and is not a valid model identifier"):
        hf_bam.from_pretrained("somebody/else")
    hf_bam.push_to_hub(trained(), "tiny", private=True)
    with pytest.raises(OSError, match="If this is a private repository, make sure to pass a token"):
        hf_bam.from_pretrained(REPO, token="hf_of_others")
    with pytest.raises(OSError, match="v9 is not a valid git identifier"):
        hf_bam.from_pretrained(REPO, revision="v9")
    bert().push_to_hub("plain")
    with pytest.raises(FileNotFoundError, match=r"somebody/plain has no bam.safetensors.*hf_bam.patch\(model\)"):
        hf_bam.from_pretrained("somebody/plain")


def test_a_model_that_is_not_patched_raises_before_any_request(hub):
    with pytest.raises(ValueError, match="not patched"):
        hf_bam.push_to_hub(bert(), "tiny")
    assert hub.requests == []


def test_the_prior_of_codes_is_uploaded_and_loaded(hub, tmp_path):
    torch.manual_seed(0)
    model = hf_bam.patch(marian(), family="quantized", num_codes=5).eval()
    rows = [{"input_ids": [5, 6, 7, 0]}, {"input_ids": [8, 0]}]
    prior = hf_bam.fit_code_prior(model, rows, num_train_epochs=1, hidden_size=16, num_heads=2)
    model.push_to_hub("codes")
    hf_bam.save(model, tmp_path)
    others = [hf_bam.from_pretrained("somebody/codes"), hf_bam.load(marian(), tmp_path)]
    for other in others:
        own = patch_of(other).code_prior
        assert own.generation_config.max_new_tokens == prior.generation_config.max_new_tokens
        assert all(torch.equal(own.state_dict()[name], tensor) for name, tensor in prior.state_dict().items())
    plain = hf_bam.patch(marian(), family="quantized", num_codes=5)
    plain.push_to_hub("none")
    assert patch_of(hf_bam.from_pretrained("somebody/none")).code_prior is None
