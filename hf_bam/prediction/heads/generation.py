"""Generation: the text of the deterministic model, and its uncertainty over the samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from ...attention.layer import BamLayer
from ...evaluation.metrics import pairwise_agreement
from ...patching.state import base_model
from ..batched import Inputs
from ..features import layer_features
from ..inputs import Text
from ..results import Array, Fitted, deviation
from ..samplers import mean_mode, seeded
from .base import Head, as_array, check_finite, vectors

LOGITS_AT_ONCE = 2**26


@dataclass(frozen=True)
class GeneratedToken:
    """A token of a generated text, with its uncertainty given the tokens before it.

    Attributes:
        probability: mean of its probability over the samples.
        std: standard deviation of its probability over the samples.
        entropy: total uncertainty of the distribution over the vocabulary, in nats.
        aleatoric: aleatoric part of it.
        epistemic: epistemic part of it.
    """

    text: str
    probability: float
    std: float
    entropy: float
    aleatoric: float
    epistemic: float


@dataclass(frozen=True, repr=False)
class Generation(Fitted):
    """A generated text.

    Attributes:
        text: output of the deterministic model.
        probability: geometric mean of the token probabilities under the average of the samples.
        entropy: total uncertainty, mean over the tokens.
        aleatoric: aleatoric part of it.
        epistemic: epistemic part of it.
        hypotheses: further texts, each generated from one sample.
        agreement: mean token overlap (F1) between the hypotheses; NaN without any.
        truncated: the input is longer than `max_length`.
        samples: (S, L) probability of every token in every sample.
        alignments: (S, L, source tokens) weights of the source tokens at every token in every sample of a latent
            alignment, one of them 1 for family="categorical"; None for other families.
    """

    text: str
    probability: float
    entropy: float
    aleatoric: float
    epistemic: float
    tokens: list[GeneratedToken]
    hypotheses: list[str]
    agreement: float
    truncated: bool
    num_samples: int
    samples: Array = field(repr=False)
    alignments: Array | None = field(default=None, repr=False)

    @property
    def prediction(self) -> str:
        return self.text


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
        inputs, _, _ = self.encode(batch, padding_side="right")
        model = base_model(self.sampler.deterministic)
        reader = model.get_encoder() if model.config.is_encoder_decoder else model.base_model
        with mean_mode(model):
            output = reader(**inputs, output_hidden_states=True)
        return vectors(layer_features(output, inputs.get("attention_mask")))

    def predict(self, batch: Sequence[Text]) -> list[Generation]:
        model = self.sampler.model
        seq2seq = bool(model.config.is_encoder_decoder)
        # A decoder continues at the end of the prompt, so padding has to be on the left.
        inputs, truncated, _ = self.encode(batch, **({} if seq2seq else {"padding_side": "left"}))
        options, plain = self.settings.generation, self.sampler.deterministic
        samples_tokens = options.get("do_sample", model.generation_config.do_sample)
        seed = self.settings.seed if samples_tokens else None
        with mean_mode(plain), seeded(seed):
            ids: Tensor = plain.generate(**inputs, **options)
        skip = 1 if seq2seq else inputs["input_ids"].shape[1]
        kept = self.up_to_end(ids, skip)  # (B, L)
        seeds = self.seeds(batch)
        scored = self.score(inputs, ids, skip, seeds)
        with seeded(seed):
            texts = self.hypotheses(inputs, skip, seeds)
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
        """Return the token probabilities of all samples, (S, B, L), and their entropies, (B, L).

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
            chosen.append(log_p.gather(-1, targets[None, ..., None].expand(number, -1, -1, -1))[..., 0].exp())
            entropies.append(torch.special.entr(log_p.exp()).sum(dim=-1))
            mean = log_p.exp().sum(dim=0) + (0 if mean is None else mean)
            alignments += [output["alignment"]] if "alignment" in output else []
        assert mean is not None
        total = torch.special.entr(mean / self.num_samples).sum(dim=-1)
        aleatoric = torch.cat(entropies).mean(dim=0)
        values = {"chosen": torch.cat(chosen), "entropy": total, "aleatoric": aleatoric}
        values |= {"alignment": torch.cat(alignments)} if alignments else {}
        scored = {name: as_array(value) for name, value in values.items()}
        check_finite(scored["chosen"])
        return scored

    def forced(self, inputs: Inputs, ids: Tensor, skip: int) -> tuple[Inputs, int]:
        """Return inputs that make the model read its own text, and the position of the first prediction of it."""
        model = self.sampler.model
        if not model.config.is_encoder_decoder:
            mask = torch.cat([inputs["attention_mask"], torch.ones_like(ids[:, skip:])], dim=1)
            position_ids = (mask.cumsum(dim=-1) - 1).clamp(min=0)
            named = {"input_ids": ids, "attention_mask": mask, "position_ids": position_ids}
            return named, skip - 1
        forced: Inputs = {**inputs, "decoder_input_ids": ids[:, :-1]}
        encoder = model.get_encoder()
        if not any(any(m.uses) for m in encoder.modules() if isinstance(m, BamLayer)) and not encoder.training:
            forced = {"decoder_input_ids": ids[:, :-1], "attention_mask": inputs["attention_mask"]}
            forced["encoder_outputs"] = encoder(**inputs)  # it is deterministic: once for all samples
        return forced, 0

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
        chosen = scored["chosen"][:, own]  # (S, l)
        total, aleatoric = scored["entropy"][own], scored["aleatoric"][own]
        epistemic = np.clip(total - aleatoric, 0, None)
        own_ids = ids[kept].tolist()
        names = [self.tokenizer.decode([token]) for token in own_ids]
        mean = chosen.mean(axis=0)
        columns = (names, mean, deviation(chosen), total, aleatoric, epistemic)
        return Generation(
            text=self.tokenizer.decode(own_ids, skip_special_tokens=True),
            probability=float(np.exp(np.log(np.clip(mean, 1e-300, None)).mean())) if len(mean) else math.nan,
            entropy=_mean(total),
            aleatoric=_mean(aleatoric),
            epistemic=_mean(epistemic),
            tokens=[GeneratedToken(name, *map(float, row)) for name, *row in zip(*columns, strict=True)],
            hypotheses=hypotheses,
            agreement=pairwise_agreement(hypotheses, metric="token_f1") if len(hypotheses) > 1 else math.nan,
            truncated=truncated,
            num_samples=len(chosen),
            samples=chosen,
        )


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else math.nan
