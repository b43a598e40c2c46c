"""Compiled kernel: shared libraries that are built from the folder `kernel` with the package.

Where none was built, or with `HF_BAM_KERNEL=0` in the environment, everything runs in torch.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import struct
from pathlib import Path

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

FOLDER = Path(__file__).with_name("kernel")
VARIANTS = {"AVX512": ("avx512", "avx2", "portable"), "AVX2": ("avx2", "portable")}
"""Variants of the kernel that a CPU runs, the fastest first, by torch's name for its capability."""

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


def variants() -> tuple[str, ...]:
    """Return the variants of the kernel that this CPU runs, the fastest first."""
    return VARIANTS.get(torch.backends.cpu.get_cpu_capability(), ("portable",))


def check_whole(path: Path) -> None:
    """Raise `OSError` for a library of Linux that is cut off: to load it would end the process (SIGBUS)."""
    with path.open("rb") as file:
        header = file.read(64)
    if header[:5] == b"\x7fELF\x02":  # 64 bits; the table of sections is the end of the file
        (table,), (size, number) = struct.unpack_from("=Q", header, 40), struct.unpack_from("=HH", header, 58)
        if path.stat().st_size < table + size * number:
            raise OSError(f"{path} is cut off")


def load(path: Path) -> ctypes.CDLL:
    """Return the functions of a shared library."""
    check_whole(path)
    loaded = ctypes.CDLL(str(path))
    loaded.hf_bam_attend.argtypes = [ctypes.POINTER(Call)]
    loaded.hf_bam_attend.restype = ctypes.c_int
    return loaded


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return the compiled functions; None where they were not built, with a warning in the log."""
    if os.environ.get("HF_BAM_KERNEL") == "0":
        return None
    reason = f"{FOLDER} has no kernel for this CPU"
    for variant in variants():
        path = FOLDER / f"attention_{variant}.so"
        if path.exists():
            try:
                return load(path)
            except (OSError, AttributeError) as error:
                reason = str(error)
    logger.warning(
        "Sampled attention runs in torch, slower than in the compiled kernel: %s. Install a C compiler (gcc or clang) "
        "and then hf_bam again, in a clone by `pip install -e .`. HF_BAM_KERNEL=0 in the environment turns off the "
        "kernel and this message.",
        reason,
    )
    return None


@torch.compiler.assume_constant_result
def available() -> bool:
    """Return whether the compiled kernel can run."""
    return library() is not None


def run(call: Call) -> None:
    """Run a call on the memory that its pointers name."""
    loaded = library()
    if loaded is None:
        raise RuntimeError("There is no compiled kernel here: install a C compiler and then hf_bam again.")
    if loaded.hf_bam_attend(ctypes.byref(call)):
        raise MemoryError("No memory for a block of attention.")
