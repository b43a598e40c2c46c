"""Where several predictions for one input come from: Bayesian attention, and what could be used instead."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import PreTrainedModel

from ..layer import BamLayer
from ..patching import sampling
from ..patching.state import patch_of
from ..runtime import Draws
from .folding import Inputs, draw, repeat_all

DROPOUT_ATTRIBUTES = ("dropout", "attention_dropout", "activation_dropout", "attn_dropout")


class Sampler(ABC):
    """A way to draw predictions; `model` is the one whose config and generation are used.

    Attributes:
        limit: the largest number of different draws there are, or None.
    """

    limit: int | None = None

    def __init__(self, model: PreTrainedModel, token_budget: int = 8192) -> None:
        self.model = model
        self.token_budget = token_budget

    @contextmanager
    def session(self, seed: int | None) -> Iterator[None]:
        """Puts the model into the right mode, and back into the one it was in."""
        with evaluating(self.model):
            yield

    @abstractmethod
    def draw(self, inputs: Inputs, number: int) -> Inputs:
        """Output tensors of `number` draws, (number, B, ...) each; within a session."""

    @contextmanager
    def pause(self) -> Iterator[None]:
        """The deterministic model, within a session."""
        with evaluating(self.model):
            yield

    def hypotheses(self, inputs: Inputs, number: int, seed: int | None, options: dict[str, Any]) -> Tensor:
        """Generated token ids of `number` draws, (number, B, L)."""
        repeated = repeat_all(inputs, number)
        ids: Tensor = self.model.generate(**repeated, **options)
        return ids.reshape(number, -1, ids.shape[-1])


class Plain(Sampler):
    """The model as it is: one deterministic prediction (mean attention, if it is patched)."""

    limit = 1

    def draw(self, inputs: Inputs, number: int) -> Inputs:
        return draw(self.model, inputs, 1, self.token_budget, share_prefix=False)


class Bam(Sampler):
    """Bayesian attention, with dropout besides if `dropout` is a rate."""

    def __init__(self, model: PreTrainedModel, token_budget: int = 8192, dropout: float | None = None) -> None:
        super().__init__(model, token_budget)
        patch_of(model)  # or an error
        self.dropout = dropout

    @contextmanager
    def session(self, seed: int | None) -> Iterator[None]:
        dropped = nullcontext() if self.dropout is None else dropout_on(self.model, self.dropout, seed)
        with evaluating(self.model), patch_of(self.model).runtime.sampling(Draws(seed)), dropped:
            yield

    @contextmanager
    def pause(self) -> Iterator[None]:
        with evaluating(self.model), patch_of(self.model).runtime.sampling(None):
            yield

    def hypotheses(self, inputs: Inputs, number: int, seed: int | None, options: dict[str, Any]) -> Tensor:
        """One draw of the attention for each hypothesis, from its first token to its last, shared by its beams."""
        groups = number * next(iter(inputs.values())).shape[0]
        with sampling(self.model, seed, hold=True, groups=groups):
            return super().hypotheses(inputs, number, seed, options)

    def draw(self, inputs: Inputs, number: int) -> Inputs:
        share = self.dropout is None  # dropout makes the layers before the first stochastic attention random too
        return draw(self.model, inputs, number, self.token_budget, share_prefix=share)


class Dropout(Sampler):
    """Monte Carlo dropout, with the model's own rates or with one rate for all."""

    def __init__(self, model: PreTrainedModel, token_budget: int = 8192, rate: float | None = None) -> None:
        super().__init__(model, token_budget)
        self.rate = rate
        if rate is None and not any(value for _, _, value in dropouts(model)):
            raise ValueError(f"All dropout rates of this {type(model).__name__} are 0; give one: rate=0.1.")

    @contextmanager
    def session(self, seed: int | None) -> Iterator[None]:
        with dropout_on(self.model, self.rate, seed):
            yield

    def draw(self, inputs: Inputs, number: int) -> Inputs:
        return draw(self.model, inputs, number, self.token_budget, share_prefix=False)


class Ensemble(Sampler):
    """A deep ensemble: each model gives one draw."""

    def __init__(self, models: Sequence[PreTrainedModel], token_budget: int = 8192) -> None:
        if not models:
            raise ValueError("models=[] is empty; an ensemble needs at least one model.")
        super().__init__(models[0], token_budget)
        self.models = list(models)
        self.limit = len(self.models)

    @contextmanager
    def session(self, seed: int | None) -> Iterator[None]:
        with evaluating(nn.ModuleList(self.models)):
            yield

    def draw(self, inputs: Inputs, number: int) -> Inputs:
        outputs = [draw(model, inputs, 1, self.token_budget, share_prefix=False) for model in self.models[:number]]
        return {name: torch.cat([output[name] for output in outputs]) for name in outputs[0]}

    def hypotheses(self, inputs: Inputs, number: int, seed: int | None, options: dict[str, Any]) -> Tensor:
        ids = [model.generate(**inputs, **options) for model in self.models[:number]]
        longest = max(part.shape[-1] for part in ids)
        padding = self.model.generation_config.pad_token_id or 0
        return torch.stack([pad(part, (0, longest - part.shape[-1]), value=padding) for part in ids])


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode; every module gets back the mode it had."""
    before = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, was_training in before:
            module.training = was_training


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Seeds the global generator and puts it back afterwards; None leaves it alone."""
    with torch.random.fork_rng(enabled=seed is not None):
        if seed is not None:
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


@contextmanager
def dropout_on(model: nn.Module, rate: float | None, seed: int | None) -> Iterator[None]:
    """Makes a model in evaluation mode drop out, whether through modules or functions of its layers.

    A layer drops out when its own training flag is set, so the flags of all layers are set; those of the Bayesian
    attention and of the model itself are not, so that these stay in evaluation mode. Draws come from the global
    generator, which is put back afterwards.
    """
    places = dropouts(model)
    bayesian = {id(part) for module in model.modules() if isinstance(module, BamLayer) for part in module.modules()}
    with evaluating(model), seeded(seed):
        try:
            for module, name, own_rate in places:
                setattr(module, name, own_rate if rate is None else rate)
            for module in model.modules():
                has_statistics = isinstance(module, nn.modules.batchnorm._BatchNorm)
                module.training = not (module is model or id(module) in bayesian or has_statistics)
            yield
        finally:
            for module, name, before in places:
                setattr(module, name, before)
