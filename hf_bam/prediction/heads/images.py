"""Classification of images: one label for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..batched import Inputs
from ..images import images_of
from ..results import Array
from .classification import SequenceClassification


class ImageClassification(SequenceClassification):
    """One label for each image. In place of a tokenizer the predictor has the image processor of the model."""

    columns = ("image",)
    optional = None

    @classmethod
    def read(cls, inputs: Any, columns: tuple[str, ...] | None, allow_empty: bool) -> Iterator[Any]:
        return images_of(inputs, columns or cls.columns)

    def lengths(self, texts: Sequence[Any]) -> list[int]:
        return [0] * len(texts)

    def encode(self, texts: Sequence[Any], **options: Any) -> tuple[Inputs, list[bool], Any]:
        """Return model inputs, that no image is truncated, and the encoding itself."""
        encoding = self.tokenizer(images=list(texts), return_tensors="pt")
        return self.model_inputs(encoding), [False] * len(texts), encoding

    def alignments(self, inputs: Inputs, samples: Array | None) -> list[Array | None]:
        number = len(next(iter(inputs.values())))
        return [None] * number if samples is None else list(samples.swapaxes(0, 1))
