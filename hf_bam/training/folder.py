"""Output folder, which holds one run and is written by one process at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from accelerate import PartialState
from accelerate.utils import broadcast_object_list

from .files import read_yaml, remove, write_yaml
from .identity import FREE, MEASURED, check_same
from .lock import locked
from .members import FOLDER as ENSEMBLE
from .results import FILE, Result
from .settings import Job

CONFIG = "config.yaml"
MARKERS = (FILE, CONFIG, "checkpoints", "log.jsonl")
"""Files by which a run is recognised."""
PARTS = (FILE, "checkpoints", "model", "adapter", ENSEMBLE, "predictions", "report", "log.jsonl", CONFIG)
"""Everything that a run writes. Results are removed first and settings last, so that an interruption does not mix two
runs."""
Found = TypeVar("Found")


class MainError(ValueError):
    """Error of the main process, raised in the other processes."""


def on_main(action: Callable[[], Found]) -> Found:
    """Run an action in the main process and return its result in all processes; all raise its error."""
    outcome: list[Any] = [None, None]
    failure: Exception | None = None
    if PartialState().is_main_process:
        try:
            outcome[0] = action()
        except Exception as error:  # the other processes wait for the outcome
            failure, outcome[1] = error, str(error)
    found, text = broadcast_object_list(outcome)
    if failure is not None:
        raise failure
    if text is not None:
        raise MainError(text)
    return found


@dataclass(frozen=True)
class Folder:
    """The output folder of a run. Every process calls the methods; the main process reads and writes."""

    path: Path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder until this run or its main process ends."""
        with ExitStack() as stack:
            on_main(lambda: stack.enter_context(locked(self.path)))
            yield

    def is_done(self, job: Job, resume: bool, overwrite: bool) -> bool:
        """Return whether the run is finished; raise `ValueError` if the folder holds another one or is not resumed."""
        return on_main(lambda: self._is_done(job, resume, overwrite))

    def _is_done(self, job: Job, resume: bool, overwrite: bool) -> bool:
        if resume and overwrite:
            raise ValueError(
                "resume=True (--resume_from_checkpoint) and overwrite_output_dir=True (--overwrite_output_dir) "
                "exclude each other."
            )
        if overwrite:
            self._check_inputs(job)
        if overwrite or not self.is_used():
            return False
        done = (self.path / FILE).exists()
        check_same(self.path, self._settings(job), job.to_dict(), FREE - MEASURED if done else FREE)
        if not resume:
            raise ValueError(
                f"{self.path} holds a run that {'is finished' if done else 'is not finished'}: resume=True "
                f"(--resume_from_checkpoint) {'reads its results' if done else 'continues it'}, "
                "overwrite_output_dir=True (--overwrite_output_dir) removes it and starts again; or choose another "
                "folder."
            )
        return done

    def is_used(self) -> bool:
        """Return whether there is a run, finished or not."""
        return any((self.path / name).exists() for name in MARKERS)

    def _settings(self, job: Job) -> Mapping[str, Any]:
        """Return the settings of the run in the folder; results of earlier versions leave them to config.yaml."""
        config, results = self.path / CONFIG, self.path / FILE
        if not results.exists():
            # Without the file, the checkpoints contain the settings to compare with.
            return read_yaml(config) if config.exists() else job.to_dict()
        settings: dict[str, Any] | None = Result.read(self.path).about.get("settings")
        if settings is not None:
            return settings
        if not config.exists() or config.stat().st_mtime > results.stat().st_mtime:
            raise ValueError(
                f"{results} does not contain the settings of its run; choose another folder, or remove the run with "
                "overwrite_output_dir=True (--overwrite_output_dir)."
            )
        return read_yaml(config)

    def _check_inputs(self, job: Job) -> None:
        """Raise `ValueError` if the new run reads files of the run that it would remove."""
        removed = [(self.path / name).resolve() for name in PARTS]
        for name, value in {"model_name_or_path": job.model_name_or_path, "data_dir": job.data_dir}.items():
            place = Path(value or ".").resolve()
            if any(part in (place, *place.parents) for part in removed):
                raise ValueError(
                    f"{name}={value!r} is part of the run that overwrite_output_dir=True would remove; choose another "
                    "folder for the output."
                )

    def begin(self, job: Job, overwrite: bool) -> None:
        """Write the settings of a run that starts or resumes; with `overwrite`, remove the earlier run first."""
        on_main(lambda: self._begin(job, overwrite))

    def _begin(self, job: Job, overwrite: bool) -> None:
        for part in (self.path / name for name in PARTS) if overwrite and self.is_used() else ():
            remove(part)
        self.remove_unfinished()
        write_yaml(self.path / CONFIG, job.to_dict())

    def remove_unfinished(self) -> None:
        """Remove what a killed process was writing: hidden files and folders of parts, and of predictions."""
        for part in (*(self.path / f".{name}" for name in PARTS), *(self.path / "predictions").glob(".*")):
            remove(part)
