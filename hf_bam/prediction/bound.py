"""Bound of the likelihood of texts under a model with latent variables of its memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from ..attention.sampling import Sampling
from ..objective import LatentKl
from ..objective.alignment import log_likelihood
from ..patching.state import base_model, find_patches
from .codes import IGNORED, code_log_likelihood, code_prior_of, code_sequences, padded
from .copies import in_evaluation


@dataclass(frozen=True)
class Bound:
    """Negative bound of the log-likelihood of texts, as means over them in nats.

    Attributes:
        reconstruction: negative log-likelihood of a text given its latent variables.
        kl: KL of the latent variables to their prior; for codes the negative log-probability of the codes. 0 for a
            model without latent variables.
        tokens: mean number of tokens of a text, with its end token.
    """

    reconstruction: float
    kl: float
    tokens: float

    @property
    def bound(self) -> float:
        """Sum of reconstruction and KL, which is not below the negative log-likelihood."""
        return self.reconstruction + self.kl

    @property
    def perplexity(self) -> float:
        """Perplexity of a token, of which the bound is an upper one."""
        return math.exp(self.bound / self.tokens)

    @property
    def reconstruction_perplexity(self) -> float:
        """Perplexity of a token given the latent variables, without the cost of these."""
        return math.exp(self.reconstruction / self.tokens)


@torch.no_grad()
def measure_bound(model: PreTrainedModel, dataset: Sequence[Any], batch_size: int = 64, seed: int = 0) -> Bound:
    """Return the bound of texts, with one sample of Gaussian latent variables for each.

    Args:
        model: an encoder-decoder model, patched with `family="quantized"` or plain. Codes need their prior, see
            [`fit_code_prior`][hf_bam.fit_code_prior].
        dataset: rows with `input_ids` and `labels`, token ids.
    """
    root = in_evaluation(base_model(model))
    patches = find_patches(root)
    has_codes = bool(patches) and getattr(patches[0].config.settings, "latent", None) == "codes"
    rows, totals, kls, tokens = list(dataset), list[Tensor](), list[Tensor](), 0
    for start in range(0, len(rows), batch_size):
        batch = rows[start : start + batch_size]
        ids, mask = padded([row["input_ids"] for row in batch], root.config.pad_token_id or 0, root.device)
        labels, _ = padded([row["labels"] for row in batch], IGNORED, root.device)
        with ExitStack() as stack:
            terms: list[Any] = []
            for patch in patches:
                terms = stack.enter_context(patch.runtime.measuring())
                stack.enter_context(patch.runtime.sample(Sampling(seed + start)))
            logits = root(input_ids=ids, attention_mask=mask.long(), labels=labels).logits
        kept = labels != IGNORED
        totals.append(-log_likelihood(logits, labels).masked_fill(~kept, 0.0).sum(dim=1).cpu())
        kls += [term.total.cpu() for term in terms if isinstance(term, LatentKl)]
        tokens += int(kept.sum())
    if has_codes:
        kls = [-code_log_likelihood(code_prior_of(model), code_sequences(model, rows, batch_size), batch_size)]
    kl = float(torch.cat(kls).sum()) / len(rows) if kls else 0.0
    return Bound(float(torch.cat(totals).mean()), kl, tokens / len(rows))
