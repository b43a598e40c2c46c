"""A small parallel language: a plain English and a made-up language, from one grammar.

    yesterday the farmer and a dog took the old boats away near the lake.
    tesho dorem lo tolvo ke kerro lor loshor thet loin flanoin brimoin minutoi.

What a translator has to learn:

- **Agreement**: article, noun and adjective share gender (a, e or o), number and case; the auxiliary has the number
  of the subject, the verb the gender and number of the object.
- **Order**: the auxiliary stands second, whatever comes first, and the verb last; adjectives follow their noun; a
  place precedes the object, and its preposition follows it. An English particle, away from its verb, changes the verb.
- **Ambiguity that context resolves** ("resolved"): *bank* is one word near a river and another near a market.
- **Ambiguity that nothing resolves** ("open"): *uncle*, *cousin* and *blue* have two translations each, and a coin
  decides between them. Even a perfect translator guesses there; `ceiling` says how many BLEU that costs.

A sentence has at most one ambiguous word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from statistics import fmean

from datasets import Dataset
from sacrebleu import corpus_bleu

from .base import Data
from .lexicon import (
    ADJECTIVES,
    AUXILIARIES,
    BEINGS,
    CASES,
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
    Verb,
)

SOURCE, TARGET = "en", "qaa"
"""Language codes; qaa is one of those that ISO 639 leaves to local use."""

AMBIGUOUS = {
    **{form: "resolved" for noun in RESOLVED for form in (noun.singular, noun.plural)},
    **{form: "open" for noun in OPEN for form in (noun.singular, noun.plural)},
    **dict.fromkeys(OPEN_ADJECTIVES, "open"),
}
ROLES = ["plain"] * 3 + ["resolved"] * 3 + ["subject", "object", "adjective"]
"""Where a sentence has its ambiguous word, each as often as it is named; the last three are open."""


@dataclass(frozen=True)
class Phrase:
    """A noun with its article and adjective."""

    noun: Noun
    adjective: str
    plural: bool
    definite: bool

    def english(self) -> str:
        text = f"{self.adjective} {self.noun.plural if self.plural else self.noun.singular}".strip()
        if self.definite:
            return f"the {text}"
        return text if self.plural else f"an {text}" if text[0] in "aeiou" else f"a {text}"

    def ending(self, case: str, sense: int) -> str:
        _, gender = self.noun.senses[sense % len(self.noun.senses)]
        return gender + ("i" if self.plural else "") + CASES[case]

    def translated(self, case: str, sense: int) -> str:
        """In words with two translations, `sense` (0 or 1) chooses."""
        stem, _ = self.noun.senses[sense % len(self.noun.senses)]
        stems = ["l", stem] if self.definite else [stem]
        if self.adjective:
            senses = (ADJECTIVES | OPEN_ADJECTIVES)[self.adjective]
            stems.append(senses[sense % len(senses)])
        return " ".join(stem + self.ending(case, sense) for stem in stems)


@dataclass(frozen=True)
class Sentence:
    """What is said, before it is said in either language. There need not be a time ("") or a place."""

    subjects: tuple[Phrase, ...]
    verb: Verb
    tense: str
    object: Phrase
    place: Phrase | None
    preposition: str
    time: str
    time_first: bool

    @property
    def plural(self) -> bool:
        return len(self.subjects) > 1 or self.subjects[0].plural

    def english(self) -> str:
        forms = {"past": self.verb.past, "future": f"will {self.verb.base}"}
        verb = forms.get(self.tense, self.verb.base if self.plural else self.verb.third)
        subject = " and ".join(phrase.english() for phrase in self.subjects)
        place = f"{self.preposition} {self.place.english()}" if self.place else ""
        words = [subject, verb, self.object.english(), self.verb.particle, place]
        words = [self.time, *words] if self.time_first else [*words, self.time]
        return " ".join(filter(None, words)) + "."

    def translated(self, sense: int) -> str:
        time = TIMES[self.time][0] if self.time else ""
        subject = " ke ".join(phrase.translated("nominative", sense) for phrase in self.subjects)
        auxiliary = AUXILIARIES[self.tense] + ("em" if self.plural else "")
        place = f"{self.place.translated('locative', sense)} {PREPOSITIONS[self.preposition]}" if self.place else ""
        verb = f"{self.verb.stem}ut{self.object.ending('nominative', sense)}"
        start = [time, auxiliary, subject] if time else [subject, auxiliary]
        return " ".join(filter(None, [*start, place, self.object.translated("accusative", sense), verb])) + "."

    def translations(self) -> list[str]:
        """All that are right: two when a word is open, otherwise one."""
        if kind(self.english()) == "open":
            return [self.translated(0), self.translated(1)]
        return [self.translated(int(self.place is not None and self.place.noun in TOWN))]


def ambiguous(source: str) -> dict[str, str]:
    """The ambiguous words of a source sentence, and whether context resolves them: "resolved" or "open"."""
    return {word: AMBIGUOUS[word] for word in source.rstrip(".").split() if word in AMBIGUOUS}


def kind(source: str) -> str:
    """Of a source sentence: "plain", "resolved" or "open"."""
    return next(iter(ambiguous(source).values()), "plain")


def draw(random: Random) -> Sentence:
    """A sentence; on average one in three has a resolved word, and one in three an open one."""
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
    """Rows without end, no source twice: source, target, kind, and all right translations, of which target is one."""
    seen = set()
    while True:
        sentence = draw(random)
        source = sentence.english()
        if source not in seen:
            seen.add(source)
            translations = sentence.translations()
            target = random.choice(translations)
            yield {"source": source, "target": target, "kind": kind(source), "translations": translations}


def generate(train: int = 4000, dev: int = 200, test: int = 400, seed: int = 0) -> Data:
    """Sets of so many sentences. No source sentence is in two of them."""
    stream = rows(Random(seed))
    parts = [Dataset.from_list(list(islice(stream, size))) for size in (train, dev, test)]
    return Data(parts[0], {"dev": parts[1], "test": parts[2]})


def ceiling(rows: Dataset, guesses: int = 20, seed: int = 0) -> float:
    """About the BLEU of a perfect translator, who can but guess where a word is open.

    Nobody can decide_early the coin that chose the targets, so any strategy is right in half of the open sentences on
    average. This one throws a coin too: the mean BLEU of right translations that are drawn at random. On a small set a
    lucky translator may be a point or two better.
    """
    random = Random(seed)
    translations, targets = list(rows["translations"]), [list(rows["target"])]
    guessed = [[random.choice(right) for right in translations] for _ in range(guesses)]
    return fmean(corpus_bleu(guess, targets).score for guess in guessed)
