"""Files of packages from the index that pip is set up for. They are downloaded and verified; nothing is executed.

`pip download` would run the setup.py of a source archive.
"""

from __future__ import annotations

import base64
import hashlib
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from ..fields import parse_json
from .base import DataError

FORMATS = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
"""Pages of an index (PEP 691 and PEP 503)."""
TIMEOUT = 60
LARGEST = 2**26
"""Bytes of a page or a file, at most."""


def fetch(project: str, file: str, sha256: str, target: Path) -> Path:
    """Download a file of a project to `target`, whose folder exists; raise `DataError` if no index has it.

    Args:
        project: name on the index, normalised.
        sha256: digest of the file. Another content is an error, and is not written.
    """
    settings, problems = pip_settings(), list[str]()
    for address in addresses(settings, project, file, problems):
        try:
            content = _read(address, settings)
        except (OSError, ValueError) as error:
            problems.append(f"{_shown(address)}: {error}")
            continue
        found = hashlib.sha256(content).hexdigest()
        if found != sha256:
            raise DataError(f"{_shown(address)} has other content than expected: SHA-256 {found}, not {sha256}.")
        unfinished = target.with_name(f".{target.name}.{os.getpid()}")
        unfinished.write_bytes(content)
        return unfinished.replace(target)
    raise DataError(
        f"{file} could not be downloaded: {'; '.join(problems) or 'pip is not set up for any index'}. Check the "
        f"network, or put the file at {target}."
    )


def stored(project: str, file: str, sha256: str, folder: Path) -> Path:
    """Return a file of a project in a folder; it is downloaded unless it is there, by one process or by several."""
    target = folder / file
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fetch(project, file, sha256, target)
    return target


def addresses(settings: dict[str, str], project: str, file: str, problems: list[str]) -> Iterator[str]:
    """Yield the addresses of a file: in the folders of find-links, then on each index."""
    for folder in settings.get("find-links", "").split():
        if (path := Path(folder, file)).is_file():
            yield path.resolve().as_uri()
    for index in (*settings.get("index-url", "").split(), *settings.get("extra-index-url", "").split()):
        page = f"{index.rstrip('/')}/{project}/"
        if page.startswith("file:"):
            page += "index.html"
        try:
            links = _links(_read(page, settings, FORMATS).decode())
            found = [_joined(page, link) for link in links if _name(link) == file]
        except (OSError, ValueError) as error:
            problems.append(f"{_shown(page)}: {error}")
            continue
        problems += [] if found else [f"{_shown(page)} does not list it"]
        yield from found


def pip_settings() -> dict[str, str]:
    """Return pip's settings of the index: those of its files and environment, and its own default."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    found: dict[str, str] = {}
    for section in ("global", "download", ":env:"):  # the later ones take precedence
        for line in (line for line in listed if line.startswith(f"{section}.")):
            name, _, value = line.removeprefix(f"{section}.").partition("=")
            found[name] = value.strip().strip("'\"").replace("\\n", " ")
    if found.get("no-index", "").lower() in ("1", "true", "yes"):
        return found | {"index-url": "", "extra-index-url": ""}
    if "index-url" not in found:
        try:
            from pip._internal.models.index import PyPI
        except ImportError:
            return found
        found["index-url"] = PyPI.simple_url
    return found


class _Anchors(HTMLParser):
    """Links of a page of an index."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attrs if tag == "a" and name == "href" and value]


def _links(page: str) -> list[str]:
    if page.lstrip().startswith("{"):
        files: Any = parse_json(page).get("files")
        if not isinstance(files, list):
            raise ValueError("it is not a page of an index")
        return [str(file["url"]) for file in files if isinstance(file, dict) and "url" in file]
    parser = _Anchors()
    parser.feed(page)
    return parser.links


def _name(link: str) -> str:
    return unquote(urlsplit(link).path).rpartition("/")[2]


def _joined(page: str, link: str) -> str:
    """Return the address of a link, with the user of the page if it is on the same host."""
    own, found = urlsplit(page), urlsplit(urljoin(page, urldefrag(link).url))
    if found.scheme not in ("https", "http", "file") or (found.scheme == "file" and own.scheme != "file"):
        raise ValueError(f"{_shown(page)} has a link to {found.scheme}:")
    same = found.hostname == own.hostname and "@" not in found.netloc
    return urlunsplit(found._replace(netloc=own.netloc) if same else found)


def _read(address: str, settings: dict[str, str], accept: str = "*/*") -> bytes:
    """Return the content of an address, which may have a user and a password in it."""
    parts, headers = urlsplit(address), {"Accept": accept}
    if parts.username:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        parts = parts._replace(netloc=parts.netloc.rpartition("@")[2])
    context = ssl.create_default_context(cafile=settings.get("cert")) if parts.scheme == "https" else None
    try:
        with urlopen(Request(urlunsplit(parts), headers=headers), timeout=TIMEOUT, context=context) as answer:
            content: bytes = answer.read(LARGEST + 1)
    except URLError as error:
        raise OSError(str(error.reason)) from error
    if len(content) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST} bytes")
    return content


def _shown(address: str) -> str:
    """Return an address without its user and password."""
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
