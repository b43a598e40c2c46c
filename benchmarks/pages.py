"""Generated parts of the documentation: text between markers, and figures."""

import re
from pathlib import Path

from matplotlib import rc_context

DOCS = Path(__file__).parents[1] / "docs"


def fill(page, parts):
    """Write each part between its markers, `<!-- name -->` and `<!-- end -->`.

    Args:
        page: a Markdown file.
        parts: texts by the name of their marker.
    """
    text = page.read_text(encoding="utf-8")
    for name, part in parts.items():
        markers = re.compile(f"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, count = markers.subn(lambda found, part=part: f"{found[1]}\n{part.strip()}\n\n{found[2]}", text)
        if count != 1:
            raise ValueError(f"{page} has {count} markers <!-- {name} -->; expected one.")
    page.write_text(text, encoding="utf-8")


def save_figure(figure, path):
    """Write an SVG file that depends on the figure only, without date or random ids."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.hashsalt": path.stem}):
        figure.savefig(path, metadata={"Date": None})
