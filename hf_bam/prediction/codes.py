"""Codes of texts under a model with a codebook, their autoregressive prior, and texts from that prior alone."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_outputs import BaseModelOutput

from ..families import Codebook
from ..patching.memory import find_decoder
from ..patching.state import base_model, patch_of
from .copies import in_evaluation
from .samplers import mean_mode, seeded

logger = logging.getLogger(__name__)
IGNORED = -100
LENGTHS = ("max_length", "max_new_tokens")
POSITIONS = 512
"""Length of sequences of codes that a prior can read at least."""


def codebook_of(model: PreTrainedModel) -> Codebook:
    """Return the codebook of a patched model, or raise `ValueError`."""
    patch = patch_of(model)
    memory = getattr(getattr(find_decoder(patch.root), "bam", None), "memory", None)
    if not isinstance(memory, Codebook):
        raise ValueError(
            f"This {type(model).__name__} has no codebook; patch it with hf_bam.patch(model, family='quantized')."
        )
    return memory


@torch.no_grad()
def code_sequences(model: PreTrainedModel, dataset: Iterable[Any], batch_size: int = 64) -> list[list[int]]:
    """Return the codes of texts, one for each token.

    Args:
        dataset: rows with `input_ids`, as a tokenizer returns them: a `datasets.Dataset` or a list of dictionaries.
    """
    book, root = codebook_of(model), in_evaluation(base_model(model))
    rows = [list(row["input_ids"]) for row in dataset]
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))  # little padding
    found: dict[int, list[int]] = {}
    for start in range(0, len(rows), batch_size):
        numbers = order[start : start + batch_size]
        ids, mask = padded([rows[i] for i in numbers], root.config.pad_token_id or 0, root.device)
        with mean_mode(root):
            states = root.get_encoder()(input_ids=ids, attention_mask=mask.long())[0]
        for i, own, kept in zip(numbers, book.nearest(states), mask, strict=True):
            found[i] = own[kept].tolist()
    return [found[i] for i in range(len(rows))]


def padded(rows: Sequence[Sequence[int]], value: int, device: Any = None) -> tuple[Tensor, Tensor]:
    """Return rows of numbers in one tensor, (B, L), with padding on the right, and the mask of what is no padding."""
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows], device=device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return ids, torch.arange(longest, device=device) < lengths[:, None]


def fit_code_prior(
    model: PreTrainedModel,
    dataset: Iterable[Any],
    *,
    num_train_epochs: int = 10,
    batch_size: int = 32,
    learning_rate: float = 2e-3,
    hidden_size: int = 128,
    num_layers: int = 2,
    num_heads: int = 4,
    dropout: float = 0.1,
    seed: int = 0,
) -> GPT2LMHeadModel:
    """Fit an autoregressive prior to the codes of texts, a small GPT-2, and keep it with the model.

    `save_pretrained` and `push_to_hub` of the model write it to the folder `code_prior`, and `from_pretrained` reads
    it again.

    Args:
        model: a trained model with `family="quantized"`.
        dataset: rows with `input_ids`, as a tokenizer returns them; usually the training set.
        hidden_size: size of the states of the prior.
        num_layers: number of its layers.
        num_heads: number of its attention heads.
        dropout: its dropout rate.

    Returns:
        The prior, whose token K, the number of codes, begins and ends a sequence.
    """
    book = codebook_of(model)
    if (report := book.report()) is not None:
        logger.warning(report)
    sequences = code_sequences(model, dataset, batch_size)
    sizes = {"n_embd": hidden_size, "n_layer": num_layers, "n_head": num_heads}
    prior = fit_prior(sequences, len(book.codes), sizes, dropout, num_train_epochs, batch_size, learning_rate, seed)
    patch_of(model).code_prior = prior.to(base_model(model).device)
    return prior


def fit_prior(
    sequences: Sequence[Sequence[int]],
    num_codes: int,
    sizes: dict[str, int],
    dropout: float,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    seed: int = 0,
) -> GPT2LMHeadModel:
    """Return a GPT-2 that is trained on sequences of codes; `sizes` are settings of its config."""
    rates = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout)
    special = dict.fromkeys(("bos_token_id", "eos_token_id"), num_codes)
    length = max(map(len, sequences)) + 2
    whole = {"vocab_size": num_codes + 1, "n_positions": max(length, POSITIONS)}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        prior = GPT2LMHeadModel(GPT2Config(**whole, **sizes, **rates, **special)).train()
        steps = epochs * -(-len(sequences) // batch_size)
        optimizer = torch.optim.AdamW(prior.parameters(), lr=learning_rate, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=steps, pct_start=0.1)
        for _ in range(epochs):
            order = torch.randperm(len(sequences)).tolist()
            for first in range(0, len(order), batch_size):
                ids, mask = with_ends([sequences[i] for i in order[first : first + batch_size]], num_codes)
                loss: Any = -log_likelihood(prior, ids, mask).sum() / mask[:, 1:].sum()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(prior.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                schedule.step()
    prior.generation_config.update(max_new_tokens=length)
    return prior.eval()


def with_ends(sequences: Sequence[Sequence[int]], end: int) -> tuple[Tensor, Tensor]:
    """Return sequences of codes between two end tokens, padded, and their mask."""
    return padded([[end, *own, end] for own in sequences], end)


@torch.no_grad()
def code_log_likelihood(prior: PreTrainedModel, sequences: Sequence[Sequence[int]], batch_size: int = 64) -> Tensor:
    """Return the log-probability of each sequence of codes with its end, (B,), in nats."""
    found = []
    for start in range(0, len(sequences), batch_size):
        ids, mask = with_ends(sequences[start : start + batch_size], prior.config.eos_token_id)
        found.append(log_likelihood(prior, ids.to(prior.device), mask.to(prior.device)).cpu())
    return torch.cat(found)


def log_likelihood(prior: PreTrainedModel, ids: Tensor, mask: Tensor) -> Tensor:
    """Return the log-probability of sequences (B, L) given their first token, (B,)."""
    log_p = prior(ids, attention_mask=mask.long()).logits[:, :-1].float().log_softmax(dim=-1)
    return log_p.gather(-1, ids[:, 1:, None])[..., 0].masked_fill(~mask[:, 1:], 0.0).sum(dim=1)


def code_prior_of(model: PreTrainedModel) -> PreTrainedModel:
    """Return the prior of the codes of a model, or raise `ValueError`."""
    codebook_of(model)
    prior: PreTrainedModel | None = patch_of(model).code_prior
    if prior is None:
        raise ValueError("This model has no prior of its codes yet; call hf_bam.fit_code_prior(model, dataset) first.")
    return prior


@torch.no_grad()
def generate_from_prior(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    num: int = 10,
    *,
    temperature: float = 1.0,
    seed: int | None = 0,
    **generation: Any,
) -> list[str]:
    """Return texts from no source: codes are sampled from the prior, and the decoder turns them into texts.

    Args:
        num: number of texts.
        temperature: of the prior; lower values give more probable codes.
        seed: the same seed gives the same texts; None: new ones in every call.
        generation: arguments of `generate` of the model. Without a limit of its length, a text has at most two tokens
            for each code.
    """
    book, prior, root = codebook_of(model), code_prior_of(model), in_evaluation(base_model(model))
    if getattr(root.config, "initial_state", "zero") != "zero":
        raise ValueError(
            "The decoder of this model starts with the final states of its encoder, which codes do not give. Train it "
            "with RecurrentConfig(initial_state='zero')."
        )
    end = len(book.codes)
    start = torch.full((num, 1), end, device=prior.device)
    with seeded(seed):
        ids = prior.generate(
            start,
            attention_mask=torch.ones_like(start),
            do_sample=True,
            top_k=0,
            temperature=temperature,
            min_new_tokens=1,
            pad_token_id=end,
        )[:, 1:]
        mask = (ids == end).cumsum(dim=1) == 0
        states = book.codes[ids.clamp(max=end - 1)].to(device=root.device, dtype=root.dtype)
        source = BaseModelOutput(last_hidden_state=states)
        if not any(getattr(root.generation_config, name) or name in generation for name in LENGTHS):
            generation["max_new_tokens"] = 2 * ids.shape[1]
        texts: Any = root.generate(encoder_outputs=source, attention_mask=mask.long().to(root.device), **generation)
    return [text.strip() for text in tokenizer.batch_decode(texts, skip_special_tokens=True)]
