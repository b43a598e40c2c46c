"""Lexicon of the small parallel corpus: English words and stems of the artificial language."""

from __future__ import annotations

from dataclasses import dataclass

CASES = {"nominative": "", "accusative": "n", "locative": "r"}
AUXILIARIES = {"past": "dor", "present": "ses", "future": "fal"}
TIMES = {
    "yesterday": ("tesho", "past"),
    "once": ("veshi", "past"),
    "today": ("nalu", "present"),
    "now": ("emi", "present"),
    "tomorrow": ("gorai", "future"),
    "soon": ("pivu", "future"),
}
PREPOSITIONS = {"near": "thet", "behind": "umber", "beside": "kolin"}


@dataclass(frozen=True)
class Noun:
    """English noun with its translations as (stem, gender); an ambiguous noun has two."""

    singular: str
    plural: str
    senses: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Verb:
    """English verb forms, a particle that follows the object, and the stem in the other language."""

    base: str
    third: str
    past: str
    particle: str
    stem: str


def _nouns(table: str) -> list[Noun]:
    """Return the nouns of a table with lines of singular, plural and stem-gender."""
    rows = [line.split() for line in table.strip().splitlines()]
    return [Noun(one, many, tuple((s[:-2], s[-1]) for s in senses)) for one, many, *senses in rows]


BEINGS = _nouns("""
    farmer farmers tolv-o
    woman women selt-a
    child children ribek-e
    king kings hadr-o
    sailor sailors darom-o
    dog dogs kerr-o
    cat cats mish-a
    horse horses tavin-e
    fox foxes zork-a
    goat goats beld-e
""")
THINGS = _nouns("""
    stone stones gurn-o
    apple apples yavl-a
    lamp lamps sur-a
    book books tsev-e
    boat boats flan-o
    chair chairs stig-e
    key keys klim-a
    letter letters rask-e
    coat coats hulv-o
    wheel wheels ulg-a
""")
RESOLVED = _nouns("""
    bank banks lerv-a dugat-o
    bat bats nifl-e plesk-a
    crane cranes avir-o hestrul-e
    mouse mice pipil-a drogan-o
""")
OPEN = _nouns("""
    uncle uncles mabri-o sotri-o
    cousin cousins kasv-o kasv-a
""")
NATURE = _nouns("""
    river rivers amun-a
    lake lakes losh-o
    forest forests drel-e
    hill hills kopen-o
""")
TOWN = _nouns("""
    market markets bazol-o
    street streets vigr-a
    school schools onk-e
    station stations garn-a
""")
ADJECTIVES: dict[str, tuple[str, ...]] = {
    "old": ("brim",),
    "pretty": ("lumil",),
    "small": ("pik",),
    "big": ("hrub",),
    "red": ("tsor",),
    "green": ("fim",),
    "heavy": ("shum",),
    "strong": ("tarv",),
    "clean": ("lisk",),
    "lost": ("pesh",),
}
OPEN_ADJECTIVES = {"blue": ("azim", "nilev")}
VERBS = [
    Verb(*words.split(","))
    for words in (
        "see,sees,saw,,olm",
        "find,finds,found,,nash",
        "carry,carries,carried,,baur",
        "paint,paints,painted,,gletr",
        "wash,washes,washed,,pavl",
        "watch,watches,watched,,wern",
        "hide,hides,hid,,skel",
        "draw,draws,drew,,shtal",
        "take,takes,took,,jelk",
        "take,takes,took,away,min",
        "take,takes,took,back,rivosh",
        "turn,turns,turned,,umt",
        "turn,turns,turned,over,plish",
    )
]
