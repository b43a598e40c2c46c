"""Noise for a finetuned model without training: its level, layers and temperature, chosen on held-out inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import product
from typing import Any

from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..config import BamConfig, setting_names
from ..evaluation.criteria import CLASSES, NUMBERS, best_index, class_scores, number_scores
from ..evaluation.labels import label_indices
from ..evaluation.tables import Table
from ..patching import is_patched, patch, unpatch
from ..patching.discovery import find_sites, stochastic_uses
from ..patching.state import root_of
from .base import Columns
from .bayesian import BamPredictor
from .fitting import numbers
from .predictor import Predictor
from .results import Array
from .samplers import Plain

LEVELS: dict[str, tuple[str, tuple[float, ...]]] = {
    "weibull": ("k", (5.0, 2.0, 1.0, 0.5, 0.25)),
    "lognormal": ("sigma", (0.26, 0.64, 1.28, 2.57, 5.13)),
    "multinomial": ("counts", (256, 64, 16, 4, 1)),
}
"""Families that work without training: the setting for the level of their noise, and candidates, least noise first.

Those of Lognormal noise are as wide as those of Weibull noise, `sigma = 1.2825 / k`.
"""
LAST_LAYERS = (2, 1)
"""Numbers of last layers that are tried beside all layers, where the model has more."""
CRITERIA = {"classification": CLASSES, "regression": NUMBERS}
"""Scores that can choose, by the name of the head; True: higher is better."""
SCORES = {"classification": class_scores, "regression": number_scores}
LEAST_INPUTS = 20


def calibrate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    inputs: Any,
    labels: Iterable[Any],
    *,
    family: str = "weibull",
    criterion: str = "nll",
    num_samples: int = 16,
    batch_size: int = 16,
    seed: int | None = 0,
    max_length: int | None = None,
    progress: bool | None = None,
    columns: Columns = None,
    **settings: Any,
) -> Predictor:
    """Choose the attention noise of a finetuned classifier or regression model on held-out inputs, without training.

    Every candidate predicts all inputs: no noise, then every combination of the settings. The scores of classes are
    those at the temperature that minimises the negative log-likelihood of the candidate. The scores of numbers are
    those of Gaussians with the variance of the samples plus a constant, which is fitted in the same way.

    Args:
        model: a plain model. It is patched in place with the chosen noise, without prior and KL. If no noise is best,
            and after an error, it is plain.
        inputs: as for a predictor, at least 20, on which the model was not trained.
        labels: their true labels, as names or indices, or numbers.
        family: "weibull", "lognormal" or "multinomial".
        criterion: score that chooses: "nll", "ece", "brier", "error_auroc", "aurc" or "accuracy"; for numbers "nll",
            "crps" or "pearson". The first of equal candidates is chosen.
        num_samples: samples of each input, in the search and of the predictor.
        batch_size, seed, max_length, progress: as for a predictor.
        columns: of a dataset.
        settings: fields of [`BamConfig`][hf_bam.BamConfig]; a list or tuple has candidates. By default five levels of
            noise (`k`, `sigma` or `counts`) and `layers=("all", 2, 1)` are tried.

    Returns:
        A [`BamPredictor`][hf_bam.BamPredictor] with the chosen noise and temperature, or a
            [`Predictor`][hf_bam.Predictor] of the plain model if no noise is best. Its `table` has a row for each
            candidate, with the scores on the inputs of the choice.
    """
    if is_patched(model):
        raise ValueError(
            f"This {type(model).__name__} is patched already; calibrate() chooses the noise of a plain model. Call "
            "hf_bam.unpatch(model) first, or fit the temperature of the noise that it has: BamPredictor.calibrated()."
        )
    options = {"num_samples": num_samples, "batch_size": batch_size, "seed": seed, "max_length": max_length}
    make = partial(make_predictor, model, tokenizer, {**options, "progress": progress})
    plain = make(None)
    check_criterion(plain.head_name, criterion)
    grid = candidates(model, family, settings)
    configs = [None, *combinations(model, family, grid)]
    texts = list(plain.items(inputs, columns))
    truth = truth_of(plain, labels, len(texts))
    rows: list[dict[str, Any]] = []
    with plain_after_error(model):
        for config in tqdm(configs, unit="setting", leave=False, disable=None if progress is None else not progress):
            values = dict.fromkeys(grid) if config is None else config.to_dict()
            scores = SCORES[plain.head_name](truth, make(config)(texts).samples)
            rows.append({**{name: values[name] for name in grid}, **scores})
        best = best_index(rows, criterion, CRITERIA[plain.head_name][criterion])
        predictor = make(configs[best]).with_settings(temperature=rows[best].get("temperature", 1.0))
    predictor.table = Table({**row, "chosen": index == best} for index, row in enumerate(rows))
    return predictor


def make_predictor(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, options: Mapping[str, Any], config: BamConfig | None
) -> Predictor:
    """Return a predictor with the noise of a config, which the model gets, or of the plain model for None."""
    if config is None:
        remove_noise(model)
        return Predictor(Plain(model), tokenizer, **options)
    return BamPredictor(patch(model, config), tokenizer, **options)


def candidates(model: PreTrainedModel, family: str, settings: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return the candidates of every setting that is shown in the table."""
    if family not in LEVELS:
        raise ValueError(f"family={family!r} does not work without training; choose one of {', '.join(LEVELS)}.")
    name, levels = LEVELS[family]
    depth = max(layer for site in find_sites(root_of(model)) for layer in site.layers) + 1
    layers = ("all", *(number for number in LAST_LAYERS if number < depth))
    grid = {"layers": layers, name: levels, **settings}
    for name, values in grid.items():
        grid[name] = tuple(values) if isinstance(values, (list, tuple)) else (values,)
        if not grid[name]:
            raise ValueError(f"{name}={values!r} has no candidates; give at least one.")
    return grid


def combinations(model: PreTrainedModel, family: str, grid: Mapping[str, tuple[Any, ...]]) -> list[BamConfig]:
    """Return all combinations of candidates, without prior and KL; raise `ValueError` if the model cannot have one."""
    fixed = {"kl_weight": 0.0, **({"prior": "none"} if "prior" in setting_names(family) else {})}
    configs = [
        BamConfig(family, **{**fixed, **dict(zip(grid, values, strict=True))}) for values in product(*grid.values())
    ]
    sites = find_sites(root_of(model))
    for config in configs:
        stochastic_uses(sites, config)
    return configs


def truth_of(predictor: Predictor, labels: Iterable[Any], number: int) -> Array:
    """Return the true labels or numbers of held-out inputs, (B,)."""
    if number < LEAST_INPUTS:
        raise ValueError(f"{number} held-out inputs are too few for a choice; give at least {LEAST_INPUTS}.")
    if predictor.head_name == "classification":
        return label_indices(labels, predictor.label_names, number)
    return numbers(labels, number)


def check_criterion(head: str, criterion: str) -> None:
    if head not in CRITERIA:
        raise ValueError(f"calibrate() needs a model with {' or '.join(CRITERIA)}; the head of this one is {head!r}.")
    if criterion not in CRITERIA[head]:
        raise ValueError(
            f"criterion={criterion!r} is not known for {head}; choose one of {', '.join(CRITERIA[head])}."
        )


def remove_noise(model: PreTrainedModel) -> None:
    """Unpatch the model if it is patched."""
    if is_patched(model):
        unpatch(model)


@contextmanager
def plain_after_error(model: PreTrainedModel) -> Iterator[None]:
    """Remove the noise of a model if the content of this context raises an error, also an interrupt."""
    try:
        yield
    except BaseException:
        remove_noise(model)
        raise
