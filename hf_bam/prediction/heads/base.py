"""Base class of all heads."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...attention.noise import new_seed
from ...patching.state import base_model
from ..batched import Inputs
from ..calibration import Calibration
from ..features import features_of, layer_features, stacked
from ..inputs import Text, content_seed, texts_of, tokenize
from ..results import Array
from ..samplers import Sampler, mean_mode
from ..settings import Settings

NOT_FITTED = Calibration()


class Head(ABC):
    """Prediction of a batch of inputs with a sampler that is ready.

    Attributes:
        adaptive: the head supports adaptive sampling.
        columns: names of the texts of an input in a table or a dictionary.
        optional: name of a further text, which may be absent.
        calibration: what was fitted for the predictor.
    """

    adaptive: ClassVar[bool] = False
    columns: ClassVar[tuple[str, ...]] = ("text",)
    optional: ClassVar[str | None] = "text_pair"

    def __init__(
        self,
        sampler: Sampler,
        tokenizer: PreTrainedTokenizerBase,
        settings: Settings,
        calibration: Calibration = NOT_FITTED,
    ) -> None:
        self.sampler = sampler
        self.tokenizer = tokenizer
        self.settings = settings
        self.calibration = calibration
        self.num_samples = min(settings.num_samples, sampler.limit or settings.num_samples)
        self.seed = new_seed() if settings.seed is None else settings.seed

    @classmethod
    def read(cls, inputs: Any, columns: tuple[str, ...] | None, allow_empty: bool) -> Iterator[Any]:
        """Return the inputs one by one, checked as they are read; `columns` are those of the head by default."""
        if columns is None:
            return texts_of(inputs, cls.columns, cls.optional, allow_empty=allow_empty)
        return texts_of(inputs, columns, allow_empty=allow_empty)

    @property
    def labels(self) -> list[str]:
        return labels_of(self.sampler.model)

    @property
    def text_tokenizer(self) -> PreTrainedTokenizerBase:
        """Tokenizer of the texts: that of the predictor, or the part of its processor."""
        return getattr(self.tokenizer, "tokenizer", self.tokenizer)

    @classmethod
    def num_outputs(cls, model: PreTrainedModel) -> int | None:
        """Return the number of logits of a text or token, by which the sampler finds the features before them.

        None: the head does not take its features from the sampler.
        """
        return int(model.config.num_labels)

    @abstractmethod
    def predict(self, batch: Sequence[Any]) -> list[Any]:
        """Return the result of every input of a batch."""

    def seeds(self, batch: Sequence[Any]) -> Tensor:
        """Return a seed for each input, (B,), which depends on its content alone."""
        return torch.tensor([content_seed(self.seed, item) for item in batch], dtype=torch.int64)

    def lengths(self, texts: Sequence[Text]) -> list[int]:
        """Return the number of tokens of each text, without truncation."""
        ids = tokenize(self.text_tokenizer, list(texts), verbose=False, add_special_tokens=False)["input_ids"]
        return [len(own) for own in ids]

    def encode(self, texts: Sequence[Text], **options: Any) -> tuple[Inputs, list[bool], Any]:
        """Return model inputs, which texts are truncated, and the encoding itself."""
        limit = self.settings.max_length
        options = {"padding": True, "return_tensors": "pt", **options}
        encoding = tokenize(self.text_tokenizer, list(texts), verbose=False, **options)
        truncated = [length > limit for length in encoding["attention_mask"].sum(dim=-1).tolist()]
        if any(truncated):
            encoding = tokenize(self.text_tokenizer, list(texts), truncation=True, max_length=limit, **options)
        return self.model_inputs(encoding), truncated, encoding

    def model_inputs(self, encoding: Any) -> Inputs:
        """Return the part of an encoding that the model accepts, on the device of the model."""
        accepted = inspect.signature(base_model(self.sampler.model).forward).parameters  # PEFT's passes all on
        names = [name for name in self.tokenizer.model_input_names if name in encoding and name in accepted]
        return {name: encoding[name].to(self.sampler.model.device) for name in names}

    def draw(self, inputs: Inputs, seeds: Tensor, num_samples: int | None = None, first: int = 0) -> Inputs:
        """Return the outputs of samples, (S, B, ...) each, with logits in float64.

        Raises:
            ValueError: if some logits are not finite.
        """
        number = self.num_samples if num_samples is None else num_samples
        output = self.sampler.draw(inputs, number, seeds, first)
        logits = output["logits"].cpu().double()
        check_finite(logits.numpy())
        return {**output, "logits": logits}

    def features(self, batch: Sequence[Any]) -> list[dict[str, Array]]:
        """Return the features of each input in the deterministic model by name, (D,) each."""
        return vectors(self.sampler.features(self.encode(batch)[0]))

    def logits(self, batch: Sequence[Any]) -> list[Array]:
        """Return the logits of all samples of each input, (S, C) each."""
        drawn = self.draw(self.encode(batch)[0], self.seeds(batch))
        return list(as_array(drawn["logits"]).swapaxes(0, 1))

    def novelties(self, batch: Sequence[Any], drawn: Inputs | None = None) -> list[dict[str, Any]]:
        """Return the fields of the results about the novelty of the inputs; none if it was not fitted.

        Args:
            drawn: outputs of samples of the batch; features in them are those of the first, deterministic one.
        """
        if self.calibration.novelty is None:
            return [{} for _ in batch]
        return self.calibration.novelty.fields(self.known_features(batch, drawn))

    def known_features(self, batch: Sequence[Any], drawn: Inputs | None) -> dict[str, Array]:
        """Return the features in the deterministic model, (B, D) each, from its outputs if there are some."""
        found = features_of(drawn or {})
        if found:
            return {name: as_array(x[0]) for name, x in found.items()}
        return stacked(self.features(batch))

    def fitted(self, batch: Sequence[Any], results: list[Any]) -> list[Any]:
        """Return earlier results of the batch, of temperature 1, with the temperature and the fits of this head."""
        return results

    def alignments(self, inputs: Inputs, samples: Array | None) -> list[Array | None]:
        """Return the samples of a latent alignment for every input, (S, T, tokens of the input).

        Args:
            samples: (S, B, T, padded input); None: the model has none.
        """
        mask = inputs["attention_mask"].bool().cpu().numpy()
        if samples is None:
            return [None] * len(mask)
        return [own[..., kept] for own, kept in zip(samples.swapaxes(0, 1), mask, strict=True)]

    def ood_scores(self, batch: Sequence[Any]) -> list[dict[str, float]]:
        """Return the scores of each input by name, see `hf_bam.evaluation.ood`."""
        if self.calibration.novelty is None:
            raise ValueError("Without classes there are no scores but novelty; call predictor.fit(inputs) first.")
        return as_rows(self.calibration.novelty.scores(stacked(self.features(batch))))

    def probabilities(self, logits: Tensor) -> Array:
        """Return the softmax of logits at the temperature of the settings."""
        return as_array((logits / self.settings.temperature).softmax(dim=-1))


def encoder_features(head: Head, batch: Sequence[Text]) -> list[dict[str, Array]]:
    """Return mean hidden states of the encoder, or of a decoder that reads the input, by name, (D,) each."""
    inputs, _, _ = head.encode(batch, padding_side="right")
    model = base_model(head.sampler.deterministic)
    reader = model.get_encoder() if model.config.is_encoder_decoder else model.base_model
    with mean_mode(model):
        output = reader(**inputs, output_hidden_states=True)
    return vectors(layer_features(output, inputs.get("attention_mask")))


def labels_of(model: PreTrainedModel) -> list[str]:
    """Return the names of the classes in the order of their indices."""
    names = model.config.id2label
    return [names[index] for index in range(len(names))]


def check_finite(outputs: Array) -> None:
    """Raise `ValueError` when some of the outputs, (S, B, ...), are not finite."""
    finite = np.asarray(np.isfinite(outputs).all(axis=(0, *range(2, outputs.ndim))))  # (B,)
    if not finite.all():
        raise ValueError(f"{(~finite).sum()} of {len(finite)} outputs are not finite: training has diverged.")


def vectors(features: Mapping[str, Tensor]) -> list[dict[str, Array]]:
    """Return the features of each input by name from those of a batch, (B, D) each."""
    arrays = {name: as_array(x) for name, x in features.items()}
    return [dict(zip(arrays, rows, strict=True)) for rows in zip(*arrays.values(), strict=True)]


def as_rows(columns: Mapping[str, Array]) -> list[dict[str, float]]:
    """Return a dictionary of numbers for each input from columns (B,)."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*(c.tolist() for c in columns.values()), strict=True)]


def as_array(tensor: Tensor) -> Array:
    """Return a tensor as a float64 array."""
    return tensor.detach().cpu().double().numpy()
