"""Random options, settings and data files, among them values that have broken programs before."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import yaml
from hypothesis import strategies as st

from hf_bam.cli import COMMANDS
from hf_bam.training.arguments import make_parser
from hf_bam.training.recipe import Recipe
from hf_bam.training.settings import JOB_FIELDS

NASTY = (
    *("", " ", "-", "--", "none", "true", "nan", "-inf", "1e999", "1e-999", "[1", "@1", "[]", "{}", "&a", "*a", "!!x"),
    *(
        "!!timestamp 2020",
        "!!bool x",
        "!!int x",
        "2020-01-01",
        "0x10",
        "1_000",
        "010",
        "\x00",
        "\u202e",
        "é",
        "'",
        '"',
    ),
    *("9" * 400, "-" + "9" * 400, "9" * 5000, "0." + "9" * 400, "[" * 2000, "[" * 2000 + "]" * 2000, "{a: " * 500),
    *("/dev/zero", "/dev/null", "/", "..", "~", "a/b", "%s", "$HOME", "<script>", "1000000000", "-1", "0", "5e-324"),
)
"""Texts that have broken programs before."""

texts = st.sampled_from(NASTY) | st.text(max_size=20)
numbers = st.integers() | st.floats() | st.sampled_from((10**400, -(10**400), 2**63, 1e308, 5e-324))
scalars = st.none() | st.booleans() | numbers | texts
values = st.recursive(scalars, lambda own: st.lists(own, max_size=3) | st.dictionaries(texts, own, max_size=3))


@st.composite
def command_lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A command and some of its options, or of none, with values of every kind."""
    command = draw(st.sampled_from(COMMANDS))
    known = [name for action in make_parser(command)._actions for name in action.option_strings if name != "--help"]
    names = st.sampled_from([name for name in known if name != "-h"]) | texts
    pairs = draw(st.lists(st.tuples(names, texts), min_size=1, max_size=4))
    return command, [part for pair in pairs for part in pair]


@st.composite
def settings_files(draw: st.DrawFn) -> str:
    """YAML of settings with fields of wrong types, or with a damaged text."""
    names = [*JOB_FIELDS, "recipe", "task", "model", "lr", *Recipe.__dataclass_fields__]
    content = draw(st.dictionaries(st.sampled_from(names) | texts, values, max_size=4))
    try:
        text = yaml.safe_dump(content, allow_unicode=True)
    except ValueError:  # an integer with too many digits for Python
        text = "seed: 1\n"
    if draw(st.booleans()):
        position = draw(st.integers(0, len(text)))
        text = text[:position] + draw(texts) + text[position + draw(st.integers(0, 3)) :]
    return text


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, bytes]:
    """The ending and the content of a data file with the columns `text` and `label`, which may be damaged."""
    ending = draw(st.sampled_from((".csv", ".tsv", ".json", ".jsonl", ".parquet", ".csv.gz", ".jsonl.gz")))
    cell = texts if ending in (".csv", ".tsv", ".parquet") else values
    rows = draw(st.lists(st.fixed_dictionaries({"text": cell, "label": cell}), max_size=4))
    content = _written(ending, rows)
    if draw(st.booleans()) and content:
        position = draw(st.integers(0, len(content) - 1))
        content = content[:position] + draw(st.binary(max_size=4)) + content[position + draw(st.integers(0, 8)) :]
    return ending, content


def _written(ending: str, rows: list[dict[str, Any]]) -> bytes:
    if ending == ".parquet":
        sink = io.BytesIO()
        columns = {name: pa.array([row[name] for row in rows], pa.string()) for name in ("text", "label")}
        pa.parquet.write_table(pa.table(columns), sink)
        return sink.getvalue()
    if ending.startswith((".csv", ".tsv")):
        file = io.StringIO()
        writer = csv.DictWriter(file, ["text", "label"], delimiter="," if ending.startswith(".csv") else "\t")
        writer.writeheader()
        writer.writerows(rows)
        return file.getvalue().encode("utf-8", "surrogatepass")
    try:
        lines = [json.dumps(row) for row in rows]
    except ValueError:  # an integer with too many digits for Python
        lines = ["{}"]
    return (f"[{','.join(lines)}]" if ending == ".json" else "\n".join(lines)).encode()
