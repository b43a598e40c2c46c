"""Generated parts of the documentation."""

import pytest
from matplotlib.figure import Figure

from benchmarks import report
from benchmarks.pages import DOCS, fill, save_figure

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


def test_figures_have_the_names_that_the_pages_use():
    names = {name for module in report.REPORTS for name in module.figures()}
    pages = [page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md")]
    for name in names:
        assert (DOCS / "images" / name).exists()
        assert any(f"images/{name})" in page for page in pages)


def test_the_file_of_a_figure_depends_on_the_figure_only(tmp_path):
    files = [tmp_path / folder / "figure.svg" for folder in "ab"]
    for file in files:
        figure = Figure()
        figure.subplots().plot([0, 1], [1, 0])
        save_figure(figure, file)
    first, second = (file.read_text(encoding="utf-8") for file in files)
    assert first == second
    assert "<dc:date>" not in first
