"""Alignments of source and target in a model with a latent alignment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..families import AlignmentFamily
from ..objective.alignment import IGNORED
from ..patching.state import bam_modules, base_model, patch_of
from .copies import in_evaluation
from .samplers import mean_mode

Tokens = Tensor | Mapping[str, Tensor]


@dataclass(frozen=True)
class Alignments:
    """Distributions of the position that each target token is aligned with.

    Attributes:
        p: (B, T, S) prior ``p(z_t | x, y_<t)``, the model's attention: the mean over the heads.
        q: (B, T, S) posterior ``q(z_t | x, y)`` of the inference network; None without one.

    Padding of source and target has probability 0. For a classifier T is 1, and the alignment is that of its first
    token.
    """

    p: Tensor
    q: Tensor | None = None


@torch.no_grad()
def alignments(model: nn.Module, source: Tokens, target: Tokens) -> Alignments:
    """Return the alignments of sources and their targets, deterministically and without sampling.

    Args:
        model: a model with a latent alignment, `hf_bam.patch(model, family="categorical", ...)`.
        source: (B, S) token ids, in which the pad token is padding, or a mapping with `input_ids` and
            `attention_mask`, as a tokenizer returns it.
        target: (B, T) token ids of the target with its end token, in which the pad token and -100 are padding, or a
            mapping; (B,) labels for a classifier.
    """
    patch = patch_of(model)
    if not isinstance(patch.config.settings, AlignmentFamily):
        raise ValueError(
            f"This {type(model).__name__} has family={patch.config.family!r}, which has no alignments; they are those "
            "of hf_bam.patch(model, family='categorical')."
        )
    places = [path for path, layer in bam_modules(patch.root) if any(layer.uses)]
    if len(places) > 1:
        raise ValueError(
            f"This {type(model).__name__} has {len(places)} latent alignments ({', '.join(places)}), and alignments() "
            "is for one; patch it with layers=1."
        )
    root: Any = in_evaluation(base_model(model))
    pad = getattr(root.config, "pad_token_id", None)
    inputs = dict(source) if isinstance(source, Mapping) else {"input_ids": source}
    if "attention_mask" not in inputs and pad is not None:
        inputs["attention_mask"] = (inputs["input_ids"] != pad).long()
    labels = target_labels(target, pad)
    inputs = {name: value.to(root.device) for name, value in {**inputs, "labels": labels}.items()}
    with mean_mode(root), patch.runtime.recording() as records:
        root(**inputs)
    (record,) = records
    kept = (labels != IGNORED).to(root.device).reshape(len(labels), -1, 1)
    p, q = (torch.cat(logs, dim=1).exp() * kept if logs else None for logs in (record.log_p, record.log_q))
    assert p is not None
    return Alignments(p, q)


def target_labels(target: Tokens, pad: int | None) -> Tensor:
    """Return labels, with -100 for padding."""
    if isinstance(target, Mapping):
        labels = target["labels"] if "labels" in target else target["input_ids"]
        mask = target.get("attention_mask")
        return labels if mask is None or "labels" in target else labels.masked_fill(mask == 0, IGNORED)
    return target if target.dim() == 1 or pad is None else target.masked_fill(target == pad, IGNORED)
