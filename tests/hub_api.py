"""State and routes of a small Hugging Face Hub; `hub_server` serves them."""

import json
import re
from base64 import b64decode
from collections import namedtuple
from dataclasses import dataclass, field
from fnmatch import fnmatch
from hashlib import sha1, sha256

from huggingface_hub import ModelCard
from yaml import YAMLError

USER = "somebody"
ATTRIBUTES = b"".join(b"%s filter=lfs diff=lfs merge=lfs -text\n" % kind for kind in (b"*.safetensors", b"*.png"))
LARGE = 10_000_000  # bytes above which a file is stored with LFS, whatever its name
NAME = r"(?:[\w.-]+/)?[\w.-]+"
PARTS = {"REPO": f"(?P<repo>{NAME})", "REVISION": "(?P<revision>[^/]+)", "OID": "(?P<oid>[0-9a-f]{64})"}
CARD_RULES = {"base_model": NAME, "datasets": NAME, "language": "[a-z]{2,3}", "license": "[a-z0-9.-]+"}
ROUTES = []

Answer = namedtuple("Answer", "body status headers", defaults=(200, {}))
Blob = namedtuple("Blob", "oid content lfs")


class HubError(Exception):
    """Error response, with the error code by which clients distinguish the kinds of 404."""

    def __init__(self, status, message, code="", headers=None, **body):
        headers = {"X-Error-Message": message, "X-Error-Code": code, **(headers or {})}
        self.answer = Answer({"error": message, **body}, status, headers)


@dataclass
class Repo:
    """Repository: branches and tags name commits, and a commit is all files by path."""

    name: str
    private: bool = False
    commits: dict = field(default_factory=dict)
    branches: dict = field(default_factory=dict)
    tags: dict = field(default_factory=dict)

    def find(self, revision):
        oid = {**self.tags, **self.branches}.get(revision or "main", revision)
        if oid not in self.commits:
            raise HubError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return oid

    def files(self, revision="main"):
        return self.commits[self.find(revision)]

    def commit(self, branch, files):
        listing = sorted((path, blob.oid) for path, blob in files.items())
        oid = sha1(f"{len(self.commits)} {listing}".encode()).hexdigest()
        self.commits[oid], self.branches[branch] = files, oid
        return oid


def route(method, pattern):
    for name, part in PARTS.items():
        pattern = pattern.replace(name, part)
    return lambda action: ROUTES.append((method, pattern, action)) or action


def regular(content):
    return Blob(sha1(b"blob %d\0" % len(content) + content).hexdigest(), content, False)


@route("GET", "/api/whoami-v2")
def whoami(hub, request):
    if not request.authorised:
        raise HubError(401, "Invalid credentials in Authorization header")
    return {"type": "user", "name": USER, "orgs": []}


@route("POST", "/api/repos/create")
def create(hub, request):
    fields = json.loads(request.body)
    name = f"{fields.get('organization') or USER}/{fields['name']}"
    if name in hub.repos:
        raise HubError(409, "You already created this model repo", url=f"{hub.url}/{name}")
    hub.repos[name] = Repo(name, fields.get("visibility") == "private")
    hub.repos[name].commit("main", {".gitattributes": regular(ATTRIBUTES)})
    return {"url": f"{hub.url}/{name}"}


@route("POST", "/api/validate-yaml")
def validate(hub, request):
    try:
        data = ModelCard(json.loads(request.body)["content"]).data.to_dict()
        listed = {name: [value] if isinstance(value, str) else value for name, value in data.items()}
        wrong = [f"{k}: {v}" for k, rule in CARD_RULES.items() for v in listed.get(k, []) if not re.fullmatch(rule, v)]
    except (ValueError, YAMLError) as error:
        wrong = [str(error)]
    if wrong:
        raise HubError(400, "Invalid metadata", errors=[{"message": message} for message in wrong])
    return {"errors": [], "warnings": []}


@route("POST", "/api/models/REPO/preupload/REVISION")
def preupload(hub, request, repo, revision):
    files = repo.files(revision)
    patterns = [line.split()[0] for line in files[".gitattributes"].content.decode().splitlines()]
    wanted = json.loads(request.body)["files"]
    for file in wanted:
        path, known = file["path"], files.get(file["path"])
        lfs = file["size"] > LARGE or any(fnmatch(path, pattern) for pattern in patterns)
        file.update(uploadMode="lfs" if lfs else "regular", shouldIgnore=False, oid=known.oid if known else None)
    return {"files": wanted}


@route("POST", r"/REPO\.git/info/lfs/objects/batch")
def lfs_batch(hub, request, repo):
    objects = json.loads(request.body)["objects"]
    for item in objects:
        if item["oid"] not in hub.storage:
            item["actions"] = {"upload": {"href": f"{hub.storage_url}/{item['oid']}"}}
    return {"transfer": "basic", "objects": objects}


@route("PUT", "/storage/OID")
def store(hub, request, oid):
    if sha256(request.body).hexdigest() != oid:
        raise HubError(400, f"This is not the content of {oid}")
    hub.storage[oid] = Blob(oid, request.body, True)
    return {}


@route("GET", "/storage/OID")
def fetch(hub, request, oid):
    return hub.storage[oid].content


@route("POST", "/api/models/REPO/commit/REVISION")
def commit(hub, request, repo, revision):
    files = dict(repo.files(revision))
    for line in request.body.splitlines():
        key, value = json.loads(line).values()
        if key == "file":
            files[value["path"]] = regular(b64decode(value["content"]))
        elif key == "lfsFile":
            files[value["path"]] = hub.storage[value["oid"]]
        elif key == "deletedFile":
            del files[value["path"]]
    address, number = f"{hub.url}/{repo.name}", sum(name.startswith("refs/pr/") for name in repo.branches) + 1
    oid = repo.commit(f"refs/pr/{number}" if "create_pr" in request.query else revision, files)
    return {
        "commitUrl": f"{address}/commit/{oid}",
        "commitOid": oid,
        "pullRequestUrl": f"{address}/discussions/{number}",
    }


@route("POST", "/api/models/REPO/branch/(?P<name>[^/]+)")
def branch(hub, request, repo, name):
    if name in repo.branches:
        raise HubError(409, f"Reference already exists: {name}")
    repo.branches[name] = repo.find(json.loads(request.body).get("startingPoint"))
    return {}


@route("POST", "/api/models/REPO/tag/REVISION")
def tag(hub, request, repo, revision):
    repo.tags[json.loads(request.body)["tag"]] = repo.find(revision)
    return {}


@route("GET", "/api/models/REPO/refs")
def refs(hub, request, repo):
    listed = {"branches": repo.branches, "tags": repo.tags, "converts": {}}
    return {k: [{"name": n, "ref": n, "targetCommit": oid} for n, oid in v.items()] for k, v in listed.items()}


@route("GET", "/api/models/REPO/tree/REVISION(?:/(?P<folder>.+))?")
def tree(hub, request, repo, revision, folder):
    entries, prefix = [], f"{folder}/" if folder else ""
    for path, blob in repo.files(revision).items():
        about = {"oid": blob.oid, "size": len(blob.content)}
        lfs = {"lfs": about | {"pointerSize": 134}} if blob.lfs else {}
        entries += [{"type": "file", "path": path, **about, **lfs}] if path.startswith(prefix) else []
    if not entries:
        raise HubError(404, f"{folder} does not exist on {revision}", "EntryNotFound")
    return entries


@route("GET", "/REPO/resolve/REVISION/(?P<path>.+)")
def resolve(hub, request, repo, revision, path):
    oid = repo.find(revision)
    headers = {"X-Repo-Commit": oid}
    if path not in repo.commits[oid]:
        raise HubError(404, "Entry not found", "EntryNotFound", headers)
    blob = repo.commits[oid][path]
    if not blob.lfs:
        return Answer(blob.content, 200, headers | {"ETag": f'"{blob.oid}"'})
    linked = {"X-Linked-ETag": f'"{blob.oid}"', "X-Linked-Size": len(blob.content)}
    return Answer(b"", 302, headers | linked | {"Location": f"{hub.storage_url}/{blob.oid}"})


@route("GET", "/api/models/REPO(?:/revision/REVISION)?")
def info(hub, request, repo, revision):
    files = repo.files(revision)
    data = ModelCard(files["README.md"].content.decode()).data.to_dict() if "README.md" in files else {}
    about = {"id": repo.name, "sha": repo.find(revision), "private": repo.private, "cardData": data, **data}
    return about | {"siblings": [{"rfilename": path} for path in files]}
