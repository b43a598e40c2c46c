"""Bayesian attention for pretrained transformers models."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import integration, pipelines  # noqa: F401  (both take effect on import)
from .callbacks import BamCallback
from .config import BamConfig
from .hub import from_pretrained, push_to_hub
from .patching import UnsupportedModelError, get_config, is_patched, kl_loss, patch, sampling, set_step, unpatch
from .serialization import load, save

if TYPE_CHECKING:
    from .comparison import compare
    from .prediction import BamPredictor, Predictor
    from .reporting import report

__version__ = "0.1.0"

__all__ = [
    "BamCallback",
    "BamConfig",
    "BamPredictor",
    "Predictor",
    "UnsupportedModelError",
    "compare",
    "from_pretrained",
    "get_config",
    "is_patched",
    "kl_loss",
    "load",
    "patch",
    "push_to_hub",
    "report",
    "sampling",
    "save",
    "set_step",
    "unpatch",
]

# Imported when they are asked for: who only trains need not wait for datasets, scikit-learn and matplotlib.
_LATER = {
    "BamPredictor": "prediction",
    "Predictor": "prediction",
    "compare": "comparison",
    "report": "reporting",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f".{_LATER[name]}", __name__), name)
    if name in ("metrics", "plots", "prediction"):
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
