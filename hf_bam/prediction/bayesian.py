"""Predictors with Bayesian attention."""

from __future__ import annotations

import os
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from . import storage
from .predictor import Predictor
from .samplers import Bam


class BamPredictor(Predictor):
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
        num_samples: int = 32,
        *,
        dropout: float | None = None,
        token_budget: int = 8192,
        **options: Any,
    ) -> None:
        super().__init__(Bam(model, token_budget, dropout), tokenizer, num_samples, **options)

    @classmethod
    def from_pretrained(cls, name_or_path: str | os.PathLike[str], **options: Any) -> BamPredictor:
        """Load a predictor, or the patched model and the tokenizer of a folder or a repository of the Hub.

        Args:
            options: arguments of `BamPredictor`, which replace saved ones, and of transformers' `from_pretrained`
                (`revision`, `token`, `dtype`, ...).
        """
        stored = storage.load(name_or_path, options)
        dropout = stored.about.sampler.get("dropout") if stored.about else None
        return stored.calibrate(cls(stored.model, stored.tokenizer, **{"dropout": dropout, **stored.options}))
