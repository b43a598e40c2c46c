"""The nine tasks of GLUE, in a table.

Files are those of the official archives: a folder for each task, with tabs between the columns; quotes are plain text.
Without files the rows come from the Hub.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import Dataset, load_dataset

from ..fields import setting
from .base import Data, DataError, HubData
from .classification import SentenceTask, make_rows, quiet
from .glue_metrics import accuracy_f1, correlations, matthews, only_accuracy
from .readers import INTEGER, NUMBER, Record, read_tsv

logger = logging.getLogger(__name__)

HUB = "nyu-mll/glue"
PARTS = {"": "", "_matched": "-m", "_mismatched": "-mm"}
"""Endings of split names and those of the prediction files."""
LOWEST, HIGHEST = 0.0, 5.0  # similarity in STS-B


@dataclass(frozen=True)
class Spec:
    """Description of a task.

    Attributes:
        folder: folder of the official archive; prediction files are named after it.
        texts: columns of the sentences in the files.
        label: column of the label in the files.
        names: classes in the order of the Hub; none for a number from 0 to 5.
        spelled: files contain the names of the classes, not their indices.
        measure: function that computes the scores.
        metric: the score that GLUE averages over tasks.
        hub_texts: columns of the sentences on the Hub, if they differ.
        header: columns of the labelled files, if these have no header.
        index: column of the test file that identifies a row.
        parts: endings of the names of the dev and test sets.
        undecided: label of rows on which the annotators did not agree; such rows are skipped.
        broken: the published labelled files have lines with missing columns, which are skipped.
    """

    folder: str
    texts: tuple[str, ...]
    label: str
    names: tuple[str, ...]
    spelled: bool = False
    measure: Callable[[Any, Any], dict[str, float]] = only_accuracy
    metric: str = "accuracy"
    hub_texts: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    index: str = "index"
    parts: tuple[str, ...] = ("",)
    undecided: str | None = None
    broken: bool = False


PAIR = ("sentence1", "sentence2")
ENTAILMENT = ("entailment", "not_entailment")
SPECS = {
    "cola": Spec(
        "CoLA",
        ("sentence",),
        "label",
        ("unacceptable", "acceptable"),
        measure=matthews,
        metric="matthews",
        header=("source", "label", "star", "sentence"),
    ),
    "sst-2": Spec("SST-2", ("sentence",), "label", ("negative", "positive")),
    "mrpc": Spec(
        "MRPC",
        ("#1 String", "#2 String"),
        "Quality",
        ("not_equivalent", "equivalent"),
        measure=accuracy_f1,
        metric="average",
        hub_texts=PAIR,
    ),
    "sts-b": Spec("STS-B", PAIR, "score", (), measure=correlations, metric="average"),
    "qqp": Spec(
        "QQP",
        ("question1", "question2"),
        "is_duplicate",
        ("not_duplicate", "duplicate"),
        measure=accuracy_f1,
        metric="average",
        index="id",
        broken=True,
    ),
    "mnli": Spec(
        "MNLI",
        PAIR,
        "gold_label",
        ("entailment", "neutral", "contradiction"),
        spelled=True,
        hub_texts=("premise", "hypothesis"),
        parts=("_matched", "_mismatched"),
        undecided="-",
    ),
    "qnli": Spec("QNLI", ("question", "sentence"), "label", ENTAILMENT, spelled=True),
    "rte": Spec("RTE", PAIR, "label", ENTAILMENT, spelled=True),
    "wnli": Spec("WNLI", PAIR, "label", ("not_entailment", "entailment")),
}


@dataclass(frozen=True)
class Glue(SentenceTask):
    """A task of GLUE."""

    task: str = setting(choices=tuple(SPECS))
    """Name of the task, a key of `SPECS`."""

    @property
    def spec(self) -> Spec:
        return SPECS[self.task]

    @property
    def name(self) -> str:
        return self.task

    @property
    def metric(self) -> str:
        return self.spec.metric

    def measure(self, labels: list[Any], predictions: list[Any]) -> dict[str, float]:
        return self.spec.measure(labels, predictions)

    def load(self, data_dir: Path | None) -> Data:
        """Return the rows; `data_dir` is the folder of the task, or the one with the folders of all tasks.

        The sets are named after the files: train, dev (dev_matched and dev_mismatched for MNLI), and test likewise. A
        test file is only needed for a submission and may be absent.
        """
        return self._from_hub() if data_dir is None else self._from_files(Path(data_dir))

    def _from_files(self, data_dir: Path) -> Data:
        own = self.spec.folder
        folder = next((path for path in (data_dir / own, data_dir) if (path / "train.tsv").is_file()), None)
        if folder is None:
            raise DataError(f"{data_dir}: expected {own}/train.tsv or train.tsv in this folder, found neither.")
        tests = {part: folder / f"test{part}.tsv" for part in self.spec.parts}
        return Data(
            self._labelled(folder / "train.tsv"),
            {f"dev{part}": self._labelled(folder / f"dev{part}.tsv") for part in self.spec.parts},
            {f"test{part}": self._unlabelled(file) for part, file in tests.items() if file.exists()},
        )

    def _labelled(self, file: Path) -> Dataset:
        spec, rows, undecided = self.spec, [], 0
        broken: list[DataError] = []
        for record in read_tsv(file, (*spec.texts, spec.label), spec.header, broken if spec.broken else None):
            if record[spec.label] == spec.undecided:
                undecided += 1
            else:
                rows.append((*(record[name] for name in spec.texts), self._label(record)))
        if broken:
            logger.warning("%s: left out %d broken lines; the first: %s", file, len(broken), broken[0])
        if undecided:
            logger.warning("%s: left out %d rows whose %s is %r", file, undecided, spec.label, spec.undecided)
        *texts, labels = _columns(file, rows)
        return make_rows(texts, labels, spec.names)

    def _unlabelled(self, file: Path) -> Dataset:
        spec, rows = self.spec, []
        for record in read_tsv(file, (spec.index, *spec.texts)):
            index = int(_number(record, spec.index, f"(?=.{{1,18}}$){INTEGER}", "an integer"))
            rows.append((*(record[name] for name in spec.texts), index))
        *texts, indices = _columns(file, rows)
        return make_rows(texts, [None] * len(rows), spec.names, idx=indices)

    def _label(self, record: Record) -> int | float:
        spec, value = self.spec, record[self.spec.label]
        if not spec.names:
            expected = f"a number from {LOWEST:g} to {HIGHEST:g}"
            number = float(_number(record, spec.label, NUMBER, expected))
            if not LOWEST <= number <= HIGHEST:
                raise record.error(f"{expected} in column {spec.label!r}", value)
            return number
        choices = spec.names if spec.spelled else tuple(map(str, range(len(spec.names))))
        if value not in choices:
            raise record.error(f"one of {', '.join(choices)} in column {spec.label!r}", value)
        return choices.index(value)

    @property
    def hub_data(self) -> HubData:
        splits = {f"dev{part}": f"validation{part}" for part in self.spec.parts}
        return HubData(HUB, self.task.replace("-", ""), splits)

    def _from_hub(self) -> Data:
        with quiet():
            splits = load_dataset(HUB, self.task.replace("-", ""))
        columns = self.spec.hub_texts or self.spec.texts

        def rows(split: str, labelled: bool = True) -> Dataset:
            hub = splits[split]
            labels = hub["label"] if labelled else [None] * len(hub)
            return make_rows([hub[name] for name in columns], labels, self.spec.names, idx=hub["idx"])

        return Data(
            rows("train"),
            {f"dev{part}": rows(f"validation{part}") for part in self.spec.parts},
            {f"test{part}": rows(f"test{part}", labelled=False) for part in self.spec.parts},
        )

    def file_stem(self, split: str) -> str:
        """Return the name that the benchmark requires: MRPC for the set test, MNLI-mm for test_mismatched."""
        endings = {f"test{part}": PARTS[part] for part in self.spec.parts}
        return self.spec.folder + endings.get(split, f"-{split}")

    def spell(self, prediction: Any, names: list[str]) -> str:
        if not names:
            return f"{min(max(prediction, LOWEST), HIGHEST):.3f}"
        return names[prediction] if self.spec.spelled else str(prediction)


def _number(record: Record, column: str, pattern: str, expected: str) -> str:
    if not re.fullmatch(pattern, record[column].strip()):
        raise record.error(f"{expected} in column {column!r}", record[column])
    return str(record[column])


def _columns(file: Path, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    if not rows:
        raise DataError(f"{file}: expected rows, found none.")
    return list(zip(*rows, strict=True))
