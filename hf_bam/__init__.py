"""Bayesian attention for pretrained transformers models."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .config import BamConfig
from .integrations.hub import from_pretrained, push_to_hub
from .integrations.install import install
from .integrations.serialization import load, save
from .integrations.trainer import BamCallback
from .patching import UnsupportedModelError, get_config, is_patched, kl_loss, patch, sampling, set_step, unpatch

if TYPE_CHECKING:
    from .evaluation import metrics as metrics
    from .evaluation import plots as plots
    from .evaluation.comparison import compare
    from .evaluation.report import report
    from .prediction import BamPredictor, Predictor

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

install()

# Imported when they are asked for: who only trains need not wait for datasets, scikit-learn and matplotlib.
_LATER = {
    "BamPredictor": "prediction",
    "Predictor": "prediction",
    "compare": "evaluation.comparison",
    "report": "evaluation.report",
}
_ROOMS_LATER = {
    "evaluation": "evaluation",
    "metrics": "evaluation.metrics",
    "plots": "evaluation.plots",
    "prediction": "prediction",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f".{_LATER[name]}", __name__), name)
    if name in _ROOMS_LATER:
        return import_module(f".{_ROOMS_LATER[name]}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
