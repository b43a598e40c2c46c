"""Generated parts of the documentation."""

import pytest

from benchmarks import report
from benchmarks.pages import DOCS, fill

PAGES = {page: parts for module in report.REPORTS for page, parts in module.pages().items()}


@pytest.mark.parametrize("page", PAGES)
def test_committed_pages_are_those_of_the_committed_results(page, tmp_path):
    committed = (DOCS / page).read_text(encoding="utf-8")
    copy = tmp_path / "page.md"
    copy.write_text(committed, encoding="utf-8")
    fill(copy, PAGES[page])
    assert copy.read_text(encoding="utf-8") == committed


def test_fill_replaces_the_text_between_the_markers_of_its_name(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x -->\nold\n<!-- end -->\nb\n<!-- y -->\nkept\n<!-- end -->\n", encoding="utf-8")
    fill(page, {"x": "new \\1\n"})
    expected = "a\n<!-- x -->\n\nnew \\1\n\n<!-- end -->\nb\n<!-- y -->\nkept\n<!-- end -->\n"
    assert page.read_text(encoding="utf-8") == expected


@pytest.mark.parametrize("number", [0, 2])
def test_a_marker_that_is_not_there_once_is_an_error(tmp_path, number):
    page = tmp_path / "page.md"
    page.write_text("<!-- x -->\n<!-- end -->\n" * number, encoding="utf-8")
    with pytest.raises(ValueError, match=f"has {number} markers"):
        fill(page, {"x": "text"})


def test_the_report_writes_all_pages_and_figures(tmp_path):
    for page in PAGES:
        (tmp_path / page).parent.mkdir(exist_ok=True)
        (tmp_path / page).write_bytes((DOCS / page).read_bytes())
    report.main(docs=tmp_path)
    figures = {"cost.svg", "scores.svg", "study.svg"}
    assert {file.name for file in (tmp_path / "images").iterdir()} == figures
    for name in figures:
        assert (tmp_path / "images" / name).read_bytes() == (DOCS / "images" / name).read_bytes()
