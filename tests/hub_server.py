"""A small Hugging Face Hub on loopback, with the parts of its API that clients need to push and load models."""

import json
import re
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace
from urllib.parse import parse_qs, unquote, urlsplit

import huggingface_hub
import pytest
import transformers
from huggingface_hub import constants, hf_api

from .hub_api import ROUTES, Answer, HubError

TOKEN = "hf_of_somebody"
WITHOUT_TOKEN = ("/api/validate-yaml", "/storage/")
"""Paths that need no token; the addresses of the storage are signed on the real Hub."""


class Hub(ThreadingHTTPServer):
    """Server with the state of the Hub.

    Attributes:
        repos: repositories by name, with all their revisions.
        storage: large files by their SHA-256. Its host is another one, as on the real Hub.
        requests: method and path of all requests.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.storage_url = f"http://localhost:{self.server_port}/storage"
        self.repos, self.storage, self.requests = {}, {}, []


class Handler(BaseHTTPRequestHandler):
    """Handler of one request: finds its route and sends the answer."""

    def answer(self):
        address = urlsplit(self.path)
        self.server.requests.append((self.command, unquote(address.path)))
        request = SimpleNamespace(
            query=parse_qs(address.query),
            body=self.rfile.read(int(self.headers.get("Content-Length", 0))),
            authorised=self.headers.get("Authorization") == f"Bearer {TOKEN}",
        )
        try:
            found = self.dispatch(address.path, request)
        except HubError as error:
            found = error.answer
        self.send(*(found if isinstance(found, Answer) else Answer(found)))

    do_GET = do_HEAD = do_POST = do_PUT = answer

    def dispatch(self, path, request):
        method = self.command.replace("HEAD", "GET")
        for wanted, pattern, action in ROUTES:
            if wanted == method and (match := re.fullmatch(pattern, path)):
                values = {name: unquote(value) for name, value in match.groupdict("").items()}
                if "repo" in values:
                    values["repo"] = self.repo(values["repo"], request)
                if method != "GET" and not request.authorised and not path.startswith(WITHOUT_TOKEN):
                    raise HubError(401, "Invalid username or password.")
                return action(self.server, request, **values)
        raise HubError(404, f"There is no route for {method} {path}")

    def repo(self, name, request):
        repo = self.server.repos.get(name)
        if repo is None or (repo.private and not request.authorised):
            raise HubError(404 if request.authorised else 401, "Repository not found", "RepoNotFound")
        return repo

    def send(self, body, status, headers):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": len(content), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *args):
        """Log nothing."""


@pytest.fixture
def hub(tmp_path_factory, monkeypatch):
    """Run a local Hub that huggingface_hub and transformers use in this process; nothing leaves the machine."""
    # The client uploads large files in a way that its HTTP library has deprecated.
    warnings.filterwarnings("ignore", "Use 'content=<...>'", DeprecationWarning)
    with Hub() as server:
        _connect(server.url, tmp_path_factory.mktemp("huggingface"), monkeypatch)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        huggingface_hub.close_session()
        server.shutdown()
        thread.join()


def _connect(url, home, monkeypatch):
    """Point the libraries to a server. They read their environment on import, so their constants are set."""
    values = {
        "ENDPOINT": url,
        "HUGGINGFACE_CO_URL_TEMPLATE": url + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HOME": str(home),
        "HF_HUB_CACHE": str(home / "hub"),
        "HF_HUB_DISABLE_TELEMETRY": True,
        "HF_HUB_DISABLE_XET": True,  # otherwise a client with hf_xet uses Xet only
        "HF_HUB_OFFLINE": False,
    }
    for name, value in values.items():
        monkeypatch.setattr(constants, name, value)
    monkeypatch.setattr(hf_api.api, "endpoint", url)
    monkeypatch.setattr(transformers.utils.hub, "_hf_api", None, raising=False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    huggingface_hub.close_session()
