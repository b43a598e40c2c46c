"""Growth of the cost with the number of tokens, of samples and of stochastic layers.

Attention alone runs on one thread and is timed by the processor, so that other programs of the machine disturb less.
"""

import time

import numpy as np
import torch

from hf_bam.prediction import Bam

from .attention import GROUPS, LENGTHS, LONGEST, attention_pass
from .measure import interleaved
from .shapes import batch_for, build, training_step

REPETITIONS = 5
SAMPLES = (1, 2, 4, 8, 16, 32, 64)
LAYERS = (3, 6, 12)


def exponent(sizes, seconds):
    """Return the slope of log seconds over log size."""
    return round(float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]), 2)


def by_tokens():
    medians, threads = {kind: {} for kind in LONGEST}, torch.get_num_threads()
    torch.set_num_threads(1)
    for tokens in LENGTHS:
        repetitions = max(REPETITIONS, 2**15 // tokens)
        found = {"seconds": {}, "ratio": {}}
        for group in GROUPS:
            runs = {kind: attention_pass(kind, tokens) for kind in group if tokens <= LONGEST[kind]}
            for name, values in interleaved(runs, repetitions, clock=time.process_time).items():
                found[name] |= values
        for kind, quartiles in found["seconds"].items():
            medians[kind][tokens] = quartiles[1]
        yield {"by": "tokens", "tokens": tokens, "target": {"BAM": 1.25}, **found}
    torch.set_num_threads(threads)
    for kind, times in medians.items():
        long = [n for n in times if n >= 512]
        yield {"by": "tokens", "attention": kind, "from": 512, "exponent": exponent(long, [times[n] for n in long])}


def by_samples():
    model = build("BERT-base", "BAM").eval()
    batch = {name: x for name, x in batch_for("BERT-base", 1, 128).items() if name != "labels"}
    seeds = torch.zeros(1, dtype=torch.int64)
    with torch.inference_mode():
        result = interleaved({str(n): lambda n=n: Bam(model).draw(batch, n, seeds) for n in SAMPLES}, 3)
    yield {"by": "samples", **result}
    medians = [result["seconds"][str(n)][1] for n in SAMPLES]
    yield {"by": "samples", "exponent": exponent(SAMPLES, medians)}


def by_layers():
    runs = {"0": training_step("BERT-base", "plain", 2, 512)}
    runs |= {str(n): training_step("BERT-base", "BAM", 2, 512, layers=n) for n in LAYERS}
    yield {"by": "layers", **interleaved(runs, REPETITIONS)}


def rows():
    yield from by_tokens()
    yield from by_samples()
    yield from by_layers()
