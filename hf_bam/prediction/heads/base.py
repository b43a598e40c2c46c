"""Base class of all heads."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...attention.noise import new_seed
from ...patching.state import base_model
from ..batched import Inputs
from ..inputs import Text, content_seed, tokenize
from ..results import Array
from ..samplers import Sampler
from ..settings import Settings


class Head(ABC):
    """Prediction of a batch of inputs with a sampler that is ready.

    Attributes:
        adaptive: the head supports adaptive sampling.
        columns: names of the texts of an input in a table or a dictionary.
        optional: name of a further text, which may be absent.
    """

    adaptive: ClassVar[bool] = False
    columns: ClassVar[tuple[str, ...]] = ("text",)
    optional: ClassVar[str | None] = "text_pair"

    def __init__(self, sampler: Sampler, tokenizer: PreTrainedTokenizerBase, settings: Settings) -> None:
        self.sampler = sampler
        self.tokenizer = tokenizer
        self.settings = settings
        self.num_samples = min(settings.num_samples, sampler.limit or settings.num_samples)
        self.seed = new_seed() if settings.seed is None else settings.seed

    @property
    def labels(self) -> list[str]:
        return labels_of(self.sampler.model)

    @abstractmethod
    def predict(self, batch: Sequence[Any]) -> list[Any]:
        """Return the result of every input of a batch."""

    def seeds(self, batch: Sequence[Any]) -> Tensor:
        """Return a seed for each input, (B,), which depends on its content alone."""
        return torch.tensor([content_seed(self.seed, item) for item in batch], dtype=torch.int64)

    def lengths(self, texts: Sequence[Text]) -> list[int]:
        """Return the number of tokens of each text, without truncation."""
        ids = tokenize(self.tokenizer, list(texts), verbose=False, add_special_tokens=False)["input_ids"]
        return [len(own) for own in ids]

    def encode(self, texts: Sequence[Text], **options: Any) -> tuple[Inputs, list[bool], Any]:
        """Return model inputs, which texts are truncated, and the encoding itself."""
        limit = self.settings.max_length
        options = {"padding": True, "return_tensors": "pt", **options}
        encoding = tokenize(self.tokenizer, list(texts), verbose=False, **options)
        truncated = [length > limit for length in encoding["attention_mask"].sum(dim=-1).tolist()]
        if any(truncated):
            encoding = tokenize(self.tokenizer, list(texts), truncation=True, max_length=limit, **options)
        return self.model_inputs(encoding), truncated, encoding

    def model_inputs(self, encoding: Any) -> Inputs:
        """Return the part of an encoding that the model accepts, on the device of the model."""
        accepted = inspect.signature(base_model(self.sampler.model).forward).parameters  # PEFT's passes all on
        names = [name for name in self.tokenizer.model_input_names if name in encoding and name in accepted]
        return {name: encoding[name].to(self.sampler.model.device) for name in names}

    def logits(self, inputs: Inputs, seeds: Tensor, num_samples: int | None = None, first: int = 0) -> Tensor:
        """Return the logits of samples, (S, B, ...) in float64; raise `ValueError` where they are not finite."""
        number = self.num_samples if num_samples is None else num_samples
        logits = self.sampler.draw(inputs, number, seeds, first)["logits"].cpu().double()
        check_finite(logits.numpy())
        return logits

    def probabilities(self, logits: Tensor) -> Array:
        """Return the softmax of logits at the temperature of the settings."""
        return as_array((logits / self.settings.temperature).softmax(dim=-1))


def labels_of(model: PreTrainedModel) -> list[str]:
    """Return the names of the classes in the order of their indices."""
    names = model.config.id2label
    return [names[index] for index in range(len(names))]


def check_finite(outputs: Array) -> None:
    """Raise `ValueError` when some of the outputs, (S, B, ...), are not finite."""
    finite = np.isfinite(outputs).all(axis=(0, *range(2, outputs.ndim)))  # (B,)
    if not finite.all():
        raise ValueError(f"{(~finite).sum()} of {len(finite)} outputs are not finite: training has diverged.")


def as_array(tensor: Tensor) -> Array:
    """Return a tensor as a float64 array."""
    return tensor.detach().cpu().double().numpy()
