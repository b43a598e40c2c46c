"""Base of the tasks that generate a text from a text, with a pretrained model or a small one from scratch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from datasets import Dataset
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from transformers import (
    AutoModelForSeq2SeqLM,
    DataCollatorForSeq2Seq,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from ..fields import setting
from ..prediction import Generation
from . import parallel, vocabulary
from .base import Collator, Data, Task
from .classification import quiet
from .collation import collate
from .scratch import SCRATCH, check_width

POSITIONS = 512
"""Largest number of tokens of a source text that a model from scratch reads."""


@dataclass(frozen=True, kw_only=True)
class GenerationTask(Task):
    """Base of the tasks that generate a text from a text. Their rows have the columns `source` and `target`."""

    num_beams: int = setting(5, least=1, most=1024)
    """Beams of the search; 1: greedy decoding."""
    max_target_length: int = setting(128, least=1, most=2**20)
    """Largest number of tokens of a generated text, with the end token; longer targets are truncated in training."""
    prefix: str = ""
    """Text before every source text, for pretrained models that expect one."""
    word_dropout: float = setting(0.0, least=0, below=1)
    """Probability with which an input token of the decoder becomes the unknown token in training, so that the decoder
    relies on the source more than on the target so far."""
    vocabulary: int = setting(8000, least=1, most=10**6)
    """Model from scratch: largest number of tokens, of both sides together."""
    width: int = setting(256, least=1, most=2**13)
    """Model from scratch: hidden size."""
    layers: int | None = setting(None, least=1, most=256)
    """Model from scratch: number of layers of the encoder, and of the decoder. none: 3 for scratch, 1 for
    recurrent."""
    heads: int | None = setting(None, least=1, most=1024)
    """Model from scratch: number of attention heads of a layer. none: 4 for scratch, 1 for recurrent."""

    input_feeding: bool = True
    """Model from scratch, recurrent: feed the context vector back to the decoder. false: its attention runs once for
    all steps, which is faster."""

    auto_class: ClassVar[Any] = AutoModelForSeq2SeqLM
    default_model: ClassVar[str] = "scratch"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_width(self.width, self.heads or 1)

    @property
    @abstractmethod
    def ending(self) -> str:
        """Ending of files of generated texts."""

    @property
    def metric(self) -> str:
        return "bleu"

    @property
    def generation(self) -> dict[str, Any]:
        """Arguments of `generate`."""
        return {"num_beams": self.num_beams, "max_length": 1 + self.max_target_length}  # the first is the start token

    def new_config(self, model: str) -> PretrainedConfig | None:
        return SCRATCH[model].config() if model in SCRATCH else None

    def build(self, model: str, data: Data, **settings: Any) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        """Return a pretrained model, or one of `SCRATCH` with a vocabulary fitted on the training rows."""
        built, tokenizer = (
            self._scratch(model, data, settings) if model in SCRATCH else super().build(model, data, **settings)
        )
        built.generation_config.update(**self.generation)
        return built, tokenizer

    def _scratch(
        self, name: str, data: Data, settings: dict[str, Any]
    ) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        texts = chain(data.train["source"], data.train["target"])
        length = settings.get("max_position_embeddings", max(POSITIONS, self.max_target_length))
        tokenizer = vocabulary.fit(texts, self.vocabulary, length)
        settings = {**({} if self.input_feeding or name != "recurrent" else {"input_feeding": False}), **settings}
        return SCRATCH[name].build(tokenizer, self.width, self.layers, self.heads, settings), tokenizer

    def input_length(self, max_length: int, tokenizer: PreTrainedTokenizerBase) -> int:
        return min(max_length, tokenizer.model_max_length)

    def encode(self, rows: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int) -> Dataset:
        limit = self.input_length(max_length, tokenizer)

        def features(batch: dict[str, list[str]]) -> dict[str, Any]:
            encoded = dict(tokenizer(self._prefixed(batch["source"]), max_length=limit, truncation=True))
            targets = tokenizer(text_target=batch["target"], max_length=self.max_target_length, truncation=True)
            return encoded | {"labels": targets["input_ids"]}

        with quiet():
            return rows.map(features, batched=True, remove_columns=rows.column_names)

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> Collator:
        names = [*tokenizer.model_input_names, "labels"]
        unknown = tokenizer.unk_token_id
        if self.word_dropout and unknown is None:
            raise ValueError(
                f"word_dropout={self.word_dropout} needs an unknown token, which {type(tokenizer).__name__} does not "
                "have; leave it out."
            )
        dropped = (self.word_dropout, unknown)
        return partial(collate, collator=DataCollatorForSeq2Seq(tokenizer, model=model), names=names, dropped=dropped)

    @property
    def predictor_options(self) -> dict[str, Any]:
        return {"generation": self.generation}

    def inputs(self, rows: Dataset) -> list[str]:
        return self._prefixed(rows["source"])

    def _prefixed(self, texts: Iterable[str]) -> list[str]:
        return [self.prefix + text for text in texts]

    def prediction(self, result: Generation) -> str:
        return result.text.strip()

    def references(self, rows: Dataset) -> list[str]:
        return list(rows["target"])

    def score(self, rows: Dataset, predictions: list[str]) -> dict[str, float]:
        """Return corpus scores by sacreBLEU, in percent."""
        references = [list(rows["target"])]
        return {name: metric.corpus_score(predictions, references).score for name, metric in self._metrics().items()}

    @property
    def signatures(self) -> dict[str, str]:
        """Signature of each score, which makes it reproducible."""
        metrics = self._metrics()
        for metric in metrics.values():
            metric.corpus_score(["one"], [["one"]])  # the number of references is unknown before a score
        return {name: str(metric.get_signature()) for name, metric in metrics.items()}

    def _metrics(self) -> dict[str, Metric]:
        return {"bleu": BLEU(), **{f"bleu_{n}": BLEU(max_ngram_order=n) for n in (1, 2, 3)}, "chrf": CHRF()}

    def write(self, rows: Dataset, predictions: list[str], split: str, directory: Path) -> Path:
        """Write one text a line."""
        return parallel.write_lines(Path(directory) / f"{split}.{self.ending}", predictions)
