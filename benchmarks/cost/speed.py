"""Seconds of training steps and inference: Bayesian attention against plain and naive attention."""

import gc

from .measure import interleaved
from .shapes import inference, training_step

STEPS = (
    # model, batch, tokens, kinds of attention, target of the ratio, repetitions
    ("BERT-base", 8, 128, ("plain", "BAM"), 1.10, 15),
    ("BERT-base", 2, 512, ("plain", "BAM"), 1.20, 15),
    ("ALBERT-base", 8, 128, ("plain", "BAM"), 1.10, 15),
    ("Marian", 8, 64, ("plain", "BAM"), 1.10, 15),
    ("BERT-base, dropout 0.1", 8, 128, ("plain", "BAM"), None, 7),
    ("BERT-base", 2, 512, ("BAM", "naive"), None, 5),
)
PASSES = {"BAM": 1.01, "BAM, sampled": 1.10}
"""Kinds of inference, with the targets of their ratios to plain attention."""
PASS_REPETITIONS = 41


def rows():
    for model, batch, tokens, kinds, target, repetitions in STEPS:
        runs = {kind: training_step(model, kind, batch, tokens) for kind in kinds}
        case = {"what": "training step", "model": model, "batch": batch, "tokens": tokens, "target": {"BAM": target}}
        yield {**case, **interleaved(runs, repetitions)}
        del runs
        gc.collect()
    runs = {kind: inference("BERT-base", kind, 8, 128) for kind in ("plain", *PASSES)}
    case = {"what": "inference", "model": "BERT-base", "batch": 8, "tokens": 128, "target": PASSES}
    yield {**case, **interleaved(runs, PASS_REPETITIONS)}
