"""Texts of the data in HTML and Markdown, and the templates."""

from __future__ import annotations

import base64
import hashlib

from jinja2 import Environment, PackageLoader, select_autoescape

from ..tables import escape_markdown


def environment() -> Environment:
    """Return the templates; those of HTML escape everything."""
    made = Environment(
        loader=PackageLoader("hf_bam.evaluation"),
        autoescape=select_autoescape(["html.j2"]),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"markdown": escape_markdown, "shortened": shortened, "joined": joined}
    return made


def shortened(text: str, limit: int = 300) -> str:
    """Return the beginning of a text."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def joined(lines: list[str]) -> str:
    """Return an enumeration."""
    return ", ".join(lines)


def writable(text: str) -> str:
    """Return the text with lone surrogates, which UTF-8 does not have, replaced."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def data_address(content: bytes, kind: str) -> str:
    """Return content as an address inside of a page."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def script_hash(script: str) -> str:
    """Return the hash by which a content security policy allows one script and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
