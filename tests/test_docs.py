"""Tests of README and documentation: snippets run, links resolve, and every name and message exists."""

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from hf_bam.config import setting_names
from hf_bam.families import FAMILIES
from hf_bam.training.arguments import commands, make_parser

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
NUMBER = re.compile(r"\d+\.\d+")


def name_of(page):
    return str(page.relative_to(ROOT))


def read(page):
    return page.read_text(encoding="utf-8")


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", read(page), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name_of)
def test_snippets_run(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "snippet"}
    for code in blocks(page, "python"):
        exec(compile(code, str(page), "exec"), namespace)
    printed = capsys.readouterr().out
    if expected := blocks(page, "text"):
        assert NUMBER.sub("#", printed) == NUMBER.sub("#", expected[0])
        for ours, stated in zip(NUMBER.findall(printed), NUMBER.findall(expected[0]), strict=True):
            assert float(ours) == pytest.approx(float(stated), abs=0.03)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_resolve(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", read(page)):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def pages_of(entries):
    for entry in entries:
        (value,) = entry.values() if isinstance(entry, dict) else (entry,)
        yield from pages_of(value) if isinstance(value, list) else [value]


def test_navigation_has_every_page_once():
    pages = list(pages_of(yaml.safe_load(read(ROOT / "mkdocs.yml"))["nav"]))
    files = [str(path.relative_to(DOCS)) for ending in ("md", "ipynb") for path in DOCS.rglob(f"*.{ending}")]
    assert sorted(pages) == sorted(files)


def resolved(name):
    """Import the longest module of a dotted name and look the rest up."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_dotted_names_exist(page):
    for name in re.findall(r"(?<![\w./])hf_bam(?:\.\w+)+", read(page)):
        resolved(name)


def messages():
    """Texts of the package, with a NUL for each value that is filled in."""
    for path in (ROOT / "hf_bam").rglob("*.py"):
        for node in ast.walk(ast.parse(read(path))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                yield "".join(part.value if isinstance(part, ast.Constant) else "\0" for part in node.values)


def test_troubleshooting_quotes_messages_of_the_package():
    known = [" ".join(text.split()) for text in messages()]
    quoted = [" ".join(block.split()) for block in blocks(DOCS / "troubleshooting.md", "error")]
    patterns = {text: re.compile(".*".join(map(re.escape, text.split("...")))) for text in quoted}
    assert [text for text, pattern in patterns.items() if not any(map(pattern.search, known))] == []


@cache
def options(command):
    return {name for action in make_parser(command)._actions for name in action.option_strings} | {"--debug"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_and_their_options_exist(page):
    text = read(page).replace("\\\n", " ")
    for command, rest in re.findall(r"^hf-bam (\w+)([^#\n]*)", text, re.MULTILINE):
        assert set(re.findall(r"--\w+", rest)) <= options(command), rest
    known = set().union(*map(options, commands()))
    assert set(re.findall(r"`(--\w+)", text)) <= known


def test_concepts_quote_the_forward_as_it_is():
    (quoted,) = blocks(DOCS / "concepts" / "attention.md", "py")
    source = [line.strip() for line in read(ROOT / "hf_bam" / "attention" / "forward.py").splitlines()]
    assert [line for line in quoted.splitlines() if line not in source] == []


def test_the_page_on_families_quotes_the_file_as_it_is():
    (quoted,) = blocks(DOCS / "contributing" / "family.md", "py")
    assert quoted == read(ROOT / "hf_bam" / "families" / "multinomial.py")


def test_the_table_of_settings_has_every_family():
    rows = re.findall(r"^\| `(\w+)` \| (`\w+`(?:, `\w+`)*) \|$", read(DOCS / "howto" / "settings.md"), re.MULTILINE)
    assert {name: re.findall(r"\w+", own) for name, own in rows} == {name: setting_names(name) for name in FAMILIES}
