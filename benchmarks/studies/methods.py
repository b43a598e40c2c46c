"""Methods of the study: samplers of a trained model, and the selection of their noise level.

A noise level is a dropout rate, or the shape k of Weibull noise. A method without a choice has one level, None.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hf_bam
from hf_bam.prediction import Bam, Dropout, Plain
from hf_bam.training.evaluation import make_predictor
from hf_bam.training.settings import Job
from hf_bam.training.uncertainty import USUAL_DROPOUT

RATES = (0.05, 0.1, 0.2)
SHAPES = (5.0, 2.0, 1.0, 0.5)
SAMPLES_FOR_SELECTION = 8


@dataclass(frozen=True)
class Trained:
    """A trained model, with its task, the settings of its run, and the folders of an ensemble out of the same run."""

    job: Job
    task: Any
    model: Any
    tokenizer: Any
    members: Sequence[Path] = ()

    def predictor(self, sampler, **options):
        """Return a predictor with the settings of the task and the recipe; `options` take precedence."""
        return make_predictor(self.task, sampler, self.tokenizer, self.job.recipe, **options)


def methods(model, extra=False):
    """Return samplers by method and noise level.

    Args:
        extra: add methods that are evaluated with one seed only.
    """
    if hf_bam.is_patched(model):
        found = {"mean": {None: Plain(model)}, "samples": {None: Bam(model)}}
        return found | ({"samples and dropout": {None: Bam(model, dropout=USUAL_DROPOUT)}} if extra else {})
    found = {"plain": {None: Plain(model)}, "MC dropout": {rate: Dropout(model, rate=rate) for rate in RATES}}
    if extra:
        entries = hf_bam.BamConfig(prior="none", noise="entry")
        tokens = entries.replace(noise="token", layers=1)
        found["noise untrained"] = {k: with_noise(model, entries, k) for k in SHAPES}
        found["token noise untrained"] = {k: with_noise(model, tokens, k) for k in SHAPES}
    return found


def with_noise(model, config, k, dropout=None):
    """Return a sampler with a patched copy of the model: Weibull noise of shape k, or Lognormal noise as wide."""
    noisy = copy.deepcopy(model)
    hf_bam.patch(noisy, with_shape(config, k))
    return Bam(noisy, dropout=dropout)


def with_shape(config, k):
    """Return the config with noise as wide as that of a Weibull distribution of shape k."""
    width = {"sigma": math.pi / math.sqrt(6) / k} if config.family == "lognormal" else {"k": k}
    return config.replace(**width)


@dataclass(frozen=True)
class Selection:
    """Noise level of a method, and the losses of all levels on held-out rows; no losses if there is no choice."""

    level: float | None
    losses: dict[float, float]


def select(levels, loss):
    """Select the noise level with the smallest loss; a single level is not evaluated.

    Args:
        levels: noise levels of a method.
        loss: loss on held-out rows, a function of the level.
    """
    if len(levels) == 1:
        return Selection(next(iter(levels)), {})
    losses = {level: loss(level) for level in levels}
    return Selection(min(losses, key=losses.get), losses)


def selection_record(selections):
    """Return the entry `selection` of the record of a run: the methods that have a choice."""
    return {
        name: {"level": selection.level, "losses": {str(level): loss for level, loss in selection.losses.items()}}
        for name, selection in selections.items()
        if selection.losses
    }
