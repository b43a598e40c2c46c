"""All generated tables and figures of the documentation, from the files in results/."""

from .architectures import report as architectures
from .cost import report as cost
from .pages import DOCS, fill, save_figure
from .studies import report as studies

REPORTS = (cost, architectures, studies)
"""Modules with `pages()`, parts by marker by page, and `figures()`, figures by the name of their file."""


def main(options=None, docs=DOCS):
    for report in REPORTS:
        for page, parts in report.pages().items():
            fill(docs / page, parts)
        for name, figure in report.figures().items():
            save_figure(figure, docs / "images" / name)
