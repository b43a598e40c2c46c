"""Loss over several samples of a batch: for the training loop, for `Trainer` and for loops of your own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from ..families import AlignmentFamily, Family
from ..fields import check_fields, setting
from ..objective.samples import (
    IGNORED,
    Bernoulli,
    Categorical,
    Gaussian,
    Likelihood,
    consistency_loss,
    mean_loss,
    multi_sample_loss,
)
from ..patching.expansion import repeat
from ..patching.state import find_patches

Inputs = Mapping[str, Any]


@dataclass(frozen=True)
class SampledTerms:
    """Terms of the loss of a batch, without the KL of the attention.

    Attributes:
        task_loss: the multi-sample bound; with `num_train_samples=1` the loss of the model, a mean over the samples.
        consistency: the symmetric KL between the predictions of two samples, without its weight.
    """

    task_loss: Tensor
    consistency: Tensor


@dataclass
class SampleLoss:
    """Loss over several samples of a batch, which go through the model in one forward pass over an expanded batch.

    Attention noise and dropout of the samples are independent. The KL of the attention in the output, `kl_loss`, is a
    mean over the samples and is added once:

        output = model(**samples.expand(batch))
        terms = samples.terms(output, batch)
        loss = terms.task_loss + samples.consistency * terms.consistency + output.kl_loss

    Attributes:
        model: the model itself, without a wrapper such as DDP.
        shifted: whether labels are those of the next token; found by a comparison with the loss of the model.
    """

    model: nn.Module
    consistency: float = setting(0.0, least=0)
    """Weight of the symmetric KL between the predictions of two samples of the same batch."""
    num_train_samples: int = setting(1, least=1)
    """Samples per example, M, in the bound -log mean_m p(y | x, W_m)."""
    shifted: bool | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_fields(self)
        options = {"consistency": self.consistency > 0, "num_train_samples": self.num_train_samples > 1}
        chosen = " and ".join(f"{name}={getattr(self, name)}" for name, given in options.items() if given)
        families = [patch.config.family for patch in find_patches(self.model) if is_discrete(patch.config.settings)]
        if self.copies > 1 and families:
            raise ValueError(
                f"{chosen} and family={families[0]!r} cannot be combined: its predictions have no gradient in the "
                "alignment. Use family='gumbel' or 'dirichlet'."
            )
        if self.copies > 1 and not is_random(self.model):
            raise ValueError(
                f"{chosen} and dropout=0 cannot be combined in a {type(self.model).__name__} with plain attention: "
                "its samples are all equal. Patch the model, hf_bam.patch(model), or give it dropout."
            )

    @property
    def copies(self) -> int:
        """Number of samples of each example in a forward pass."""
        return max(self.num_train_samples, 2 if self.consistency else 1)

    def expand(self, inputs: Inputs) -> dict[str, Any]:
        """Return a batch with every example several times, (copies * B, ...), sample by sample."""
        copies = self.copies
        return {name: repeat(x, copies) if isinstance(x, Tensor) and x.dim() else x for name, x in inputs.items()}

    def terms(self, output: Any, inputs: Inputs) -> SampledTerms:
        """Return the terms of the loss from the output for an expanded batch, and the batch before it was expanded."""
        own_loss: Tensor = output.get("task_loss", output.get("loss"))
        if self.copies == 1:
            return SampledTerms(own_loss, torch.zeros_like(own_loss))
        likelihood = self.likelihood(output, inputs, own_loss)
        task_loss = multi_sample_loss(likelihood) if self.num_train_samples > 1 else own_loss
        return SampledTerms(
            task_loss, consistency_loss(likelihood) if self.consistency else torch.zeros_like(own_loss)
        )

    def likelihood(self, output: Any, inputs: Inputs, own_loss: Tensor) -> Likelihood:
        """Return the likelihood of the labels, whose mean loss is that of the model.

        Raises:
            ValueError: for a bound of several samples, if the model has another loss.
        """
        problem = getattr(getattr(self.model, "config", None), "problem_type", None)
        if self.shifted is not None:
            return read_likelihood(output, inputs, self.copies, problem, self.shifted)
        for shifted in (False, True):
            likelihood = read_likelihood(output, inputs, self.copies, problem, shifted)
            if torch.isclose(mean_loss(likelihood), own_loss.to(likelihood.predictions), rtol=1e-3, atol=1e-4):
                self.shifted = shifted
                return likelihood
        if self.num_train_samples > 1 and own_loss.isfinite():
            raise ValueError(
                f"num_train_samples={self.num_train_samples} is not possible: the loss of {type(self.model).__name__} "
                "is not the mean negative log-likelihood of its labels."
            )
        return read_likelihood(output, inputs, self.copies, problem)


def is_discrete(family: Family) -> bool:
    """Return whether a family trains the single positions of an alignment, by enumeration or by the score function."""
    return isinstance(family, AlignmentFamily) and family.has_alternatives


def is_random(model: nn.Module) -> bool:
    """Return whether two forward passes in training mode differ: by stochastic attention or by dropout."""
    from ..prediction.copies import dropouts  # with scikit-learn, which takes seconds to import

    return bool(find_patches(model)) or any(rate > 0 for _, _, rate in dropouts(model))


def read_likelihood(
    output: Any, inputs: Inputs, samples: int, problem_type: str | None = None, shifted: bool = False
) -> Likelihood:
    """Return the likelihood of the labels of a batch under the outputs of several samples.

    Args:
        output: with `logits`, or `start_logits` and `end_logits`, (samples * B, ...).
        inputs: with `labels`, or `start_positions` and `end_positions`, (B, ...).
        problem_type: of the config of a sequence classifier.
        shifted: whether labels are those of the next token.
    """

    def split(name: str) -> Tensor:
        tensor: Tensor = output[name]
        tensor = tensor.to(torch.promote_types(tensor.dtype, torch.float32))
        return tensor.reshape(samples, -1, *tensor.shape[1:])

    if "start_positions" in inputs and "start_logits" in output:
        return spans(split("start_logits"), split("end_logits"), inputs)
    if "labels" not in inputs or "logits" not in output:
        raise ValueError(
            f"The inputs {', '.join(inputs)} and the outputs {', '.join(output)} have no labels and logits, and the "
            "loss of several samples is computed from them."
        )
    logits, labels = split("logits"), inputs["labels"]
    if logits.dim() == 3 and problem_type == "regression":
        return Gaussian(logits, labels.reshape(logits.shape[1:]))
    if logits.dim() == 3 and problem_type == "multi_label_classification":
        return Bernoulli(logits, labels)
    if labels.is_floating_point() or labels.numel() != logits[0, ..., 0].numel():
        raise ValueError(
            f"labels of shape {tuple(labels.shape)} and {labels.dtype} are no classes for logits of shape "
            f"{tuple(logits.shape[1:])}, and the loss of several samples is computed from them."
        )
    labels = labels.reshape(logits.shape[1:-1])
    if shifted and labels.dim() > 1:
        labels = pad(labels, (0, 1), value=IGNORED)[..., 1:]
    return Categorical(logits, labels)


def spans(start: Tensor, end: Tensor, inputs: Inputs) -> Categorical:
    """Return the likelihood of answers: two items for each example, its first and its last token.

    Args:
        start, end: (M, B, L).
    """
    logits = torch.stack([start, end], dim=2)  # (M, B, 2, L)
    labels = torch.stack([inputs["start_positions"], inputs["end_positions"]], dim=-1).reshape(-1, 2)
    labels = labels.masked_fill(labels >= logits.shape[-1], IGNORED)  # an answer behind the end of a truncated text
    mask = inputs.get("attention_mask")
    return Categorical(logits, labels, None if mask is None else mask.bool()[:, None])
