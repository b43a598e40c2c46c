"""The local server answers the real clients as the Hub does."""

import pytest
import torch
from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError
from transformers import AutoModelForSequenceClassification

from ..models import bert

REPO = "somebody/tiny"
CARD = "---\ntags: [small]\nlibrary_name: transformers\nbase_model: {base}\n---\nA card.\n"


@pytest.fixture
def api(hub):
    api = HfApi()
    assert api.create_repo(api.whoami()["name"] + "/tiny").repo_id == REPO
    return api


def write(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_pushed_models_are_loaded_by_revision(hub):
    first, second = bert(), bert()
    commit = first.push_to_hub("tiny").oid
    second.push_to_hub("tiny", revision="next")
    HfApi().create_tag(REPO, tag="v1", revision=commit)
    for revision, model in {None: first, commit: first, "v1": first, "next": second}.items():
        loaded = AutoModelForSequenceClassification.from_pretrained(REPO, revision=revision).state_dict()
        assert loaded.keys() == model.state_dict().keys()
        assert all(torch.equal(loaded[name], tensor) for name, tensor in model.state_dict().items())
    names = HfApi().list_repo_refs(REPO)
    assert {branch.name for branch in names.branches} == {"main", "next"}
    assert {tag.name: tag.target_commit for tag in names.tags} == {"v1": commit}


def test_folders_are_downloaded_unchanged(api, tmp_path):
    files = {"config.json": b"{}", "empty.txt": b"", "figures/a b.png": bytes(range(256)), "old/log.txt": b"old"}
    api.upload_folder(repo_id=REPO, folder_path=write(tmp_path / "one", files))
    before = api.model_info(REPO).sha
    api.upload_folder(
        repo_id=REPO, folder_path=write(tmp_path / "two", {"config.json": b"{1}"}), delete_patterns="old/*"
    )
    assert set(api.list_repo_files(REPO)) == {".gitattributes", "config.json", "empty.txt", "figures/a b.png"}
    folder = tmp_path / "copy"
    snapshot_download(REPO, local_dir=folder)
    assert (folder / "config.json").read_bytes() == b"{1}"
    assert (folder / "figures/a b.png").read_bytes() == bytes(range(256))
    snapshot_download(REPO, local_dir=folder, revision=before)
    assert {name: (folder / name).read_bytes() for name in files} == files


def test_large_files_and_files_with_lfs_suffixes_use_lfs(hub, api, tmp_path):
    files = {"model.safetensors": b"tiny", "notes.txt": b"tiny too", "data.txt": b"x" * 10_000_001}
    api.upload_folder(repo_id=REPO, folder_path=write(tmp_path, files))
    assert {len(blob.content) for blob in hub.storage.values()} == {4, 10_000_001}
    for name, content in files.items():
        with open(hf_hub_download(REPO, name), "rb") as file:
            assert file.read() == content
    assert {entry.path: entry.lfs is not None for entry in api.list_repo_tree(REPO)} == {
        ".gitattributes": False,
        "model.safetensors": True,
        "notes.txt": False,
        "data.txt": True,
    }


def test_existing_files_are_neither_uploaded_nor_downloaded_again(hub, api, tmp_path):
    folder = write(tmp_path, {"model.safetensors": b"tiny", "config.json": b"{}"})
    commit = api.upload_folder(repo_id=REPO, folder_path=folder).oid
    snapshot_download(REPO)
    del hub.requests[:]
    assert api.upload_folder(repo_id=REPO, folder_path=folder).oid == commit
    snapshot_download(REPO)
    assert not [path for method, path in hub.requests if method == "PUT" or "/commit/" in path]
    assert not [path for method, path in hub.requests if method == "GET" and "/api/" not in path]


def test_pull_requests_do_not_change_main(api):
    upload = {"path_or_fileobj": b"{}", "path_in_repo": "config.json", "repo_id": REPO}
    assert api.upload_file(**upload, create_pr=True).pr_revision == "refs/pr/1"
    assert api.list_repo_files(REPO) == [".gitattributes"]
    assert "config.json" in api.list_repo_files(REPO, revision="refs/pr/1")


def test_missing_repositories_files_and_revisions_are_different_errors(api):
    with pytest.raises(RepositoryNotFoundError):
        hf_hub_download("somebody/else", "config.json")
    with pytest.raises(EntryNotFoundError):
        hf_hub_download(REPO, "config.json")
    with pytest.raises(RevisionNotFoundError):
        hf_hub_download(REPO, "config.json", revision="v9")
    with pytest.raises(OSError, match="somebody/else is not a local folder and is not a valid model identifier"):
        AutoModelForSequenceClassification.from_pretrained("somebody/else")


def test_only_the_owner_reads_private_repositories_and_writes(api):
    api.create_repo("secret", private=True)
    assert api.model_info("somebody/secret").private
    with pytest.raises(RepositoryNotFoundError):
        api.model_info("somebody/secret", token="hf_of_others")
    upload = {"path_or_fileobj": b"{}", "path_in_repo": "config.json", "repo_id": REPO}
    with pytest.raises(HfHubHTTPError, match="401"):
        api.upload_file(**upload, token="hf_of_others")
    assert api.list_repo_files(REPO, token=False) == [".gitattributes"]


def test_cards_are_validated_and_listed(api):
    upload = {"path_in_repo": "README.md", "repo_id": REPO}
    with pytest.raises(ValueError, match="base_model: /home/me/model"):
        api.upload_file(path_or_fileobj=CARD.format(base="/home/me/model").encode(), **upload)
    with pytest.raises(ValueError, match="Invalid metadata"):
        api.upload_file(path_or_fileobj=b"---\ntags: [\n---\n", **upload)
    api.upload_file(path_or_fileobj=CARD.format(base="albert/albert-base-v2").encode(), **upload)
    info = api.model_info(REPO)
    assert (info.tags, info.library_name, info.card_data.base_model) == (
        ["small"],
        "transformers",
        "albert/albert-base-v2",
    )
