"""Text to text: a target text for every source text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from . import parallel, tables
from .base import Data, DataError
from .generation import GenerationTask


@dataclass(frozen=True)
class TextToText(GenerationTask):
    """Generation of a target text from a source text: questions, summaries, paraphrases; scored by sacreBLEU.

    The rows are in two files of lines for each set, or in one table with a column for each side.
    """

    source: str = "source"
    """Side to read: the ending of its files, or its column of a table."""
    target: str = "target"
    """Side to generate."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.source == self.target:
            raise ValueError(f"source={self.source!r} is also the target; {self.two_sides}.")

    @property
    def two_sides(self) -> str:
        """End of the error of equal source and target: two sides that the task needs."""
        return "a text-to-text task needs two sides"

    @property
    def name(self) -> str:
        return "text2text"

    @property
    def ending(self) -> str:
        return self.target

    def load(self, data_dir: Path | None) -> Data:
        """Return rows with the columns `source` and `target`, from tables or from files of lines."""
        if data_dir is None:
            raise DataError(
                f"The task {self.name} needs data_dir: a folder with train.{self.source}, train.{self.target} and so "
                f"on, or with tables ({tables.FORMATS}) called train, validation and maybe test."
            )
        if tables.has_tables(Path(data_dir)):
            return tables.read_pairs(Path(data_dir), self.source, self.target)
        return parallel.read_folder(Path(data_dir), self.source, self.target)
