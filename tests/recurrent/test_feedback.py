"""Scheduled sampling: teacher forcing and free running as its limits, and the gradient of Gumbel-softmax."""

import pytest
import torch
from scipy import stats

from hf_bam.models import FEEDBACK
from hf_bam.models.feedback import predicted_embedding

from .cases import PAD, VOCABULARY, batch, build
from .reference import Decoder

LARGE = {"initializer_factor": 3.0}


@pytest.mark.parametrize("feeding", [True, False])
@pytest.mark.parametrize("feedback", FEEDBACK)
def test_rate_0_is_teacher_forcing(feedback, feeding):
    model, inputs = build(feedback=feedback, input_feeding=feeding), batch()
    expected = model(**inputs).logits
    assert torch.equal(model.train()(**inputs).logits, expected)
    model.config.scheduled_sampling = 1e-30  # goes step by step, and never chooses a prediction
    torch.testing.assert_close(model(**inputs).logits, expected)


@pytest.mark.parametrize("feeding", [True, False])
def test_rate_1_is_free_running(feeding):
    """The decoder reads nothing of the target, and with the most probable tokens it writes what `generate` does."""
    model, inputs = build(scheduled_sampling=1.0, feedback="argmax", input_feeding=feeding, **LARGE), batch((6, 4))
    logits = model.train()(**inputs).logits
    for row in range(2):
        ids = inputs["input_ids"][row][inputs["attention_mask"][row].bool()].tolist()
        decoder, token = Decoder(model, ids), PAD
        for step in range(logits.shape[1]):
            own = decoder.step(token)
            torch.testing.assert_close(logits[row, step], own)
            token = own.argmax().item()
    others = {**inputs, "labels": torch.randint(2, VOCABULARY, inputs["labels"].shape)}
    assert torch.equal(model(**others).logits, logits)
    model.generation_config.eos_token_id = None  # the target of training does not end early either
    inputs.pop("labels")
    texts = model.eval().generate(**inputs, max_new_tokens=logits.shape[1], do_sample=False)
    assert torch.equal(texts[:, 1:], logits.argmax(-1))


def test_there_is_no_feedback_in_evaluation():
    model, inputs = build(scheduled_sampling=1.0, **LARGE), batch()
    plain = build(**LARGE)
    plain.load_state_dict(model.state_dict())
    assert torch.equal(model(**inputs).logits, plain(**inputs).logits)


def test_the_rate_is_the_share_of_predictions():
    """A prediction is argmax, another token than all targets, so that the share shows in the inputs of the decoder."""
    model = build(scheduled_sampling=0.3, feedback="argmax").train()
    targets, own = torch.zeros(4000, 1, 12, dtype=torch.float64), torch.randn(4000, 1, 12, dtype=torch.float64)
    mixed = model.mixed_inputs(own, targets)
    assert stats.binomtest(int(mixed.any(-1).sum()), 4000, 0.3).pvalue > 1e-3


def test_samples_follow_the_probabilities():
    model = build(feedback="sample", vocab_size=6)
    logits = torch.randn(6, dtype=torch.float64)
    embedding = model.get_decoder().embed_tokens
    drawn = predicted_embedding(model.config, embedding, logits.expand(4000, 1, 6))
    counts = (drawn == embedding(torch.arange(6))).all(-1).sum(0)
    assert counts.sum() == 4000
    assert stats.chisquare(counts, 4000 * logits.softmax(-1)).pvalue > 1e-3


@pytest.mark.parametrize("feedback", ["gumbel", "straight-through"])
def test_gumbel_softmax_approaches_samples_of_the_same_distribution(feedback):
    model = build(feedback=feedback, vocab_size=6, gumbel_temperature=0.01)
    logits = torch.randn(6, dtype=torch.float64)
    embedding = model.get_decoder().embed_tokens
    drawn = predicted_embedding(model.config, embedding, logits.expand(4000, 1, 6))
    distances = torch.cdist(drawn[:, 0], embedding(torch.arange(6)))
    assert distances.amin(dim=1).median() < 1e-5
    assert stats.chisquare(distances.argmin(1).bincount(minlength=6), 4000 * logits.softmax(-1)).pvalue > 1e-3


def test_a_high_temperature_gives_the_mean_embedding():
    model = build(feedback="gumbel", vocab_size=6, gumbel_temperature=1e6)
    embedding = model.get_decoder().embed_tokens
    drawn = predicted_embedding(model.config, embedding, torch.randn(3, 1, 6, dtype=torch.float64))
    torch.testing.assert_close(drawn, embedding(torch.arange(6)).mean(0).expand(3, 1, 12), atol=1e-4, rtol=0)


@pytest.mark.parametrize("feedback", FEEDBACK)
def test_the_gradient_through_the_feedback(feedback):
    """Of the last logits to the logits of the step before: through Gumbel-softmax alone."""
    model = build(scheduled_sampling=1.0, feedback=feedback, input_feeding=False).train()
    seen = []
    model.lm_head.register_forward_hook(lambda module, args, output: seen.append(output))
    out = model(**batch((6, 4)))
    first = seen[0]  # of the feedback after the first step; the last call is that of the loss
    (gradient,) = torch.autograd.grad(out.logits[:, -1].sum(), first, allow_unused=True)
    has_gradient = gradient is not None and bool(gradient.abs().sum() > 0)
    assert has_gradient == (feedback in ("gumbel", "straight-through"))


def test_it_trains():
    model = build(scheduled_sampling=0.5, feedback="gumbel", hidden_size=24).train()
    inputs, losses = batch((6, 4)), []
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        loss = model(**inputs).loss
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert losses[-1] < losses[0] / 2
