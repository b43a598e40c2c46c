"""Launch of several processes of one function, connected by gloo."""

import multiprocessing
import os
import socket

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["hf_bam.prediction", "hf_bam.training", "tests.models"])  # imported once for all tests


def free_port():
    """Return a port that is not in use."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def launch(processes, function, *arguments):
    """Call a function of a module as this many processes of one group."""
    jobs, port = [], free_port()
    for rank in range(processes):
        names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "MASTER_ADDR": "127.0.0.1"}
        settings = {**names, "MASTER_PORT": port, "OMP_NUM_THREADS": 1, "ACCELERATE_USE_CPU": "true"}
        environment = {name: str(value) for name, value in settings.items()} if processes > 1 else {}
        jobs.append(CONTEXT.Process(target=_start, args=(environment, function, arguments)))
        jobs[-1].start()
    for job in jobs:
        job.join(180)
    codes = [job.exitcode for job in jobs]
    for job in jobs:
        job.kill()
    assert codes == [0] * processes


def _start(environment, function, arguments):
    os.environ.update(environment)
    function(*arguments)
