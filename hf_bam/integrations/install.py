"""Changes that hf_bam makes to other libraries, so that code written for plain models works with patched ones."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from .. import models
from ..attention import interface
from ..patching import backward, steps
from . import pretrained, trainer
from .imports import when_imported

_MARK = "_hf_bam"

_MODELS, _ADAPTERS = "transformers.modeling_utils.PreTrainedModel", "peft.peft_model.PeftModel"
_TRAINER = "transformers.trainer.Trainer"

WRAPPERS: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    (_MODELS, "save_pretrained", pretrained.save_pretrained),
    (_MODELS, "from_pretrained", pretrained.from_pretrained),
    (_MODELS, "_from_config", pretrained.from_config),
    (_MODELS, "push_to_hub", pretrained.push_to_hub),
    (_ADAPTERS, "save_pretrained", pretrained.save_pretrained),
    (_ADAPTERS, "from_pretrained", pretrained.adapter_from_pretrained),
    (_ADAPTERS, "push_to_hub", pretrained.push_to_hub),
    (_TRAINER, "_load_from_checkpoint", trainer.load_from_checkpoint),
    (_TRAINER, "_load_best_model", trainer.load_best_model),
    (_TRAINER, "log", trainer.log),
    (_TRAINER, "training_step", trainer.training_step),
    (_TRAINER, "create_model_card", trainer.create_model_card),
)
"""Class, method and the function `wrapper(method, self, ...)` around it."""


def install() -> None:
    """Wrap methods of other libraries and register with them, once; `import hf_bam` calls this.

    For models that are not patched, every wrapped method does what it did before. Methods of `Trainer` and of PEFT are
    wrapped, and pipelines are registered, when their modules are imported, which hf_bam does not do.

    Wrapped methods:

    - `torch.autograd.backward`: adds the KL of a forward pass to a backward pass whose loss was computed from the
      outputs without it.
    - `transformers.PreTrainedModel.save_pretrained`: writes `bam.safetensors` beside the plain weights, and the
      settings to `config.json`.
    - `transformers.PreTrainedModel.from_pretrained`: patches the model if `attn_implementation="bam"`; otherwise it
      logs a warning when a Bayesian model is loaded as a plain one.
    - `transformers.PreTrainedModel._from_config`: patches the model if `attn_implementation="bam"`.
    - `transformers.PreTrainedModel.push_to_hub`: uploads with the model card of hf_bam.
    - `peft.PeftModel.save_pretrained`: as for models.
    - `peft.PeftModel.from_pretrained`: logs a warning when the adapter of a Bayesian model is loaded on a plain one.
    - `peft.PeftModel.push_to_hub`: as for models.
    - `transformers.Trainer._load_from_checkpoint`: loads the prior and the annealing step when training resumes.
    - `transformers.Trainer._load_best_model`: loads the prior and the annealing step of the best checkpoint.
    - `transformers.Trainer.log`: logs the terms of the loss beside the loss.
    - `transformers.Trainer.training_step`: passes the scale of the loss to `torch.autograd.backward`.
    - `transformers.Trainer.create_model_card`: adds the tags of the patched model to those of the card.

    Registered:

    - attention `"bam"` with `transformers.AttentionInterface` and `transformers.AttentionMaskInterface`;
    - the models of `hf_bam.models` with `transformers.AutoConfig`, `AutoModel` and `AutoModelForSeq2SeqLM`;
    - pipelines `"bam-..."` with `transformers.pipelines.PIPELINE_REGISTRY`;
    - a hook after every optimizer step with `torch.optim.optimizer.register_optimizer_step_post_hook`, which counts
      the steps for the annealing of the KL weight.
    """
    interface.register()
    models.register()
    backward.install()
    steps.install()
    when_imported("transformers.pipelines", _register_pipelines)
    for path in {path for path, _, _ in WRAPPERS}:
        when_imported(path.rpartition(".")[0], functools.partial(_wrap_all, path))


def _register_pipelines() -> None:
    from . import pipelines

    pipelines.register()


def _wrap_all(path: str) -> None:
    """Wrap the methods of a class whose module is imported."""
    module, _, name = path.rpartition(".")
    cls = getattr(sys.modules[module], name)
    for wrapped, method, wrapper in WRAPPERS:
        if wrapped == path:
            _wrap(cls, method, wrapper)


def _wrap(cls: type, name: str, wrapper: Callable[..., Any]) -> None:
    """Replace a method by `wrapper(method, self, ...)`, once."""
    descriptor = next(vars(base)[name] for base in cls.__mro__ if name in vars(base))
    is_class_method = isinstance(descriptor, classmethod)
    method: Callable[..., Any] = descriptor.__func__ if is_class_method else descriptor
    if hasattr(method, _MARK):
        return

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        return wrapper(method, self, *args, **kwargs)

    setattr(wrapped, _MARK, True)
    setattr(cls, name, classmethod(wrapped) if is_class_method else wrapped)
