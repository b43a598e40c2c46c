"""Plain models whose last cross-attention is forced to an alignment: the oracle of latent alignments.

Nothing here is hf_bam: the model is not patched, and runs once for every alignment.
"""

from __future__ import annotations

import copy
import itertools
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
    if module in _forced:
        _soft[module] = weights
        alignment = _forced[module]  # (T,) or None
        if alignment is not None:
            weights = torch.zeros_like(weights)
            weights[:, :, torch.arange(len(alignment)), alignment] = 1.0
    return (weights @ value).transpose(1, 2).contiguous(), weights


AttentionInterface.register("forced", forced_attention)
AttentionMaskInterface.register("forced", eager_mask)


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
    """Plain model, and the path of the attention module that is forced."""

    model: PreTrainedModel
    path: str

    @classmethod
    def of(cls, name: str, model: PreTrainedModel) -> Oracle:
        model = copy.deepcopy(model).eval()
        model.set_attn_implementation("forced")
        return cls(model, MODULES[name])

    def run(self, batch: dict[str, Tensor], alignment: tuple[int, ...] | None) -> Run:
        """Run the model with an alignment of all target positions, or with soft attention."""
        module = self.model.get_submodule(self.path)
        _forced[module] = None if alignment is None else torch.tensor(alignment)
        try:
            logits = self.model(**batch).logits
        finally:
            del _forced[module]
        soft = _soft.pop(module).mean(dim=1)  # (B, T, S)
        index = torch.zeros(soft.shape[1], dtype=torch.long) if alignment is None else torch.tensor(alignment)
        p = soft[:, torch.arange(soft.shape[1]), index]
        log_f = logits.log_softmax(dim=-1).gather(-1, batch["labels"].clamp(min=0)[..., None])[..., 0]
        return Run(alignment or (), p, logits.softmax(dim=-1), log_f)

    def soft(self, batch: dict[str, Tensor]) -> Tensor:
        """Return soft attention, the mean over the heads, (B, T, S)."""
        module = self.model.get_submodule(self.path)
        _forced[module] = None
        self.model(**batch)
        del _forced[module]
        return _soft.pop(module).mean(dim=1)

    def runs(self, batch: dict[str, Tensor]) -> list[Run]:
        """Run the model once for every alignment of all target positions."""
        positions, length = batch["input_ids"].shape[1], batch["labels"].shape[1]
        return [self.run(batch, z) for z in itertools.product(range(positions), repeat=length)]
