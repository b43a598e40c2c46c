"""Test suite with the oldest and the newest transformers that setup.py allows.

nox                     # both
nox -s "suite(5.6.0)"   # one of them; arguments after -- are passed to pytest
"""

import os
from pathlib import Path

import nox

CONSTRAINTS = Path("constraints.txt").read_text(encoding="utf-8").splitlines()
NEWEST = next(line.partition("==")[2] for line in CONSTRAINTS if line.startswith("transformers=="))
OLDEST = "5.6.0"
# An old transformers needs old versions of these; pip finds them.
WITH_TRANSFORMERS = ("huggingface_hub==", "transformers==", "tokenizers==", "peft==", "accelerate==", "hf-xet==")


@nox.session(venv_backend="venv")
@nox.parametrize("transformers", [OLDEST, NEWEST], ids=[OLDEST, NEWEST])
def suite(session: nox.Session, transformers: str) -> None:
    """Install hf_bam with a version of transformers and run the tests."""
    kept = [line for line in CONSTRAINTS if transformers == NEWEST or not line.startswith(WITH_TRANSFORMERS)]
    constraints = Path(session.create_tmp()) / "constraints.txt"
    constraints.write_text("\n".join(kept), encoding="utf-8")
    # torch first: as a dependency of the others it would install several GB of CUDA.
    session.install(next(line for line in CONSTRAINTS if line.startswith("torch==")))
    session.install("--constraint", str(constraints), f"transformers=={transformers}", "--editable", ".[test]")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    session.run(
        "python", "-m", "pytest", "--numprocesses", "2", "--dist", "loadfile", *session.posargs, env=environment
    )
