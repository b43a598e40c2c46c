"""The one object that people call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import replace
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import distributed
from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..evaluation.labels import label_indices
from ..evaluation.temperature import fit_temperature
from ..patching.architectures import OUTPUTS
from .heads import HEADS, Head, labels_of
from .inputs import chunks, texts_of
from .results import Predictions
from .samplers import Bam, Sampler
from .settings import Settings

NOT_SAID = int(1e6)  # tokenizers without a maximum length say a very large one


class Predictor:
    """Draws several predictions for each input and says how far they agree.

    Args:
        sampler: where the draws come from: [`Bam`][hf_bam.prediction.Bam], `Dropout`, `Ensemble` or `Plain`.
        tokenizer: the model's.
        num_samples: samples for each input.
        head: what the model predicts: "classification", "multi-label", "regression", "tokens", "question-answering" or
            "generation". Told from the model by default.
        batch_size: inputs at a time.
        seed: the same seed and input give the same draws, whatever else is in the batch; None draws afresh in every
            call.
        max_length: longer texts are cut, and their results say so. The model's own limit by default.
        progress: show a progress bar; by default when writing to a terminal.
        settings: fields of [`Settings`][hf_bam.prediction.Settings].
    """

    def __init__(
        self,
        sampler: Sampler,
        tokenizer: PreTrainedTokenizerBase,
        num_samples: int = 32,
        *,
        head: str | None = None,
        batch_size: int = 16,
        seed: int | None = 0,
        max_length: int | None = None,
        progress: bool | None = None,
        **settings: Any,
    ) -> None:
        self.sampler = sampler
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        self.progress = progress
        limit = longest(sampler.model, tokenizer) if max_length is None else max_length
        self.settings = Settings(num_samples=num_samples, max_length=limit, seed=seed, **settings)
        self.head_name = head or head_of(sampler.model)
        if self.head_name not in HEADS:
            raise ValueError(f"head={self.head_name!r} is not known; choose one of {', '.join(HEADS)}.")
        if self.settings.adaptive and not HEADS[self.head_name].adaptive:
            raise ValueError(f"adaptive=True has no verdict to settle with head={self.head_name!r}.")

    @property
    def head(self) -> Head:
        """What predicts the inputs of one call."""
        return HEADS[self.head_name](self.sampler.ready(), self.tokenizer, self.settings)

    def __call__(self, inputs: Any, columns: str | tuple[str, str] | None = None) -> Predictions[Any]:
        """Results for all inputs.

        Args:
            inputs: a string, a list of strings, of pairs or of dictionaries, a `datasets.Dataset` or
                `IterableDataset`, or a DataFrame or Series of pandas.
            columns: of a table or of dictionaries, the column of the text or the two columns of a pair; by default
                "text", and "text_pair" where there is one.

        In a distributed run every process predicts its share, and all get the results.
        """
        if not (distributed.is_available() and distributed.is_initialized()):
            return Predictions(self.stream(inputs, columns))
        items, rank, ranks = list(self.items(inputs, columns)), distributed.get_rank(), distributed.get_world_size()
        share = -(-len(items) // ranks)
        own = list(self._run(items[rank * share : (rank + 1) * share]))
        return Predictions(gather_object(own))

    def stream(self, inputs: Any, columns: str | tuple[str, str] | None = None) -> Iterator[Any]:
        """Results one by one, in order, as they are ready: what was given out is not kept."""
        return self._run(self.items(inputs, columns))

    def calibrated(
        self, inputs: Any, labels: Iterable[int | str], columns: str | tuple[str, str] | None = None
    ) -> Predictor:
        """A copy of this predictor with the temperature that suits held-out, labelled inputs best.

        The temperature divides the logits of every draw; it minimises the negative log-likelihood of their mean.
        """
        plain = self.with_settings(temperature=1.0, adaptive=False)
        texts = list(self.items(inputs, columns))
        truth = label_indices(labels, self.label_names, len(texts))
        return self.with_settings(temperature=fit_temperature(truth, plain(texts).samples))

    def with_settings(self, **changes: Any) -> Predictor:
        """A copy with some settings changed."""
        other = copy(self)
        other.settings = replace(self.settings, **changes)
        return other

    @property
    def label_names(self) -> list[str]:
        return labels_of(self.sampler.model)

    def items(self, inputs: Any, columns: str | tuple[str, str] | None = None) -> Iterable[Any]:
        """The inputs one by one, checked as they are read."""
        head = HEADS[self.head_name]
        if columns is None:
            return texts_of(inputs, head.columns, head.optional)
        return texts_of(inputs, (columns,) if isinstance(columns, str) else tuple(columns))

    def _run(self, items: Iterable[Any]) -> Iterator[Any]:
        head = self.head
        total = len(items) if isinstance(items, list) else None
        disable = None if self.progress is None else not self.progress
        with tqdm(total=total, unit="input", disable=disable, leave=False) as bar:
            for window in chunks(items, 8 * self.batch_size):
                with torch.inference_mode():
                    results = self._window(head, window)
                bar.update(len(window))
                yield from results

    def _window(self, head: Head, window: list[Any]) -> list[Any]:
        """Batches of similar length, and the results in the order of the window."""
        order = sorted(range(len(window)), key=lambda index: len(str(window[index])))
        results: list[Any] = [None] * len(window)
        for indices in chunks(order, self.batch_size):
            for index, result in zip(indices, head.predict([window[i] for i in indices]), strict=True):
                results[index] = result
        return results


class BamPredictor(Predictor):
    """A [`Predictor`][hf_bam.prediction.Predictor] with Bayesian attention.

    Args:
        model: a patched model.
        dropout: drop out with this rate besides.
        token_budget: how many tokens go through the model at once; draws are folded into the batch up to this.
        options: as for `Predictor`.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        num_samples: int = 32,
        *,
        dropout: float | None = None,
        token_budget: int = 8192,
        **options: Any,
    ) -> None:
        super().__init__(Bam(model, token_budget, dropout), tokenizer, num_samples, **options)


def longest(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """How many tokens the model reads at most."""
    said = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None)]
    return min((limit for limit in said if isinstance(limit, int) and 0 < limit < NOT_SAID), default=NOT_SAID)


def head_of(model: PreTrainedModel) -> str:
    """What a model predicts, from its class and its config."""
    name = type(model).__name__
    if name.endswith("ForSequenceClassification"):
        kind = model.config.problem_type
        if kind == "multi_label_classification":
            return "multi-label"
        return "regression" if kind == "regression" or model.config.num_labels == 1 else "classification"
    for ending, head in OUTPUTS.items():
        if name.endswith(ending):
            return head
    raise ValueError(
        f"What a {name} predicts cannot be told from its name; choose head={', '.join(map(repr, HEADS))}."
    )
