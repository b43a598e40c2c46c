"""Loss over several samples of a batch, with models of all kinds of labels."""

import itertools

import pytest
import torch
from torch.distributions import Categorical, kl_divergence
from transformers import (
    BertConfig,
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForTokenClassification,
)

import hf_bam
from hf_bam.integrations.samples import SampleLoss, read_likelihood

from ..models import SMALL, bart, bert, classification, distilbert, gpt2, language_model, marian, text, translation

DROPOUT = {"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.3}


def config(**changes):
    return BertConfig(**{**SMALL, "initializer_range": 0.3, **changes})


def questions():
    return text() | {"start_positions": torch.tensor([1, 0, 99]), "end_positions": torch.tensor([4, 2, 99])}


def tokens():
    batch = text()
    labels = torch.randint(3, batch["input_ids"].shape)
    return batch | {"labels": labels.masked_fill(batch["attention_mask"] == 0, -100)}


def choices():
    batch = text((7, 5, 3, 6))
    return {name: x.reshape(2, 2, -1) for name, x in batch.items()} | {"labels": torch.tensor([0, 1])}


def numbers():
    return text() | {"labels": torch.tensor([0.5, 2.0, -1.0])}


def several():
    return text() | {"labels": torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])}


KINDS = {
    "classification": (lambda: bert(initializer_range=0.3), classification),
    "another head": (lambda: distilbert(initializer_range=0.3), classification),
    "regression": (lambda: bert(initializer_range=0.3, num_labels=1), numbers),
    "several labels": (lambda: bert(initializer_range=0.3), several),
    "choices": (lambda: BertForMultipleChoice(config()), choices),
    "questions": (lambda: BertForQuestionAnswering(config(num_labels=2)), questions),
    "tokens": (lambda: BertForTokenClassification(config()), tokens),
    "next token": (gpt2, language_model),
    "translation": (lambda: marian(init_std=0.3), translation),
    "another decoder": (lambda: bart(init_std=0.3), translation),
}
"""Models and batches of all kinds of labels."""


@pytest.fixture(params=KINDS)
def kind(request):
    torch.manual_seed(0)
    build, batch = KINDS[request.param]
    return hf_bam.patch(build(), k=1.0).train(), batch()


def test_the_bound_is_that_of_the_models_own_losses(kind):
    """Of one example at a time, whose own losses are its mean negative log-likelihood; and it is a mean over items."""
    model, batch = kind
    samples = SampleLoss(model, num_train_samples=3)
    for index in range(len(next(iter(batch.values())))):
        example = {name: x[index : index + 1] for name, x in batch.items()}
        torch.manual_seed(index)
        output = model(**samples.expand(example))
        found = samples.terms(output, example).task_loss
        likelihood = read_likelihood(output, example, 3, model.config.problem_type, bool(samples.shifted))
        items = likelihood.labelled.sum()
        if not items:  # the answer is not in the text
            continue
        own = torch.stack([own_loss(model, output, example, sample) for sample in range(3)])
        torch.testing.assert_close(output.task_loss, own.mean())
        torch.testing.assert_close(found, -(-own * items).exp().mean().log() / items, rtol=1e-4, atol=1e-5)
        assert found < own.mean()


def own_loss(model, output, example, sample):
    """Return the loss of one sample by the function of the model: its forward, with logits that are given."""
    heads = [module for name in ("classifier", "qa_outputs", "lm_head") if (module := getattr(model, name, None))]
    logits = {name: output[name][sample : sample + 1] for name in output if name.endswith("logits")}
    if "start_logits" in logits:
        given = torch.stack([logits["start_logits"], logits["end_logits"]], dim=-1)
    else:
        given = logits["logits"]
    if getattr(model, "final_logits_bias", None) is not None:
        given = given - model.final_logits_bias
    if isinstance(model, BertForMultipleChoice):
        given = given.reshape(-1, 1)
    handle = heads[0].register_forward_hook(lambda module, args, result: given)
    try:
        return model(**example).task_loss
    finally:
        handle.remove()


def test_the_whole_batch_is_a_mean_over_items(kind):
    """The terms of a batch are those of its examples, weighted by the number of their items."""
    model, batch = kind
    samples = SampleLoss(model, consistency=1.0, num_train_samples=2)
    output = model(**samples.expand(batch))
    whole = samples.terms(output, batch)
    size = len(next(iter(batch.values())))
    found, items = [], []
    for index in range(size):
        example = {name: x[index : index + 1] for name, x in batch.items()}
        rows = [index, index + size]
        part = {name: x[rows] for name, x in output.items() if name.endswith("logits")}
        likelihood = read_likelihood(part, example, 2, model.config.problem_type, bool(samples.shifted))
        items.append(likelihood.labelled.sum())
        terms = samples.terms({**part, "loss": torch.tensor(torch.nan)}, example)
        found.append(torch.stack([terms.task_loss, terms.consistency]))
    weights = torch.stack(items) / sum(items)
    torch.testing.assert_close(
        torch.stack([whole.task_loss, whole.consistency]), (torch.stack(found) * weights[:, None]).sum(0)
    )
    assert whole.consistency > 0


def test_vanishing_noise_gives_the_loss_of_the_plain_model(kind):
    model, batch = kind
    hf_bam.patch(model, k=1e7)
    samples = SampleLoss(model, consistency=1.0, num_train_samples=2)
    terms = samples.terms(model(**samples.expand(batch)), batch)
    expected = hf_bam.unpatch(model)(**batch).loss
    torch.testing.assert_close(terms.task_loss, expected, rtol=1e-3, atol=1e-4)
    assert terms.consistency < 1e-6


def test_the_kl_is_a_mean_over_the_samples():
    torch.manual_seed(0)
    model, batch = hf_bam.patch(bert(), k=2.0, layers=[0]).train(), classification()
    one = model(**batch).kl
    many = model(**SampleLoss(model, num_train_samples=4).expand(batch)).kl
    torch.testing.assert_close(one, many)  # that of the first layer does not depend on the noise


@pytest.mark.parametrize("source", ["attention", "dropout", "both"])
def test_two_samples_are_independent(source):
    """By attention noise and by dropout: every row of the expanded batch has its own."""
    torch.manual_seed(0)
    model = bert(initializer_range=0.3, **({} if source == "attention" else DROPOUT))
    model = (model if source == "dropout" else hf_bam.patch(model)).train()
    batch = {name: x[:1].repeat(4, *[1] * (x.dim() - 1)) for name, x in classification().items()}
    samples = SampleLoss(model, consistency=0.5)
    output = model(**samples.expand(batch))
    assert len(output.logits.unique(dim=0)) == 8
    terms = samples.terms(output, batch)
    p = [Categorical(logits=x) for x in output.logits.reshape(2, 4, -1)]
    expected = torch.stack([kl_divergence(one, other) for one, other in itertools.permutations(p, 2)]).mean()
    torch.testing.assert_close(terms.consistency, expected)
    torch.testing.assert_close(terms.task_loss, output.get("task_loss", output.loss))


def test_one_sample_is_the_ordinary_loss():
    model, batch = bert().train(), classification()
    samples = SampleLoss(model)
    output = model(**samples.expand(batch))
    assert samples.copies == 1
    assert torch.equal(samples.terms(output, batch).task_loss, model(**batch).loss)


def test_padding_does_not_count():
    """Neither in the labels of tokens, nor among the tokens that may begin an answer."""
    for name in ("tokens", "questions", "translation"):
        torch.manual_seed(0)
        build, make = KINDS[name]
        model, batch = build().double(), make()
        samples = SampleLoss(hf_bam.patch(model, k=1.0), consistency=1.0)
        output = dict(model.eval()(**samples.expand(batch)).items())
        pairs = {key: x + torch.randn_like(x) for key, x in output.items() if key.endswith("logits")}
        found = []
        for _ in range(2):
            found.append(samples.terms({**pairs, "loss": torch.tensor(torch.nan)}, batch).consistency)
            hidden = batch["labels"] == -100 if "labels" in batch else batch["attention_mask"] == 0
            hidden = hidden.repeat(2, 1)
            pairs = {key: change(x, hidden) for key, x in pairs.items()}
        torch.testing.assert_close(*found)


def change(logits, hidden):
    """Return other logits where tokens are hidden, (2 * B, L) or (2 * B, L, C)."""
    hidden = hidden if logits.dim() == 2 else hidden[..., None]
    return torch.where(hidden, torch.randn_like(logits), logits)


def test_labels_of_the_next_token_are_found():
    torch.manual_seed(0)
    model, batch = hf_bam.patch(gpt2()).train(), language_model()
    samples = SampleLoss(model, num_train_samples=2)
    samples.terms(model(**samples.expand(batch)), batch)
    assert samples.shifted is True
    model, batch = hf_bam.patch(marian()).train(), translation()
    samples = SampleLoss(model, num_train_samples=2)
    samples.terms(model(**samples.expand(batch)), batch)
    assert samples.shifted is False


def test_another_loss_of_the_model_raises():
    model, batch = hf_bam.patch(bert()).train(), classification()
    samples = SampleLoss(model, num_train_samples=2)
    output = model(**samples.expand(batch))
    output["task_loss"] = 2 * output.task_loss  # weights of classes, for instance
    with pytest.raises(
        ValueError, match=r"num_train_samples=2 is not possible: the loss of BertFor.* is not the mean"
    ):
        samples.terms(output, batch)
    samples = SampleLoss(model, consistency=1.0)  # compares predictions, whatever the loss
    assert samples.terms(output, batch).consistency > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"consistency": 1.0}, r"consistency=1.0 and dropout=0 cannot be combined in a BertForSequenceClassification"),
        ({"num_train_samples": 2}, "num_train_samples=2 and dropout=0 cannot be combined"),
        ({"consistency": -1.0}, r"SampleLoss.consistency=-1.0 is not valid; it must be a number, 0 or above"),
        ({"num_train_samples": 0}, r"SampleLoss.num_train_samples=0 is not valid"),
    ],
)
def test_options_without_effect_raise(options, words):
    with pytest.raises(ValueError, match=words):
        SampleLoss(bert(), **options)


def test_labels_that_do_not_fit_raise():
    model, batch = hf_bam.patch(bert()).train(), classification()
    samples = SampleLoss(model, consistency=1.0)
    output = model(**samples.expand(batch))
    with pytest.raises(ValueError, match=r"inputs input_ids, attention_mask and the outputs .* have no labels"):
        samples.terms(output, {name: x for name, x in batch.items() if name != "labels"})
    with pytest.raises(ValueError, match=r"labels of shape \(3, 2\) and torch.int64 are no classes"):
        samples.terms(output, {**batch, "labels": torch.ones(3, 2, dtype=torch.int64)})
