"""Generation with sampled attention against plain generation, and hypotheses with and without a shared encoder.

One thread, and the time of the processor rather than of the clock, so that other programs of the machine disturb less.
"""

import time
from functools import partial

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import hf_bam
from hf_bam.prediction import Bam
from hf_bam.prediction.batched import repeat_all, sample_seeds

from .measure import interleaved
from .shapes import build

BATCH, SOURCE, NEW, REPETITIONS = 8, 20, 10, 9
BEAMS = (1, 4)
HYPOTHESES, LONG_SOURCE = 8, 64
TARGET = {"BAM, one sample": round(1 / 0.9, 2)}
"""Largest ratio of the times: 0.9 of the tokens per second of plain generation."""


def marian(kind, **settings):
    return without_end(build("Marian", kind, **settings))


def gpt2(kind):
    """Return a decoder with six layers of width 512."""
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=6, n_embd=512, n_head=8, vocab_size=20000, pad_token_id=0))
    return without_end(model if kind == "plain" else hf_bam.patch(model))


def without_end(model):
    """Return the model in evaluation mode; its texts have the length that is asked for."""
    model.generation_config.eos_token_id = None
    return model.eval()


MODELS = {"Marian": marian, "GPT-2, 6 layers": gpt2}


def inputs(batch, length):
    ids = torch.randint(1000, 15000, (batch, length), generator=torch.Generator().manual_seed(0))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def options(beams):
    return {"max_new_tokens": NEW, "min_new_tokens": NEW, "num_beams": beams, "do_sample": False}


def sampled(model, beams):
    with hf_bam.sampling(model, seed=0, fixed=True):
        model.generate(**inputs(BATCH, SOURCE), **options(beams))


def hypotheses(model, shared):
    """Generate hypotheses with stochastic attention to the encoder, which is deterministic."""
    batch, seeds, sampler = inputs(1, LONG_SOURCE), torch.zeros(1, dtype=torch.int64), Bam(model)
    with torch.no_grad():
        if shared:
            sampler.hypotheses(batch, HYPOTHESES, seeds, options(1))
        else:
            with sampler.noise(sample_seeds(seeds, torch.arange(HYPOTHESES))):
                model.generate(**repeat_all(batch, HYPOTHESES), **options(1))


def rows():
    torch.set_num_threads(1)
    for name, make in MODELS.items():
        plain, bam = make("plain"), make("BAM")
        for beams in BEAMS:
            runs = {
                "plain": partial(plain.generate, **inputs(BATCH, SOURCE), **options(beams)),
                "BAM, mean": partial(bam.generate, **inputs(BATCH, SOURCE), **options(beams)),
                "BAM, one sample": partial(sampled, bam, beams),
            }
            result = interleaved(runs, REPETITIONS, clock=time.process_time)
            speed = {kind: round(BATCH * NEW / seconds[1], 1) for kind, seconds in result["seconds"].items()}
            case = {"what": "generation", "model": name, "batch": BATCH, "beams": beams, "new_tokens": NEW}
            yield {**case, "target": TARGET, "tokens_per_second": speed, **result}
    model = marian("BAM", attention="cross")
    runs = {"encoder repeated": partial(hypotheses, model, False), "encoder shared": partial(hypotheses, model, True)}
    case = {"what": "hypotheses", "model": "Marian", "number": HYPOTHESES, "source": LONG_SOURCE, "new_tokens": NEW}
    yield {**case, **interleaved(runs, REPETITIONS, clock=time.process_time)}
