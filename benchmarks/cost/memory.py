"""Peak memory of a training step, and of attention alone by number of tokens."""

from .attention import LENGTHS, LONGEST, attention_pass
from .measure import peak_memory
from .shapes import KINDS, training_step


def two_steps(model, kind, batch, tokens):
    """Return a function that makes two steps: the optimizer creates its state in the first one."""
    step = training_step(model, kind, batch, tokens)
    return lambda: (step(), step())


def rows():
    peaks = {kind: peak_memory(two_steps, "BERT-base", kind, 2, 512) for kind in KINDS}
    ratio = {kind: round(peak["peak"] / peaks["plain"]["peak"], 3) for kind, peak in peaks.items()}
    case = {"what": "training step", "model": "BERT-base", "batch": 2, "tokens": 512, "target": {"BAM": 1.10}}
    yield {**case, "megabytes": peaks, "ratio": ratio}
    for tokens in (n for n in LENGTHS if n >= 512):
        kinds = [kind for kind, longest in LONGEST.items() if tokens <= longest]
        megabytes = {kind: peak_memory(attention_pass, kind, tokens) for kind in kinds}
        yield {"what": "attention", "tokens": tokens, "megabytes": megabytes}
