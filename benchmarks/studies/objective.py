"""Task loss and KL of training rows by width of the noise: the objective that a learned k would minimise."""

import numpy as np
import torch

import hf_bam
from hf_bam.prediction.copies import dropouts
from hf_bam.training.batching import feature_lengths, sorted_batches
from hf_bam.training.evaluation import subsample

from .methods import SHAPES, with_noise

BATCH, PASSES, ROWS = 32, 2, 400


def objective(trained, rows):
    """Yield task loss and KL for each k, without dropout."""
    task, model = trained.task, trained.model
    features = task.encode(subsample(rows, ROWS), trained.tokenizer, trained.job.recipe.max_length)
    collate, config = task.collator(trained.tokenizer, model), hf_bam.get_config(model)
    batches = [collate([features[i] for i in batch]) for batch in sorted_batches(feature_lengths(features), BATCH)]
    batches = [batch for batch in batches for _ in range(PASSES)]
    sizes = [len(batch["labels"]) for batch in batches]
    for k in (20.0, 10.0, *SHAPES, 0.25):
        noisy = with_noise(model, config, k).model.train()
        for module, name, _ in dropouts(noisy):
            setattr(module, name, 0.0)
        torch.manual_seed(0)
        with torch.no_grad():
            found = [noisy(**batch) for batch in batches]
        means = {name: np.average([float(out[name]) for out in found], weights=sizes) for name in ("task_loss", "kl")}
        yield {"k": k, **means}
