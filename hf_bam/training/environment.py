"""Device, processes and versions of packages of a run."""

from __future__ import annotations

from importlib.metadata import version

import torch
from accelerate import Accelerator

from .. import __version__

PACKAGES = ("transformers", "torch", "accelerate", "datasets")
"""Packages on which the numbers of a run depend, beside hf_bam."""
FASTER = "which may be many times slower than fp32; precision='fp32' (--precision fp32) is likely to be faster here."


def environment(accelerator: Accelerator) -> str:
    """Return device, number of processes, precision and versions on one line."""
    device = accelerator.device
    unit = torch.cuda.get_device_name(device) if device.type == "cuda" else _number(torch.get_num_threads(), "thread")
    count = accelerator.num_processes
    processes = f"{_number(count, 'process', 'es')} on {device.type} ({unit})"
    precision = {"no": "fp32"}.get(accelerator.mixed_precision, accelerator.mixed_precision)
    versions = {"hf_bam": __version__, **{package: version(package) for package in PACKAGES}}
    return ", ".join([processes, precision, *(f"{name} {number}" for name, number in versions.items())])


def slow_precision(accelerator: Accelerator) -> str | None:
    """Return a warning if the CPU has no instructions for the precision; torch then multiplies in plain loops.

    The query is the one that torch asks before it hands a product to oneDNN; builds without it are not warned about.
    """
    precision = accelerator.mixed_precision
    supported = getattr(torch.ops.mkldnn, f"_is_mkldnn_{precision}_supported", None)
    if accelerator.device.type != "cpu" or supported is None or supported():
        return None
    return f"Warning: this CPU has no instructions for {precision}, {FASTER}"


def _number(count: int, noun: str, plural: str = "s") -> str:
    return f"{count} {noun}{plural if count > 1 else ''}"
