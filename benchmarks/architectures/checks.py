"""Checks of a patched model against the plain model, for any architecture."""

import copy
from contextlib import contextmanager

import torch

import hf_bam

from .tiny import BOS, LABELS, PAD, NotBuilt, batch

TOLERANCE = 1e-4
"""Largest allowed difference, in standard deviations of the plain model's logits."""
PADDINGS = ("none", "right", "left")
NEW_TOKENS = 5


class Skipped(Exception):
    """Raised by a check that the plain model does not pass."""


class Wrong(Exception):
    """Raised by a check that the patched model does not pass."""


def check(model, task):
    """Patch a model and return its status with the reasons for it.

    The status is "passed", "unsupported" with the message of the error, or "failed" with the reason of each failed
    check. Checks that the plain model does not pass are skipped and listed.

    Raises:
        NotBuilt: if the plain model does not run on token ids alone.
    """
    plain = copy.deepcopy(model)
    try:
        hf_bam.patch(model, k=1.0)
    except hf_bam.UnsupportedModelError as error:
        return {"status": "unsupported", "reason": str(error)}
    except Exception as error:
        return {"status": "failed", "failures": {"patch": describe(error)}}
    try:
        expected = {padding: logits(plain, padding) for padding in PADDINGS}
    except Exception as error:
        raise NotBuilt(describe(error)) from error
    failures, skipped = {}, {}
    for name, run in CHECKS.items():
        try:
            run(model.eval(), plain.eval(), expected, task)
        except Skipped as error:
            skipped[name] = str(error)
        except Exception as error:
            failures[name] = describe(error)
    about = {"status": "failed", "failures": failures} if failures else {"status": "passed"}
    return about | ({"skipped": skipped} if skipped else {})


def describe(error):
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, Wrong | Skipped) else f"{type(error).__name__}: {text}"


@torch.no_grad()
def logits(model, padding):
    """Return the logits of all non-padding positions, (positions, classes)."""
    inputs = batch(model, padding)
    torch.manual_seed(2)
    found = model(**inputs).logits
    mask = inputs.get("decoder_attention_mask", inputs.get("attention_mask"))
    if mask is not None and found.shape[:2] == mask.shape:
        return found[mask.bool()]
    return found.flatten(0, -2)


def distance(found, expected):
    """Return the largest difference, in standard deviations of the expected values."""
    if found.shape != expected.shape:
        raise Wrong(f"shape {tuple(found.shape)} instead of {tuple(expected.shape)}")
    if not torch.isfinite(expected).all():
        raise Skipped("the plain model gives nan")
    if not torch.isfinite(found).all():
        return float("inf")
    return ((found - expected).abs().max() / expected.std()).item()


def mean_mode(model, plain, expected, task):
    for padding in PADDINGS:
        if not (far := distance(logits(model, padding), expected[padding])) < TOLERANCE:
            raise Wrong(f"padding {padding}: off by {far:.1g} standard deviations of the logits")


@contextmanager
def without_noise(model):
    """Sample with vanishing noise."""
    hf_bam.patch(model, k=1e7)
    try:
        with hf_bam.sampling(model):
            yield
    finally:
        hf_bam.patch(model, k=1.0)


def vanishing_noise(model, plain, expected, task):
    with without_noise(model):
        mean_mode(model, plain, expected, task)


def noise(model, plain, expected, task):
    """Check that samples differ from each other."""
    with hf_bam.sampling(model, seed=0):
        first, second = logits(model, "right"), logits(model, "right")
    if not torch.isfinite(first).all():
        raise Wrong("a sample is not finite")
    if not distance(second, first) > TOLERANCE:
        raise Wrong("two samples are the same")


@torch.no_grad()
def generated(model):
    """Return the tokens of a greedy search."""
    side = "right" if model.config.is_encoder_decoder else "left"
    inputs = {name: value for name, value in batch(model, side).items() if not name.startswith("decoder_")}
    length = {"max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS}
    greedy = {"do_sample": False, "num_beams": 1, "num_return_sequences": 1}
    torch.manual_seed(2)
    return model.generate(**inputs, **length, **greedy, pad_token_id=PAD, decoder_start_token_id=BOS)


def generation(model, plain, expected, task):
    if task in ("sequence classification", "masked LM"):
        return
    try:
        tokens = generated(plain)
    except Exception as error:
        raise Skipped(f"generate of the plain model: {describe(error)}") from error
    if not torch.equal(generated(model), tokens):
        raise Wrong("mean mode generates other tokens")
    with without_noise(model):
        if not torch.equal(generated(model), tokens):
            raise Wrong("vanishing noise generates other tokens")


def leak(model, padding="none", seed=None):
    """Return the change of earlier logits with the last token of the decoder, in standard deviations."""
    inputs = batch(model, padding)
    name = "decoder_input_ids" if "decoder_input_ids" in inputs else "input_ids"
    other = inputs[name].clone()
    other[:, -1] = 4 + (other[:, -1] + 1) % 40
    with torch.no_grad():
        first, second = (seeded(model, inputs | {name: ids}, seed)[:, :-1] for ids in (inputs[name], other))
    mask = inputs.get("decoder_attention_mask", inputs.get("attention_mask"))
    kept = slice(None) if mask is None else mask[:, :-1].bool()
    return distance(second[kept], first[kept])


def seeded(model, inputs, seed):
    torch.manual_seed(2)
    if seed is None:
        return model(**inputs).logits
    with hf_bam.sampling(model, seed=seed):
        return model(**inputs).logits


def causality(model, plain, expected, task):
    """Check that no position attends to a later token."""
    if task in ("sequence classification", "masked LM"):
        return
    for padding in ("none", "left"):
        if not leak(plain, padding) < TOLERANCE:
            raise Skipped("the plain model is not causal")
        for mode, seed in (("mean mode", None), ("sampling", 0)):
            if not (far := leak(model, padding, seed)) < TOLERANCE:
                raise Wrong(f"{mode}, padding {padding}: a later token moves earlier logits by {far:.1g} deviations")


def training_inputs(model, task):
    """Return a padded batch with labels, without the decoder inputs, which the model derives from the labels."""
    inputs = batch(model, "right")
    side = "decoder_" if "decoder_input_ids" in inputs else ""
    labels = inputs[f"{side}input_ids"].where(inputs[f"{side}attention_mask"].bool(), -100)
    if task == "sequence classification":
        labels = torch.arange(len(labels)) % LABELS
    elif hasattr(model.config, "num_codebooks"):
        labels = labels[..., None]
    return {name: value for name, value in inputs.items() if not name.startswith("decoder_")} | {"labels": labels}


def train(model, inputs):
    torch.manual_seed(2)
    return model.train()(**inputs)


def kl(model, plain, expected, task):
    """Check that the KL of a training step is positive and has a gradient for the prior of every module that ran."""
    inputs = training_inputs(model, task)
    try:
        train(plain, inputs).loss.backward()
    except Exception as error:
        raise Skipped(f"training of the plain model: {describe(error)}") from error
    out = train(model, inputs)
    if not torch.isfinite(out.kl) or not out.kl > 0:
        raise Wrong(f"kl = {out.kl.item()}")
    out.loss.backward()
    # Modules without a gradient did not run: a batch of text does not use the attention of a vision encoder.
    ran = [m for m in model.modules() if hasattr(m, "bam") and any(p.grad is not None for p in own_parameters(m))]
    gradients = {module: [p.grad for p in module.bam.prior.parameters()] for module in ran}
    for module, found in gradients.items():
        if any(gradient is None for gradient in found):
            raise Wrong(f"no gradient for the prior of {type(module).__name__}")
    if not any(gradient.any() for found in gradients.values() for gradient in found):
        raise Wrong("no gradient for any prior")
    # Padding must not change the KL if it does not change the logits of the plain model.
    other = inputs | {"input_ids": inputs["input_ids"].where(inputs["attention_mask"].bool(), 7)}
    if distance(labelled(plain.eval(), other), labelled(plain, inputs)) < TOLERANCE:
        change = (train(model, other).kl / out.kl - 1).abs().item()
        if not change < TOLERANCE:
            raise Wrong(f"other tokens as padding change it by {change:.1g} of its value")


@torch.no_grad()
def labelled(model, inputs):
    """Return the logits of all positions that have a label."""
    found, labels = model(**inputs).logits, inputs["labels"]
    return found if labels.dim() == 1 else found[labels.reshape(found.shape[:2]) != -100]


def own_parameters(module):
    return [parameter for name, parameter in module.named_parameters() if not name.startswith("bam.")]


CHECKS = {
    "mean mode": mean_mode,
    "vanishing noise": vanishing_noise,
    "noise": noise,
    "generate": generation,
    "causality": causality,
    "kl": kl,
}
