"""SQuAD 1.1 and 2.0: answers that are spans of a context, and in 2.0 questions without an answer."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from datasets import Dataset, Features, List, Value, load_dataset
from torch import Tensor
from transformers import AutoModelForQuestionAnswering, PreTrainedModel, PreTrainedTokenizerBase

from ..patching.state import base_model
from .base import Collator, Data, DataError, Outputs, Task
from .readers import Repeated, json_object
from .squad_answers import SquadAnswer, answers
from .squad_features import features
from .squad_metrics import squad_1, squad_2

HUB = {"1.1": "rajpurkar/squad", "2.0": "rajpurkar/squad_v2"}
LABELS = ("start_positions", "end_positions")
ROW = Features(
    {name: Value("string") for name in ("id", "question", "context")}
    | {"answers": {"text": List(Value("string")), "answer_start": List(Value("int32"))}}
)


@dataclass(frozen=True)
class Squad(Task):
    """Extractive question answering in SQuAD's format.

    The tokenizer has to be a fast one, and questions stand before their contexts. Scores are in percent, under the
    names that the official script of the version gives them. The thresholds in `best_exact_thresh` and
    `best_f1_thresh` are values for `null_threshold`; they are found among the best spans of all questions, also of
    those that `null_threshold` left without an answer.
    """

    version: str = "1.1"
    """Either "1.1" or "2.0", which has questions without an answer."""
    train_file: str | None = None
    """In the data folder; train-v1.1.json or train-v2.0.json by default."""
    dev_file: str | None = None
    """In the data folder; dev-v1.1.json or dev-v2.0.json by default."""
    doc_stride: int = 128
    """How many tokens two neighbouring windows of a long context share."""
    n_best: int = 20
    """How many spans are weighed for a question."""
    max_answer_length: int = 30
    """In tokens."""
    null_threshold: float = 0.0
    """2.0: the answer is empty when the score of "no answer" exceeds that of the best span by more than this."""

    auto_class: ClassVar[Any] = AutoModelForQuestionAnswering

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.version not in HUB:
            raise ValueError(f"version={self.version!r} is not known; choose one of {', '.join(HUB)}.")
        for name, least in {"doc_stride": 0, "n_best": 1, "max_answer_length": 1}.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)!r} is not valid; it must be {least} or above.")

    @property
    def name(self) -> str:
        return f"squad-{self.version}"

    @property
    def metric(self) -> str:
        return "f1"

    def load(self, data_dir: Path | None) -> Data:
        if data_dir is not None:
            train = data_dir / (self.train_file or f"train-v{self.version}.json")
            dev = data_dir / (self.dev_file or f"dev-v{self.version}.json")
            return Data(read(train, self.version, training=True), {"dev": read(dev, self.version)})
        if self.train_file or self.dev_file:
            raise ValueError("train_file and dev_file are files in data_dir; give data_dir, too.")
        try:
            sets = load_dataset(HUB[self.version])
        except OSError as error:
            raise DataError(
                f"{HUB[self.version]} could not be loaded from the Hub ({error}). Give data_dir, a folder with "
                f"train-v{self.version}.json and dev-v{self.version}.json, to do without it."
            ) from error
        return Data(sets["train"], {"dev": sets["validation"]})

    def encode(self, rows: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int, *, training: bool) -> Dataset:
        return features(rows, tokenizer, max_length, self.doc_stride, training)

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> Collator:
        taken = inspect.signature(base_model(model).forward).parameters
        names = [name for name in (*tokenizer.model_input_names, *LABELS) if name in taken]
        return partial(collate, tokenizer=tokenizer, names=names)

    def forward(self, model: PreTrainedModel, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        output = model(**batch)
        return {"start_logits": output.start_logits, "end_logits": output.end_logits}

    def decode(
        self, rows: Dataset, features: Dataset, outputs: Outputs, tokenizer: PreTrainedTokenizerBase
    ) -> list[SquadAnswer]:
        threshold = self.null_threshold if self.version == "2.0" else None
        limits = {"number": self.n_best, "longest": self.max_answer_length}
        return answers(rows, features, outputs, **limits, null_threshold=threshold)

    def score(self, rows: Dataset, predictions: list[SquadAnswer]) -> dict[str, float]:
        golds = [own["text"] for own in rows["answers"]]
        texts = [prediction.text for prediction in predictions]
        if self.version == "1.1":
            return squad_1(golds, texts)
        spans = [prediction.span for prediction in predictions]
        return squad_2(golds, texts, spans, [prediction.null_odds for prediction in predictions])

    def write(self, rows: Dataset, predictions: list[SquadAnswer], split: str, directory: Path) -> Path:
        """Writes `predictions.json`, `nbest_predictions.json` and, for 2.0, `null_odds.json`; returns the first."""
        own = dict(zip(rows["id"], predictions, strict=True))
        directory.mkdir(parents=True, exist_ok=True)
        contents: dict[str, Any] = {
            "predictions": {key: prediction.text for key, prediction in own.items()},
            "nbest_predictions": {key: [asdict(one) for one in prediction.n_best] for key, prediction in own.items()},
        }
        if self.version == "2.0":
            contents["null_odds"] = {key: prediction.null_odds for key, prediction in own.items()}
        for name, content in contents.items():
            text = json.dumps(content, ensure_ascii=False, indent=1)
            (directory / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        return directory / "predictions.json"

    def inputs(self, rows: Dataset) -> list[Any]:
        return list(zip(rows["question"], rows["context"], strict=True))


def collate(
    features: list[dict[str, Any]], tokenizer: PreTrainedTokenizerBase, names: Sequence[str]
) -> dict[str, Tensor]:
    """A padded batch of these columns, as far as the features have them."""
    kept = [{name: feature[name] for name in names if name in feature} for feature in features]
    # Always on the right, so that what the model says of a feature begins with the feature's own tokens.
    return dict(tokenizer.pad(kept, padding_side="right", return_tensors="pt"))


def read(path: Path, version: str, *, training: bool = False) -> Dataset:
    """The questions of a file in the official layout; with `training`, answers have to stand where they say."""
    rows = list(_rows(_parsed(path), str(path)))
    if not rows:
        raise DataError(f"{path} has no questions.")
    seen: set[str] = set()
    for row in rows:
        where = f"{path}, question {row['id']}"
        if row["id"] in seen:
            raise DataError(f"{where}: the id occurs twice; expected one question for each id.")
        seen.add(row["id"])
        if version == "1.1" and not row["answers"]["text"]:
            raise DataError(f"{where}: expected an answer, as every question of SQuAD 1.1 has; use version 2.0.")
        for text, start in zip(*row["answers"].values(), strict=True) if training else ():
            found = row["context"][start : start + len(text)]
            if found != text:
                raise DataError(f"{where}: expected the answer {text!r} at character {start}; found {found!r}.")
    return Dataset.from_list(rows, features=ROW)


def _parsed(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes(), object_pairs_hook=json_object)
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist; train_file and dev_file say how the files are named.") from error
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected text in UTF-8; byte {error.start} is not.") from error


def _rows(document: Any, path: str) -> Iterator[dict[str, Any]]:
    for a, article in enumerate(_field(document, "data", list, path)):
        for p, paragraph in enumerate(_field(article, "paragraphs", list, f"{path}: data[{a}]")):
            where = f"{path}: data[{a}].paragraphs[{p}]"
            context = _field(paragraph, "context", str, where)
            for q, question in enumerate(_field(paragraph, "qas", list, where)):
                yield _row(question, context, f"{where}.qas[{q}]")


def _row(question: Any, context: str, where: str) -> dict[str, Any]:
    own = _field(question, "answers", list, where)
    if own and question.get("is_impossible"):
        raise DataError(f"{where}: is_impossible is true, and there are {len(own)} answers; expected none.")
    places = [f"{where}.answers[{index}]" for index in range(len(own))]
    return {
        "id": _field(question, "id", str, where),
        "question": _field(question, "question", str, where),
        "context": context,
        "answers": {
            "text": [_field(one, "text", str, place) for one, place in zip(own, places, strict=True)],
            "answer_start": [_field(one, "answer_start", int, place) for one, place in zip(own, places, strict=True)],
        },
    }


def _field(entry: Any, name: str, kind: type, where: str) -> Any:
    """A field of the right kind."""
    if isinstance(entry, Repeated):
        raise DataError(f"{where}: expected every field once; found {entry.name!r} twice.")
    if not isinstance(entry, dict):
        raise DataError(f"{where}: expected an object with a field {name!r}; found {type(entry).__name__}.")
    if not isinstance(entry.get(name), kind) or isinstance(entry[name], bool):
        found = repr(entry[name]) if name in entry else f"the fields {', '.join(entry) or 'none'}"
        raise DataError(f"{where}: expected a field {name!r} ({kind.__name__}); found {found[:200]}.")
    return entry[name]
