"""Extractive question answering: a distribution over spans of the context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .folding import Inputs
from .heads import Head, as_array
from .inputs import Text
from .results import Array, Doubt, deviation, doubts

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
class Answer(Doubt):
    """The answer to a question; an empty string is "no answer".

    Attributes:
        start, end: where it stands in the context.
        n_best: the best answers, most probable first; the doubt is about the choice between them.
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

    def predict(self, batch: Sequence[Text]) -> list[Answer]:
        for item in batch:
            if not isinstance(item, tuple):
                raise TypeError(f"{item!r} is a single text; a question comes as the pair (question, context).")
        inputs, encoding = self.windows(batch)
        output = self.sampler.draw(inputs, self.number)
        start, end = (as_array(output[name].float()) for name in ("start_logits", "end_logits"))  # (S, W, T)
        owners = encoding["overflow_to_sample_mapping"].numpy()
        results = []
        for index, item in enumerate(batch):
            scores = self.scores(start, end, np.flatnonzero(owners == index), encoding)
            results.append(self.answer(scores, context=item[1]))
        return results

    def windows(self, batch: Sequence[Text]) -> tuple[Inputs, Any]:
        """The contexts, cut into overlapping windows that fit the model, each behind its question."""
        limit = self.settings.max_length
        longest_question = max(len(self.tokenizer(item[0], verbose=False)["input_ids"]) for item in batch)
        room = limit - longest_question - self.tokenizer.num_special_tokens_to_add(pair=True)
        if room < 8:
            raise ValueError(f"A question of {longest_question} tokens leaves no room for a context within {limit}.")
        encoding = self.tokenizer(
            [item[0] for item in batch],
            [item[1] for item in batch],
            truncation="only_second",
            max_length=limit,
            stride=min(self.settings.stride, room // 2),
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            padding=True,
            return_tensors="pt",
        )
        return self.model_inputs(encoding), encoding

    def scores(self, start: Array, end: Array, windows: Array, encoding: Any) -> dict[Span, Array]:
        """For each candidate, its score (S,) in every draw; a span seen in two windows has the weight of both."""
        found: dict[Span, Array] = {}
        null: list[Array] = []
        for window in windows:
            offsets = encoding["offset_mapping"][window].numpy()
            inside = np.array([kind == 1 for kind in encoding.sequence_ids(int(window))])
            begins, ends = (self.best(logits[:, window], inside) for logits in (start, end))
            for i in begins:
                for j in ends:
                    if i <= j < i + self.settings.max_answer_tokens:
                        span = (int(offsets[i, 0]), int(offsets[j, 1]))
                        score = start[:, window, i] + end[:, window, j]
                        found[span] = np.logaddexp(found[span], score) if span in found else score
            null.append(start[:, window, 0] + end[:, window, 0])
        if self.settings.null_answer:
            found[NULL] = np.min(null, axis=0)  # a window without the answer speaks for none; all have to
        return found

    def best(self, logits: Array, inside: Array) -> Array:
        """The positions with the highest mean score among the tokens of the context."""
        mean = np.where(inside, logits.mean(axis=0), -np.inf)
        order = np.argsort(-mean)[: self.settings.n_best]
        return order[np.isfinite(mean[order])]

    def answer(self, scores: dict[Span, Array], context: str) -> Answer:
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
        samples, spans = samples[:, order], [spans[index] for index in order]
        # What lies outside the best is one further choice, so that the probabilities remain those of all candidates.
        rest = np.clip(1 - samples.sum(axis=-1, keepdims=True), 0, None)
        (doubt,) = doubts(
            np.concatenate([samples, rest], axis=-1)[:, None], self.settings.threshold, self.settings.paired
        )
        n_best = [
            Candidate(context[a:b], a, b, float(probability), float(std))
            for (a, b), probability, std in zip(spans, samples.mean(axis=0), deviation(samples), strict=True)
        ]
        chosen = n_best[0]
        values = {name: getattr(chosen, name) for name in ("answer", "start", "end", "probability", "std")}
        return Answer.make(doubt, **values, n_best=n_best, null_probability=float(null), samples=samples)
