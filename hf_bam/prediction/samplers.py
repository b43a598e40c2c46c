"""Where several predictions for one input come from: Bayesian attention, and what could be used instead."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from copy import copy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import PreTrainedModel

from ..attention.layer import BamLayer
from ..attention.runtime import Sampling
from ..patching.architectures import DROPOUT_ATTRIBUTES
from ..patching.state import find_patches, patch_of
from .batched import Inputs, draw, repeat_all, sample_seeds
from .copies import shared_copy
from .dropout import SeededDropout

Self = TypeVar("Self", bound="Sampler")
_global_generator = threading.RLock()


class Sampler(ABC):
    """A way to draw predictions; `model` is the one whose config and generation are used.

    The noise of an input is a function of its seed and of the number of a draw. Nothing of the model is changed, so
    that several threads can predict with one model.

    Attributes:
        limit: the largest number of different draws there are, or None.
        deterministic: the model for a single prediction without noise, within `mean_mode`.
    """

    limit: int | None = None

    def __init__(self, model: PreTrainedModel, token_budget: int = 8192) -> None:
        self.model = self.deterministic = model
        self.token_budget = token_budget

    def ready(self: Self) -> Self:
        """A sampler to draw with now: its model is in the mode that it needs, the caller's is left as it is."""
        other = copy(self)
        other.deterministic = in_evaluation(self.model)
        other.model = self.random_model(other.deterministic)
        return other

    def random_model(self, model: PreTrainedModel) -> PreTrainedModel:
        """The model to draw with, made of one in evaluation mode."""
        return model

    @abstractmethod
    def draw(self, inputs: Inputs, number: int, seeds: Tensor, first: int = 0) -> Inputs:
        """Output tensors of `number` draws, (number, B, ...) each.

        Args:
            seeds: (B,) int64, one for each input.
            first: the number of the first draw.
        """

    def noise(self, rows: Tensor) -> AbstractContextManager[Any]:
        """The context in which a batch is drawn whose rows have these seeds."""
        return mean_mode(self.model)

    def hypotheses(self, inputs: Inputs, number: int, seeds: Tensor, options: dict[str, Any]) -> Tensor:
        """Generated token ids of `number` draws, (number, B, L)."""
        with self.noise(sample_seeds(seeds, torch.arange(number))):
            ids: Tensor = self.model.generate(**repeat_all(inputs, number), **options)
        return ids.reshape(number, -1, ids.shape[-1])


class Plain(Sampler):
    """The model as it is: one deterministic prediction (mean attention, if it is patched)."""

    limit = 1

    def draw(self, inputs: Inputs, number: int, seeds: Tensor, first: int = 0) -> Inputs:
        with mean_mode(self.model):
            return draw(self.model, inputs, 1, self.token_budget)


class Bam(Sampler):
    """Bayesian attention, with dropout besides if `dropout` is a rate."""

    def __init__(self, model: PreTrainedModel, token_budget: int = 8192, dropout: float | None = None) -> None:
        super().__init__(model, token_budget)
        patch_of(model)  # or an error
        self.dropout = dropout

    def random_model(self, model: PreTrainedModel) -> PreTrainedModel:
        return model if self.dropout is None else with_dropout(model, self.dropout)

    @contextmanager
    def noise(self, rows: Tensor) -> Iterator[None]:
        """One draw of the attention for each row, the same in all forwards; the beams of a row share it."""
        dropout = nullcontext() if self.dropout is None else SeededDropout(rows)
        with patch_of(self.model).runtime.sample(Sampling(rows=rows)), dropout:
            yield

    def draw(self, inputs: Inputs, number: int, seeds: Tensor, first: int = 0) -> Inputs:
        noise = None if self.dropout is None else SeededDropout
        return draw(self.model, inputs, number, self.token_budget, seeds, first=first, noise=noise)


class Dropout(Sampler):
    """Monte Carlo dropout, with the model's own rates or with one rate for all."""

    def __init__(self, model: PreTrainedModel, token_budget: int = 8192, rate: float | None = None) -> None:
        super().__init__(model, token_budget)
        self.rate = rate
        if rate is None and not any(value for _, _, value in dropouts(model)):
            raise ValueError(f"All dropout rates of this {type(model).__name__} are 0; give one: rate=0.1.")

    def random_model(self, model: PreTrainedModel) -> PreTrainedModel:
        return with_dropout(model, self.rate)

    @contextmanager
    def noise(self, rows: Tensor) -> Iterator[None]:
        with mean_mode(self.model), SeededDropout(rows):
            yield

    def draw(self, inputs: Inputs, number: int, seeds: Tensor, first: int = 0) -> Inputs:
        with mean_mode(self.model):
            return draw(
                self.model, inputs, number, self.token_budget, seeds, first=first, noise=SeededDropout, attention=False
            )


class Ensemble(Sampler):
    """A deep ensemble: each model gives one draw."""

    def __init__(self, models: Sequence[PreTrainedModel], token_budget: int = 8192) -> None:
        if not models:
            raise ValueError("models=[] is empty; an ensemble needs at least one model.")
        super().__init__(models[0], token_budget)
        self.models = list(models)
        self.limit = len(self.models)

    def ready(self) -> Ensemble:
        return Ensemble([in_evaluation(model) for model in self.models], self.token_budget)

    def draw(self, inputs: Inputs, number: int, seeds: Tensor, first: int = 0) -> Inputs:
        members = [Plain(model, self.token_budget) for model in self.models[first : first + number]]
        outputs = [member.draw(inputs, 1, seeds) for member in members]
        return {name: torch.cat([output[name] for output in outputs]) for name in outputs[0]}

    def hypotheses(self, inputs: Inputs, number: int, seeds: Tensor, options: dict[str, Any]) -> Tensor:
        members = [Plain(model, self.token_budget) for model in self.models[:number]]
        ids = [member.hypotheses(inputs, 1, seeds, options)[0] for member in members]
        longest = max(part.shape[-1] for part in ids)
        padding = self.model.generation_config.pad_token_id or 0
        return torch.stack([pad(part, (0, longest - part.shape[-1]), value=padding) for part in ids])


def in_evaluation(model: PreTrainedModel) -> PreTrainedModel:
    """The model, if all of it is in evaluation mode, or a twin of it that is."""
    if not any(module.training for module in model.modules()):
        return model
    return shared_copy(model).eval()


@contextmanager
def mean_mode(model: nn.Module) -> Iterator[None]:
    """Mean attention, also within `hf_bam.sampling`; a model that is not patched is left alone."""
    with ExitStack() as stack:
        for patch in find_patches(model):
            stack.enter_context(patch.runtime.sample(None))
        yield


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Seeds the global generator and puts it back afterwards, one thread at a time; None leaves it alone."""
    if seed is None:
        yield
        return
    with _global_generator, torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def dropouts(model: nn.Module) -> list[tuple[nn.Module, str, float]]:
    """Every place that holds a dropout rate: `nn.Dropout` modules, and numbers that layers pass to the function."""
    places: list[tuple[nn.Module, str, float]] = []
    for module in model.modules():
        for name in ("p",) if isinstance(module, nn.Dropout) else DROPOUT_ATTRIBUTES:
            if isinstance(rate := getattr(module, name, None), float):
                places.append((module, name, rate))
    return places


def with_dropout(model: PreTrainedModel, rate: float | None) -> PreTrainedModel:
    """A twin of a model that drops out in evaluation mode, whether through modules or functions of its layers.

    A layer drops out when its own training flag is set, so the flags of all layers are set; those of the Bayesian
    attention and of the model itself are not, so that these stay in evaluation mode.
    """
    model = shared_copy(model)
    for module, name, own_rate in dropouts(model):
        setattr(module, name, own_rate if rate is None else rate)
    bayesian = {id(part) for module in model.modules() if isinstance(module, BamLayer) for part in module.modules()}
    for module in model.modules():
        has_statistics = isinstance(module, nn.modules.batchnorm._BatchNorm)
        module.training = not (module is model or id(module) in bayesian or has_statistics)
    return model
