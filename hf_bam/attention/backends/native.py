"""Compiled kernel, built from the folder `kernel` by the machine's own C compiler at first use.

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
from torch import Tensor

SOURCES = Path(__file__).with_name("kernel")
_BASE = ("-O3", "-std=gnu11", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math")
_VECTORS = {
    "AVX2": ("-mavx2", "-mfma"),
    "AVX512": ("-mavx2", "-mfma", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"),
}
# Threads come from the OpenMP runtime that torch has loaded; without one the loops still become vector code.
_THREADS = (("-fopenmp",), ("-fopenmp-simd",), ())

_int, _float, _pointer = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p


class View(ctypes.Structure):
    """Tensor (part, batch, head, row, contiguous numbers), as `kernel/call.h` declares it."""

    _fields_ = (("data", _pointer), *((name, _int) for name in ("part", "batch", "head", "row")))

    @classmethod
    def of(cls, tensor: Tensor) -> View:
        """Return the view of a tensor with four or five dimensions, the last one contiguous."""
        strides = (0, *tensor.stride())[-5:-1]
        return cls(tensor.data_ptr(), *strides)


class Call(ctypes.Structure):
    """Arguments of a call, as `kernel/call.h` declares and explains them."""

    _fields_ = (
        *((name, _int) for name in ("batch", "heads", "rows", "keys", "width", "value_width", "parts", "causal")),
        ("seed", ctypes.c_uint64),
        ("family", _int),
        *((name, _float) for name in ("scale", "spread", "offset", "dropout")),
        *((name, _float) for name in ("shape_slope", "shape_offset", "beta", "k", "sigma", "sigma_prior")),
        *((name, View) for name in ("query", "key", "value", "output", "allowed", "bias")),
        *((name, View) for name in ("output_grad", "query_grad", "key_grad", "value_grad")),
        *((name, _pointer) for name in ("noise", "logits", "query_mask", "mean_grad", "kl_grad")),
        *((name, _pointer) for name in ("lse", "noisy_lse", "kl", "columns")),
        *((name, _pointer) for name in ("row_seeds", "first_query", "first_key")),
    )


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hf_bam"


def _compile(compiler: str, flags: tuple[str, ...]) -> Path | None:
    """Return the library built with these flags, from the cache if it is there; None when the compiler fails."""
    files = sorted(SOURCES.iterdir())
    text = b"".join(file.read_bytes() for file in files) + " ".join((compiler, *flags)).encode()
    target = _cache() / f"attention-{hashlib.sha256(text).hexdigest()[:16]}.so"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    # Built under another name: several processes may do this at once.
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built = Path(folder) / target.name
        command = [compiler, *flags, str(SOURCES / "attention.c"), "-o", str(built), "-lm"]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return None
        built.replace(target)
    return target


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return the compiled functions; None where there is no compiler."""
    compiler = shutil.which(os.environ.get("CC") or "cc")
    if compiler is None or os.environ.get("HF_BAM_KERNEL") == "0":
        return None
    vectors = _VECTORS.get(torch.backends.cpu.get_cpu_capability(), ())
    for threads in _THREADS:
        try:
            path = _compile(compiler, (*_BASE, *vectors, *threads))
            if path is not None:
                loaded = ctypes.CDLL(str(path))
                loaded.hf_bam_attend.argtypes = [ctypes.POINTER(Call)]
                loaded.hf_bam_attend.restype = ctypes.c_int
                return loaded
        except (OSError, RuntimeError):  # no home, no place to write to, or a library that cannot be loaded here
            continue
    return None


def available() -> bool:
    """Return whether the compiled kernel can run. The first call compiles it: a few seconds, once per machine."""
    return library() is not None


def run(call: Call) -> None:
    """Run a call on the memory that its pointers name."""
    loaded = library()
    if loaded is None:
        raise RuntimeError("There is no compiled kernel here: install a C compiler, or use the portable path.")
    if loaded.hf_bam_attend(ctypes.byref(call)):
        raise MemoryError("No memory for a block of attention.")
