"""How well a model foresees the tokens of reference translations: each a classification, given those before it.

Unlike the texts that a model writes itself, these have right answers, so likelihood and calibration can be told.
"""

import numpy as np
import torch

from hf_bam.attention.noise import derive
from hf_bam.evaluation import metrics
from hf_bam.evaluation.temperature import apply_temperature, fit_temperature
from hf_bam.training.batching import feature_lengths, sorted_batches
from hf_bam.training.loop import IGNORED

BATCH = 64


def foreseen(task, sampler, tokenizer, rows, max_length, draws, seed):
    """(N,) the tokens that come, and (N, V) the mean probability over the draws of every token of the vocabulary."""
    features = task.encode(rows, tokenizer, max_length, training=True)
    collate, number = task.collator(tokenizer, sampler.model), min(draws, sampler.limit or draws)
    said, truth = [], []
    sampler, base = sampler.ready(), torch.tensor(seed)
    with torch.inference_mode():
        for indices in sorted_batches(feature_lengths(features), BATCH):
            batch = collate([features[i] for i in indices])
            labels = batch.pop("labels")
            seeds = derive(base, torch.tensor(indices))
            logits = (sampler.draw(batch, 1, seeds, i)["logits"][0] for i in range(number))  # (B, L, V) each
            real = labels != IGNORED
            said.append((sum(part.float().softmax(dim=-1) for part in logits) / number)[real].numpy())
            truth.append(labels[real].numpy())
    return np.concatenate(truth), np.concatenate(said)


def foresight(tokens, probabilities):
    """Its measures, a token counting as one prediction."""
    wrong = probabilities.argmax(axis=-1) != tokens
    return {
        "token_accuracy": metrics.accuracy(tokens, probabilities),
        "token_nll": metrics.nll(tokens, probabilities),
        "token_ece": metrics.ece(tokens, probabilities),
        "token_brier": metrics.brier(tokens, probabilities),
        "token_error_auroc": metrics.error_auroc(wrong, metrics.predictive_entropy(probabilities)),
    }


def scaled(known, found):
    """Measures of `found` with the temperature of the mean over draws that suits `known` best."""
    tokens, probabilities = known
    temperature = fit_temperature(tokens, probabilities[None])
    return {"temperature": temperature, **foresight(found[0], apply_temperature(found[1], temperature))}
