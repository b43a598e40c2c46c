"""Optional dependencies: the packages of each extra, and an error that names the extra that is missing."""

from __future__ import annotations

from importlib.util import find_spec

EXTRAS: dict[str, tuple[str, ...]] = {
    "train": ("accelerate", "datasets", "peft", "pyarrow", "sacrebleu", "yaml"),
    "evaluate": ("datasets", "evaluate", "sacrebleu"),
    "plots": ("matplotlib",),
    "graph": ("torch_geometric",),
    "demo": ("gradio",),
}
"""Modules that an extra of `setup.py` installs."""


class MissingExtraError(ImportError):
    """Packages of an extra are not installed."""


def check_extra(extra: str, use: str) -> None:
    """Raise `MissingExtraError` unless the packages of an extra are installed.

    Args:
        use: what needs them, the subject of the message.
    """
    missing = [name for name in EXTRAS[extra] if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"{use} needs the extra {extra!r}, of which {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} "
            f'not installed: pip install "hf_bam[{extra}]"'
        )
