"""Teacher forcing: probabilities of the tokens of reference texts, each given those before it.

Each token is a classification over the vocabulary, so that likelihood and calibration are defined. They are not for
the texts that a model generates.
"""

import numpy as np
import torch

from hf_bam.attention.noise import derive
from hf_bam.evaluation import metrics
from hf_bam.evaluation.temperature import apply_temperature, fit_temperature
from hf_bam.training.batching import feature_lengths, sorted_batches
from hf_bam.training.loop import IGNORED

BATCH = 64


def token_probabilities(trained, sampler, rows, num_samples=None):
    """Return (N,) the tokens of the references, and (N, V) the probabilities of all tokens, mean over samples."""
    task, recipe, tokenizer = trained.task, trained.job.recipe, trained.tokenizer
    features = task.encode(rows, tokenizer, recipe.max_length)
    collate = task.collator(tokenizer, sampler.model)
    number = recipe.num_samples if num_samples is None else num_samples
    number = min(number, sampler.limit or number)
    probabilities, tokens = [], []
    sampler, base = sampler.ready(), torch.tensor(trained.job.seed)
    with torch.inference_mode():
        for indices in sorted_batches(feature_lengths(features), BATCH):
            batch = collate([features[i] for i in indices])
            labels = batch.pop("labels")
            seeds = derive(base, torch.tensor(indices))
            logits = (sampler.draw(batch, 1, seeds, i)["logits"][0] for i in range(number))  # (B, L, V) each
            mask = labels != IGNORED
            probabilities.append((sum(part.float().softmax(dim=-1) for part in logits) / number)[mask].numpy())
            tokens.append(labels[mask].numpy())
    return np.concatenate(tokens), np.concatenate(probabilities)


def token_measures(tokens, probabilities):
    """Return measures of classification; every token is one prediction."""
    wrong = probabilities.argmax(axis=-1) != tokens
    return {
        "token_accuracy": metrics.accuracy(tokens, probabilities),
        "token_nll": metrics.nll(tokens, probabilities),
        "token_ece": metrics.ece(tokens, probabilities),
        "token_brier": metrics.brier(tokens, probabilities),
        "token_error_auroc": metrics.error_auroc(wrong, metrics.predictive_entropy(probabilities)),
    }


def with_temperature(held_out, evaluated):
    """Return the measures of `evaluated` with the temperature that maximises the likelihood of `held_out`.

    The temperature divides the logarithms of the mean over samples.
    """
    tokens, probabilities = held_out
    temperature = fit_temperature(tokens, probabilities[None])
    tokens, probabilities = evaluated
    return {"temperature": temperature, **token_measures(tokens, apply_temperature(probabilities, temperature))}
