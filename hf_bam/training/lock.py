"""Lock on a folder, which the operating system releases when its process ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows: no lock
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder; raise `ValueError` if another process has it. A folder made for the lock is removed if empty."""
    new = not folder.exists()
    with _locked_file(folder) as file:
        _open_files.add(file)
        try:
            yield
        finally:
            _open_files.discard(file)
            with suppress(OSError):
                if new and [path.name for path in folder.iterdir()] == [NAME]:
                    (folder / NAME).unlink()
                    folder.rmdir()


def _locked_file(folder: Path) -> IO[str]:
    """Return the lock file, which is locked as long as it is open."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / NAME).open("a+", encoding="utf-8")
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            process = file.read().strip()
            file.close()
            raise ValueError(
                f"{folder} is in use by another run (process {process}); wait until it ends, or choose another folder."
            ) from error
        except OSError:
            pass  # a file system without locks
        if fcntl is None or _exists(file):
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            return file
        file.close()


def _exists(file: IO[str]) -> bool:
    """Return whether the file still has its name; another run may have removed it just before it was locked."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(file.name))
    except FileNotFoundError:
        return False


_open_files: set[IO[str]] = set()


def _close_in_child() -> None:
    """Close the lock files in a forked process, so that data loader processes do not keep the lock of a killed run."""
    for file in _open_files:
        file.close()
    _open_files.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
