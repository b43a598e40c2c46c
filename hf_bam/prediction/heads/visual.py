"""Answers to questions about images: one label for each pair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..batched import Inputs
from ..images import image_texts_of
from .classification import SequenceClassification


class VisualQuestionAnswering(SequenceClassification):
    """One answer for each pair of an image and a question. In place of a tokenizer the predictor has a processor."""

    columns = ("image", "question")
    optional = None

    @classmethod
    def read(cls, inputs: Any, columns: tuple[str, ...] | None, allow_empty: bool) -> Iterator[Any]:
        return image_texts_of(inputs, columns or cls.columns, allow_empty)

    def lengths(self, texts: Sequence[Any]) -> list[int]:
        return super().lengths([text for _, text in texts])

    def encode(self, texts: Sequence[Any], **options: Any) -> tuple[Inputs, list[bool], Any]:
        """Return model inputs, which questions are truncated, and the encoding of the questions."""
        images, questions = zip(*texts, strict=True)
        inputs, truncated, encoding = super().encode(questions, **options)
        processor: Any = self.tokenizer
        pixels = processor.image_processor(list(images), return_tensors="pt")["pixel_values"]
        return {**inputs, "pixel_values": pixels.to(self.sampler.model.device)}, truncated, encoding
