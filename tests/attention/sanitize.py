"""Random calls of the compiled kernel under the address and undefined-behaviour sanitizers.

python -m tests.attention.sanitize                # 300 calls
python -m tests.attention.sanitize --cases 5000   # more of them

The kernel is compiled with gcc's sanitizers into a temporary folder, once for each set of vector instructions that the
CPU has. Every call runs forward and backward, and its results are compared with those of torch.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from hf_bam.attention.backends import native
from hf_bam.attention.backends.blocks import attend_by_blocks
from hf_bam.attention.backends.operator import attend_natively
from hf_bam.attention.backends.spec import Spec
from hf_bam.attention.mask import AttentionMask
from hf_bam.attention.noise import NoiseSeed
from hf_bam.families import Lognormal, Weibull
from hf_bam.priors import Gamma, LognormalPrior

VECTORS = {
    "portable": [],
    "avx2": ["-mavx2", "-mfma"],
    "avx512": ["-mavx2", "-mfma", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"],
}
PAIRS = (
    (Weibull(1.5), Gamma(10.0)),
    (Weibull(3.0), Gamma(0.5, prior_shape="psi")),
    (Weibull(1.0), Gamma(2.0, alpha=0.7)),
    (Lognormal(0.4), LognormalPrior(0.6)),
)


def integer(low: int, high: int) -> int:
    return int(torch.randint(low, high + 1, ()))


def chance(p: float) -> bool:
    return bool(torch.rand(()) < p)


def random_mask(shape: tuple[int, int, int, int]) -> AttentionMask:
    kind = integer(0, 3)
    if kind == 0:
        return AttentionMask(shape, causal=chance(0.5))
    smaller = [n if chance(0.5) else 1 for n in shape[:3]]
    allowed = torch.rand(*smaller, shape[3]) > (0.3 if kind < 3 else 0.95)  # some rows without any key
    bias = torch.randn(*smaller, shape[3]) if kind == 2 else None
    return AttentionMask(shape, allowed, bias=bias)


def random_spec(shape: tuple[int, int, int, int]) -> Spec:
    batch, heads, queries, keys = shape
    posterior, prior = PAIRS[integer(0, len(PAIRS) - 1)]
    seeds = [torch.randint(0, 2**40, (batch,)) if chance(0.5) else None for _ in range(3)]
    return Spec(
        posterior,
        float(torch.rand(())),
        NoiseSeed(integer(0, 2**62), *seeds),
        random_mask(shape),
        dropout=0.3 if chance(0.4) else 0.0,
        noise=torch.randn(batch, heads, 1, keys) if chance(0.3) else None,
        query_mask=torch.rand(batch, queries) if chance(0.4) else None,
        prior=prior,
    )


def run_case(seed: int) -> None:
    """Run one random call forward and backward and compare it with torch."""
    torch.manual_seed(seed)
    long = chance(0.1)
    batch, heads, queries, keys = integer(1, 3), integer(1, 3), *(integer(1, 700 if long else 70) for _ in range(2))
    widths = integer(1, 70), integer(1, 70)
    sizes = zip((queries, keys, keys), (widths[0], *widths), strict=True)
    inputs = [torch.randn(batch, n, heads, d) for n, d in sizes]
    inputs = [x.transpose(1, 2).requires_grad_() for x in inputs]
    logits = torch.randn(batch, heads, keys, requires_grad=True) if chance(0.7) else None
    spec = random_spec((batch, heads, queries, keys))
    leaves: list[Any] = [x for x in (*inputs, logits) if x is not None]
    results = []
    for compute in (attend_natively, attend_by_blocks):
        parts = [x for x in compute(*inputs, logits, spec) if x is not None]
        grads = torch.autograd.grad(sum(x.square().sum() for x in parts), leaves, allow_unused=True)
        results.append([*parts, *grads])
    for actual, expected in zip(*results, strict=True):
        if actual is None or expected is None:
            continue
        scale = max(1.0, float(expected.detach().abs().max()))
        error = float((actual - expected).detach().abs().max()) / scale
        assert error < 1e-3, f"case {seed}: the results differ by {error:g} of the largest value"


def compile_sanitized(folder: Path, variant: str) -> Path:
    target = folder / f"attention_{variant}.so"
    flags = ["-O1", "-g", "-std=gnu11", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math", "-fopenmp"]
    checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
    source = str(native.FOLDER / "attention.c")
    subprocess.run(["gcc", *flags, *VECTORS[variant], *checks, source, "-o", str(target), "-lm"], check=True)
    return target


def runtime(name: str) -> str:
    return subprocess.run(
        ["gcc", f"-print-file-name={name}"], check=True, capture_output=True, text=True
    ).stdout.strip()


def check(variant: str, cases: int) -> None:
    """Run the calls in a process whose memory is watched."""
    with tempfile.TemporaryDirectory() as folder:
        built = compile_sanitized(Path(folder), variant)
        environment = {
            **os.environ,
            "LD_PRELOAD": f"{runtime('libasan.so')} {runtime('libubsan.so')}",
            "ASAN_OPTIONS": "detect_leaks=0",  # of Python itself
            "OMP_NUM_THREADS": "2",
            "OMP_WAIT_POLICY": "passive",
        }
        command = [sys.executable, "-m", "tests.attention.sanitize", "--library", str(built), "--cases", str(cases)]
        subprocess.run(command, env=environment, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=300, help="Random calls for each variant of the kernel.")
    parser.add_argument("--library", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.library is None:
        for variant in native.variants():
            check(variant, options.cases)
        return
    loaded = native.load(options.library)
    native.library = lambda: loaded
    for seed in range(options.cases):
        run_case(seed)
    print(f"{options.library.stem}: {options.cases} cases without an error")


if __name__ == "__main__":
    main()
