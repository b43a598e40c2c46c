"""Generation: the text of the deterministic model or a given one, and its uncertainty over the samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from ...evaluation.metrics import pairwise_agreement
from ...patching.state import base_model
from ..batched import Inputs
from ..inputs import Text, tokenize
from ..results import Array, deviation, mean
from ..samplers import encoder_outputs, mean_mode, seeded
from .base import Head, as_array, check_finite, encoder_features
from .texts import GeneratedToken, Generation

LOGITS_AT_ONCE = 2**26


class TextGeneration(Head):
    """Text of the deterministic model, with the probability of each of its tokens in every sample.

    The noise of the attention is fixed within a hypothesis. A sample stands for one possible model; with new noise at
    every step the disagreement between models would mix with the uncertainty of each of them.
    """

    @classmethod
    def num_outputs(cls, model: PreTrainedModel) -> None:
        return None

    def features(self, batch: Sequence[Text]) -> list[dict[str, Array]]:
        """Return mean hidden states of the encoder, or of a decoder that reads the input, by name, (D,) each."""
        return encoder_features(self, batch)

    def predict(self, batch: Sequence[Text]) -> list[Generation]:
        model = self.sampler.model
        inputs, truncated, skip = self.prompts(batch)
        options, plain = self.settings.generation, self.sampler.deterministic
        samples_tokens = options.get("do_sample", model.generation_config.do_sample)
        seed = self.settings.seed if samples_tokens else None
        with mean_mode(plain), seeded(seed):
            ids: Tensor = plain.generate(**inputs, **options)
        kept = self.up_to_end(ids, skip)  # (B, L)
        with seeded(seed):
            texts = self.hypotheses(inputs, skip, self.seeds(batch))
        return self.results(batch, inputs, ids, kept, skip, texts, truncated)

    def score_targets(self, batch: Sequence[tuple[str, str]]) -> list[Generation]:
        """Return the scores of given texts, from pairs of an input and its target.

        The noise is that of a generation from the same input.
        """
        sources = [source for source, _ in batch]
        inputs, truncated, skip = self.prompts(sources)
        targets, kept, cut = self.targets([target for _, target in batch])
        model = self.sampler.model
        if model.config.is_encoder_decoder:
            first = torch.full_like(targets[:, :1], start_token(base_model(model)))
        else:
            first = inputs["input_ids"]
        ids = torch.cat([first, targets], dim=1)
        either = [one or other for one, other in zip(truncated, cut, strict=True)]
        scored = self.results(sources, inputs, ids, kept, skip, [[] for _ in batch], either)
        return [replace(one, text=target) for one, (_, target) in zip(scored, batch, strict=True)]

    def prompts(self, batch: Sequence[Text]) -> tuple[Inputs, list[bool], int]:
        """Return model inputs, which texts are truncated, and the number of ids before the first generated one."""
        seq2seq = bool(self.sampler.model.config.is_encoder_decoder)
        # A decoder continues at the end of the prompt, so padding has to be on the left.
        inputs, truncated, _ = self.encode(batch, **({} if seq2seq else {"padding_side": "left"}))
        return inputs, truncated, 1 if seq2seq else inputs["input_ids"].shape[1]

    def targets(self, texts: list[str]) -> tuple[Tensor, Tensor, list[bool]]:
        """Return the ids of given texts, (B, L), which of them are no padding, and which texts are truncated.

        The text of an encoder-decoder model ends with its end token; the continuation of a decoder has no special
        tokens.
        """
        seq2seq, limit = bool(self.sampler.model.config.is_encoder_decoder), self.settings.max_length
        options: dict[str, Any] = {"text_target": texts} if seq2seq else {"text": texts, "add_special_tokens": False}
        if self.tokenizer.pad_token_id is None:
            raise ValueError("The tokenizer has no token for padding; set tokenizer.pad_token = tokenizer.eos_token.")
        options |= {"padding": True, "padding_side": "right", "return_tensors": "pt", "verbose": False}
        encoding = tokenize(self.tokenizer, **options)
        device, lengths = self.sampler.model.device, encoding["attention_mask"].sum(dim=-1).tolist()
        if 0 in lengths:
            raise ValueError(f"The target {texts[lengths.index(0)]!r} has no tokens; there is nothing to score.")
        ids, mask = (encoding[name][:, :limit].to(device) for name in ("input_ids", "attention_mask"))
        return ids, mask.bool(), [length > limit for length in lengths]

    def results(
        self,
        batch: Sequence[Text],
        inputs: Inputs,
        ids: Tensor,
        kept: Tensor,
        skip: int,
        texts: list[list[str]],
        truncated: list[bool],
    ) -> list[Generation]:
        """Return the results of a batch from its token ids, (B, skip + L), of which those of `kept`, (B, L), count."""
        scored = self.score(inputs, ids, skip, self.seeds(batch))
        alignments = self.alignments(inputs, scored.pop("alignment", None))
        results = [
            self.result(ids[i, skip:], kept[i], {name: x[..., i, :] for name, x in scored.items()}, texts[i], cut)
            for i, cut in enumerate(truncated)
        ]
        own = [None if x is None else x[:, row] for x, row in zip(alignments, kept.cpu().numpy(), strict=True)]
        rows = zip(results, own, self.novelties(batch), strict=True)
        return [replace(one, alignments=x, **novelty) for one, x, novelty in rows]

    def up_to_end(self, ids: Tensor, skip: int) -> Tensor:
        """Return which of the generated tokens belong to the text, (B, L): up to the first end token, included."""
        ends = self.sampler.model.generation_config.eos_token_id
        ends = torch.tensor([ends] if isinstance(ends, int) else list(ends or []), device=ids.device)
        is_end = torch.isin(ids[:, skip:], ends)
        return is_end.long().cumsum(dim=-1) - is_end.long() == 0

    def score(self, inputs: Inputs, ids: Tensor, skip: int, seeds: Tensor) -> dict[str, Array]:
        """Return the log-probabilities of the tokens in all samples, (S, B, L), and their entropies, (B, L).

        Also the samples of a latent alignment, (S, B, L, source), of a model that has one.
        """
        targets = ids[:, skip:]
        forced, first = self.forced(inputs, ids, skip)
        vocabulary = self.sampler.model.get_output_embeddings().weight.shape[0]
        at_once = max(1, LOGITS_AT_ONCE // (vocabulary * ids.numel()))
        mean: Tensor | None = None
        entropies, chosen, alignments = [], [], []
        for start in range(0, self.num_samples, at_once):
            number = min(at_once, self.num_samples - start)
            output = self.sampler.draw(forced, number, seeds, start)
            logits = output["logits"][:, :, first : first + targets.shape[1]]
            log_p = (logits.float() / self.settings.temperature).log_softmax(dim=-1)  # (n, B, L, V)
            chosen.append(log_p.gather(-1, targets[None, ..., None].expand(number, -1, -1, -1))[..., 0])
            entropies.append(torch.special.entr(log_p.exp()).sum(dim=-1))
            mean = log_p.exp().sum(dim=0) + (0 if mean is None else mean)
            alignments += [output["alignment"]] if "alignment" in output else []
        assert mean is not None
        total = torch.special.entr(mean / self.num_samples).sum(dim=-1)
        aleatoric = torch.cat(entropies).mean(dim=0)
        values = {"chosen": torch.cat(chosen), "entropy": total, "aleatoric": aleatoric}
        values |= {"alignment": torch.cat(alignments)} if alignments else {}
        scored = {name: as_array(value) for name, value in values.items()}
        check_finite(np.exp(scored["chosen"]))
        return scored

    def forced(self, inputs: Inputs, ids: Tensor, skip: int) -> tuple[Inputs, int]:
        """Return inputs that make the model read its own text, and the position of the first prediction of it."""
        model = self.sampler.model
        if not model.config.is_encoder_decoder:
            mask = torch.cat([inputs["attention_mask"], torch.ones_like(ids[:, skip:])], dim=1)
            position_ids = (mask.cumsum(dim=-1) - 1).clamp(min=0)
            named = {"input_ids": ids, "attention_mask": mask, "position_ids": position_ids}
            return named, skip - 1
        encoded = encoder_outputs(model, inputs)
        rest = {"attention_mask": inputs["attention_mask"]} if encoded else inputs
        return {**rest, **encoded, "decoder_input_ids": ids[:, :-1]}, 0

    def hypotheses(self, inputs: Inputs, skip: int, seeds: Tensor) -> list[list[str]]:
        """Return the further texts of every input."""
        batch, number = inputs["input_ids"].shape[0], self.settings.hypotheses
        if not number:
            return [[] for _ in range(batch)]
        number = min(number, self.sampler.limit or number)
        ids = self.sampler.hypotheses(inputs, number, seeds, self.settings.generation)
        texts = [self.tokenizer.batch_decode(part[:, skip:], skip_special_tokens=True) for part in ids]
        return [[row[i] for row in texts] for i in range(batch)]

    def result(
        self, ids: Tensor, kept: Tensor, scored: dict[str, Array], hypotheses: list[str], truncated: bool
    ) -> Generation:
        """Return the result of one input from its generated tokens, (L,), and their scores."""
        own = kept.cpu().numpy().astype(bool)
        log_p = scored["chosen"][:, own]  # (S, l)
        total, aleatoric = scored["entropy"][own], scored["aleatoric"][own]
        epistemic = np.clip(total - aleatoric, 0, None)
        own_ids, chosen, whole = ids[kept].tolist(), np.exp(log_p), log_p.sum(axis=-1)
        names = [self.tokenizer.decode([token]) for token in own_ids]
        columns = (chosen.mean(axis=0), deviation(chosen), total, aleatoric, epistemic)
        logs = (log_p.mean(axis=0), deviation(log_p))
        of_average = np.logaddexp.reduce(log_p, axis=0) - math.log(len(log_p))  # (l,)
        return Generation(
            text=self.tokenizer.decode(own_ids, skip_special_tokens=True),
            probability=math.exp(mean(of_average)) if own_ids else math.nan,
            entropy=mean(total),
            aleatoric=mean(aleatoric),
            epistemic=mean(epistemic),
            log_probability=float(whole.mean()),
            log_probability_std=float(deviation(whole)),
            log_likelihood=float(np.logaddexp.reduce(whole) - math.log(len(whole))),
            tokens=[GeneratedToken(name, *map(float, row)) for name, *row in zip(names, *columns, *logs, strict=True)],
            hypotheses=hypotheses,
            agreement=pairwise_agreement(hypotheses, metric="token_f1") if len(hypotheses) > 1 else math.nan,
            truncated=truncated,
            num_samples=len(chosen),
            samples=chosen,
        )


def start_token(model: PreTrainedModel) -> int:
    """Return the token with which a decoder starts."""
    for config in (model.generation_config, model.config, getattr(model.config, "decoder", None)):
        for name in ("decoder_start_token_id", "bos_token_id"):
            if (token := getattr(config, name, None)) is not None:
                return int(token)
    raise ValueError(f"This {type(model).__name__} has no decoder_start_token_id; set it in its generation_config.")
