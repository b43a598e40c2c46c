"""Translation between two languages, with a pretrained model or a small one from scratch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from datasets import Dataset, load_dataset
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from . import language, parallel
from .base import Data, DataError
from .classification import quiet
from .tables import loading
from .text2text import TextToText


@dataclass(frozen=True)
class Translation(TextToText):
    """Translation from one language to another, scored by sacreBLEU."""

    source: str = "en"
    """Language to translate from: the ending of its files, or its column of a dataset."""
    target: str = "de"
    """Language to translate to."""
    dataset: str = "bentrevett/multi30k"
    """Without a folder of files: a dataset of the Hub (name or name:config) with a column for each language or one
    called translation; or "language", the small one of hf_bam/tasks/language.py, from en to qaa."""

    @property
    def two_sides(self) -> str:
        return "a translation needs two languages"

    @property
    def name(self) -> str:
        return f"{self.source}-{self.target}"

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
        files = f"train.{self.source}, train.{self.target} and so on"
        problem = (
            f"{self.dataset} could not be loaded from the Hub. Give data_dir, a folder with {files}, or "
            "dataset='language' to do without it"
        )
        with loading(problem), quiet():
            loaded = load_dataset(*self.dataset.split(":", 1))
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

    def _metrics(self) -> dict[str, Metric]:
        """Return BLEU, chrF and TER; lower is better for TER."""
        return {"bleu": BLEU(trg_lang=self.target), "chrf": CHRF(), "ter": TER()}
