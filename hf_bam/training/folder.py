"""The folder of a run: it holds one run, and one process at a time writes to it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from accelerate import PartialState
from accelerate.utils import broadcast_object_list

from .files import read_yaml, write_yaml
from .identity import check_same
from .lock import locked
from .loop import FREE
from .results import FILE, Result
from .settings import Job

CONFIG = "config.yaml"
SIGNS = (FILE, CONFIG, "checkpoints", "log.jsonl")
"""Files that say that there is a run."""
PARTS = (FILE, "checkpoints", "model", "adapter", "predictions", "report", "log.jsonl", CONFIG)
"""Everything that a run writes. Results are removed first, settings last: a kill in between mixes no runs."""
MEASURED = frozenset({"num_samples", "uncertainty_rows"})
"""Settings that results depend on, though weights do not."""
Found = TypeVar("Found")


def on_main(action: Callable[[], Found]) -> Found:
    """What the main process finds, in all processes; where it fails, all of them raise its error."""
    outcome: list[Any] = [None, None]
    failure: Exception | None = None
    if PartialState().is_main_process:
        try:
            outcome[0] = action()
        except Exception as error:  # the others wait for an answer, whatever it is
            failure, outcome[1] = error, str(error)
    found, text = broadcast_object_list(outcome)
    if failure is not None:
        raise failure
    if text is not None:
        raise ValueError(text)
    return found


@dataclass(frozen=True)
class Folder:
    """The output folder; every process of a run asks, the main one looks and writes."""

    path: Path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other runs out, until the end of this one or of its main process."""
        with ExitStack() as stack:
            on_main(lambda: stack.enter_context(locked(self.path)))
            yield

    def is_done(self, job: Job, resume: bool, overwrite: bool) -> bool:
        """Whether the run is done already; an error where the folder holds another, or is not to be resumed."""
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
                f"{self.path} holds a run that {'is done' if done else 'was not finished'}: resume=True "
                f"(--resume_from_checkpoint) {'reads its results' if done else 'goes on with it'}, "
                "overwrite_output_dir=True (--overwrite_output_dir) removes it and begins anew; or choose another "
                "folder."
            )
        return done

    def is_used(self) -> bool:
        """Whether there is a run, done or not."""
        return any((self.path / name).exists() for name in SIGNS)

    def _settings(self, job: Job) -> Mapping[str, Any]:
        """Settings of the run that is there; results of earlier versions leave them to config.yaml."""
        config, results = self.path / CONFIG, self.path / FILE
        if not results.exists():
            # Without the file, checkpoints know with what they were made.
            return read_yaml(config) if config.exists() else job.to_dict()
        settings: dict[str, Any] | None = Result.read(self.path).about.get("settings")
        if settings is not None:
            return settings
        if not config.exists() or config.stat().st_mtime > results.stat().st_mtime:
            raise ValueError(
                f"{results} does not say with what settings it was made; choose another folder, or remove what is "
                "there with overwrite_output_dir=True (--overwrite_output_dir)."
            )
        return read_yaml(config)

    def _check_inputs(self, job: Job) -> None:
        removed = [(self.path / name).resolve() for name in PARTS]
        for name, value in {"model_name_or_path": job.model_name_or_path, "data_dir": job.data_dir}.items():
            place = Path(value or ".").resolve()
            if any(part in (place, *place.parents) for part in removed):
                raise ValueError(
                    f"{name}={value!r} is part of the run that overwrite_output_dir=True would remove; choose another "
                    "folder for the output."
                )

    def begin(self, job: Job, overwrite: bool) -> None:
        """Writes the settings of a run that begins or goes on; removes the run before it where that is asked for."""
        on_main(lambda: self._begin(job, overwrite))

    def _begin(self, job: Job, overwrite: bool) -> None:
        for part in (self.path / name for name in PARTS) if overwrite and self.is_used() else ():
            if part.is_dir() and not part.is_symlink():
                shutil.rmtree(part)
            else:
                part.unlink(missing_ok=True)
        write_yaml(self.path / CONFIG, job.to_dict())
