"""Bayesian attention for pretrained transformers models."""

from .callbacks import BamCallback
from .config import BamConfig
from .patching import UnsupportedModelError, get_config, is_patched, patch, sampling, set_step, unpatch

__version__ = "0.1.0"

__all__ = [
    "BamCallback",
    "BamConfig",
    "UnsupportedModelError",
    "get_config",
    "is_patched",
    "patch",
    "sampling",
    "set_step",
    "unpatch",
]
