"""SQuAD 1.1 and 2.0: answers that are spans of a context, and in 2.0 questions without an answer."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from datasets import Dataset, load_dataset
from torch import Tensor
from transformers import AutoModelForQuestionAnswering, PreTrainedModel, PreTrainedTokenizerBase

from ..fields import setting
from ..patching.state import base_model
from ..prediction import Answer, Predictions
from .base import Collator, Data, DataError, HubData, Task
from .measures import answer_measures
from .squad_answers import SquadAnswer
from .squad_features import features
from .squad_files import read
from .squad_metrics import squad_1, squad_2

HUB = {"1.1": "rajpurkar/squad", "2.0": "rajpurkar/squad_v2"}
CONFIGS = {"1.1": "plain_text", "2.0": "squad_v2"}
LABELS = ("start_positions", "end_positions")


@dataclass(frozen=True)
class Squad(Task):
    """Extractive question answering in SQuAD's format.

    The tokenizer has to be a fast one, and questions stand before their contexts. Scores are in percent, under the
    names that the official script of the version gives them. The thresholds in `best_exact_thresh` and
    `best_f1_thresh` are values for `null_threshold`. They are fitted on the best spans of all questions, including
    those that `null_threshold` leaves without an answer.
    """

    version: str = setting("1.1", choices=tuple(HUB))
    """Either "1.1" or "2.0", which has questions without an answer."""
    train_file: str | None = None
    """Name of the training file in the data folder; by default train-v1.1.json or train-v2.0.json."""
    dev_file: str | None = None
    """Name of the development file in the data folder; by default dev-v1.1.json or dev-v2.0.json."""
    doc_stride: int = setting(128, least=0, most=2**20)
    """Number of tokens that two neighbouring windows of a long context share."""
    n_best: int = setting(20, least=1, most=10**6)
    """Number of spans in the n-best file."""
    max_answer_length: int = setting(30, least=1, most=10**6)
    """Largest number of tokens of an answer."""
    null_threshold: float = 0.0
    """2.0: the answer is empty when the score of "no answer" exceeds that of the best span by more than this."""

    auto_class: ClassVar[Any] = AutoModelForQuestionAnswering

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

    def encode(self, rows: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int) -> Dataset:
        return features(rows, tokenizer, max_length, self.doc_stride)

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> Collator:
        accepted = inspect.signature(base_model(model).forward).parameters
        names = [name for name in (*tokenizer.model_input_names, *LABELS) if name in accepted]
        return partial(collate, tokenizer=tokenizer, names=names)

    @property
    def predictor_options(self) -> dict[str, Any]:
        return {
            "null_answer": self.version == "2.0",
            "null_threshold": self.null_threshold,
            "stride": self.doc_stride,
            "n_best": self.n_best,
            "max_answer_tokens": self.max_answer_length,
        }

    def inputs(self, rows: Dataset) -> list[Any]:
        return list(zip(rows["question"], rows["context"], strict=True))

    def prediction(self, result: Answer) -> SquadAnswer:
        return SquadAnswer.of_result(result)

    def score(self, rows: Dataset, predictions: list[SquadAnswer]) -> dict[str, float]:
        golds = [own["text"] for own in rows["answers"]]
        texts = [prediction.text for prediction in predictions]
        if self.version == "1.1":
            return squad_1(golds, texts)
        spans = [prediction.span for prediction in predictions]
        return squad_2(golds, texts, spans, [prediction.null_odds for prediction in predictions])

    def write(self, rows: Dataset, predictions: list[SquadAnswer], split: str, directory: Path) -> Path:
        """Write `predictions.json`, `nbest_predictions.json` and, for 2.0, `null_odds.json`; return the first."""
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

    @property
    def hub_data(self) -> HubData:
        return HubData(HUB[self.version], CONFIGS[self.version], {"dev": "validation"})

    def references(self, rows: Dataset) -> list[str]:
        return [" / ".join(dict.fromkeys(own["text"])) or "no answer" for own in rows["answers"]]

    def uncertainty_measures(self, losses: list[float], results: Predictions[Answer]) -> dict[str, float]:
        return super().uncertainty_measures(losses, results) | answer_measures(losses, results)


def collate(
    features: list[dict[str, Any]], tokenizer: PreTrainedTokenizerBase, names: Sequence[str]
) -> dict[str, Tensor]:
    """Return a padded batch of those columns that the features have."""
    kept = [{name: feature[name] for name in names if name in feature} for feature in features]
    # Positions of answers count from the left.
    return dict(tokenizer.pad(kept, padding_side="right", return_tensors="pt"))
