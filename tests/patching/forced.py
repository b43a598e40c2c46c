"""Plain models whose last cross-attention is forced to an alignment: the oracle of latent alignments.

Nothing here is hf_bam: the model is not patched, and runs once for every alignment.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from ..models import bart, bert2bert, marian, recurrent_parallel, t5

LARGE = {"init_std": 0.5}
"""Weights that are large enough for the alignment to matter."""
BUILDERS = {
    "marian": lambda: marian(**LARGE),
    "bart": lambda: bart(**LARGE),
    "t5": t5,
    "bert2bert": lambda: bert2bert(initializer_range=0.5),
    "recurrent": lambda: recurrent_parallel(initializer_range=0.5, num_attention_heads=4),
}
MODULES = {
    "marian": "model.decoder.layers.1.encoder_attn",
    "bart": "model.decoder.layers.1.encoder_attn",
    "t5": "decoder.block.1.layer.1.EncDecAttention",
    "bert2bert": "decoder.bert.encoder.layer.1.crossattention.self",
    "recurrent": "model.decoder.cross_attn",
}
"""Last cross-attention of each model."""
_forced: dict[nn.Module, Tensor | None] = {}
_soft: dict[nn.Module, Tensor] = {}
_waiting: dict[nn.Module, int] = {}
"""Calls of a module before the one that is forced."""


def forced_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    position_bias: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """Return soft attention, and that of a forced module to one key per query, the same in all heads."""
    scores = query @ key.transpose(-1, -2) * scaling
    scores = scores if position_bias is None else scores + position_bias
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attention_mask, -torch.inf)
    elif attention_mask is not None:
        scores = scores + attention_mask
    weights = scores.softmax(dim=-1)
    waiting = _waiting.get(module, 0)
    if waiting:
        _waiting[module] = waiting - 1
    elif module in _forced:
        _soft[module] = weights
        alignment = _forced[module]  # (T,) or None
        if alignment is not None:
            weights = torch.zeros_like(weights)
            weights[:, :, torch.arange(len(alignment)), alignment] = 1.0  # what follows reads these queries alone
    return (weights @ value).transpose(1, 2).contiguous(), weights


AttentionInterface.register("forced", forced_attention)
AttentionMaskInterface.register("forced", eager_mask)


@contextmanager
def forced_to(alignments: dict[nn.Module, tuple[int, ...] | None], uses: int = 1) -> Iterator[dict[nn.Module, Tensor]]:
    """Force modules to alignments of their first queries, or to none, in the last of their uses in a forward.

    Gives the soft attention that the modules would have had, (B, H, T, S).
    """
    _forced.update({module: None if z is None else torch.tensor(z) for module, z in alignments.items()})
    _waiting.update(dict.fromkeys(alignments, uses - 1))
    soft: dict[nn.Module, Tensor] = {}
    try:
        yield soft
    finally:
        for module in alignments:
            del _forced[module]
            if module in _soft:
                soft[module] = _soft.pop(module)


@dataclass
class Run:
    """One run of the plain model: an alignment and its probabilities, (B, T), the probabilities of all tokens,
    (B, T, V), and the log-probability of each target token, (B, T)."""

    alignment: tuple[int, ...]
    p: Tensor
    f: Tensor
    log_f: Tensor


@dataclass
class Oracle:
    """Plain model, the path of the attention module that is forced, and how often it runs in a forward."""

    model: PreTrainedModel
    path: str
    uses: int = 1

    @classmethod
    def of(cls, name: str, model: PreTrainedModel, uses: int = 1) -> Oracle:
        model = copy.deepcopy(model).eval()
        model.set_attn_implementation("forced")
        return cls(model, MODULES.get(name, name), uses)

    def run(self, batch: dict[str, Tensor], alignment: tuple[int, ...]) -> Run:
        """Run the model with an alignment of all target positions."""
        module = self.model.get_submodule(self.path)
        with forced_to({module: alignment}, self.uses) as soft:
            logits = self.model(**batch).logits
        p = soft[module].mean(dim=1)[:, torch.arange(len(alignment)), torch.tensor(alignment)]
        log_f = logits.log_softmax(dim=-1).gather(-1, batch["labels"].clamp(min=0)[..., None])[..., 0]
        return Run(alignment, p, logits.softmax(dim=-1), log_f)

    def soft(self, batch: dict[str, Tensor]) -> Tensor:
        """Return soft attention, the mean over the heads, (B, T, S)."""
        module = self.model.get_submodule(self.path)
        with forced_to({module: None}, self.uses) as soft:
            self.model(**batch)
        return soft[module].mean(dim=1)

    def classify(self, batch: dict[str, Tensor], position: int) -> Tensor:
        """Return the log-probabilities of the classes, (B, C), if the first token attends to one position."""
        with forced_to({self.model.get_submodule(self.path): (position,)}, self.uses):
            logits: Tensor = self.model(**{**batch, "labels": None}).logits
        return logits.log_softmax(dim=-1)

    def runs(self, batch: dict[str, Tensor]) -> list[Run]:
        """Run the model once for every alignment of all target positions."""
        positions, length = batch["input_ids"].shape[1], batch["labels"].shape[1]
        return [self.run(batch, z) for z in itertools.product(range(positions), repeat=length)]
