"""CLINC150: questions to an assistant with 150 intents, and out-of-scope questions (Larson et al., EMNLP 2019)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from datasets import Dataset, load_dataset

from ..fields import parse_json
from .base import Data, DataError
from .classification import SentenceTask, make_rows, quiet

FILE = "data_full.json"
HUB = ("clinc/clinc_oos", "plus")
OUT_OF_SCOPE = "oos"
"""Label of questions without an intent."""
SETS = {"validation": "val", "test": "test"}
"""Keys of the sets in the file."""


@dataclass(frozen=True)
class Clinc(SentenceTask):
    """Intent classification. Out-of-scope questions are not trained on; they are the out-of-distribution rows."""

    default_model: ClassVar[str] = "minilm"
    default_recipe: ClassVar[str] = "fast"

    @property
    def name(self) -> str:
        return "clinc150"

    def load(self, data_dir: Path | None) -> Data:
        """Return the sets `validation` and `test`, with the out-of-scope questions of each.

        They are read from `data_full.json` in `data_dir` or, without a folder, from the Hub.
        """
        found = _from_hub() if data_dir is None else _from_file(Path(data_dir) / FILE)
        names = sorted({label for _, label in found["train"]})
        data = {name: _rows(found[key], names) for name, key in {"train": "train", **SETS}.items()}
        ood = {name: _rows(found[f"oos_{key}"], names, labelled=False) for name, key in SETS.items()}
        return Data(data.pop("train"), data, ood=ood)


def _rows(pairs: Iterable[tuple[str, str]], names: list[str], labelled: bool = True) -> Dataset:
    texts, labels = zip(*pairs, strict=True)
    indices = {name: index for index, name in enumerate(names)}
    return make_rows([texts], [indices[label] if labelled else None for label in labels], names)


def _from_file(path: Path) -> Mapping[str, Any]:
    try:
        found = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist; expected the file {FILE} of CLINC150 in data_dir.") from error
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}.") from error
    for name in ("train", *SETS.values(), *(f"oos_{key}" for key in SETS.values())):
        rows = found.get(name) if isinstance(found, dict) else None
        good = isinstance(rows, list) and rows and all(_is_pair(row) for row in rows)
        if not good:
            raise DataError(f"{path}: expected a list of [question, intent] under {name!r}.")
    return found


def _is_pair(row: Any) -> bool:
    return isinstance(row, list) and len(row) == 2 and all(isinstance(part, str) for part in row)


def _from_hub() -> Mapping[str, Any]:
    try:
        with quiet():
            sets = load_dataset(*HUB)
    except OSError as error:
        raise DataError(
            f"{HUB[0]} could not be loaded from the Hub ({error}). Give data_dir, a folder with {FILE}."
        ) from error
    names = sets["train"].features["intent"].names
    pairs = {
        key: [(row["text"], names[row["intent"]]) for row in sets[name]]
        for name, key in {"train": "train", **SETS}.items()
    }
    found: dict[str, Any] = {}
    for key, rows in pairs.items():
        found[key] = [row for row in rows if row[1] != OUT_OF_SCOPE]
        found[f"oos_{key}"] = [row for row in rows if row[1] == OUT_OF_SCOPE]
    return found
