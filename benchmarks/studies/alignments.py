"""Measures of the study on latent alignments: likelihood of the references, and attention."""

import copy
import math
import time
from statistics import fmean

import torch

import hf_bam
from hf_bam.evaluation.metrics import alignment_accuracy
from hf_bam.families import AlignmentFamily
from hf_bam.tasks.alignments import token_alignments
from hf_bam.training.batching import feature_lengths, sorted_batches
from hf_bam.training.evaluation import evenly
from hf_bam.training.loop import IGNORED

BATCH = 32
TIMED_STEPS = 15


def evaluate(trained, data, rows):
    """Return the measures of one run on the rows of a set, and the time of a training step."""
    task, tokenizer, model = trained.task, trained.tokenizer, trained.model.eval()
    collate, length = task.collator(tokenizer, model), trained.job.recipe.max_length
    features, with_alignments, sums = task.encode(rows, tokenizer, length), observed(model), Sums()
    truth = token_alignments(rows, tokenizer, first_only=True) if "alignment" in rows.column_names else None
    for indices in sorted_batches(feature_lengths(features), BATCH):
        batch = collate([features[i] for i in indices])
        kept = batch["labels"] != IGNORED
        with torch.inference_mode():
            sums.add("nll", model(**batch).loss, kept.sum())
        found = hf_bam.alignments(with_alignments, batch, batch["labels"])
        aligned = None if truth is None else truth[indices][:, : found.p.shape[1], : found.p.shape[2]]
        for name, weights in (("p", found.p), ("q", found.q)):
            if weights is not None:
                add_attention(sums, name, weights, kept, aligned)
    means = sums.means()
    timed = task.encode(data.train, tokenizer, length)
    batches = sorted_batches(feature_lengths(timed), BATCH)
    some = [collate([timed[i] for i in batches[n]]) for n in evenly(len(batches), TIMED_STEPS)]
    return {"perplexity": math.exp(means["nll"]), **means, "step_seconds": step_seconds(model, some)}


def add_attention(sums, name, weights, kept, aligned):
    """Add the entropy of attention weights, (B, T, S), and their accuracy where the true alignment is known.

    Args:
        kept: (B, T) target tokens that count.
        aligned: (B, T, S) the true alignment, or None.
    """
    entropy = torch.special.entr(weights).sum(dim=-1)
    sums.add(f"entropy_{name}", entropy[kept].mean(), kept.sum())
    if aligned is not None:
        sums.add(f"accuracy_{name}", alignment_accuracy(aligned, weights), aligned.any(axis=-1).sum())


def observed(model):
    """Return the model, or a copy with alignments that leave its attention as it is."""
    if hf_bam.is_patched(model) and isinstance(hf_bam.get_config(model).settings, AlignmentFamily):
        return model
    return hf_bam.patch(copy.deepcopy(model), family="categorical").eval()


def step_seconds(model, batches):
    """Return the processor time of forward and backward pass of a training step, mean over batches.

    Processor time does not depend on what else the machine does.
    """
    model, seconds = copy.deepcopy(model).train(), []
    for batch in batches:
        start = time.process_time()
        model(**batch).loss.backward()
        seconds.append(time.process_time() - start)
    return fmean(seconds)


class Sums:
    """Weighted means of measures over batches."""

    def __init__(self):
        self.totals = {}

    def add(self, name, mean, weight):
        total, weights = self.totals.get(name, (0.0, 0.0))
        self.totals[name] = total + float(mean) * float(weight), weights + float(weight)

    def means(self):
        return {name: total / weight for name, (total, weight) in self.totals.items()}
