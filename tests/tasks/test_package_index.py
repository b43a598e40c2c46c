"""Files of an index of packages, from a server and from folders: verified before they are written, never executed."""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pytest

from hf_bam.tasks.base import DataError
from hf_bam.tasks.package_index import fetch, pip_settings

CONTENT = b"import os; os.mkdir('executed')"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
HTML = '<!DOCTYPE html><a href="other-1.0.zip">x</a><a href="../files/own%2D1.0.zip#sha256=0">own-1.0.zip</a>'
JSON = json.dumps({"files": [{"url": "../files/own-1.0.zip", "filename": "own-1.0.zip"}, {"url": "x"}, 5]})
LOGIN = "Basic " + base64.b64encode(b"me:my secret").decode()


@pytest.fixture
def index(monkeypatch):
    """Address of an index with a password, whose page is `index.page`; pip is set up for it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            allowed = self.headers["Authorization"] == LOGIN
            pages = {"/simple/own/": server.page.encode(), "/simple/files/own-1.0.zip": CONTENT}
            body = pages.get(unquote(self.path)) if allowed else None
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.page = HTML
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.address = f"http://me:my%20secret@127.0.0.1:{server.server_port}/simple"
    monkeypatch.setattr(
        "hf_bam.tasks.package_index.pip_settings", lambda: {"index-url": server.address} | server.settings
    )
    server.settings = {}
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("page", [HTML, JSON], ids=["html", "json"])
def test_a_file_of_an_index(index, page, tmp_path):
    index.page = page
    assert fetch("own", "own-1.0.zip", DIGEST, tmp_path / "x.zip").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["x.zip"]


def test_other_content_is_not_written(index, tmp_path):
    with pytest.raises(DataError, match="other content than expected: SHA-256"):
        fetch("own", "own-1.0.zip", "0" * 64, tmp_path / "x.zip")
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_there_is_named_without_the_password(index, tmp_path):
    for project, words in (("own", "does not list it"), ("nothing", "Not Found")):
        with pytest.raises(DataError, match=words) as error:
            fetch(project, "own-2.0.zip", DIGEST, tmp_path / "x.zip")
        assert "127.0.0.1" in str(error.value)
        assert "secret" not in str(error.value)


@pytest.mark.parametrize("page", ["{", "[]", "{}", '{"files": 5}', '<a href="ftp://x/own-1.0.zip">', "\x00"])
def test_pages_that_are_none(index, page, tmp_path):
    index.page = page
    with pytest.raises(DataError, match="could not be downloaded"):
        fetch("own", "own-1.0.zip", DIGEST, tmp_path / "x.zip")


def test_folders(index, tmp_path):
    """An index in a folder, and files in the folders of find-links."""
    (tmp_path / "simple" / "own").mkdir(parents=True)
    (tmp_path / "simple" / "own" / "index.html").write_text('<a href="own-2.0.zip">')
    for folder, file in (("simple/own", "own-2.0.zip"), ("simple", "own-3.0.zip")):
        (tmp_path / folder / file).write_bytes(CONTENT)
    index.settings = {
        "extra-index-url": (tmp_path / "simple").as_uri(),
        "find-links": f"{tmp_path}/nowhere {tmp_path}/simple",
    }
    for version in (1, 2, 3):
        assert fetch("own", f"own-{version}.0.zip", DIGEST, tmp_path / "x.zip").read_bytes() == CONTENT


def test_settings_of_pip(monkeypatch, tmp_path):
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://a/simple\nextra-index-url =\n  b\n  c\n")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    assert pip_settings()["index-url"] == "https://a/simple"
    assert pip_settings()["extra-index-url"].split() == ["b", "c"]
    monkeypatch.setenv("PIP_INDEX_URL", "https://d/simple")
    assert pip_settings()["index-url"] == "https://d/simple"
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert pip_settings()["index-url"] == ""
