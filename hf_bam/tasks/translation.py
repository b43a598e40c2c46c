"""Translation between two languages, with a pretrained model or a small one from scratch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from datasets import Dataset, load_dataset
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from torch import Tensor
from transformers import (
    AutoModelForSeq2SeqLM,
    DataCollatorForSeq2Seq,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from ..fields import setting
from ..prediction import Generation
from . import language, parallel, vocabulary
from .base import Collator, Data, DataError, Task
from .classification import quiet
from .scratch import SCRATCH, check_width

POSITIONS = 512
"""Largest number of tokens of a source text that a model from scratch reads."""


@dataclass(frozen=True)
class Translation(Task):
    """Translation from one language to another, scored by sacreBLEU."""

    source: str = "en"
    """Language to translate from: the ending of its files, or its column of a dataset."""
    target: str = "de"
    """Language to translate to."""
    dataset: str = "bentrevett/multi30k"
    """Without a folder of files: a dataset of the Hub (name or name:config) with a column for each language or one
    called translation; or "language", the small one of hf_bam/tasks/language.py, from en to qaa."""
    num_beams: int = setting(5, least=1)
    """Beams of the search; 1: greedy decoding."""
    max_target_length: int = setting(128, least=1)
    """Largest number of tokens of a translation, the end token included; longer targets are truncated in training."""
    prefix: str = ""
    """Text before every source text, for pretrained models that expect one."""
    vocabulary: int = setting(8000, least=1)
    """Model from scratch: largest number of tokens, of both languages together."""
    width: int = setting(256, least=1)
    """Model from scratch: hidden size."""
    layers: int | None = setting(None, least=1)
    """Model from scratch: number of layers of the encoder, and of the decoder. none: 3 for scratch, 1 for
    recurrent."""
    heads: int | None = setting(None, least=1)
    """Model from scratch: number of attention heads of a layer. none: 4 for scratch, 1 for recurrent."""

    auto_class: ClassVar[Any] = AutoModelForSeq2SeqLM
    default_model: ClassVar[str] = "scratch"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.source == self.target:
            raise ValueError(f"source={self.source!r} is also the target; a translation needs two languages.")
        check_width(self.width, self.heads or 1)

    @property
    def name(self) -> str:
        return f"{self.source}-{self.target}"

    @property
    def metric(self) -> str:
        return "bleu"

    @property
    def generation(self) -> dict[str, Any]:
        """Arguments of `generate`."""
        return {"num_beams": self.num_beams, "max_length": 1 + self.max_target_length}  # the first is the start token

    def load(self, data_dir: Path | None) -> Data:
        """Return rows with the columns `source` and `target`; sets from files have the names of the files."""
        if data_dir is not None:
            return parallel.read_folder(Path(data_dir), self.source, self.target)
        if self.dataset != "language":
            return self._from_hub()
        if (self.source, self.target) != (language.SOURCE, language.TARGET):
            raise ValueError(
                f"source={self.source!r}, target={self.target!r} are not the languages of dataset='language'; "
                f"choose source={language.SOURCE!r}, target={language.TARGET!r}."
            )
        return language.generate()

    def _from_hub(self) -> Data:
        try:
            with quiet():
                loaded = load_dataset(*self.dataset.split(":", 1))
        except OSError as error:
            raise DataError(
                f"{self.dataset} could not be loaded from the Hub ({error}). Give data_dir, a folder with "
                f"train.{self.source}, train.{self.target} and so on, or dataset='language' to do without it."
            ) from error
        splits = {name: self._columns(rows) for name, rows in loaded.items()}
        if not {"train", "validation"} <= set(splits):
            raise DataError(f"{self.dataset} has {', '.join(splits)}; expected train, validation and maybe test.")
        return Data(splits["train"], {name: splits[name] for name in ("validation", "test") if name in splits})

    def _columns(self, rows: Dataset) -> Dataset:
        if "translation" in rows.column_names:
            rows = rows.select_columns("translation").flatten()
            rows = rows.rename_columns({name: name.removeprefix("translation.") for name in rows.column_names})
        for name in (self.source, self.target):
            if name not in rows.column_names:
                names = ", ".join(rows.column_names)
                raise DataError(f"{self.dataset} has no column {name!r}; its columns are {names}.")
        rows = rows.select_columns([self.source, self.target])
        return rows.rename_columns({self.source: "source", self.target: "target"})

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
        return partial(_collate, collator=DataCollatorForSeq2Seq(tokenizer, model=model), names=names)

    @property
    def predictor_options(self) -> dict[str, Any]:
        return {"generation": self.generation}

    def inputs(self, rows: Dataset) -> list[str]:
        return self._prefixed(rows["source"])

    def _prefixed(self, texts: Iterable[str]) -> list[str]:
        return [self.prefix + text for text in texts]

    def prediction(self, result: Generation) -> str:
        return result.text.strip()

    def score(self, rows: Dataset, predictions: list[str]) -> dict[str, float]:
        """Return corpus BLEU, chrF and TER by sacreBLEU, in percent; lower is better for TER."""
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
        return {"bleu": BLEU(trg_lang=self.target), "chrf": CHRF(), "ter": TER()}

    def write(self, rows: Dataset, predictions: list[str], split: str, directory: Path) -> Path:
        """Write one translation a line."""
        return parallel.write_lines(Path(directory) / f"{split}.{self.target}", predictions)


def _collate(features: list[dict[str, Any]], collator: DataCollatorForSeq2Seq, names: list[str]) -> dict[str, Tensor]:
    batch = collator([{name: value for name, value in feature.items() if name in names} for feature in features])
    return {name: value for name, value in batch.items() if value is not None}
