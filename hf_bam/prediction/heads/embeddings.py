"""Embeddings of texts: one vector for each, and how much it varies over the samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from transformers import PreTrainedModel

from ...patching.state import base_model
from ..features import pooled
from ..inputs import Text
from ..results import Array, Result, deviation
from .base import Head, as_array, check_finite, encoder_features

STATES_AT_ONCE = 2**26


@dataclass(frozen=True, repr=False)
class Embedding(Result):
    """A vector for a text.

    Attributes:
        vector: (D,) mean of the samples; of length 1 if the predictor normalises.
        std: (D,) standard deviation of every dimension over the samples.
        spread: root of the mean squared distance of the samples from their mean.
        similarity: mean cosine similarity between the samples and `vector`.
        truncated: the text is longer than `max_length`.
        samples: (S, D).
    """

    vector: Array = field(repr=False)
    std: Array = field(repr=False)
    spread: float
    similarity: float
    truncated: bool
    num_samples: int
    samples: Array = field(repr=False)
    columns: ClassVar[tuple[str, ...]] = ("spread", "similarity", "num_samples", "truncated")

    @property
    def prediction(self) -> list[float]:
        """The vector as a list."""
        return [float(value) for value in self.vector]


class TextEmbedding(Head):
    """A vector for each text, pooled from the last hidden states by the settings `pooling` and `normalize`."""

    @classmethod
    def num_outputs(cls, model: PreTrainedModel) -> None:
        return None

    def features(self, batch: Sequence[Text]) -> list[dict[str, Array]]:
        """Return mean hidden states of the encoder by name, (D,) each."""
        return encoder_features(self, batch)

    def predict(self, batch: Sequence[Text]) -> list[Embedding]:
        model = base_model(self.sampler.model)
        if model.config.is_encoder_decoder:
            raise ValueError(f"Embeddings need an encoder or a decoder; {type(model).__name__} has both.")
        inputs, truncated, _ = self.encode(batch, padding_side="right")
        seeds, mask = self.seeds(batch), inputs["attention_mask"]
        at_once = max(1, STATES_AT_ONCE // (mask.numel() * int(model.config.hidden_size)))
        parts = []
        for start in range(0, self.num_samples, at_once):
            number = min(at_once, self.num_samples - start)
            states = self.sampler.draw(inputs, number, seeds, start)["last_hidden_state"]  # (n, B, T, D)
            vectors = pooled(states.flatten(0, 1), mask, self.settings.pooling)
            parts.append(vectors.reshape(*states.shape[:2], -1))
        samples = as_array(torch.cat(parts))  # (S, B, D)
        check_finite(samples)
        columns = (samples.swapaxes(0, 1), truncated, self.novelties(batch))
        return [self.result(own, cut, novelty) for own, cut, novelty in zip(*columns, strict=True)]

    def result(self, samples: Array, truncated: bool, novelty: dict[str, Any]) -> Embedding:
        """Return the result of one text from its samples, (S, D)."""
        if self.settings.normalize:
            samples = normalized(samples)
        mean = samples.mean(axis=0)
        vector = normalized(mean) if self.settings.normalize else mean
        return Embedding(
            vector=vector,
            std=deviation(samples),
            spread=float(np.sqrt(np.square(samples - mean).sum(axis=-1).mean())),
            similarity=float((normalized(samples) @ normalized(vector)).mean()),
            truncated=truncated,
            num_samples=len(samples),
            samples=samples,
            **novelty,
        )


def normalized(vectors: Array) -> Array:
    """Return vectors of length 1 along the last axis; 0 stays 0."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths == 0, 1, lengths))
