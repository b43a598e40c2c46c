"""From the draws of a batch to results: one class for each kind of output over a text."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..attention.noise import new_seed
from ..patching.state import base_model
from .adaptive import decide_early, schedule
from .batched import Inputs
from .inputs import Text, content_seed, tokenize
from .results import Array, Classification, MultiLabel, Regression, Token, Tokens, deviation, uncertainties
from .samplers import Sampler


@dataclass(frozen=True)
class Settings:
    """How a [`Predictor`][hf_bam.prediction.Predictor] draws and judges; some fields are for one kind of model."""

    num_samples: int = 32
    """Samples for each input."""
    threshold: float = 0.05
    """The lead of the most probable class is significant when the p-value of its t-test is lower."""
    paired: bool = False
    """Pair the draws of the two classes in the t-test."""
    temperature: float = 1.0
    """Divides the logits; `Predictor.calibrated` finds it."""
    adaptive: bool = False
    """Stop drawing for an input once its verdict is settled; classification only."""
    error: float = 0.01
    """With `adaptive`, the share of inputs whose verdict may differ from that over all draws."""
    level: float = 0.9
    """Of the interval of a regression."""
    max_length: int = 512
    """Longer texts are cut, and their results say so."""
    seed: int | None = 0
    """The same seed and input give the same draws, whatever else is in the batch; None draws afresh in every call."""
    max_answer_tokens: int = 30
    """Question answering: the longest answer."""
    stride: int = 128
    """Question answering: the overlap of the windows of a long context."""
    n_best: int = 20
    """Question answering: how many answers are weighed and told."""
    null_answer: bool = False
    """Question answering: whether "no answer" is one of them, as in SQuAD 2.0."""
    null_threshold: float = 0.0
    """Question answering: by how much the probability of "no answer" has to exceed that of the best span."""
    hypotheses: int = 0
    """Generation: how many further texts to generate, each from one draw."""
    generation: dict[str, Any] = field(default_factory=dict)
    """Generation: arguments of `generate`."""

    def __post_init__(self) -> None:
        for name in ("threshold", "error", "level"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)!r} is not valid; it must be a number between 0 and 1.")
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature={self.temperature!r} is not valid; it must be a number above 0.")
        for name, least in {
            "num_samples": 1,
            "max_length": 1,
            "max_answer_tokens": 1,
            "n_best": 1,
            "hypotheses": 0,
        }.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name}={value!r} is not valid; it must be a whole number, {least} or above.")


class Head(ABC):
    """Predicts a batch of inputs with a sampler that is ready.

    Attributes:
        columns, optional: where the texts of an input stand in a table or a dictionary.
    """

    adapts: ClassVar[bool] = False
    columns: ClassVar[tuple[str, ...]] = ("text",)
    optional: ClassVar[str | None] = "text_pair"

    def __init__(self, sampler: Sampler, tokenizer: PreTrainedTokenizerBase, settings: Settings) -> None:
        self.sampler = sampler
        self.tokenizer = tokenizer
        self.settings = settings
        self.number = min(settings.num_samples, sampler.limit or settings.num_samples)
        self.seed = new_seed() if settings.seed is None else settings.seed

    @property
    def labels(self) -> list[str]:
        return labels_of(self.sampler.model)

    @abstractmethod
    def predict(self, batch: Sequence[Any]) -> list[Any]: ...

    def seeds(self, batch: Sequence[Any]) -> Tensor:
        """(B,) a seed for each input, from its content: neither its place nor the other inputs count."""
        return torch.tensor([content_seed(self.seed, item) for item in batch], dtype=torch.int64)

    def encode(self, texts: Sequence[Text], **options: Any) -> tuple[Inputs, list[bool], Any]:
        """Model inputs, which texts were cut, and the encoding itself."""
        limit = self.settings.max_length
        options = {"padding": True, "return_tensors": "pt", **options}
        encoding = tokenize(self.tokenizer, list(texts), verbose=False, **options)
        truncated = [length > limit for length in encoding["attention_mask"].sum(dim=-1).tolist()]
        if any(truncated):
            encoding = tokenize(self.tokenizer, list(texts), truncation=True, max_length=limit, **options)
        return self.model_inputs(encoding), truncated, encoding

    def model_inputs(self, encoding: Any) -> Inputs:
        """What the model takes of an encoding, on its device."""
        taken = inspect.signature(base_model(self.sampler.model).forward).parameters  # PEFT passes all on
        names = [name for name in self.tokenizer.model_input_names if name in encoding and name in taken]
        return {name: encoding[name].to(self.sampler.model.device) for name in names}

    def probabilities(self, logits: Tensor) -> Array:
        return as_array((logits.cpu().double() / self.settings.temperature).softmax(dim=-1))


class SequenceClassification(Head):
    """One label for each text."""

    adapts = True

    def predict(self, batch: Sequence[Text]) -> list[Classification]:
        inputs, truncated, _ = self.encode(batch)
        if self.settings.adaptive and self.number > 1:
            samples, verdicts = self.draw_adaptively(inputs, self.seeds(batch))
            own = [uncertainties(x[:, None], self.settings.threshold, self.settings.paired)[0] for x in samples]
            own = [replace(doubt, significant=bool(verdict)) for doubt, verdict in zip(own, verdicts, strict=True)]
        else:
            together = self.probabilities(
                self.sampler.draw(inputs, self.number, self.seeds(batch))["logits"]
            )  # (S, B, C)
            samples = list(together.swapaxes(0, 1))
            own = uncertainties(together, self.settings.threshold, self.settings.paired)
        labels = self.labels
        return [
            Classification.make(doubt, label=labels[int(x.mean(axis=0).argmax())], truncated=cut, samples=x)
            for doubt, x, cut in zip(own, samples, truncated, strict=True)
        ]

    def draw_adaptively(self, inputs: Inputs, seeds: Tensor) -> tuple[list[Array], Array]:
        """For each input as many draws as its verdict needs, and the verdict."""
        looks = schedule(self.number, first=max(4, self.number // 8))
        # Every look may err, so each gets its share of the error.
        error = self.settings.error / max(1, len(looks) - 1)
        open_inputs = np.arange(next(iter(inputs.values())).shape[0])
        samples: list[Array] = [np.zeros((0, len(self.labels)))] * len(open_inputs)
        verdicts = np.zeros(len(open_inputs), dtype=bool)
        drawn = 0
        for look in looks:
            rows = torch.from_numpy(open_inputs)
            part = {name: tensor[rows.to(tensor.device)] for name, tensor in inputs.items()}
            fresh = self.probabilities(self.sampler.draw(part, look - drawn, seeds[rows], drawn)["logits"])
            for position, index in enumerate(open_inputs):
                samples[index] = np.concatenate([samples[index], fresh[:, position]])
            drawn = look
            so_far = np.stack([samples[index] for index in open_inputs], axis=1)
            done, verdicts[open_inputs] = decide_early(so_far, looks[-1], self.settings.threshold, error)
            open_inputs = open_inputs[~done]
            if len(open_inputs) == 0:
                break
        return samples, verdicts


class MultiLabelClassification(Head):
    """Any number of labels for each text."""

    def predict(self, batch: Sequence[Text]) -> list[MultiLabel]:
        inputs, truncated, _ = self.encode(batch)
        logits = self.sampler.draw(inputs, self.number, self.seeds(batch))["logits"].cpu().double()
        samples = as_array((logits / self.settings.temperature).sigmoid())  # (S, B, C)
        return [self.result(samples[:, index], cut) for index, cut in enumerate(truncated)]

    def result(self, samples: Array, truncated: bool) -> MultiLabel:
        yes_or_no = np.stack([1 - samples, samples], axis=-1)  # (S, C, 2)
        own = uncertainties(yes_or_no, self.settings.threshold, self.settings.paired)
        means = dict(zip(self.labels, samples.mean(axis=0).tolist(), strict=True))
        return MultiLabel(
            labels=[name for name, mean in means.items() if mean > 0.5],
            probabilities=means,
            uncertainties=dict(zip(self.labels, own, strict=True)),
            truncated=truncated,
            num_samples=len(samples),
            samples=samples,
        )


class TextRegression(Head):
    """A number for each text."""

    def predict(self, batch: Sequence[Text]) -> list[Regression]:
        inputs, truncated, _ = self.encode(batch)
        logits = self.sampler.draw(inputs, self.number, self.seeds(batch))["logits"]
        if logits.shape[-1] != 1:
            raise ValueError(f"A regression gives one number for a text; this model gives {logits.shape[-1]}.")
        samples = as_array(logits[..., 0])  # (S, B)
        tail = (1 - self.settings.level) / 2
        low, high = np.quantile(samples, [tail, 1 - tail], axis=0)
        columns = {"value": samples.mean(axis=0), "std": deviation(samples), "low": low, "high": high}
        return [
            Regression(
                **{name: float(column[index]) for name, column in columns.items()},
                truncated=cut,
                num_samples=len(samples),
                samples=samples[:, index],
            )
            for index, cut in enumerate(truncated)
        ]


class TokenClassification(Head):
    """A label for each token of a text, special tokens left out."""

    optional = None

    def predict(self, batch: Sequence[Text]) -> list[Tokens]:
        if not self.tokenizer.is_fast:
            raise ValueError(
                "Token classification needs a fast tokenizer, which knows where a token stands in its text."
            )
        asked = {"return_offsets_mapping": True, "return_special_tokens_mask": True}
        inputs, truncated, encoding = self.encode(batch, **asked)
        samples = self.probabilities(
            self.sampler.draw(inputs, self.number, self.seeds(batch))["logits"]
        )  # (S, B, T, C)
        results = []
        for index, text in enumerate(batch):
            kept = np.flatnonzero(encoding["special_tokens_mask"][index].numpy() == 0)
            offsets = encoding["offset_mapping"][index][kept].tolist()
            own = samples[:, index, kept]  # (S, t, C)
            results.append(Tokens(self.tokens(own, text, offsets), truncated[index], len(own), own))
        return results

    def tokens(self, samples: Array, text: Text, offsets: list[list[int]]) -> list[Token]:
        if isinstance(text, tuple):
            raise TypeError("Token classification takes single texts, not pairs.")
        own = uncertainties(samples, self.settings.threshold, self.settings.paired) if offsets else []
        best = samples.mean(axis=0).argmax(axis=-1)
        return [
            Token.make(doubt, label=self.labels[int(index)], text=text[start:end], start=start, end=end)
            for doubt, index, (start, end) in zip(own, best, offsets, strict=True)
        ]


def labels_of(model: PreTrainedModel) -> list[str]:
    """The names of the classes, in their order."""
    names = model.config.id2label
    return [names[index] for index in range(len(names))]


def as_array(tensor: Tensor) -> Array:
    return tensor.detach().cpu().double().numpy()
