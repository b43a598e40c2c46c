"""Folders of predictors: the model, its tokenizer, and `calibration.safetensors` with settings and fits."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import transformers
from transformers import AutoConfig, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.hub import cached_file

from .. import models
from ..attention.interface import NAME
from ..fields import check_fields, from_fields
from ..patching.state import base_model, find_patches, patch_of
from .calibration import FILE, Calibration
from .samplers import Ensemble
from .settings import Settings

if TYPE_CHECKING:
    from .predictor import Predictor

Kind = TypeVar("Kind", bound="Predictor")
LOCATION = ("cache_dir", "force_download", "local_files_only", "revision", "subfolder", "token")
LOADING = (*LOCATION, "device_map", "dtype")
"""Keywords of transformers' `from_pretrained`: for the location of files, and for the model."""


@dataclass(frozen=True)
class About:
    """Description of a predictor in the header of its file: what predictions depend on, except weights and fits.

    Attributes:
        architecture: class name of the model.
        bayesian: the model is patched.
        head: name of the head.
        sampler: class name and options of the sampler.
        settings: fields of `Settings`.
    """

    architecture: str
    bayesian: bool
    head: str
    sampler: dict[str, Any]
    settings: dict[str, Any]

    def __post_init__(self) -> None:
        check_fields(self)
        from_fields(Settings, self.settings)

    @classmethod
    def of(cls, predictor: Predictor) -> About:
        """Return the description of a predictor."""
        root, sampler = base_model(predictor.sampler.model), predictor.sampler
        architecture, options = (
            type(root).__name__.removeprefix("FSDP"),
            {"name": type(sampler).__name__, **sampler.options},
        )
        return cls(architecture, bool(find_patches(root)), predictor.head_name, options, asdict(predictor.settings))

    @property
    def probabilities(self) -> tuple[Any, ...]:
        """Everything here on which the probabilities of a prediction depend."""
        return self.architecture, self.head, self.sampler, Settings(**self.settings).probabilities


@dataclass(frozen=True)
class Stored:
    """Content of the folder of a predictor.

    Attributes:
        calibration: empty for the folder of a model alone.
        about: description of the predictor that was saved; None for the folder of a model alone.
        options: arguments of the new predictor: those that were saved, and given ones in their place.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    calibration: Calibration
    about: About | None
    options: dict[str, Any]

    def calibrate(self, predictor: Kind) -> Kind:
        """Give a predictor the stored calibration, as far as it holds for its settings, and return it."""
        holds = self.about is not None and self.about.probabilities == About.of(predictor).probabilities
        predictor.calibration = self.calibration if holds else self.calibration.without_guarantees()
        return predictor


def save(predictor: Predictor, folder: str | os.PathLike[str], **options: Any) -> None:
    """Write the folder of a predictor; `options` are those of the model's `save_pretrained`."""
    if isinstance(predictor.sampler, Ensemble):
        raise ValueError("An ensemble has several models; save each of them with its save_pretrained.")
    predictor.sampler.model.save_pretrained(folder, **options)
    predictor.tokenizer.save_pretrained(folder)
    predictor.calibration.write(folder, asdict(About.of(predictor)))


def load(name_or_path: str | os.PathLike[str], options: dict[str, Any]) -> Stored:
    """Return the content of a folder or of a repository of the Hub; Bayesian models are patched as they were.

    Args:
        options: arguments of the predictor, and those of `LOADING`.
    """
    loading = {name: options.pop(name) for name in LOADING if name in options}
    location = {name: loading[name] for name in LOCATION if name in loading}
    path = cached_file(name_or_path, FILE, _raise_exceptions_for_missing_entries=False, **location)
    calibration, about = (Calibration(), None) if path is None else read(path)
    if about is not None:
        architecture, bayesian = about.architecture, about.bayesian
        options = {"head": about.head, **about.settings, **options}
    else:
        config = AutoConfig.from_pretrained(name_or_path, **location)
        architecture, bayesian = (config.architectures or [""])[0], hasattr(config, NAME)
    cls = getattr(transformers, architecture, None) or getattr(models, architecture, None)
    if cls is None:
        raise ValueError(f"{name_or_path} was saved from a {architecture!r}, which transformers does not have.")
    model = cls.from_pretrained(name_or_path, **({"attn_implementation": NAME} if bayesian else {}), **loading)
    tokenizer = AutoTokenizer.from_pretrained(name_or_path, **location)
    return Stored(model.eval(), tokenizer, calibration, about, options)


def read(path: str) -> tuple[Calibration, About]:
    """Return the content of a file; raise `ValueError` if it is damaged or not of a predictor."""
    calibration, header = Calibration.read(Path(path).parent)
    try:
        return calibration, About(**header)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} describes a predictor that this hf_bam does not know: {error}") from error


def push(predictor: Predictor, repo_id: str, **options: Any) -> str:
    """Upload the folder of a predictor with the model card of its patched model; return the address of the commit."""
    model: Any = predictor.sampler.model
    patch_of(model)  # or an error: the card is that of a patched model
    return str(model.push_to_hub(repo_id, predictor=predictor, **options))
