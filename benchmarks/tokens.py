"""How well a model foresees the tokens of reference translations: each a classification, given those before it.

Unlike the texts that a model writes itself, these have right answers, so likelihood and calibration can be told.
"""

import numpy as np
import torch

from hf_bam import metrics
from hf_bam.prediction.calibration import best_temperature
from hf_bam.training.batching import feature_lengths, sorted_batches
from hf_bam.training.loop import IGNORED
from hf_bam.training.temperatures import at

BATCH = 64


def foreseen(task, sampler, tokenizer, rows, max_length, draws, seed):
    """(N, V) mean probability over the draws of every token of the vocabulary, and (N,) the tokens that come."""
    features = task.encode(rows, tokenizer, max_length, training=True)
    collate, number = task.collator(tokenizer, sampler.model), min(draws, sampler.limit or draws)
    said, truth = [], []
    with sampler.session(seed), torch.inference_mode():
        for indices in sorted_batches(feature_lengths(features), BATCH):
            batch = collate([features[i] for i in indices])
            labels = batch.pop("labels")
            logits = (sampler.draw(batch, 1)["logits"][0] for _ in range(number))  # (B, L, V) each
            real = labels != IGNORED
            said.append((sum(part.float().softmax(dim=-1) for part in logits) / number)[real].numpy())
            truth.append(labels[real].numpy())
    return np.concatenate(said), np.concatenate(truth)


def foresight(probabilities, tokens):
    """Its measures, a token counting as one prediction."""
    wrong = probabilities.argmax(axis=-1) != tokens
    return {
        "token_accuracy": metrics.accuracy(probabilities, tokens),
        "token_nll": metrics.nll(probabilities, tokens),
        "token_ece": metrics.ece(probabilities, tokens),
        "token_brier": metrics.brier(probabilities, tokens),
        "token_error_auroc": metrics.error_auroc(metrics.predictive_entropy(probabilities), wrong),
    }


def scaled(known, found):
    """Measures of `found` with the temperature of the mean over draws that suits `known` best."""
    probabilities, tokens = known
    temperature = best_temperature(probabilities[None], tokens)
    return {"temperature": temperature, **foresight(at(found[0], temperature), found[1])}
