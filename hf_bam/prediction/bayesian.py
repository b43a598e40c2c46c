"""Predictors with Bayesian attention."""

from __future__ import annotations

import os

from transformers import PreTrainedModel, PreTrainedTokenizerBase
from typing_extensions import Self, Unpack

from . import storage
from .base import Own
from .predictor import Predictor
from .samplers import Bam
from .settings import NUM_SAMPLES, BamLoadingOptions, PredictorOptions


class BamPredictor(Predictor[Own]):
    """A [`Predictor`][hf_bam.prediction.Predictor] with Bayesian attention.

    Args:
        model: a patched model.
        num_samples: samples of each input.
        dropout: rate of Monte Carlo dropout beside the noise of the attention.
        token_budget: tokens that go through the model at once; the batch is expanded by samples up to this number.
        options: further arguments of `Predictor`.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        num_samples: int = NUM_SAMPLES,
        *,
        dropout: float | None = None,
        token_budget: int = 8192,
        **options: Unpack[PredictorOptions],
    ) -> None:
        super().__init__(Bam(model, token_budget, dropout), tokenizer, num_samples, **options)

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls, name_or_path: str | os.PathLike[str], **options: Unpack[BamLoadingOptions]
    ) -> Self:
        """Load a predictor, or the patched model and the tokenizer of a folder or a repository of the Hub.

        Args:
            options: arguments of `BamPredictor`, which replace saved ones, and of transformers' `from_pretrained`
                (`revision`, `token`, `dtype`, ...).
        """
        stored = storage.load(name_or_path, {**options})
        dropout = stored.about.sampler.get("dropout") if stored.about else None
        return stored.calibrate(cls(stored.model, stored.tokenizer, **{"dropout": dropout, **stored.options}))
