"""Grammar of the small parallel corpus: phrases and sentences in both languages, and their word alignment."""

from __future__ import annotations

from dataclasses import dataclass

from .lexicon import (
    ADJECTIVES,
    AUXILIARIES,
    CASES,
    OPEN,
    OPEN_ADJECTIVES,
    PREPOSITIONS,
    RESOLVED,
    TIMES,
    TOWN,
    Noun,
    Verb,
)

AMBIGUOUS = {
    **{form: "resolved" for noun in RESOLVED for form in (noun.singular, noun.plural)},
    **{form: "open" for noun in OPEN for form in (noun.singular, noun.plural)},
    **dict.fromkeys(OPEN_ADJECTIVES, "open"),
}
Words = list[tuple[str, str]]
"""Words of a phrase or sentence, each with the part of the meaning that it expresses."""


@dataclass(frozen=True)
class Phrase:
    """A noun with its article and adjective."""

    noun: Noun
    adjective: str
    plural: bool
    definite: bool

    def english_words(self, name: str = "") -> Words:
        noun = self.noun.plural if self.plural else self.noun.singular
        indefinite = "" if self.plural else "an" if (self.adjective or noun)[0] in "aeiou" else "a"
        article = "the" if self.definite else indefinite
        words = {"article": article, "adjective": self.adjective, "noun": noun}
        return [(f"{name} {part}", word) for part, word in words.items() if word]

    def english(self) -> str:
        return text(self.english_words())

    def ending(self, case: str, sense: int) -> str:
        _, gender = self.noun.senses[sense % len(self.noun.senses)]
        return gender + ("i" if self.plural else "") + CASES[case]

    def translated_words(self, name: str, case: str, sense: int) -> Words:
        """Return the translation; `sense` (0 or 1) selects one for words with two."""
        stem, _ = self.noun.senses[sense % len(self.noun.senses)]
        stems = {"article": "l" if self.definite else "", "noun": stem}
        if self.adjective:
            senses = (ADJECTIVES | OPEN_ADJECTIVES)[self.adjective]
            stems["adjective"] = senses[sense % len(senses)]
        return [(f"{name} {part}", stem + self.ending(case, sense)) for part, stem in stems.items() if stem]


@dataclass(frozen=True)
class Sentence:
    """Meaning of a sentence, from which both languages follow. Time ("") and place are optional."""

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

    def english_words(self) -> Words:
        forms = {"past": self.verb.past, "future": self.verb.base}
        verb = forms.get(self.tense, self.verb.base if self.plural else self.verb.third)
        future = [("auxiliary", "will")] if self.tense == "future" else []
        time = [("time", self.time)] if self.time else []
        particle = [("particle", self.verb.particle)] if self.verb.particle else []
        place = [("preposition", self.preposition), *self.place.english_words("place")] if self.place else []
        subject = self._joined([phrase.english_words(f"subject {i}") for i, phrase in enumerate(self.subjects)], "and")
        words = [*subject, *future, ("verb", verb), *self.object.english_words("object"), *particle, *place]
        return [*time, *words] if self.time_first else [*words, *time]

    def english(self) -> str:
        return text(self.english_words()) + "."

    def translated_words(self, sense: int) -> Words:
        time = [("time", TIMES[self.time][0])] if self.time else []
        auxiliary = [("auxiliary", AUXILIARIES[self.tense] + ("em" if self.plural else ""))]
        place: Words = []
        if self.place:
            place = self.place.translated_words("place", "locative", sense)
            place.append(("preposition", PREPOSITIONS[self.preposition]))
        phrases = enumerate(self.subjects)
        subject = self._joined([p.translated_words(f"subject {i}", "nominative", sense) for i, p in phrases], "ke")
        thing = self.object.translated_words("object", "accusative", sense)
        verb = [("verb", f"{self.verb.stem}ut{self.object.ending('nominative', sense)}")]
        start = [*time, *auxiliary, *subject] if time else [*subject, *auxiliary]
        return [*start, *place, *thing, *verb]

    @staticmethod
    def _joined(phrases: list[Words], conjunction: str) -> Words:
        first, *rest = phrases
        return sum(([("conjunction", conjunction), *phrase] for phrase in rest), first)

    def translated(self, sense: int) -> str:
        return text(self.translated_words(sense)) + "."

    def alignment(self) -> list[list[int]]:
        """Return for each word of a translation the numbers of the English words that it translates.

        All translations have the same. The full stop is a word. An auxiliary translates "will", or else the verb,
        whose form shows the tense; a verb translates the verb and its particle.
        """
        english = [part for part, _ in self.english_words()]
        parts = {"auxiliary": ["auxiliary" if "auxiliary" in english else "verb"], "verb": ["verb", "particle"]}
        wanted = [parts.get(part, [part]) for part, _ in self.translated_words(0)]
        return [[i for i, part in enumerate(english) if part in own] for own in wanted] + [[len(english)]]

    def translations(self) -> list[str]:
        """Return all correct translations: two when a word is open, otherwise one."""
        if kind(self.english()) == "open":
            return [self.translated(0), self.translated(1)]
        return [self.translated(int(self.place is not None and self.place.noun in TOWN))]


def text(words: Words) -> str:
    return " ".join(word for _, word in words)


def split(sentence: str) -> list[str]:
    """Return the words of a sentence; the full stop is one of them."""
    return [*sentence.removesuffix(".").split(), "."]


def ambiguous(source: str) -> dict[str, str]:
    """Return the ambiguous words of a source sentence, each "resolved" by context or "open"."""
    return {word: AMBIGUOUS[word] for word in source.rstrip(".").split() if word in AMBIGUOUS}


def kind(source: str) -> str:
    """Return the kind of a source sentence: "plain", "resolved" or "open"."""
    return next(iter(ambiguous(source).values()), "plain")
