"""Extractive question answering: a distribution over spans of the context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ...attention.noise import derive
from ..inputs import Text
from ..results import Array, Uncertainty, deviation, uncertainties
from .base import Head, as_array
from .spans import best_spans, in_context, windows

Span = tuple[int, int]
NULL: Span = (0, 0)
"""The span of "no answer"."""


@dataclass(frozen=True)
class Candidate:
    """One of the best answers."""

    answer: str
    start: int
    end: int
    probability: float
    std: float


@dataclass(frozen=True)
class Answer(Uncertainty):
    """The answer to a question; an empty string is "no answer".

    Attributes:
        start, end: where it stands in the context.
        n_best: the best answers, most probable first. The doubt is about the choice between all spans.
        null_probability: of "no answer", or NaN if that was not among the answers.
        samples: (S, K) probabilities of the candidates in `n_best` order.
    """

    answer: str
    start: int
    end: int
    n_best: list[Candidate]
    null_probability: float
    samples: Array = field(repr=False)


class QuestionAnswering(Head):
    """Spans are weighed by `softmax(start + end)` over the candidates of all windows, in every draw, and averaged."""

    columns = ("question", "context")
    optional = None

    def predict(self, batch: Sequence[Text]) -> list[Answer]:
        for item in batch:
            if not isinstance(item, tuple):
                raise TypeError(f"{item!r} is a single text; a question comes as the pair (question, context).")
        questions, contexts = zip(*batch, strict=True)
        limits = (self.settings.max_length, self.settings.stride)
        encoding = windows(self.tokenizer, questions, contexts, *limits, padding=True, return_tensors="pt")
        owners = encoding["overflow_to_sample_mapping"].numpy()
        places = torch.tensor([int((owners[:i] == owner).sum()) for i, owner in enumerate(owners)])
        seeds = derive(self.seeds(batch)[owners], places)  # (W,)
        output = self.sampler.draw(self.model_inputs(encoding), self.num_samples, seeds)
        start, end = (as_array(output[name].float()) for name in ("start_logits", "end_logits"))  # (S, W, T)
        results = []
        for index, context in enumerate(contexts):
            scores = self.scores(start, end, np.flatnonzero(owners == index), encoding)
            results.append(self.answer(scores, context))
        return results

    def scores(self, start: Array, end: Array, windows: Array, encoding: Any) -> dict[Span, Array]:
        """For each candidate, its score (S,) in every draw; a span seen in two windows has the weight of both."""
        found: dict[Span, Array] = {}
        null: list[Array] = []
        limits = (self.settings.max_answer_tokens, self.settings.n_best**2)
        for window in windows:
            offsets, inside = encoding["offset_mapping"][window].numpy(), in_context(encoding, int(window))
            own_start, own_end = start[:, window], end[:, window]
            for i, j in zip(*best_spans(own_start.mean(axis=0), own_end.mean(axis=0), inside, *limits), strict=True):
                span = (int(offsets[i, 0]), int(offsets[j, 1]))
                score = own_start[:, i] + own_end[:, j]
                found[span] = np.logaddexp(found[span], score) if span in found else score
            null.append(own_start[:, 0] + own_end[:, 0])
        if self.settings.null_answer:
            found[NULL] = np.min(null, axis=0)  # a window without the answer speaks for none; all have to
        return found

    def answer(self, scores: dict[Span, Array], context: str) -> Answer:
        if not scores:
            raise ValueError(f"The context {context!r} is empty; there is nothing to find an answer in.")
        spans = list(scores)
        logits = np.stack([scores[span] for span in spans], axis=-1) / self.settings.temperature  # (S, K)
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        samples = weights / weights.sum(axis=-1, keepdims=True)
        mean = samples.mean(axis=0)
        null = mean[spans.index(NULL)] if NULL in scores else np.nan
        rank = mean.copy()
        if NULL in scores:
            rank[spans.index(NULL)] -= self.settings.null_threshold
        order = np.argsort(-rank, kind="stable")[: self.settings.n_best]
        # This is about the choice between all candidates. Were those outside the best taken as one, a distribution
        # that is spread over many of them would look like a sure choice of it.
        (doubt,) = uncertainties(samples[:, None], self.settings.threshold, self.settings.paired)
        samples, spans = samples[:, order], [spans[index] for index in order]
        n_best = [
            Candidate(context[a:b], a, b, float(probability), float(std))
            for (a, b), probability, std in zip(spans, samples.mean(axis=0), deviation(samples), strict=True)
        ]
        chosen = n_best[0]
        values = {name: getattr(chosen, name) for name in ("answer", "start", "end", "probability", "std")}
        return Answer.make(doubt, **values, n_best=n_best, null_probability=float(null), samples=samples)
