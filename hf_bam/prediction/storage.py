"""Folders of predictors: the model, its tokenizer, and `calibration.safetensors` with settings and fits."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import transformers
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoProcessor,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils.hub import cached_file

from .. import models
from ..attention.interface import NAME
from ..fields import check_fields, from_fields
from ..patching.architectures import VISUAL
from ..patching.state import base_model, find_patches, patch_of
from .calibration import FILE, Calibration
from .samplers import Bam, Dropout, Ensemble, Plain, Sampler, Student
from .settings import Settings

if TYPE_CHECKING:
    from .predictor import Predictor

Kind = TypeVar("Kind", bound="Predictor[Any]")
POOLING = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_lasttoken": "lasttoken"}
"""Ways of pooling in files of sentence-transformers."""
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
    def of(cls, predictor: Predictor[Any]) -> About:
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

    def sampler(self, dropout: float | None = None) -> Sampler:
        """Return the sampler that was saved, or else Bayesian attention for a patched model and one pass for others.

        Args:
            dropout: rate of Monte Carlo dropout, in place of the saved one.
        """
        saved = self.about.sampler if self.about else {}
        if self.calibration.student is not None and saved.get("name") == "Student" and dropout is None:
            return Student(self.model, self.calibration.student)
        if find_patches(self.model) and saved.get("name") != "Plain":
            return Bam(self.model, dropout=saved.get("dropout") if dropout is None else dropout)
        rate = saved.get("rate") if dropout is None else dropout
        return Plain(self.model) if rate is None and saved.get("name") != "Dropout" else Dropout(self.model, rate=rate)

    def calibrate(self, predictor: Kind) -> Kind:
        """Give a predictor the stored calibration, as far as it holds for its settings, and return it."""
        holds = self.about is not None and self.about.probabilities == About.of(predictor).probabilities
        predictor.calibration = self.calibration if holds else self.calibration.without_guarantees()
        return predictor


def save(predictor: Predictor[Any], folder: str | os.PathLike[str], **options: Any) -> None:
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
    calibration, about = find(name_or_path, location)
    if about is not None:
        architecture, bayesian = about.architecture, about.bayesian
        options = {"head": about.head, **about.settings, **options}
    else:
        config = AutoConfig.from_pretrained(name_or_path, **location)
        architecture, bayesian = (config.architectures or [""])[0], hasattr(config, NAME)
        if architecture.endswith("Model"):
            options = {**sentence_options(name_or_path, location), **options}
    cls = getattr(transformers, architecture, None) or getattr(models, architecture, None)
    if cls is None:
        raise ValueError(f"{name_or_path} was saved from a {architecture!r}, which transformers does not have.")
    model = cls.from_pretrained(name_or_path, **({"attn_implementation": NAME} if bayesian else {}), **loading)
    tokenizer = encoder_class(model).from_pretrained(name_or_path, **location)
    return Stored(model.eval(), tokenizer, calibration, about, options)


@contextmanager
def named_model(name_or_path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise `ValueError` with the name of a model whose files are not found within the block."""
    try:
        yield
    except OSError as error:
        raise ValueError(
            f"model_name_or_path={str(name_or_path)!r} cannot be loaded: it is not a folder of a model, and the Hub "
            f"does not have it or cannot be reached. {str(error).splitlines()[0]}"
        ) from error


def encoder_class(model: PreTrainedModel) -> Any:
    """Return the auto class of what encodes the inputs of a model: texts, images, or pairs of both."""
    if type(model).__name__.endswith(VISUAL):
        return AutoProcessor
    return AutoImageProcessor if model.main_input_name == "pixel_values" else AutoTokenizer


def sentence_options(name_or_path: str | os.PathLike[str], location: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of embeddings of a model of sentence-transformers; none for other models."""

    def content(name: str) -> Any:
        path = cached_file(name_or_path, name, _raise_exceptions_for_missing_entries=False, **location)
        return None if path is None else json.loads(Path(path).read_text(encoding="utf-8"))

    options: dict[str, Any] = {}
    for module in content("modules.json") or ():
        kind = module["type"].rpartition(".")[2]
        if kind == "Normalize":
            options["normalize"] = True
        elif kind == "Pooling":
            modes = content(f"{module['path']}/config.json") or {}
            named = [name for key, name in POOLING.items() if modes.get(key) or modes.get("pooling_mode") == name]
            if len(named) != 1:
                raise ValueError(f"{name_or_path} pools its tokens in another way than by {', '.join(POOLING)}.")
            options["pooling"] = {"cls": "first", "lasttoken": "last"}.get(named[0], named[0])
    return options


def find(name_or_path: str | os.PathLike[str], location: dict[str, Any]) -> tuple[Calibration, About | None]:
    """Return the calibration of a folder or a repository, and the description of its predictor, if there are any."""
    path = cached_file(name_or_path, FILE, _raise_exceptions_for_missing_entries=False, **location)
    return (Calibration(), None) if path is None else read(path)


def read(path: str) -> tuple[Calibration, About]:
    """Return the content of a file; raise `ValueError` if it is damaged or not of a predictor."""
    calibration, header = Calibration.read(Path(path).parent)
    try:
        return calibration, About(**header)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} describes a predictor that this hf_bam does not know: {error}") from error


def push(predictor: Predictor[Any], repo_id: str, **options: Any) -> str:
    """Upload the folder of a predictor with the model card of its patched model; return the address of the commit."""
    model: Any = predictor.sampler.model
    patch_of(model)  # or an error: the card is that of a patched model
    return str(model.push_to_hub(repo_id, predictor=predictor, **options))
