"""A small parallel corpus: plain English and an artificial language, from one grammar.

    yesterday the farmer and a dog took the old boats away near the lake.
    tesho dorem lo tolvo ke kerro lor loshor thet loin flanoin brimoin minutoi.

A translation model has to learn:

- **Agreement**: article, noun and adjective share gender (a, e or o), number and case; the auxiliary has the number
  of the subject, the verb the gender and number of the object.
- **Order**: the auxiliary stands second, whatever comes first, and the verb last; adjectives follow their noun; a
  place precedes the object, and its preposition follows it. An English particle, away from its verb, changes the verb.
- **Ambiguity that context resolves** ("resolved"): *bank* is one word near a river and another near a market.
- **Ambiguity that nothing resolves** ("open"): *uncle*, *cousin* and *blue* have two translations each, and a fair
  coin decides between them. Even a perfect model guesses there; `ceiling` is the BLEU that it can reach.

A sentence has at most one ambiguous word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random
from statistics import fmean

from datasets import Dataset
from sacrebleu import corpus_bleu

from .base import Data
from .grammar import Phrase, Sentence, ambiguous, kind, split
from .lexicon import (
    ADJECTIVES,
    AUXILIARIES,
    BEINGS,
    NATURE,
    OPEN,
    OPEN_ADJECTIVES,
    PREPOSITIONS,
    RESOLVED,
    THINGS,
    TIMES,
    TOWN,
    VERBS,
    Noun,
)

__all__ = [
    "SOURCE",
    "TARGET",
    "Phrase",
    "Sentence",
    "ambiguous",
    "ceiling",
    "draw",
    "generate",
    "kind",
    "rows",
    "split",
]

SOURCE, TARGET = "en", "qaa"
"""Language codes; qaa is one of those that ISO 639 leaves to local use."""

ROLES = ["plain"] * 3 + ["resolved"] * 3 + ["subject", "object", "adjective"]
"""Role of the ambiguous word in a sentence, in the proportions of the list; the last three are open."""


def draw(random: Random) -> Sentence:
    """Draw a sentence; on average one in three has a resolved word, and one in three an open one."""
    role = random.choice(ROLES)
    subjects = [_phrase(random, OPEN if role == "subject" else BEINGS)]
    if random.random() < 0.15:
        subjects.append(_phrase(random, BEINGS))
    objects = {"resolved": RESOLVED, "object": OPEN}.get(role, BEINGS + THINGS)
    adjective = random.choice([*OPEN_ADJECTIVES]) if role == "adjective" else ""
    somewhere = role == "resolved" or random.random() < 0.35
    time = random.choice([*TIMES]) if random.random() < 0.5 else ""
    return Sentence(
        subjects=tuple(subjects),
        verb=random.choice(VERBS),
        tense=TIMES[time][1] if time else random.choice([*AUXILIARIES]),
        object=_phrase(random, objects, adjective),
        place=Phrase(random.choice(NATURE + TOWN), "", random.random() < 0.2, True) if somewhere else None,
        preposition=random.choice([*PREPOSITIONS]),
        time=time,
        time_first=random.random() < 0.5,
    )


def _phrase(random: Random, nouns: Sequence[Noun], adjective: str = "") -> Phrase:
    if not adjective and random.random() < 0.4:
        adjective = random.choice([*ADJECTIVES])
    return Phrase(random.choice(nouns), adjective, random.random() < 0.35, random.random() < 0.7)


def rows(random: Random) -> Iterator[dict[str, object]]:
    """Yield rows without end and without repeated sources.

    A row has source, target, kind, all correct translations, and the alignment: for each word of the target the
    numbers of its words of the source, as `split` counts them.
    """
    sources = set()
    while True:
        sentence = draw(random)
        source = sentence.english()
        if source not in sources:
            sources.add(source)
            translations = sentence.translations()
            target = random.choice(translations)
            row = {"source": source, "target": target, "kind": kind(source), "translations": translations}
            yield {**row, "alignment": sentence.alignment()}


def generate(train: int = 4000, dev: int = 200, test: int = 400, seed: int = 0) -> Data:
    """Return sets of these sizes. No source sentence is in two of them."""
    stream = rows(Random(seed))
    parts = [Dataset.from_list(list(islice(stream, size))) for size in (train, dev, test)]
    return Data(parts[0], {"dev": parts[1], "test": parts[2]})


def ceiling(rows: Dataset, guesses: int = 20, seed: int = 0) -> float:
    """Return the expected BLEU of a perfect model, which guesses the open words.

    It is the mean BLEU of correct translations that are drawn at random. The coin that chose the targets cannot be
    predicted, so any strategy is right in half of the open sentences on average. On a small set a lucky model may be a
    point or two better.
    """
    random = Random(seed)
    translations, targets = list(rows["translations"]), [list(rows["target"])]
    guessed = [[random.choice(right) for right in translations] for _ in range(guesses)]
    return fmean(corpus_bleu(guess, targets).score for guess in guessed)
