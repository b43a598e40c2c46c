"""Structure of the package: imports point downward in one declared order, lazy imports included."""

import ast
from pathlib import Path

import pytest

import hf_bam

PACKAGE = Path(hf_bam.__file__).parent
ORDER = (
    ("extras", "fields", "tensors", "objective", "priors", "models"),
    ("families",),
    ("config",),
    ("attention",),
    ("graph",),
    ("patching",),
    ("evaluation",),
    ("prediction",),
    ("integrations",),
    ("tasks", "demo"),
    ("training",),
    ("cli",),
    ("__main__",),
)
"""Subpackages from the lowest to the highest; those of one line do not import each other."""
LEVEL = {name: level for level, names in enumerate(ORDER) for name in names}
MATHEMATICS = ("families", "priors", "objective")


def subpackage_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path):
    """Yield the absolute names that a file imports, lazily or not."""
    package = ["hf_bam", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


def test_every_subpackage_has_its_level():
    assert {subpackage_of(path) for path in FILES} == LEVEL.keys()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downward(path):
    own = subpackage_of(path)
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "hf_bam":
            continue
        other = parts[1]
        if other not in LEVEL:  # a name of the top of the package, which knows everything below training
            assert own == "training", f"{path} imports {name} from the top of the package"
        else:
            assert other == own or LEVEL[other] < LEVEL[own], f"{path} imports {name}, which lies above it"


@pytest.mark.parametrize("name", MATHEMATICS)
def test_mathematics_does_not_import_transformers(name):
    for path in (PACKAGE / name).rglob("*.py"):
        assert not [name for name in imports(path) if name.split(".")[0] in ("transformers", "peft", "accelerate")]


def test_transformers_enters_attention_through_one_file():
    users = {
        p.name for p in (PACKAGE / "attention").rglob("*.py") if any(n.startswith("transformers") for n in imports(p))
    }
    assert users == {"interface.py"}


@pytest.mark.parametrize("path", [path for path in FILES if path.name == "__init__.py"], ids=lambda p: p.parent.name)
def test_every_subpackage_has_a_docstring(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
