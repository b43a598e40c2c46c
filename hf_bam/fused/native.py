"""The compiled rows of attention: `kernel.c`, built by the machine's own C compiler at first use.

Without a compiler, or with `HF_BAM_KERNEL=0` in the environment, everything runs in torch.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

SOURCE = Path(__file__).with_name("kernel.c")
_BASE = ("-O3", "-std=gnu11", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math")
_VECTORS = {
    "AVX2": ("-mavx2", "-mfma"),
    "AVX512": ("-mavx2", "-mfma", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"),
}
# Threads come from the OpenMP runtime that torch has loaded; without one the loops still become vector code.
_THREADS = (("-fopenmp",), ("-fopenmp-simd",), ())

_int, _float, _pointer = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p


class Call(ctypes.Structure):
    """The arguments of a call, as `kernel.c` declares and explains them."""

    _fields_ = (
        *((name, _int) for name in ("heads", "rows", "keys", "first_row", "all_rows", "chunk", "causal")),
        ("visible", _pointer),
        ("visible_head", _int),
        ("visible_row", _int),
        ("bias", _pointer),
        ("bias_head", _int),
        ("bias_row", _int),
        ("row_keys", _pointer),
        ("noise", _pointer),
        ("family", _int),
        *((name, _float) for name in ("spread", "offset", "dropout")),
        ("logits", _pointer),
        *((name, _float) for name in ("shape_slope", "shape_offset", "beta", "k", "sigma", "sigma_prior")),
        *((name, _pointer) for name in ("counted", "mean_grad", "kl_grad", "scores", "weight_grad")),
        *((name, _pointer) for name in ("lse", "noisy_lse", "kl", "columns")),
    )


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hf_bam"


def _compile(compiler: str, flags: tuple[str, ...]) -> Path | None:
    """The library built with these flags, from the cache if it is there; None when the compiler refuses."""
    text = SOURCE.read_bytes() + " ".join((compiler, *flags)).encode()
    target = _cache() / f"rows-{hashlib.sha256(text).hexdigest()[:16]}.so"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    # Built under another name: several processes may do this at once.
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built = Path(folder) / target.name
        command = [compiler, *flags, str(SOURCE), "-o", str(built), "-lm"]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return None
        built.replace(target)
    return target


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled functions, or None where they cannot be had."""
    compiler = shutil.which(os.environ.get("CC") or "cc")
    if compiler is None or os.environ.get("HF_BAM_KERNEL") == "0":
        return None
    vectors = _VECTORS.get(torch.backends.cpu.get_cpu_capability(), ())
    for threads in _THREADS:
        try:
            path = _compile(compiler, (*_BASE, *vectors, *threads))
            if path is not None:
                loaded = ctypes.CDLL(str(path))
                loaded.hf_bam_rows.argtypes = [ctypes.POINTER(Call)]
                loaded.hf_bam_rows.restype = ctypes.c_int
                return loaded
        except (OSError, RuntimeError):  # no home, no place to write to, or a library that cannot be loaded here
            continue
    return None


def available() -> bool:
    """Whether the compiled rows can run; the first call compiles, which takes a few seconds once per machine."""
    return library() is not None


def run(call: Call) -> None:
    """Runs a call on the memory that its pointers name."""
    loaded = library()
    if loaded is None:
        raise RuntimeError("There is no compiled kernel here: install a C compiler, or use the portable path.")
    if loaded.hf_bam_rows(ctypes.byref(call)):
        raise MemoryError("No memory for the rows of an attention block.")
