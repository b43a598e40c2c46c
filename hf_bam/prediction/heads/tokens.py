"""Token classification: one label for each token of a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..inputs import Text
from ..results import UNCERTAINTY, Array, Result, Uncertainty, mean, uncertainties
from .base import Head

TOKEN = ("text", "start", "end", "label", *UNCERTAINTY)
"""Fields of a token in tables."""


@dataclass(frozen=True)
class Token(Uncertainty):
    """A label of the token at [start, end) of a text."""

    label: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, repr=False)
class Tokens(Result):
    """Labels of the tokens of a text.

    Attributes:
        truncated: the text is longer than `max_length`.
        samples: (S, T, C) probabilities.
    """

    tokens: list[Token]
    truncated: bool
    num_samples: int
    samples: Array = field(repr=False)
    columns: ClassVar[tuple[str, ...]] = ("num_samples", "truncated")

    @property
    def prediction(self) -> list[str]:
        return [token.label for token in self.tokens]

    def row(self) -> dict[str, Any]:
        """Return the columns: the labels, means of the entropies over the tokens, and the tokens themselves."""
        names = ("entropy", "aleatoric", "epistemic")
        means = {name: mean([getattr(token, name) for token in self.tokens]) for name in names}
        shown = [{name: value for name, value in asdict(token).items() if name in TOKEN} for token in self.tokens]
        return {"prediction": self.prediction, **means, "tokens": shown, **super().row()}


class TokenClassification(Head):
    """A label for each token of a text, special tokens excluded."""

    optional = None

    def predict(self, batch: Sequence[Text]) -> list[Tokens]:
        if not self.tokenizer.is_fast:
            raise ValueError(
                "Token classification needs a fast tokenizer, which knows where a token stands in its text."
            )
        wanted = {"return_offsets_mapping": True, "return_special_tokens_mask": True}
        inputs, truncated, encoding = self.encode(batch, **wanted)
        drawn = self.draw(inputs, self.seeds(batch))
        samples = self.probabilities(drawn["logits"])  # (S, B, T, C)
        novelties = self.novelties(batch, drawn)
        results = []
        for index, text in enumerate(batch):
            kept = np.flatnonzero(encoding["special_tokens_mask"][index].numpy() == 0)
            offsets = encoding["offset_mapping"][index][kept].tolist()
            own = samples[:, index, kept]  # (S, t, C)
            results.append(
                Tokens(self.tokens(own, text, offsets), truncated[index], len(own), own, **novelties[index])
            )
        return results

    def tokens(self, samples: Array, text: Text, offsets: list[list[int]]) -> list[Token]:
        """Return the tokens of one text from their samples, (S, t, C), and their offsets."""
        if isinstance(text, tuple):
            raise TypeError("Token classification takes single texts, not pairs.")
        own = uncertainties(samples, self.settings.threshold, self.settings.paired) if offsets else []
        best = samples.mean(axis=0).argmax(axis=-1)
        return [
            Token.make(one, label=self.labels[int(index)], text=text[start:end], start=start, end=end)
            for one, index, (start, end) in zip(own, best, offsets, strict=True)
        ]
