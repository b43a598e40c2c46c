"""The source distribution and the wheel that is built from it."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from hf_bam import extras
from hf_bam.attention.backends import native

ROOT = Path(__file__).parents[1]
BUILT = ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "hf_bam")


def build(folder, *command, **variables):
    subprocess.run(
        [sys.executable, "setup.py", "-q", *command],
        cwd=folder,
        check=True,
        capture_output=True,
        env={**os.environ, **variables},
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The unpacked source distribution, built from a copy without compiled files."""
    folder = tmp_path_factory.mktemp("packaging")
    for name in BUILT:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / "clone" / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        else:
            (folder / "clone").mkdir(exist_ok=True)
            shutil.copy(ROOT / name, folder / "clone")
    build(folder / "clone", "sdist", "--dist-dir", str(folder))
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def test_the_source_distribution_has_everything_to_build_from(source):
    for path in (ROOT / "hf_bam").rglob("*"):
        if path.suffix in (".py", ".c", ".h", ".j2", ".yaml", ".typed"):
            assert (source / path.relative_to(ROOT)).exists(), path
    assert not list(source.rglob("*.so"))


def test_the_wheel_serves_every_python_and_has_the_kernel(source):
    build(source, "bdist_wheel", "--dist-dir", str(source))
    (wheel,) = source.glob("*.whl")
    assert "-py3-none-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    for variant in native.variants() if shutil.which("cc") else ():
        assert f"hf_bam/attention/backends/kernel/attention_{variant}.so" in names
    tops = {name.split("/")[0] for name in names}
    assert tops == {"hf_bam", f"{wheel.name.split('-py3')[0]}.dist-info"}
    for path in (ROOT / "hf_bam").rglob("*"):
        if path.suffix in (".py", ".j2", ".yaml", ".typed"):
            assert str(path.relative_to(ROOT)) in names


def test_a_published_build_has_project_urls_and_links_that_work_outside_of_the_repository(source):
    build(source, "egg_info", "--egg-base", ".", HF_BAM_REPOSITORY="https://example.org/hf_bam/")
    metadata = (source / "hf_bam.egg-info" / "PKG-INFO").read_text(encoding="utf-8")
    assert "Project-URL: Source, https://example.org/hf_bam\n" in metadata
    targets = re.findall(r"\]\(([^)]+)\)", metadata)
    own = [target for target in targets if target.startswith("https://example.org/hf_bam/blob/v")]
    assert len(own) > 20
    assert all(target.startswith("https://") for target in targets)
    for target in own:
        assert (ROOT / re.sub(r".*/blob/v[^/]+/|#.*", "", target)).exists(), target


def test_extras_are_those_that_errors_name(source):
    text = (source / "hf_bam.egg-info" / "requires.txt").read_text(encoding="utf-8")
    sections = dict(part.split("]\n", 1) for part in text.split("\n[")[1:])
    for extra, modules in extras.EXTRAS.items():
        for module in modules:
            assert {"yaml": "pyyaml"}.get(module, module) in sections[extra].lower()
            assert importlib.util.find_spec(module) is not None  # all of them are tested
