"""A lock on a folder, which the operating system ends with the process that has it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows: runs are not kept apart
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps others out of a folder; one that was made for it and stays empty is removed."""
    new = not folder.exists()
    with _locked_file(folder) as file:
        _held.add(file)
        try:
            yield
        finally:
            _held.discard(file)
            with suppress(OSError):
                if new and [path.name for path in folder.iterdir()] == [NAME]:
                    (folder / NAME).unlink()
                    folder.rmdir()


def _locked_file(folder: Path) -> IO[str]:
    """The lock file, which is locked as long as it is open."""
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
                f"{folder} is in use by another run (process {process}); wait for its end, or choose another folder."
            ) from error
        except OSError:
            pass  # a file system without locks
        if fcntl is None or _is_there(file):
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            return file
        file.close()


def _is_there(file: IO[str]) -> bool:
    """Whether the file still has its name; another run may have removed it just before it was locked."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(file.name))
    except FileNotFoundError:
        return False


_held: set[IO[str]] = set()


def _let_go() -> None:
    """Leaves the locks to the parent; else processes that prepare batches would keep them when it is killed."""
    for file in _held:
        file.close()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
