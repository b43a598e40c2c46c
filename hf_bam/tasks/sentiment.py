"""VADER sentiment snippets: sentences of four domains with about twenty ratings each, from -4 to 4.

The mean rating gives the label, and the spread of the ratings is the disagreement between the raters (Hutto and
Gilbert, ICWSM 2014). The data are part of the source archive of the package `vaderSentiment` 0.5 (MIT licence).
"""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from datasets import Dataset
from huggingface_hub.constants import HF_HOME

from ..fields import parse_json, setting
from .base import Data, DataError
from .classification import SentenceTask, make_rows
from .package_index import stored

PROJECT, ARCHIVE = "vadersentiment", "vaderSentiment-0.5.zip"
ARCHIVE_SHA256 = "5d97c37f3ef6e24eef331122e055dbedafeb6a56abfce0608b326701116ea49a"
DATA = "vaderSentiment-0.5/additional_resources/hutto_ICWSM_2014.tar.gz"
SHA256 = "d5bb07d87474b3eb8d30b4deccbc23f19d742a6c5718fbacc65485b70b95c5fa"
DOMAINS = {
    "movies": "movieReviewSnippets",
    "products": "amazonReviewSnippets",
    "news": "nytEditorialSnippets",
    "tweets": "tweets",
}
NAMES = ("negative", "positive")
CACHE = Path(HF_HOME) / "hf_bam"
"""Folder of the archive; the environment variable HF_HOME moves it."""


@dataclass(frozen=True)
class Sentence:
    """A sentence with its ratings.

    Attributes:
        rating: mean of the ratings, from -4 to 4.
        disagreement: standard deviation of the ratings.
    """

    text: str
    rating: float
    disagreement: float

    @property
    def label(self) -> int:
        """Class index: 1 for positive, 0 for negative."""
        return int(self.rating > 0)

    @property
    def split(self) -> str:
        """Split by a hash of the text, so that repeats stay together: train (80 %), validation or test (10 % each)."""
        bucket = int.from_bytes(hashlib.sha256(self.text.encode()).digest()[:8], "big") % 10
        return {8: "validation", 9: "test"}.get(bucket, "train")


@dataclass(frozen=True)
class Sentiment(SentenceTask):
    """Sentiment classification, trained on one domain and evaluated on it and on the others.

    The rows contain the mean `rating` and the `disagreement` between the raters.

    """

    domain: str = setting("movies", choices=tuple(DOMAINS))
    """Domain to train on."""

    default_model: ClassVar[str] = "minilm"
    default_recipe: ClassVar[str] = "fast"

    @property
    def name(self) -> str:
        return "sentiment"

    def load(self, data_dir: Path | None) -> Data:
        """Return the sets `validation` and `test` of the domain, and a set for each other domain.

        The archive is read from `data_dir`, by default `CACHE`, and downloaded if it is not there.
        """
        archive = download(CACHE if data_dir is None else Path(data_dir))
        own = load(archive, self.domain)
        train, validation, test = (
            _rows([sentence for sentence in own if sentence.split == split])
            for split in ("train", "validation", "test")
        )
        others = {domain: _rows(load(archive, domain)) for domain in DOMAINS if domain != self.domain}
        return Data(train, {"validation": validation, "test": test, **others})


def download(cache: Path) -> Path:
    """Return the archive in a folder, and download it unless it is there."""
    return stored(PROJECT, ARCHIVE, ARCHIVE_SHA256, cache)


def load(archive: Path, domain: str) -> list[Sentence]:
    """Return the sentences of one domain."""
    _check(domain)
    with tarfile.open(fileobj=io.BytesIO(_verified(archive))) as inner:
        texts, ratings = (
            _fields(inner, f"{DOMAINS[domain]}_{part}.txt") for part in ("GroundTruth", "anonDataRatings")
        )
    sentences = []
    for name, (mean, text) in texts.items():
        values = np.array(parse_json(ratings[name][-1]))
        # For about one of twenty tweets the two files describe different sentences.
        if abs(float(mean) - values.mean()) < 1e-3:
            sentences.append(Sentence(text, float(mean), float(values.std())))
    return sentences


def _check(domain: str) -> None:
    if domain not in DOMAINS:
        raise ValueError(f"domain={domain!r} is not known; choose one of {', '.join(DOMAINS)}.")


def _verified(archive: Path) -> bytes:
    try:
        with zipfile.ZipFile(archive) as outer:
            data = outer.read(DATA)
    except (KeyError, zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError) as invalid:
        raise DataError(f"{archive} is not {ARCHIVE} as it was published; delete it and try again.") from invalid
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise DataError(f"{archive} has other data than expected (its checksum differs); delete it and try again.")
    return data


def _fields(archive: tarfile.TarFile, name: str) -> dict[str, list[str]]:
    file = archive.extractfile(f"hutto_ICWSM_2014/{name}")
    if file is None:
        raise DataError(f"{name} is missing in the archive.")
    lines = file.read().decode("utf-8-sig").splitlines()
    return {fields[0]: fields[1:] for fields in (line.split("\t") for line in lines) if len(fields) > 1}


def _rows(sentences: list[Sentence]) -> Dataset:
    labels = [sentence.label for sentence in sentences]
    numbers = {name: [getattr(sentence, name) for sentence in sentences] for name in ("rating", "disagreement")}
    return make_rows([[sentence.text for sentence in sentences]], labels, NAMES, **numbers)
