"""The snippets in README and docs run, and print what they are said to print."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NUMBER = re.compile(r"\d+\.\d+")


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_snippets_run(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for code in blocks(page, "python"):
        exec(compile(code, str(page), "exec"), namespace)
    printed = capsys.readouterr().out
    if expected := blocks(page, "text"):
        assert NUMBER.sub("#", printed) == NUMBER.sub("#", expected[0])
        for ours, said in zip(NUMBER.findall(printed), NUMBER.findall(expected[0]), strict=True):
            assert float(ours) == pytest.approx(float(said), abs=0.03)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
