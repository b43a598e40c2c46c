"""How cost grows: with the length of a text, with the number of draws, with the number of stochastic layers."""

import numpy as np
import torch
from attention import LENGTHS, WAYS, attention_pass
from measure import interleaved
from shapes import batch_for, build, training_step

from hf_bam.prediction.batched import draw

REPETITIONS = 5
DRAWS = (1, 2, 4, 8, 16, 32, 64)
LAYERS = (3, 6, 12)


def exponent(sizes, seconds):
    """The slope of log seconds against log size."""
    return round(float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]), 2)


def with_length():
    medians = {way: {} for way in WAYS}
    for tokens in LENGTHS:
        runs = {way: attention_pass(way, tokens) for way, longest in WAYS.items() if tokens <= longest}
        result = interleaved(runs, REPETITIONS)
        for way in runs:
            medians[way][tokens] = result["seconds"][way][1]
        yield {"against": "tokens", "tokens": tokens, **result}
    for way, times in medians.items():
        long = [n for n in times if n >= 512]
        yield {"against": "tokens", "way": way, "from": 512, "exponent": exponent(long, [times[n] for n in long])}


def with_draws():
    model = build("BERT-base", "BAM").eval()
    batch = {name: x for name, x in batch_for("BERT-base", 1, 128).items() if name != "labels"}
    with torch.inference_mode():
        result = interleaved(
            {str(n): lambda n=n: draw(model, batch, n, 8192, torch.zeros(1, dtype=torch.int64)) for n in DRAWS}, 3
        )
    yield {"against": "draws", **result}
    medians = [result["seconds"][str(n)][1] for n in DRAWS]
    yield {"against": "draws", "exponent": exponent(DRAWS, medians)}


def with_layers():
    runs = {"0": training_step("BERT-base", "plain", 2, 512)}
    runs |= {str(n): training_step("BERT-base", "BAM", 2, 512, layers=n) for n in LAYERS}
    yield {"against": "layers", **interleaved(runs, REPETITIONS)}


def study():
    yield from with_length()
    yield from with_draws()
    yield from with_layers()
