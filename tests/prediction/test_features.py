"""Features before the head, against those of the plain transformers models."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import (
    BertForQuestionAnswering,
    BertForTokenClassification,
    EuroBertConfig,
    EuroBertForSequenceClassification,
    GPT2ForSequenceClassification,
    LlamaForSequenceClassification,
)

import hf_bam
from hf_bam.prediction import Bam, Dropout, Ensemble, Plain, Predictor
from hf_bam.prediction.features import features_of, with_features

from ..models import LABELS, PAD, albert, bert, distilbert, gpt2, llama, marian, roberta, text

LARGE = {"initializer_range": 0.3}
SEEDS = torch.tensor([5, 6, 7])


def llama_classifier(**changes):
    return LlamaForSequenceClassification(llama(num_labels=LABELS, **changes).config)


def gpt2_classifier(**changes):
    return GPT2ForSequenceClassification(gpt2(num_labels=LABELS, pad_token_id=PAD, **changes).config)


def tagger(**changes):
    return BertForTokenClassification(bert(**changes).config)


def answerer(**changes):
    return BertForQuestionAnswering(bert(num_labels=2, **changes).config)


def of_last_tokens(hidden, mask):
    return torch.stack([x[own.nonzero()[-1, 0]] for x, own in zip(hidden, mask, strict=True)])


def of_all_tokens(hidden, mask):
    return torch.stack([x[own.bool()].mean(dim=0) for x, own in zip(hidden, mask, strict=True)])


def distilbert_features(model, batch):
    first = model.distilbert(**batch).last_hidden_state[:, 0]
    return torch.relu(model.pre_classifier(first))


def roberta_features(model, batch):
    return torch.tanh(model.classifier.dense(model.roberta(**batch).last_hidden_state[:, 0]))


BY_HAND = {
    "bert": (bert, lambda model, batch: model.bert(**batch).pooler_output),
    "albert": (albert, lambda model, batch: model.albert(**batch).pooler_output),
    "distilbert": (distilbert, distilbert_features),
    "roberta": (roberta, roberta_features),
    "llama": (
        llama_classifier,
        lambda model, batch: of_last_tokens(model.model(**batch).last_hidden_state, batch["attention_mask"]),
    ),
    "gpt2": (
        gpt2_classifier,
        lambda model, batch: of_last_tokens(model.transformer(**batch).last_hidden_state, batch["attention_mask"]),
    ),
    "tokens": (
        tagger,
        lambda model, batch: of_all_tokens(model.bert(**batch).last_hidden_state, batch["attention_mask"]),
    ),
    "questions": (
        answerer,
        lambda model, batch: of_all_tokens(model.bert(**batch).last_hidden_state, batch["attention_mask"]),
    ),
}


@pytest.mark.parametrize("kind", BY_HAND)
@torch.no_grad()
def test_features_are_those_of_the_plain_model(kind):
    build, by_hand = BY_HAND[kind]
    model, batch = build(**({} if kind == "distilbert" else LARGE)).eval(), text()
    expected = by_hand(model, batch)
    size = 2 if kind == "questions" else LABELS
    found = with_features(model, size)(**batch)["features"]
    torch.testing.assert_close(found, expected)
    hf_bam.patch(model, k=1.0)
    torch.testing.assert_close(Bam(model).ready(size).features(batch)["features"], expected)
    torch.testing.assert_close(Plain(model).ready(size).draw(batch, 1, SEEDS)["features"][0], expected)


def test_logits_that_are_averaged_over_tokens_come_from_the_mean_of_their_features():
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48}
    config = EuroBertConfig(vocab_size=60, pad_token_id=PAD, num_labels=LABELS, classifier_pooling="late", **sizes)
    model, batch = EuroBertForSequenceClassification(config).eval(), text()
    output = with_features(model, LABELS)(**batch)
    torch.testing.assert_close(model.classifier(output["features"]), output.logits)


@pytest.mark.parametrize(("layers", "expected"), [(1, [1]), (2, [2]), (6, [4, 6]), (7, [5, 7])])
@torch.no_grad()
def test_layers_have_mean_hidden_states(layers, expected):
    model, batch = bert(num_hidden_layers=layers, **LARGE).eval(), text()
    states = model(**batch, output_hidden_states=True).hidden_states
    found = features_of(with_features(model, LABELS)(**batch))
    names = [f"features of layer {layer}" for layer in expected]
    assert list(found) == [*names, "features of the first token", "features"]
    for name, layer in zip(names, expected, strict=True):
        torch.testing.assert_close(found[name], of_all_tokens(states[layer], batch["attention_mask"]))
    torch.testing.assert_close(found["features of the first token"], states[-1][:, 0])


@pytest.mark.parametrize("build", [tagger, llama_classifier], ids=["tagger", "llama"])
@torch.no_grad()
def test_heads_that_read_tokens_have_no_features_of_the_first_token(build):
    found = features_of(with_features(build(**LARGE).eval(), LABELS)(**text()))
    assert list(found) == ["features of layer 2", "features"]


@pytest.mark.parametrize("sampler", [Bam, lambda model: Dropout(model, rate=0.2)], ids=["bam", "dropout"])
@torch.no_grad()
def test_samples_have_no_features(sampler):
    model, batch = hf_bam.patch(bert(**LARGE), k=1.0).eval(), text()
    assert not features_of(sampler(model).ready(LABELS).draw(batch, 2, SEEDS))


@torch.no_grad()
def test_an_ensemble_has_the_features_of_its_first_model():
    models, batch = [bert(**LARGE).eval(), bert(hidden_size=16, **LARGE).eval()], text()
    sampler = Ensemble(models).ready(LABELS)
    drawn = sampler.draw(batch, 2, SEEDS)
    expected = models[0].bert(**batch).pooler_output
    assert drawn["logits"].shape == (2, 3, LABELS)
    torch.testing.assert_close(drawn["features"], expected[None])
    torch.testing.assert_close(sampler.features(batch)["features"], expected)


@torch.no_grad()
def test_half_precision():
    model, batch = hf_bam.patch(bert(**LARGE), k=1.0).eval(), text()
    expected = model.bert(**batch).pooler_output
    found = Bam(model.to(torch.bfloat16)).ready(LABELS).features(batch)["features"]
    torch.testing.assert_close(found.float(), expected, atol=0.1, rtol=0.1)
    of_tokens = with_features(tagger(**LARGE).to(torch.bfloat16).eval(), LABELS)(**batch)["features"]
    assert of_tokens.dtype == torch.float32  # a mean over tokens


ADAPTERS = {
    "of another layer": {"target_modules": ["query"]},
    "of the last layer": {"target_modules": ["out_proj"], "r": LABELS},
    "with a head of its own": {"target_modules": ["query"], "modules_to_save": ["classifier"]},
    "with a last layer of its own": {"target_modules": ["query"], "modules_to_save": ["out_proj"]},
}


@pytest.mark.parametrize("kind", ADAPTERS)
@torch.no_grad()
def test_adapters(kind):
    """The head of an adapter is the one that runs, so its features are looked for and not those of the original."""
    model = get_peft_model(roberta(**LARGE), LoraConfig(init_lora_weights=False, **ADAPTERS[kind])).eval()
    for name, parameter in model.named_parameters():
        if "modules_to_save" in name:
            parameter.data += 0.1 * torch.randn_like(parameter)
    batch, root = text(), model.get_base_model()
    copies = getattr(root.classifier, "modules_to_save", None)
    head = root.classifier if copies is None else copies["default"]
    expected = torch.tanh(head.dense(root.roberta(**batch).last_hidden_state[:, 0]))
    torch.testing.assert_close(with_features(model, LABELS)(**batch)["features"], expected)
    with model.disable_adapter():
        plain = with_features(model, LABELS)(**batch)
        dense = (root.classifier if copies is None else root.classifier.original_module).dense
        torch.testing.assert_close(plain["features"], torch.tanh(dense(root.roberta(**batch).last_hidden_state[:, 0])))


def test_the_model_of_the_caller_stays_as_it_is():
    model, batch = hf_bam.patch(bert(), k=1.0).eval(), text()
    hooks = [{name: value for name, value in vars(m).items() if "hooks" in name} for m in model.modules()]
    counts = [[len(value) for value in own.values()] for own in hooks]
    copy = with_features(model, LABELS)
    assert [[len(value) for value in own.values()] for own in hooks] == counts
    assert "features" in copy(**batch)
    assert "features" not in model(**batch)
    assert all(a is b for a, b in zip(model.parameters(), copy.parameters(), strict=True))


@torch.no_grad()
def test_a_compiled_model_has_features():
    torch._dynamo.reset()
    model, batch = bert().eval(), text()
    expected = model.bert(**batch).pooler_output
    model.compile(backend="eager")
    torch.testing.assert_close(with_features(model, LABELS)(**batch)["features"], expected)


def test_a_model_without_the_layer_is_an_error(tokenizer):
    model = hf_bam.patch(bert(vocab_size=len(tokenizer)), k=1.0)
    model.classifier = nn.Identity()
    with pytest.raises(ValueError, match="BertForSequenceClassification has no linear layer with 3 outputs"):
        Predictor(Bam(model), tokenizer).features(["a"])


@pytest.mark.parametrize("build", [marian, gpt2], ids=["marian", "gpt2"])
@torch.no_grad()
def test_features_of_generators_are_means_over_the_input(build, single_tokenizer):
    tokens = {"pad_token_id": single_tokenizer.pad_token_id, "eos_token_id": single_tokenizer.sep_token_id}
    model = hf_bam.patch(build(vocab_size=len(single_tokenizer), **tokens), k=1.0).eval()
    texts = ["a film", "a film of rare beauty, and more"]
    found = Predictor(Bam(model), single_tokenizer).features(texts)
    assert found.keys() == {"features of layer 2"}
    reader = model.get_encoder() if build is marian else model.transformer
    for index, one in enumerate(texts):
        hidden = reader(**single_tokenizer(one, return_tensors="pt"), output_hidden_states=True).hidden_states
        own = torch.from_numpy(found["features of layer 2"][index]).float()
        torch.testing.assert_close(own, hidden[2][0].mean(dim=0), atol=1e-5, rtol=1e-5)


def test_features_of_a_question_are_means_over_its_windows(tokenizer):
    model = hf_bam.patch(answerer(vocab_size=len(tokenizer), **LARGE), k=1.0).eval()
    predictor = Predictor(Bam(model), tokenizer, max_length=16, stride=2)
    question, words = "who?", [f"word{i}" for i in range(30)]
    together = predictor.features([(question, " ".join(words)), (question, "short")])["features"]
    assert together.shape == (2, 32)
    encoded = tokenizer(question, " ".join(words), truncation="only_second", max_length=16, stride=2, padding=True,
                        return_overflowing_tokens=True, return_tensors="pt")  # fmt: skip
    encoded.pop("overflow_to_sample_mapping")
    assert len(encoded["input_ids"]) > 2
    with torch.no_grad():
        hidden = model.bert(**encoded).last_hidden_state
    expected = of_all_tokens(hidden, encoded["attention_mask"]).mean(dim=0)
    torch.testing.assert_close(torch.from_numpy(together[0]).float(), expected, atol=1e-5, rtol=1e-5)
