"""Heads: one class for each kind of output, which turns the samples of a batch into results.

A new kind of output is a file with a result and a [`Head`][hf_bam.prediction.heads.Head], and a line in `HEADS`. Heads
import samplers, settings and results of this package, and the metrics of `hf_bam.evaluation`.
"""

from .base import Head, labels_of
from .classification import Classification, SequenceClassification
from .generation import TextGeneration
from .multilabel import MultiLabel, MultiLabelClassification
from .questions import Answer, Candidate, QuestionAnswering
from .regression import Regression, TextRegression
from .texts import GeneratedToken, Generation
from .tokens import Token, TokenClassification, Tokens

HEADS: dict[str, type[Head]] = {
    "classification": SequenceClassification,
    "multi-label": MultiLabelClassification,
    "regression": TextRegression,
    "tokens": TokenClassification,
    "question-answering": QuestionAnswering,
    "generation": TextGeneration,
}
"""Heads by name."""

__all__ = [
    "HEADS",
    "Answer",
    "Candidate",
    "Classification",
    "GeneratedToken",
    "Generation",
    "Head",
    "MultiLabel",
    "Regression",
    "Token",
    "Tokens",
    "labels_of",
]
