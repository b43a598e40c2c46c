"""Translation between any two languages, with a pretrained model or with a small one from scratch."""

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
    MarianConfig,
    MarianMTModel,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from . import language, parallel, vocabulary
from .base import Collator, Data, DataError, Outputs, Task
from .classification import quiet

SCRATCH = "scratch"
"""The name of a model that does not exist yet."""
POSITIONS = 512
"""Tokens that it reads at most."""


@dataclass(frozen=True)
class Translation(Task):
    """Translation from one language to another, scored by sacreBLEU."""

    source: str = "en"
    """Language to translate from: how the names of its files end, or the column of a dataset."""
    target: str = "de"
    """Language to translate to."""
    dataset: str = "bentrevett/multi30k"
    """Without a folder of files: a dataset of the Hub (name or name:config) with a column for each language or one
    called translation; or "language", the small one of hf_bam/tasks/language.py, from en to qaa."""
    num_beams: int = 5
    """Hypotheses that the search keeps; 1: the best token at each step."""
    max_target_length: int = 128
    """Tokens of a translation, the end token included; longer targets are cut in training."""
    prefix: str = ""
    """Written before every source text, for pretrained models that expect it."""
    vocabulary: int = 8000
    """Of a model from scratch: tokens at most, of both languages together."""
    width: int = 256
    """Of a model from scratch: size of its vectors."""
    layers: int = 3
    """Of a model from scratch: layers of the encoder, and as many of the decoder."""
    heads: int = 4
    """Of a model from scratch: heads of each attention layer."""

    auto_class: ClassVar[Any] = AutoModelForSeq2SeqLM

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.source == self.target:
            raise ValueError(f"source={self.source!r} is also the target; a translation needs two languages.")
        for name in ("num_beams", "max_target_length", "vocabulary", "width", "layers", "heads"):
            value = getattr(self, name)
            if value < 1:
                raise ValueError(f"{name}={value!r} is not valid; it must be a whole number, 1 or above.")
        if self.width % (2 * self.heads):
            raise ValueError(f"width={self.width} is not a multiple of 2 * heads={2 * self.heads}; it must be.")

    @property
    def name(self) -> str:
        return f"{self.source}-{self.target}"

    @property
    def metric(self) -> str:
        return "bleu"

    @property
    def generation(self) -> dict[str, Any]:
        """Keywords for `generate`."""
        return {"num_beams": self.num_beams, "max_length": 1 + self.max_target_length}  # the first is the start token

    def load(self, data_dir: Path | None) -> Data:
        """Columns `source` and `target`; sets from files have the names of the files."""
        if data_dir is not None:
            return parallel.read_folder(Path(data_dir), self.source, self.target)
        if self.dataset != "language":
            return self._from_hub()
        if (self.source, self.target) != (language.SOURCE, language.TARGET):
            raise ValueError(
                f"source={self.source!r}, target={self.target!r} cannot be had from dataset='language'; "
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

    def build(self, model: str, data: Data, **settings: Any) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        """A pretrained model, or for "scratch" a small Marian with a vocabulary fitted on the training rows."""
        built, tokenizer = (
            self._scratch(data, settings) if model == SCRATCH else super().build(model, data, **settings)
        )
        built.generation_config.update(**self.generation)
        return built, tokenizer

    def _scratch(self, data: Data, settings: dict[str, Any]) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        texts = chain(data.train["source"], data.train["target"])
        positions = settings.get("max_position_embeddings", max(POSITIONS, self.max_target_length))
        tokenizer = vocabulary.fit(texts, self.vocabulary, positions)
        sides = {"layers": self.layers, "attention_heads": self.heads, "ffn_dim": 4 * self.width}
        sizes = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sides.items()}
        special = {
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "decoder_start_token_id": tokenizer.pad_token_id,
        }
        fixed = {"d_model": self.width, "scale_embedding": True, "max_position_embeddings": positions}
        model = MarianMTModel(MarianConfig(vocab_size=len(tokenizer), **{**sizes, **special, **fixed, **settings}))
        # The start token is one that the decoder reads, but never one that it should write.
        search = {"bad_words_ids": [[tokenizer.pad_token_id]], "forced_eos_token_id": tokenizer.eos_token_id}
        model.generation_config.update(**search)
        return model, tokenizer

    def encode(self, rows: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int, *, training: bool) -> Dataset:
        limit = min(max_length, tokenizer.model_max_length)

        def features(batch: dict[str, list[str]]) -> dict[str, Any]:
            encoded = dict(tokenizer(self._prefixed(batch["source"]), max_length=limit, truncation=True))
            if training:
                targets = tokenizer(text_target=batch["target"], max_length=self.max_target_length, truncation=True)
                encoded["labels"] = targets["input_ids"]
            return encoded

        with quiet():
            return rows.map(features, batched=True, remove_columns=rows.column_names)

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> Collator:
        names = [*tokenizer.model_input_names, "labels"]
        return partial(_collate, collator=DataCollatorForSeq2Seq(tokenizer, model=model), names=names)

    def forward(self, model: PreTrainedModel, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """`tokens`: (B, L) the translations without the start token, padded."""
        return {"tokens": model.generate(**batch, **self.generation)[:, 1:]}

    def decode(
        self, rows: Dataset, features: Dataset, outputs: Outputs, tokenizer: PreTrainedTokenizerBase
    ) -> list[str]:
        """Texts; tokens may be padded with the pad token or with negative numbers."""
        ids = [output["tokens"][output["tokens"] >= 0].astype(int).tolist() for output in outputs]
        return [text.strip() for text in tokenizer.batch_decode(ids, skip_special_tokens=True)]

    def score(self, rows: Dataset, predictions: list[str]) -> dict[str, float]:
        """Corpus BLEU, chrF and TER by sacreBLEU, in percent; of TER, less is better."""
        references = [list(rows["target"])]
        return {name: metric.corpus_score(predictions, references).score for name, metric in self._metrics().items()}

    @property
    def signatures(self) -> dict[str, str]:
        """What has to stand beside each score so that others can compute the same."""
        metrics = self._metrics()
        for metric in metrics.values():
            metric.corpus_score(["one"], [["one"]])  # before a score it does not know the number of references
        return {name: str(metric.get_signature()) for name, metric in metrics.items()}

    def _metrics(self) -> dict[str, Metric]:
        return {"bleu": BLEU(trg_lang=self.target), "chrf": CHRF(), "ter": TER()}

    def write(self, rows: Dataset, predictions: list[str], split: str, directory: Path) -> Path:
        """One translation a line."""
        return parallel.write_lines(Path(directory) / f"{split}.{self.target}", predictions)

    def inputs(self, rows: Dataset) -> list[str]:
        return self._prefixed(rows["source"])

    def _prefixed(self, texts: Iterable[str]) -> list[str]:
        return [self.prefix + text for text in texts]


def _collate(features: list[dict[str, Any]], collator: DataCollatorForSeq2Seq, names: list[str]) -> dict[str, Tensor]:
    batch = collator([{name: value for name, value in feature.items() if name in names} for feature in features])
    return {name: value for name, value in batch.items() if value is not None}
