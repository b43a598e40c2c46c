"""Peak memory: of a training step, and of attention alone as the text grows."""

from attention import LENGTHS, WAYS, attention_pass
from measure import peak_memory
from shapes import KINDS, training_step


def steps(model, kind, batch, length):
    """Two steps: the optimizer makes its state in the first."""
    step = training_step(model, kind, batch, length)
    return lambda: (step(), step())


def study():
    peaks = {kind: peak_memory(steps, "BERT-base", kind, 2, 512) for kind in KINDS}
    ratio = {kind: round(peak["peak"] / peaks["plain"]["peak"], 3) for kind, peak in peaks.items()}
    case = {"what": "training step", "model": "BERT-base", "batch": 2, "tokens": 512, "to reach": {"BAM": 1.10}}
    yield {**case, "megabytes": peaks, "ratio": ratio}
    for tokens in (n for n in LENGTHS if n >= 512):
        ways = [way for way, longest in WAYS.items() if tokens <= longest]
        yield {
            "what": "attention",
            "tokens": tokens,
            "megabytes": {way: peak_memory(attention_pass, way, tokens) for way in ways},
        }
