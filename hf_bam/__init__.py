"""Bayesian attention for pretrained transformers models.

[`patch`][hf_bam.patch] makes the attention of a model stochastic, in place. Training, saving and loading stay as they
are. [`BamPredictor`][hf_bam.BamPredictor] draws samples of the predictions and returns their uncertainty;
[`compare`][hf_bam.compare] and [`report`][hf_bam.report] evaluate it. Importing this package calls
[`install`][hf_bam.integrations.install.install], which lists every wrapped method of other libraries.
"""

import sys
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import BamConfig
    from .evaluation import metrics as metrics
    from .evaluation import plots as plots
    from .evaluation.comparison import compare
    from .evaluation.report import report
    from .integrations.callback import BamCallback
    from .integrations.hub import from_pretrained, push_to_hub
    from .integrations.serialization import load, save
    from .patching import UnsupportedModelError, get_config, is_patched, kl_loss, patch, sampling, set_step, unpatch
    from .prediction import BamPredictor, Predictor, alignments, calibrate
    from .prediction.codes import fit_code_prior, generate_from_prior

__version__ = "0.1.0"

__all__ = [
    "BamCallback",
    "BamConfig",
    "BamPredictor",
    "Predictor",
    "UnsupportedModelError",
    "alignments",
    "calibrate",
    "compare",
    "fit_code_prior",
    "from_pretrained",
    "generate_from_prior",
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

# Imported on first use, because scikit-learn and matplotlib take seconds to import.
_LAZY_NAMES = {
    "BamCallback": "integrations.callback",
    "BamConfig": "config",
    "BamPredictor": "prediction",
    "Predictor": "prediction",
    "alignments": "prediction",
    "calibrate": "prediction",
    "compare": "evaluation.comparison",
    "fit_code_prior": "prediction.codes",
    "from_pretrained": "integrations.hub",
    "generate_from_prior": "prediction.codes",
    "load": "integrations.serialization",
    "push_to_hub": "integrations.hub",
    "report": "evaluation.report",
    "save": "integrations.serialization",
    **dict.fromkeys(
        ("UnsupportedModelError", "get_config", "is_patched", "kl_loss", "patch", "sampling", "set_step", "unpatch"),
        "patching",
    ),
}
_LAZY_MODULES = {
    "evaluation": "evaluation",
    "metrics": "evaluation.metrics",
    "plots": "evaluation.plots",
    "prediction": "prediction",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY_NAMES:
        return getattr(import_module(f".{_LAZY_NAMES[name]}", __name__), name)
    if name in _LAZY_MODULES:
        return import_module(f".{_LAZY_MODULES[name]}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_LAZY_MODULES, *(name for name in globals() if name.startswith("__"))})


def _only_help() -> bool:
    """Return whether this process is the command `hf-bam` without a command to run: it prints a text and ends."""
    program, *arguments = sys.argv or [""]
    is_command = program == "-m" or PurePath(program).stem == "hf-bam"
    return is_command and arguments in ([], ["-h"], ["--help"], ["--version"])


if not _only_help():  # torch and transformers take seconds to import
    from .integrations.install import install

    install()
