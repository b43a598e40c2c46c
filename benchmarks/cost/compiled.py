"""Training steps under torch.compile with its default backend: seconds of processor time, and peak memory.

One thread, and the time of the processor rather than of the clock, so that other programs of the machine disturb less.
"""

import time

import torch

from .measure import interleaved, peak_memory, reset_peak
from .shapes import training_step

STEPS = (("MiniLM", 8, 64), ("MiniLM, 3 layers", 8, 64))
REPETITIONS = 25
MEMORY = ("MiniLM", 2, 512)
KINDS = ("plain", "BAM")


def compiled_step(model, kind, batch, tokens):
    """Return a compiled training step that has run twice: the optimizer has its state and everything is compiled."""
    torch.set_num_threads(1)
    step = training_step(model, kind, batch, tokens, compiled=True)
    step()
    step()
    reset_peak()
    return step


def rows():
    for model, batch, tokens in STEPS:
        runs = {kind: compiled_step(model, kind, batch, tokens) for kind in KINDS}
        case = {"what": "training step", "model": model, "batch": batch, "tokens": tokens, "target": {"BAM": 1.05}}
        yield {**case, **interleaved(runs, REPETITIONS, clock=time.process_time)}
    model, batch, tokens = MEMORY
    peaks = {kind: peak_memory(compiled_step, *(model, kind, batch, tokens)) for kind in KINDS}
    ratio = {kind: round(peak["peak"] / peaks["plain"]["peak"], 3) for kind, peak in peaks.items()}
    case = {"what": "memory", "model": model, "batch": batch, "tokens": tokens, "target": {"BAM": 1.15}}
    yield {**case, "megabytes": peaks, "ratio": ratio}
