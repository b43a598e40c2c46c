"""The KL is trained whoever computes the loss, once, and as strongly as if it had been added to that loss."""

import copy
import gc
import inspect
import weakref

import peft
import pytest
import torch
from accelerate import Accelerator
from torch.nn.functional import cross_entropy, log_softmax

import hf_bam
from hf_bam.patching import backward as module
from hf_bam.patching.backward import loss_scale
from hf_bam.training.loop import make_accelerator
from hf_bam.training.recipe import Recipe

from ..models import bert, bert2bert, classification, gpt2, language_model, marian, translation


def patched(build=bert, **settings):
    return hf_bam.patch(
        build(), **{"kl_weight": 0.5, **({} if "family" in settings else {"beta": 10.0}), **settings}
    ).train()


def gradients(model, run):
    """Return the gradient of every parameter after `run(model)`, which draws the same noise each time."""
    model.zero_grad()
    torch.manual_seed(7)
    run(model)
    return {name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}


def assert_same(actual, expected, factor=1.0):
    assert any(gradient.abs().max() > 1e-6 for name, gradient in expected.items() if ".bam." in name)
    for name, gradient in expected.items():
        torch.testing.assert_close(actual[name], factor * gradient, atol=1e-6, rtol=1e-4, msg=name)


def split(batch):
    return {name: x for name, x in batch.items() if name != "labels"}, batch["labels"]


def explicit(batch):
    """The way of the README: the KL is added to a loss of one's own."""
    inputs, labels = split(batch)

    def run(model):
        out = model(**inputs)
        (cross_entropy(out.logits, labels) + out.kl_loss).backward()

    return run


def own_logits(model, batch, finish):
    inputs, labels = split(batch)
    finish(cross_entropy(model(**inputs).logits, labels)).backward()


FINISHES = {
    "as it is": (lambda loss: loss, 1.0),
    "divided": (lambda loss: loss / 4, 0.25),
    "multiplied": (lambda loss: 0.25 * loss, 0.25),
    "scaled for half precision": (lambda loss: torch.amp.GradScaler("cpu", 1024.0).scale(loss / 4), 256.0),
    "copied": (lambda loss: loss.clone().double() / torch.tensor(2.0), 0.5),
}


@pytest.mark.parametrize("finish", FINISHES)
@pytest.mark.parametrize("settings", [{}, {"noise": "key"}, {"prior": "fixed"}, {"family": "lognormal"}], ids=str)
def test_a_loss_of_the_logits_trains_the_kl(finish, settings):
    model, batch = patched(**settings), classification()
    scale, factor = FINISHES[finish]
    expected = gradients(model, explicit(batch))
    actual = gradients(model, lambda model: own_logits(model, batch, scale))
    for name, gradient in expected.items():
        torch.testing.assert_close(actual[name], factor * gradient, atol=1e-6 * max(1, factor), rtol=1e-4, msg=name)
    without = gradients(model, lambda model: own_logits(hf_bam.patch(model, kl_weight=0.0), batch, scale))
    assert any(not torch.allclose(without[n], actual[n], rtol=1e-2, atol=1e-5) for n in actual if "key" in n)


def by_added_kl(model, batch):
    inputs, labels = split(batch)
    out = model(**inputs)
    (cross_entropy(out.logits, labels) + out.kl_loss).backward()


def by_function(model, batch):
    inputs, labels = split(batch)
    out = model(**inputs)
    (cross_entropy(out.logits, labels) + hf_bam.kl_loss(model)).backward()


def by_unweighted_kl(model, batch):
    inputs, labels = split(batch)
    out = model(**inputs)
    (cross_entropy(out.logits, labels) + 0.5 * out.kl).backward()


def by_returned_loss(model, batch):
    model(**batch).loss.backward()


def by_tuple(model, batch):
    model(**batch, return_dict=False)[0].backward()


def by_logits_of_a_tuple(model, batch):
    cross_entropy(model(**batch, return_dict=False)[1], batch["labels"]).backward()


def by_task_loss(model, batch):
    model(**batch).task_loss.backward()


def by_terms(model, batch):
    out = model(**batch)
    (out.task_loss + out.kl_loss).backward()


def by_sum_over_the_batch(model, batch):
    inputs, labels = split(batch)
    (cross_entropy(model(**inputs).logits, labels, reduction="sum") / len(labels)).backward()


def by_hand(model, batch):
    inputs, labels = split(batch)
    terms = -log_softmax(model(**inputs).logits, dim=-1)[torch.arange(len(labels)), labels]
    (terms.sum() / torch.tensor(len(labels))).backward()


def by_changed_logits(model, batch):
    inputs, labels = split(batch)
    cross_entropy(model(**inputs).logits.mul_(2).mul_(0.5), labels).backward()


def by_two_passes(model, batch):
    inputs, labels = split(batch)
    loss = cross_entropy(model(**inputs).logits, labels)
    (loss / 2).backward(retain_graph=True)
    # The KL went with the first one.
    (loss / 2).backward()


def by_accelerate(model, batch):
    inputs, labels = split(batch)
    Accelerator().backward(cross_entropy(model(**inputs).logits, labels))


WAYS = [
    by_added_kl,
    by_function,
    by_unweighted_kl,
    by_returned_loss,
    by_tuple,
    by_logits_of_a_tuple,
    by_task_loss,
    by_terms,
    by_sum_over_the_batch,
    by_hand,
    by_changed_logits,
    by_accelerate,
]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_a_loss_gives_the_same_gradient(way):
    model, batch = patched(), classification()
    assert_same(gradients(model, lambda model: way(model, batch)), gradients(model, explicit(batch)))


def test_two_backward_passes_of_one_forward_train_the_kl_once():
    model, batch = patched(), classification()
    prior = [name for name, _ in model.named_parameters() if ".bam." in name]
    whole, parts = (gradients(model, run) for run in (explicit(batch), lambda model: by_two_passes(model, batch)))
    for name in prior:
        torch.testing.assert_close(parts[name], 0.5 * whole[name], atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("wrapped", [False, True], ids=["plain loop", "accelerate"])
def test_gradient_accumulation_gives_the_mean(wrapped):
    model = patched()
    batches = [classification() for _ in range(3)]
    accelerator = Accelerator(gradient_accumulation_steps=3)
    own = torch.optim.SGD(model.parameters(), lr=0.0)

    def accumulated(model):
        prepared, optimizer = accelerator.prepare(model, own) if wrapped else (model, own)
        for batch in batches:
            inputs, labels = split(batch)
            if wrapped:
                with accelerator.accumulate(prepared):
                    accelerator.backward(cross_entropy(prepared(**inputs).logits, labels))
                    optimizer.step()
            else:
                (cross_entropy(model(**inputs).logits, labels) / 3).backward()

    def together(model):
        losses = []
        for batch in batches:
            inputs, labels = split(batch)
            out = model(**inputs)
            losses.append(cross_entropy(out.logits, labels) + out.kl_loss)
        torch.stack(losses).mean().backward()

    assert_same(gradients(model, accumulated), gradients(model, together))


@pytest.mark.parametrize(
    ("build", "batch"),
    [(gpt2, language_model), (marian, translation), (bert2bert, translation)],
    ids=["gpt2", "marian", "bert2bert"],
)
def test_losses_over_tokens(build, batch):
    model, batch = patched(build), batch()

    def own(model):
        logits = model(**batch).logits
        targets = batch["labels"]
        if build is gpt2:
            logits, targets = logits[:, :-1], targets[:, 1:]
        cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()

    assert_same(gradients(model, own), gradients(model, lambda model: model(**batch).loss.backward()))


def test_an_encoder_that_runs_by_itself_keeps_its_kl():
    model, batch = patched(marian), translation()

    def apart(model):
        states = model.get_encoder()(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
        out = model(encoder_outputs=states, attention_mask=batch["attention_mask"], labels=batch["labels"])
        cross_entropy(out.logits.flatten(0, 1), batch["labels"].flatten()).backward()

    found = gradients(model, apart)
    reached = {name.split(".")[1] for name, gradient in found.items() if ".bam." in name and gradient.any()}
    assert reached == {"encoder", "decoder"}


def test_a_model_around_a_patched_one():
    model, batch = bert(), classification()
    hf_bam.patch(model.bert, kl_weight=0.5, beta=10.0)
    model.train()
    inputs, labels = split(batch)

    def expected(model):
        loss = cross_entropy(model(**inputs).logits, labels)
        (loss + hf_bam.kl_loss(model)).backward()

    assert_same(gradients(model, lambda model: model(**batch).loss.backward()), gradients(model, expected))


@pytest.mark.parametrize("noise", ["entry", "key"])
def test_gradient_checkpointing(noise):
    model, batch = patched(noise=noise), classification()
    expected = gradients(model, explicit(batch))
    model.gradient_checkpointing_enable({"use_reentrant": False})
    assert_same(gradients(model, lambda model: own_logits(model, batch, lambda loss: loss)), expected)


def test_peft():
    model, batch = patched(), classification()
    adapters = peft.LoraConfig(target_modules=["query"], modules_to_save=["prior", "classifier"], task_type="SEQ_CLS")
    model = peft.get_peft_model(model, adapters)
    assert_same(
        {n: g for n, g in gradients(model, lambda model: own_logits(model, batch, lambda x: x)).items() if g.any()},
        {n: g for n, g in gradients(model, explicit(batch)).items() if g.any()},
    )


def test_mixed_precision_of_accelerate():
    model, batch = patched(k=1e6), classification()
    accelerator = make_accelerator(Recipe(precision="bf16"))
    prepared = accelerator.prepare(model)
    inputs, labels = split(batch)

    def own(_):
        accelerator.backward(cross_entropy(prepared(**inputs).logits, labels))

    def added(_):
        out = prepared(**inputs)
        accelerator.backward(cross_entropy(out.logits, labels) + out.kl_loss)

    assert_same(gradients(model, own), gradients(model, added))


def test_second_derivatives_still_exist():
    model, batch = patched(k=1e6), classification()
    inputs, labels = split(batch)
    loss = cross_entropy(model(**inputs).logits, labels)
    weight = model.classifier.weight
    (gradient,) = torch.autograd.grad(loss, weight, create_graph=True)
    gradient.square().sum().backward()
    assert weight.grad.isfinite().all()
    assert weight.grad.any()


def test_other_roots_of_a_backward_pass():
    """Several tensors with gradients of their own, and edges of the graph, which have no value to look at."""
    model, batch = patched(), classification()
    inputs, labels = split(batch)

    def several(model):
        out = model(**inputs)
        loss = cross_entropy(out.logits, labels)
        torch.autograd.backward([loss, 2 * out.logits.sum()], [None, torch.tensor(0.0)])

    assert_same(gradients(model, several), gradients(model, explicit(batch)))
    out = model(**inputs)
    edge = torch.autograd.graph.get_gradient_edge(cross_entropy(out.logits, labels))
    torch.autograd.backward(edge, torch.tensor(1.0))
    assert model._bam.tally.trained == 2  # what an edge leaves out is found at the optimizer step


def test_what_is_logged_is_what_was_trained():
    model, batch = patched(), classification()
    inputs, labels = split(batch)
    model(**batch)  # nobody differentiates this one
    torch.manual_seed(1)
    first = model(**batch)
    first.loss.backward()
    second = model(**inputs)
    cross_entropy(second.logits, labels).backward()
    means = model._bam.runtime.meter.pop()
    torch.testing.assert_close(means["kl_loss"], (first.kl_loss + second.kl_loss).detach() / 2)
    torch.testing.assert_close(means["task_loss"], first.task_loss.detach())


def test_nothing_is_kept_of_a_forward_that_is_not_differentiated():
    model, batch = patched(), classification()
    gc.collect()
    before, made = set(module._live), weakref.WeakSet()
    for _ in range(3):
        model(**batch)
        made.update(set(module._live) - before)
    model(**batch)
    gc.collect()
    assert not made


def step_with(model, run):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    run(model)
    optimizer.step()


def test_a_loss_beside_the_outputs_is_an_error_that_tells_the_way_out():
    model, batch = patched(), classification()
    outputs = []
    model.bert.encoder.layer[0].register_forward_hook(lambda module, args, output: outputs.append(output))

    def beside(model):
        model(**batch)
        outputs[-1].square().mean().backward()

    with pytest.raises(RuntimeError, match=r"KL of this Bert\w+ was not trained.*loss \+ hf_bam.kl_loss\(model\)"):
        step_with(model, beside)

    def mended(model):
        model(**batch)
        (outputs[-1].square().mean() + hf_bam.kl_loss(model)).backward()

    step_with(model, mended)


def test_layers_that_are_called_one_by_one_are_an_error():
    model = patched()
    hidden = torch.randn(2, 5, 32)

    def alone(model):
        for layer in model.bert.encoder.layer:
            layer(hidden)[0].square().mean().backward()

    with pytest.raises(RuntimeError, match="its layers were called one by one"):
        step_with(model, alone)
    step_with(hf_bam.patch(model, prior="none"), alone)


def test_the_method_forward_is_the_model():
    model, batch = patched(), classification()
    signature = inspect.signature(bert().forward)
    assert inspect.signature(model.forward) == signature
    direct, called = (
        gradients(model, lambda model, run=run: run(model)(**batch).loss.backward())
        for run in (
            lambda model: model.forward,
            lambda model: model,
        )
    )
    assert_same(direct, called)
    copied = copy.deepcopy(model)
    assert copied.forward.__self__ is copied
    assert "forward" not in vars(hf_bam.unpatch(model))


def test_unpatching_leaves_the_forward_of_somebody_else():
    """Trainers and Accelerate put one on the model after it was patched, and may call ours from it."""
    model, batch = patched().eval(), classification()
    expected, ours = model(**batch).logits, model.forward
    model.forward = lambda **inputs: ours(**inputs)
    theirs = model.forward
    hf_bam.unpatch(model)
    assert model.forward is theirs
    torch.testing.assert_close(model(**batch).logits, expected)


def test_a_frozen_body_with_a_head_of_ones_own_is_an_error():
    body = patched(lambda: bert().bert)
    for name, parameter in body.named_parameters():
        parameter.requires_grad_(".bam." in name)
    head = torch.nn.Linear(32, 3)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
    inputs, labels = split(classification())
    cross_entropy(head(body(**inputs).pooler_output), labels).backward()
    with pytest.raises(RuntimeError, match="KL of this BertModel was not trained"):
        optimizer.step()


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_a_compiled_model_with_a_loss_of_ones_own_is_an_error():
    torch._dynamo.reset()
    model, batch = patched(lambda: bert(num_hidden_layers=1)), classification()
    forward = torch.compile(model, backend="aot_eager")
    with pytest.raises(RuntimeError, match="or the model is compiled"):
        step_with(model, lambda model: own_logits(forward, batch, lambda loss: loss))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_a_compiled_model_with_its_own_loss_trains():
    torch._dynamo.reset()
    model, batch = patched(lambda: bert(num_hidden_layers=1)), classification()
    forward = torch.compile(model, backend="aot_eager")
    step_with(model, lambda model: forward(**batch).loss.backward())


def test_forwards_without_gradient_and_other_models_are_left_alone():
    model, batch = patched(), classification()
    with torch.no_grad():
        model(**batch)
    other = torch.nn.Linear(2, 2)
    step_with(other, lambda other: other(torch.ones(1, 2)).sum().backward())
    step_with(model, lambda model: model(**batch).loss.backward())


@pytest.mark.parametrize(
    ("finish", "scale"),
    [
        (lambda x: x.mean(), 1.0),
        (lambda x: x.mean() / 8, 0.125),
        (lambda x: 3 * (x.mean() / 2), 1.5),
        (lambda x: -x.mean(), 1.0),
        (lambda x: (-x).mean() / -2, 0.5),
        (lambda x: x.sum() / 10, 1.0),
        (lambda x: x.sum() / torch.tensor(10) / 4, 0.25),
        (lambda x: x.mean() * x.sum(), 1.0),
        (lambda x: x.mean() / 2 + x.sum() / 2, 1.0),
    ],
)
def test_the_scale_of_a_loss(finish, scale):
    assert loss_scale(finish(torch.ones(10, requires_grad=True))) == pytest.approx(scale)
