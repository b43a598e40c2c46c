"""Loading of whole Bayesian models from folders and the Hub, and their upload to the Hub."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import huggingface_hub
import transformers
from huggingface_hub import ModelCard
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import ADAPTER_CONFIG_NAME, logging
from transformers.utils.hub import cached_file

from .. import models
from ..fields import shown
from ..patching.state import base_model, patch_of
from . import code_prior
from .cards import model_card
from .eval_results import FOLDER
from .serialization import SavedBam, apply, find, read

if TYPE_CHECKING:
    from ..prediction import Predictor

logger = logging.get_logger("transformers.hf_bam")
_no_warning: ContextVar[bool] = ContextVar("hf_bam_no_warning", default=False)

LOCATION = ("cache_dir", "force_download", "local_files_only", "revision", "subfolder", "token")
"""Keywords of `from_pretrained` for the location of files on the Hub."""


def from_pretrained(
    name_or_path: str | os.PathLike[str], *, model_class: type[PreTrainedModel] | None = None, **kwargs: Any
) -> Any:
    """Load the Bayesian model that `save_pretrained` or `push_to_hub` stored, in evaluation mode.

    Args:
        name_or_path: a folder or a repository of the Hub, with a whole model or with a PEFT adapter and its BAM file.
        model_class: class of the model; by default the one that was saved.
        kwargs: as for `from_pretrained` of transformers: `revision`, `token`, `dtype`, `num_labels`, ... With an
            adapter they go to its base model.
    """
    location = location_in(kwargs)
    saved = read(find(name_or_path, **location))
    cls = model_class or _class_named(saved)
    with _without_warning():
        model = _load(cls, name_or_path, saved, location, kwargs)
    code_prior.load(model, name_or_path, **location)
    return model


def _load(
    cls: type[PreTrainedModel], name_or_path: Any, saved: SavedBam, location: dict[str, Any], kwargs: dict[str, Any]
) -> Any:
    adapter = cached_file(name_or_path, ADAPTER_CONFIG_NAME, _raise_exceptions_for_missing_entries=False, **location)
    if adapter is None:
        return apply(cls.from_pretrained(name_or_path, **kwargs), saved)
    return _with_adapter(cls, name_or_path, saved, location, kwargs)


@contextmanager
def _without_warning() -> Iterator[None]:
    """Suppress the warning of `warn_plain` inside this context."""
    token = _no_warning.set(True)
    try:
        yield
    finally:
        _no_warning.reset(token)


def warn_plain(name_or_path: Any) -> None:
    """Log once that a Bayesian model was loaded as a plain one."""
    if not _no_warning.get():
        logger.warning_once(
            f"{name_or_path} is a Bayesian model and was loaded as a plain one. Load the Bayesian one with "
            f"hf_bam.from_pretrained({str(name_or_path)!r}) or attn_implementation='bam'."
        )


def location_in(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return those keywords of `from_pretrained` that locate files."""
    return {name: kwargs[name] for name in LOCATION if name in kwargs}


def _class_named(saved: SavedBam) -> type[PreTrainedModel]:
    cls = getattr(transformers, saved.architecture, None) or getattr(models, saved.architecture, None)
    if not isinstance(cls, type) or not issubclass(cls, PreTrainedModel):
        raise ValueError(
            f"{saved.source} was saved from a {shown(saved.architecture)}, which is no model of transformers; give "
            "model_class=..."
        )
    return cls


def _with_adapter(
    cls: type[PreTrainedModel], name: Any, saved: SavedBam, location: dict[str, Any], kwargs: dict[str, Any]
) -> Any:
    from peft import PeftConfig, PeftModel

    base_name = PeftConfig.from_pretrained(name, **location).base_model_name_or_path
    settings = {key: value for key, value in kwargs.items() if key not in location}
    base = apply(cls.from_pretrained(base_name, **settings), saved)
    return PeftModel.from_pretrained(base, name, **location)


def push_to_hub(
    model: Any,
    repo_id: str,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    predictor: Predictor | None = None,
    card: ModelCard | str | None = None,
    figures: Sequence[str | os.PathLike[str]] = (),
    eval_results: str | None = None,
    private: bool | None = None,
    token: str | bool | None = None,
    revision: str | None = None,
    commit_message: str | None = None,
    commit_description: str | None = None,
    create_pr: bool = False,
    max_shard_size: int | str = "50GB",
    tags: Sequence[str] = (),
) -> str:
    """Upload a patched model with its tokenizer and a model card, in one commit.

    Args:
        model: a patched model, or a PEFT model around one.
        repo_id: created if it does not exist.
        tokenizer: uploaded with the model.
        predictor: a predictor of the model, whose tokenizer and calibration are uploaded with it.
        card: text of the card; by default that of the repository, if it has one, or else the result of
            [`model_card`][hf_bam.integrations.cards.model_card].
        figures: image files of the card, uploaded to `figures/`.
        eval_results: YAML of scores for the Hub, uploaded to `.eval_results/hf_bam.yaml`; see
            [`eval_results_yaml`][hf_bam.integrations.eval_results.eval_results_yaml].
        tags: further tags for the card.

    The other arguments are those of transformers' own `push_to_hub`.

    Returns:
        The address of the commit.
    """
    patch_of(model)
    base_model(model)
    repo_id = huggingface_hub.create_repo(repo_id, private=private, token=token, exist_ok=True).repo_id
    if revision is not None and not revision.startswith("refs/"):
        huggingface_hub.create_branch(repo_id, branch=revision, token=token, exist_ok=True)
    if card is None:
        fitted = None if predictor is None else predictor.describe()
        card = _own_card(repo_id, token) or model_card(model, repo_id=repo_id, calibration=fitted)
    card = ModelCard(str(card))
    card.data["tags"] = list(dict.fromkeys([*(card.data.get("tags") or []), *tags]))
    with tempfile.TemporaryDirectory() as folder:
        (predictor or model).save_pretrained(folder, max_shard_size=max_shard_size)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
        write_attachments(Path(folder), figures, eval_results)
        card.save(Path(folder, "README.md"))
        commit = huggingface_hub.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            token=token,
            revision=revision,
            commit_message=commit_message or f"Upload {type(model).__name__}",
            commit_description=commit_description,
            create_pr=create_pr,
        )
    return str(commit.commit_url)


def write_attachments(
    folder: Path, figures: Sequence[str | os.PathLike[str]] = (), eval_results: str | None = None
) -> None:
    """Write the files that belong to a card to the folder of a model: its figures, and scores for the Hub."""
    for figure in figures:
        target = folder / "figures" / Path(figure).name
        target.parent.mkdir(exist_ok=True)
        shutil.copy(figure, target)
    if eval_results is not None:
        (folder / FOLDER).mkdir(exist_ok=True)
        (folder / FOLDER / "hf_bam.yaml").write_text(eval_results, encoding="utf-8")


def _own_card(repo_id: str, token: str | bool | None) -> ModelCard | None:
    try:
        return ModelCard.load(repo_id, token=token if isinstance(token, str) else None)
    except huggingface_hub.errors.EntryNotFoundError:
        return None
