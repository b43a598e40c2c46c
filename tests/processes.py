"""Launch of several processes of one program, connected by gloo."""

import os
import socket
import subprocess
import sys
from pathlib import Path


def free_port():
    """Return a port that is not in use."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def launch(processes, *arguments):
    """Run `python *arguments` as this many processes of one group, in the root of the repository."""
    jobs, port = [], free_port()
    for rank in range(processes):
        names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "MASTER_ADDR": "127.0.0.1"}
        settings = {**names, "MASTER_PORT": port, "OMP_NUM_THREADS": 1, "ACCELERATE_USE_CPU": "true"}
        environment = {**os.environ, **({k: str(v) for k, v in settings.items()} if processes > 1 else {})}
        command = [sys.executable, *map(str, arguments)]
        jobs.append(subprocess.Popen(command, env=environment, cwd=Path(__file__).parents[1]))
    assert [job.wait(timeout=180) for job in jobs] == [0] * processes
