"""Scheduled sampling: the model's own predictions as inputs of the decoder in training (Bengio et al. 2015)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import gumbel_softmax

from .configuration import RecurrentConfig
from .embedding import ScaledEmbedding


def mixed_inputs(config: RecurrentConfig, embedding: ScaledEmbedding, logits: Tensor, target: Tensor) -> Tensor:
    """Return the embedding of a predicted token with probability `scheduled_sampling`, else that of the target.

    Args:
        logits: (B, 1, V) of the step before.
        target: (B, 1, D) embeddings of the target tokens.
    """
    own = predicted_embedding(config, embedding, logits).to(target.dtype)
    chosen = torch.rand(target.shape[0], 1, 1, device=target.device) < config.scheduled_sampling
    return torch.where(chosen, own, target)


def predicted_embedding(config: RecurrentConfig, embedding: ScaledEmbedding, logits: Tensor) -> Tensor:
    """Return the embedding of the token that `feedback` takes from logits (B, 1, V), (B, 1, D).

    Gumbel-softmax, ``softmax((logits + g) / temperature)`` with Gumbel noise ``g``, gives a weighted mean of all
    embeddings, through which the loss of a step has a gradient for the steps before it.
    """
    if config.feedback == "argmax":
        return embedding(logits.argmax(dim=-1))
    if config.feedback == "sample":
        return embedding(logits[:, 0].float().softmax(dim=-1).multinomial(1))
    hard = config.feedback == "straight-through"
    weights = gumbel_softmax(logits.float(), tau=config.gumbel_temperature, hard=hard)
    return embedding.mean(weights)
