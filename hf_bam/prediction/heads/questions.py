"""Extractive question answering: a distribution over the spans of a context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.special import logsumexp
from torch import Tensor
from transformers import PreTrainedModel

from ...attention.noise import derive
from ..inputs import Item, Text, chunks
from ..results import UNCERTAINTY, Array, Result, Uncertainty, deviation, uncertainties
from .base import Head, as_array, check_finite
from .spans import Spans, in_context, joined, null_position, window_spans, window_strides, windows

Pair = tuple[str, str]


@dataclass(frozen=True)
class Candidate:
    """One of the best answers; an empty string is "no answer".

    Attributes:
        start: first character in the context.
        end: character after the last one.
        probability: mean over the samples.
        std: standard deviation over the samples.
        start_logit: mean logit of the first token.
        end_logit: mean logit of the last token.
    """

    answer: str
    start: int
    end: int
    probability: float
    std: float
    start_logit: float
    end_logit: float


@dataclass(frozen=True, repr=False)
class Answer(Result, Uncertainty):
    """The answer to a question; an empty string is "no answer".

    Attributes:
        start: first character in the context.
        end: character after the last one.
        n_best: the best spans, most probable first, and "no answer" among them if it is allowed. The uncertainty is
            that of the choice between all spans.
        null_probability: mean probability of "no answer"; NaN if it is not allowed.
        null_odds: log odds of "no answer" against the best span; NaN if it is not allowed.
        samples: (S, K) probabilities of the candidates in the order of `n_best`.
    """

    answer: str
    start: int
    end: int
    n_best: list[Candidate]
    null_probability: float
    null_odds: float
    samples: Array = field(repr=False)
    columns: ClassVar[tuple[str, ...]] = (*UNCERTAINTY, "start", "end", "null_probability", "num_samples")

    @property
    def prediction(self) -> str:
        return self.answer


class QuestionAnswering(Head):
    """Answers by `softmax(start + end)` over the spans of all windows of a context, averaged over the samples.

    A span in several windows counts once, with its highest score. "No answer" has the lowest score of its token over
    the windows, as each window without the answer has a high one. It is the answer when its log odds against the best
    span are above `null_threshold`.
    """

    columns = ("question", "context")
    optional = None

    @classmethod
    def num_outputs(cls, model: PreTrainedModel) -> int:
        return 2

    def predict(self, batch: Sequence[Text]) -> list[Answer]:
        results = zip(self.by_stride(batch, self.answers), self.novelties(batch), strict=True)
        return [replace(answer, **novelty) for answer, novelty in results]

    def features(self, batch: Sequence[Text]) -> list[dict[str, Array]]:
        return self.by_stride(batch, self.mean_features)

    def by_stride(
        self, batch: Sequence[Text], function: Callable[[Sequence[Pair], int], Sequence[Item]]
    ) -> list[Item]:
        """Return the results of a function of questions and the overlap of their windows, in the order of the batch.

        The windows of a question do not depend on the others: those of one overlap are read together.
        """
        pairs = [_pair(item) for item in batch]
        limits = (self.settings.max_length, self.settings.stride)
        strides = np.array(window_strides(self.tokenizer, [question for question, _ in pairs], *limits))
        results: dict[int, Item] = {}
        for stride in np.unique(strides):
            own = np.flatnonzero(strides == stride).tolist()
            results |= zip(own, function([pairs[index] for index in own], int(stride)), strict=True)
        return [results[index] for index in range(len(pairs))]

    def windows(self, batch: Sequence[Pair], stride: int) -> tuple[Any, Array]:
        """Return the encoding of all windows and the index of the question of each, (W,)."""
        questions, contexts = zip(*batch, strict=True)
        options: dict[str, Any] = {"padding": True, "padding_side": "right", "return_tensors": "pt"}
        encoding = windows(self.tokenizer, questions, contexts, self.settings.max_length, stride, **options)
        return encoding, encoding["overflow_to_sample_mapping"].numpy()

    def mean_features(self, batch: Sequence[Pair], stride: int) -> list[dict[str, Array]]:
        """Return the features of each question, (D,) each, means over its windows."""
        encoding, owners = self.windows(batch, stride)
        inputs = self.model_inputs(encoding)
        parts = chunks(range(len(owners)), len(batch))
        found = [self.sampler.features({name: x[rows] for name, x in inputs.items()}) for rows in parts]
        together = {name: as_array(torch.cat([part[name] for part in found])) for name in found[0]}  # (W, D) each
        return [{name: x[owners == index].mean(axis=0) for name, x in together.items()} for index in range(len(batch))]

    def answers(self, batch: Sequence[Pair], stride: int) -> list[Answer]:
        """Return the answers to questions whose windows overlap by `stride` tokens."""
        encoding, owners = self.windows(batch, stride)
        numbers = torch.tensor([int((owners[:i] == owner).sum()) for i, owner in enumerate(owners)])
        start, end = self.logits_of(encoding, derive(self.seeds(batch)[owners], numbers), len(batch))  # (S, W, T)
        results = []
        for index, (_, context) in enumerate(batch):
            own = np.flatnonzero(owners == index).tolist()
            spans, null = self.spans(start, end, own, encoding, context)
            results.append(self.answer(spans, null, context))
        return results

    def logits_of(self, encoding: Any, seeds: Tensor, size: int) -> tuple[Array, Array]:
        """Return the start and end logits of all windows, of which up to `size` go through the model at a time."""
        inputs, parts = self.model_inputs(encoding), []
        for rows in chunks(range(len(seeds)), size):
            part = {name: tensor[rows] for name, tensor in inputs.items()}
            output = self.sampler.draw(part, self.num_samples, seeds[rows])
            parts.append([as_array(output[name].float()) for name in ("start_logits", "end_logits")])
        start, end = (np.concatenate(logits, axis=1) for logits in zip(*parts, strict=True))
        check_finite(np.where(encoding["attention_mask"].numpy() == 1, start + end, 0.0))
        return start, end

    def spans(
        self, start: Array, end: Array, own: Sequence[int], encoding: Any, context: str
    ) -> tuple[Spans, tuple[Array, Array]]:
        """Return the best spans of a context and the logits of "no answer", (S,) each, from its own windows."""
        limits = (self.settings.max_answer_tokens, self.settings.n_best**2)
        found, nulls = [], []
        for window in own:
            offsets, inside = encoding["offset_mapping"][window].numpy(), in_context(encoding, window)
            logits = (start[:, window], end[:, window])  # (S, T) each
            found.append(window_spans(*logits, inside, offsets, context, *limits))
            null = null_position(encoding["input_ids"][window].tolist(), self.tokenizer)
            nulls.append(np.stack([part[:, null] for part in logits]))
        null_logits = np.stack(nulls, axis=-1)  # (2, S, windows)
        lowest = null_logits.sum(axis=0).argmin(axis=-1)[None, :, None]
        null_start, null_end = np.take_along_axis(null_logits, lowest, axis=-1)[..., 0]
        return joined(found).distinct(), (null_start, null_end)

    def answer(self, spans: Spans, null: tuple[Array, Array], context: str) -> Answer:
        """Return the answer to a question from its spans and the logits of "no answer"."""
        number = len(spans.places)
        if not number and not self.settings.allow_empty:
            raise ValueError(f"The context {context!r} is empty; there is nothing to find an answer in.")
        has_null = self.settings.null_answer or not number
        if has_null:  # the last candidate
            logits = (np.column_stack(pair) for pair in zip((spans.start, spans.end), null, strict=True))
            spans = Spans(np.vstack([spans.places, [[0, 0]]]), *logits)
        samples, scores = self.weigh(spans)
        # All candidates count here. If those outside the best were one choice, a distribution that is spread over
        # many of them would look certain.
        (uncertainty,) = uncertainties(_at_least_two(samples)[:, None], self.settings.threshold, self.settings.paired)
        best = np.argsort(-scores[:number], kind="stable")[: self.settings.n_best]
        listed = np.append(best, number) if has_null else best
        listed = listed[np.argsort(-scores[listed], kind="stable")]
        odds = float(scores[number] - scores[best[0]] if number else 0.0) if has_null else np.nan
        chosen = number if not number or odds > self.settings.null_threshold else best[0]
        n_best = candidates(spans, samples, listed, context)
        answer = n_best[listed.tolist().index(chosen)]
        return Answer.make(
            uncertainty,
            **{name: getattr(answer, name) for name in ("answer", "start", "end", "probability", "std")},
            n_best=n_best,
            null_probability=float(samples[:, number].mean()) if has_null else np.nan,
            null_odds=odds,
            samples=samples[:, listed],
        )

    def weigh(self, spans: Spans) -> tuple[Array, Array]:
        """Return the probabilities (S, K) of the spans and their scores (K,), the logarithm of the mean probability.

        A constant is added to the scores, so that those of a single sample are its logits without rounding.
        """
        logits = (spans.start + spans.end) / self.settings.temperature  # (S, K)
        normalizer = logsumexp(logits, axis=-1, keepdims=True)
        return np.exp(logits - normalizer), np.logaddexp.reduce(logits - (normalizer - normalizer.mean()), axis=0)


def candidates(spans: Spans, samples: Array, listed: Array, context: str) -> list[Candidate]:
    """Return the spans of these indices as answers."""
    columns = (samples.mean(axis=0), deviation(samples), spans.start.mean(axis=0), spans.end.mean(axis=0))
    places = spans.places[listed].tolist()
    numbers = np.stack(columns, axis=-1)[listed].tolist()
    return [Candidate(context[a:b], a, b, *own) for (a, b), own in zip(places, numbers, strict=True)]


def _pair(item: Text) -> Pair:
    if not isinstance(item, tuple):
        raise TypeError(f"{item!r} is a single text; a question comes as the pair (question, context).")
    return item


def _at_least_two(samples: Array) -> Array:
    """Return probabilities (S, K) with a choice beside a single one, for the t-test between two."""
    return samples if samples.shape[-1] > 1 else np.pad(samples, ((0, 0), (0, 1)))
