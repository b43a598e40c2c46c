"""Heads: one class for each kind of output, which turns the samples of a batch into results.

A new kind of output is a file with a result and a [`Head`][hf_bam.prediction.heads.Head], and a line in `HEADS`. Heads
import samplers, settings and results of this package, and the metrics of `hf_bam.evaluation`.
"""

from transformers import PreTrainedModel

from ...patching.architectures import VISUAL
from ...patching.state import base_model
from .base import Head, labels_of
from .classification import Classification, SequenceClassification
from .embeddings import Embedding, TextEmbedding
from .generation import TextGeneration
from .images import ImageClassification
from .multilabel import MultiLabel, MultiLabelClassification
from .questions import Answer, Candidate, QuestionAnswering
from .regression import Regression, TextRegression
from .texts import GeneratedToken, Generation
from .tokens import Token, TokenClassification, Tokens
from .visual import VisualQuestionAnswering

HEADS: dict[str, type[Head]] = {
    "classification": SequenceClassification,
    "multi-label": MultiLabelClassification,
    "regression": TextRegression,
    "tokens": TokenClassification,
    "question-answering": QuestionAnswering,
    "generation": TextGeneration,
    "embeddings": TextEmbedding,
}
"""Heads by name, for models that read texts."""


def head_class(name: str, model: PreTrainedModel) -> type[Head]:
    """Return the head of this name for a model, which may classify images, or pairs of an image and a question."""
    root = base_model(model)
    if name == "classification" and type(root).__name__.endswith(VISUAL):
        return VisualQuestionAnswering
    return ImageClassification if root.main_input_name == "pixel_values" and name == "classification" else HEADS[name]


__all__ = [
    "HEADS",
    "Answer",
    "Candidate",
    "Classification",
    "Embedding",
    "GeneratedToken",
    "Generation",
    "Head",
    "MultiLabel",
    "Regression",
    "Token",
    "Tokens",
    "head_class",
    "labels_of",
]
