"""Predictors: the objects that users call."""

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
from ..patching.state import base_model
from .heads import HEADS, Head, labels_of
from .inputs import Text, chunks, texts_of
from .results import Predictions
from .samplers import Bam, Sampler
from .settings import Settings

Columns = str | tuple[str, str] | None
NO_LIMIT = int(1e6)  # tokenizers without a maximum length have a very large one


class Predictor:
    """Predictions from several samples of each input, with their uncertainty.

    Args:
        sampler: source of the samples: [`Bam`][hf_bam.prediction.Bam], `Dropout`, `Ensemble` or `Plain`.
        tokenizer: the tokenizer of the model.
        num_samples: samples of each input.
        head: kind of output: "classification", "multi-label", "regression", "tokens", "question-answering" or
            "generation". By default it follows from the class of the model.
        batch_size: inputs at a time.
        seed: the same seed and input give the same samples, whatever else is in the batch; None: new ones in every
            call.
        max_length: longer texts are truncated, and their results are marked. By default the limit of the model.
        progress: show a progress bar; by default when standard error is a terminal.
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
        self.head_name = head or head_of(base_model(sampler.model))
        if self.head_name not in HEADS:
            raise ValueError(f"head={self.head_name!r} is not known; choose one of {', '.join(HEADS)}.")
        if self.settings.adaptive and not HEADS[self.head_name].adaptive:
            raise ValueError(f"adaptive=True is not possible with head={self.head_name!r}; it needs classification.")

    @property
    def head(self) -> Head:
        """A head for the inputs of one call."""
        return HEADS[self.head_name](self.sampler.ready(), self.tokenizer, self.settings)

    def __call__(self, inputs: Any, columns: Columns = None) -> Predictions[Any]:
        """Return the results of all inputs.

        Args:
            inputs: a string, a list of strings, of pairs or of dictionaries, a `datasets.Dataset` or
                `IterableDataset`, or a DataFrame or Series of pandas.
            columns: for a table or dictionaries, the column of the text or the two columns of a pair; by default
                "text", and "text_pair" if it is there.

        In a distributed run every process predicts its part of the inputs, and all processes get all results.
        """
        if not (distributed.is_available() and distributed.is_initialized()):
            return Predictions(self.stream(inputs, columns))
        items, rank, ranks = list(self.items(inputs, columns)), distributed.get_rank(), distributed.get_world_size()
        share = -(-len(items) // ranks)
        own = list(self._run(items[rank * share : (rank + 1) * share]))
        return Predictions(gather_object(own))

    def stream(self, inputs: Any, columns: Columns = None) -> Iterator[Any]:
        """Yield the results one by one, in order, without keeping them."""
        return self._run(self.items(inputs, columns))

    def calibrated(self, inputs: Any, labels: Iterable[int | str], columns: Columns = None) -> Predictor:
        """Return a copy with the temperature that minimises the negative log-likelihood of held-out, labelled inputs.

        The temperature divides the logits of every sample; the likelihood is that of their mean.
        """
        plain = self.with_settings(temperature=1.0, adaptive=False)
        texts = list(self.items(inputs, columns))
        truth = label_indices(labels, self.label_names, len(texts))
        return self.with_settings(temperature=fit_temperature(truth, plain(texts).samples))

    def with_settings(self, **changes: Any) -> Predictor:
        """Return a copy with some settings changed."""
        other = copy(self)
        other.settings = replace(self.settings, **changes)
        return other

    @property
    def label_names(self) -> list[str]:
        return labels_of(self.sampler.model)

    def items(self, inputs: Any, columns: Columns = None) -> Iterable[Text]:
        """Return the inputs one by one, checked as they are read."""
        head, allow_empty = HEADS[self.head_name], self.settings.allow_empty
        if columns is None:
            return texts_of(inputs, head.columns, head.optional, allow_empty=allow_empty)
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        return texts_of(inputs, names, allow_empty=allow_empty)

    def _run(self, items: Iterable[Text]) -> Iterator[Any]:
        head = self.head
        total = len(items) if isinstance(items, list) else None
        disable = None if self.progress is None else not self.progress
        with tqdm(total=total, unit="input", disable=disable, leave=False) as bar:
            for part in chunks(items, 8 * self.batch_size):
                with torch.inference_mode():
                    results = self._sorted_batches(head, part)
                bar.update(len(part))
                yield from results

    def _sorted_batches(self, head: Head, items: list[Text]) -> list[Any]:
        """Return the results of some inputs, in their order, from batches of similar length."""
        lengths = head.lengths(items)
        order = sorted(range(len(items)), key=lambda index: lengths[index])
        results: list[Any] = [None] * len(items)
        for indices in chunks(order, self.batch_size):
            for index, result in zip(indices, head.predict([items[i] for i in indices]), strict=True):
                results[index] = result
        return results


class BamPredictor(Predictor):
    """A [`Predictor`][hf_bam.prediction.Predictor] with Bayesian attention.

    Args:
        model: a patched model.
        num_samples: samples of each input.
        dropout: rate of Monte Carlo dropout beside the noise of the attention.
        token_budget: tokens that go through the model at once; the batch is expanded by samples up to this number.
        options: further arguments of `Predictor`.
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
    """Return the largest number of tokens that the model reads."""
    limits = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None)]
    return min((limit for limit in limits if isinstance(limit, int) and 0 < limit < NO_LIMIT), default=NO_LIMIT)


def head_of(model: PreTrainedModel) -> str:
    """Return the name of the head that fits the class and the config of a model."""
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
