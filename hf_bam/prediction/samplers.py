"""Samplers: sources of several predictions for one input."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from copy import copy
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import PreTrainedModel

from ..attention.layer import BamLayer
from ..attention.sampling import Sampling
from ..patching.architectures import SHARES_PREFIX
from ..patching.state import base_model, find_patches, patch_of
from .batched import Inputs, draw, repeat_all, sample_seeds
from .copies import dropouts, in_evaluation, with_dropout
from .dropout import SeededDropout
from .features import NAME, features_of, with_features
from .student import StudentFit

Self = TypeVar("Self", bound="Sampler")
_global_generator = threading.RLock()


class Sampler(ABC):
    """Source of samples from a model.

    The noise of an input is a function of its seed and of the index of a sample. Nothing of the model is changed, so
    several threads can predict with one model.

    Attributes:
        model: the model that samples; heads use its config and its `generate`.
        deterministic: the model for a single prediction without noise, within `mean_mode`.
        limit: largest number of different samples, or None. With a limit, the first sample is deterministic.
        share_prefix: compute the layers before the first stochastic one once for all samples.
        one_pass: all samples come from one deterministic pass, with its features.
    """

    limit: int | None = None
    share_prefix: bool = False
    one_pass: bool = False

    def __init__(self, model: PreTrainedModel, token_budget: int = 8192) -> None:
        self.model = self.deterministic = model
        self.token_budget = token_budget

    def ready(self: Self, num_outputs: int | None = None) -> Self:
        """Return a sampler whose model is in the mode that it needs; the mode of the caller's model stays.

        Args:
            num_outputs: let the deterministic model return features, too; those before the logits come from the linear
                layer with this number of outputs.
        """
        other = copy(self)
        other.deterministic = evaluated(self.model, num_outputs)
        other.model = self.random_model(evaluated(self.model)) if self.limit is None else other.deterministic
        return other

    def random_model(self, model: PreTrainedModel) -> PreTrainedModel:
        """Return the model that samples, from one in evaluation mode."""
        return model

    @property
    def options(self) -> dict[str, Any]:
        """Arguments on which the samples depend, by name."""
        return {}

    @abstractmethod
    def noise(self, rows: Tensor, copies: int = 1) -> AbstractContextManager[Any]:
        """Return the context of forward passes whose rows have these seeds.

        In all forward passes of one context a row has the same noise, which its beams share.

        Args:
            rows: (copies * B,) int64.
            copies: number by which the model expands its batch of B behind the shared prefix.
        """

    def draw(self, inputs: Inputs, number: int, seeds: Tensor, first: int = 0) -> Inputs:
        """Return the output tensors of `number` samples, (number, B, ...) each.

        Args:
            seeds: (B,) int64, one for each input.
            first: index of the first sample.
        """
        number = min(number, self.limit or number)
        sizes, share = (number, self.token_budget), self.share_prefix
        return draw(self.model, inputs, *sizes, seeds, self.noise, first=first, share_prefix=share)

    def features(self, inputs: Inputs) -> dict[str, Tensor]:
        """Return the features of the deterministic model by name, (B, D) each."""
        with mean_mode(self.deterministic):
            return features_of(self.deterministic(**inputs))

    def hypotheses(self, inputs: Inputs, number: int, seeds: Tensor, options: dict[str, Any]) -> Tensor:
        """Return the generated token ids of `number` samples, (number, B, L)."""
        inputs = {**inputs, **encoder_outputs(self.model, inputs)}
        with self.noise(sample_seeds(seeds, torch.arange(number))):
            ids: Tensor = self.model.generate(**repeat_all(inputs, number), **options)
        return ids.reshape(number, -1, ids.shape[-1])


class Plain(Sampler):
    """The deterministic model: one prediction, with mean attention if the model is patched."""

    limit = 1

    def noise(self, rows: Tensor, copies: int = 1) -> AbstractContextManager[Any]:
        return mean_mode(self.model)


class Bam(Sampler):
    """Bayesian attention, with Monte Carlo dropout beside it if `dropout` is a rate."""

    def __init__(self, model: PreTrainedModel, token_budget: int = 8192, dropout: float | None = None) -> None:
        super().__init__(model, token_budget)
        patch_of(model)  # or an error
        self.dropout = dropout
        self.share_prefix = dropout is None and base_model(model).config.model_type in SHARES_PREFIX

    @property
    def options(self) -> dict[str, Any]:
        return {"dropout": self.dropout}

    def random_model(self, model: PreTrainedModel) -> PreTrainedModel:
        return model if self.dropout is None else with_dropout(model, self.dropout)

    @contextmanager
    def noise(self, rows: Tensor, copies: int = 1) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(patch_of(self.model).runtime.sample(Sampling(rows=rows, copies=copies)))
            if self.dropout is not None:
                stack.enter_context(SeededDropout(rows))
            yield


class Dropout(Sampler):
    """Monte Carlo dropout, at the model's own rates or at one rate for all."""

    def __init__(self, model: PreTrainedModel, token_budget: int = 8192, rate: float | None = None) -> None:
        super().__init__(model, token_budget)
        self.rate = rate
        if rate is None and not any(value for _, _, value in dropouts(model)):
            raise ValueError(f"All dropout rates of this {type(model).__name__} are 0; give one: rate=0.1.")

    @property
    def options(self) -> dict[str, Any]:
        return {"rate": self.rate}

    def random_model(self, model: PreTrainedModel) -> PreTrainedModel:
        return with_dropout(model, self.rate)

    @contextmanager
    def noise(self, rows: Tensor, copies: int = 1) -> Iterator[None]:
        with mean_mode(self.model), SeededDropout(rows):
            yield


class Ensemble(Plain):
    """A deep ensemble: each model gives one sample. Features are those of the first model."""

    def __init__(self, models: Sequence[PreTrainedModel], token_budget: int = 8192) -> None:
        if not models:
            raise ValueError("models=[] is empty; an ensemble needs at least one model.")
        super().__init__(models[0], token_budget)
        self.models = list(models)
        self.limit = len(self.models)

    def ready(self, num_outputs: int | None = None) -> Ensemble:
        first, *others = self.models
        models = [evaluated(first, num_outputs), *(evaluated(model) for model in others)]
        return Ensemble(models, self.token_budget)

    def draw(self, inputs: Inputs, number: int, seeds: Tensor, first: int = 0) -> Inputs:
        members = [Plain(model, self.token_budget) for model in self.models[first : first + number]]
        outputs = [member.draw(inputs, 1, seeds) for member in members]
        return {name: torch.cat([output[name] for output in outputs if name in output]) for name in outputs[0]}

    def hypotheses(self, inputs: Inputs, number: int, seeds: Tensor, options: dict[str, Any]) -> Tensor:
        members = [Plain(model, self.token_budget) for model in self.models[:number]]
        ids = [member.hypotheses(inputs, 1, seeds, options)[0] for member in members]
        longest = max(part.shape[-1] for part in ids)
        padding = self.model.generation_config.pad_token_id or 0
        return torch.stack([pad(part, (0, longest - part.shape[-1]), value=padding) for part in ids])


class Student(Sampler):
    """The samples that [`distill`][hf_bam.prediction.Predictor.distill] fitted, from one deterministic pass."""

    one_pass = True

    def __init__(self, model: PreTrainedModel, fit: StudentFit, token_budget: int = 8192) -> None:
        super().__init__(model, token_budget)
        self.fit = fit

    def ready(self, num_outputs: int | None = None) -> Student:
        return Student(evaluated(self.model, int(self.model.config.num_labels)), self.fit, self.token_budget)

    def noise(self, rows: Tensor, copies: int = 1) -> AbstractContextManager[Any]:
        return mean_mode(self.model)

    def draw(self, inputs: Inputs, number: int, seeds: Tensor, first: int = 0) -> Inputs:
        with self.noise(seeds):
            output = self.model(**inputs)
        known = features_of(output)
        logits, features = (x.double().cpu().numpy() for x in (output["logits"], known[NAME]))
        size = first + number, logits.shape[-1]  # the first samples of an input do not depend on their number
        noise = np.stack([np.random.default_rng(abs(seed)).normal(size=size) for seed in seeds.tolist()], axis=1)
        drawn = torch.from_numpy(self.fit.draw(logits, features, noise[first:]))
        return {"logits": drawn, **{name: x[None] for name, x in known.items()}}


def evaluated(model: PreTrainedModel, num_outputs: int | None = None) -> PreTrainedModel:
    """Return a model in evaluation mode, with features if the number of outputs of its last layer is given."""
    model = in_evaluation(model)
    return model if num_outputs is None else with_features(model, num_outputs)


def encoder_outputs(model: PreTrainedModel, inputs: Inputs) -> Inputs:
    """Return the argument `encoder_outputs` of a model if its encoder is deterministic, else nothing."""
    if not model.config.is_encoder_decoder:
        return {}
    encoder: Any = model.get_encoder()
    if encoder.training or any(any(module.uses) for module in encoder.modules() if isinstance(module, BamLayer)):
        return {}
    return {"encoder_outputs": encoder(**inputs)}


@contextmanager
def mean_mode(model: nn.Module) -> Iterator[None]:
    """Use mean attention, also within `hf_bam.sampling`; a model that is not patched stays as it is."""
    with ExitStack() as stack:
        for patch in find_patches(model):
            stack.enter_context(patch.runtime.sample(None))
        yield


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Seed the global generator and restore it afterwards, one thread at a time; None leaves it alone."""
    if seed is None:
        yield
        return
    with _global_generator, torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
