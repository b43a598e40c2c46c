"""Adapters of DeBERTa: the scores of relative positions (disentangled attention) are a bias of the content's scores.

``score = (q . k + q . k_rel + q_rel . k) / sqrt(c D)``, where c is the number of terms. The module computes the last
two itself.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .base import Adapter, unfold_heads, with_bias


class Deberta(Adapter):
    """`DisentangledSelfAttention` of DeBERTa, version 1."""

    name = "forward"

    @classmethod
    def problem(cls, module: nn.Module) -> str | None:
        if getattr(module, "talking_head", False):
            return "mixes the weights of its heads (talking_head=True), which Bayesian attention does not support"
        return None

    def sample(
        self,
        module: Any,
        hidden_states: Tensor,  # (B, T, H * D)
        attention_mask: Tensor,
        output_attentions: bool = False,
        query_states: Tensor | None = None,
        relative_pos: Tensor | None = None,
        rel_embeddings: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        if query_states is not None:
            raise NotImplementedError(
                "DeBERTa with query_states=... (z_steps above 1) cannot be sampled. Call hf_bam.unpatch(model)."
            )
        heads = module.transpose_for_scores(module.in_proj(hidden_states))  # (B, H, T, 3 D)
        query, key, value = heads.chunk(3, dim=-1)
        query, value = (
            states + module.transpose_for_scores(own[None, None])
            for states, own in ((query, module.q_bias), (value, module.v_bias))
        )
        terms = 1 + len(module.pos_att_type)
        query = query / (terms * query.shape[-1]) ** 0.5
        bias = None
        if module.relative_attention and rel_embeddings is not None and relative_pos is not None:
            embeddings = module.pos_dropout(rel_embeddings)
            bias = tensor(module.disentangled_att_bias(query, key, relative_pos, embeddings, terms))
        options = {"dropout": module.dropout.p, "scaling": 1.0, "output_attentions": output_attentions}
        output, weights = self.attend(query, key, value, with_bias(attention_mask, bias), **options)
        return with_padding(output, value, attention_mask).flatten(2), weights if output_attentions else None


class DebertaV2(Adapter):
    """`DisentangledSelfAttention` of DeBERTa, versions 2 and 3."""

    name = "forward"

    def sample(
        self,
        module: Any,
        hidden_states: Tensor,  # (B, S, H * D)
        attention_mask: Tensor,
        output_attentions: bool = False,
        query_states: Tensor | None = None,
        relative_pos: Tensor | None = None,
        rel_embeddings: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        heads = module.num_attention_heads
        asking = hidden_states if query_states is None else query_states
        query = module.transpose_for_scores(module.query_proj(asking), heads)  # (B * H, T, D)
        key = module.transpose_for_scores(module.key_proj(hidden_states), heads)
        value = module.transpose_for_scores(module.value_proj(hidden_states), heads)
        terms = 1 + sum(kind in module.pos_att_type for kind in ("c2p", "p2c"))
        bias = None
        if module.relative_attention:
            embeddings = module.pos_dropout(rel_embeddings)
            bias = tensor(module.disentangled_attention_bias(query, key, relative_pos, embeddings, terms))
        query, key, value = (unfold_heads(states, heads) for states in (query, key, value))
        mask = with_bias(attention_mask, None if bias is None else unfold_heads(bias, heads))
        scaling = (terms * query.shape[-1]) ** -0.5
        options = {"dropout": module.dropout.p, "scaling": scaling, "output_attentions": output_attentions}
        output, weights = self.attend(query, key, value, mask, **options)
        return with_padding(output, value, attention_mask).flatten(2), weights if output_attentions else None


def tensor(bias: Any) -> Tensor | None:
    """Return the bias, or None for the number 0, which a module without such terms gives."""
    return bias if isinstance(bias, Tensor) else None


def with_padding(output: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Return the output (B, T, H, D) with the mean of all values for queries without a key to attend to.

    The mask hides all keys from the queries of padding, and the plain model then attends to all alike. A classifier
    reads such a query where the padding is on the left.
    """
    without_key = ~mask.bool().any(dim=-1).transpose(1, 2)[..., None]  # (B or 1, T, H or 1, 1)
    return torch.where(without_key, value.mean(dim=2)[:, None], output)
