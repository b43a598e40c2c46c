"""Training on a whole graph with early stopping."""

from __future__ import annotations

import copy
import math
import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ...patching import is_patched, kl_loss
from .settings import LOWEST_LOSS, PUBLISHED_RULE, GraphJob


@dataclass
class EarlyStopping:
    """Early stopping of GAT's published code.

    An epoch whose validation accuracy or loss is as good as the best one so far starts the patience anew.
    """

    patience: int
    accuracy: float = 0.0
    loss: float = math.inf
    waited: int = 0

    def update(self, accuracy: float, loss: float) -> list[str]:
        """Take the result of an epoch, and return the rules by which its weights are kept."""
        as_good = accuracy >= self.accuracy, loss <= self.loss
        self.waited = 0 if any(as_good) else self.waited + 1
        self.accuracy, self.loss = max(accuracy, self.accuracy), min(loss, self.loss)
        return [rule for rule, kept in {PUBLISHED_RULE: all(as_good), LOWEST_LOSS: as_good[1]}.items() if kept]

    @property
    def is_over(self) -> bool:
        return self.waited >= self.patience


@dataclass
class Course:
    """Course of a run.

    Attributes:
        epochs: number of epochs.
        seconds: time of the processor.
        task_loss, kl_loss: means over the epochs of the task loss and of the weighted KL.
        best_epochs, weights: the epoch that each rule of selection keeps, and its weights.
    """

    epochs: int = 0
    seconds: float = 0.0
    task_loss: float = 0.0
    kl_loss: float = 0.0
    best_epochs: dict[str, int] = field(default_factory=dict)
    weights: dict[str, dict[str, Tensor]] = field(default_factory=dict, repr=False)


def train(model: nn.Module, graph: Any, job: GraphJob) -> Course:
    """Train a model in place.

    Args:
        graph: a [`CitationGraph`][hf_bam.tasks.planetoid.CitationGraph].
    """
    options: dict[str, Any] = {"lr": job.learning_rate, "weight_decay": job.weight_decay}
    optimizer = torch.optim.Adam(model.parameters(), **options)
    stopping, course, start = EarlyStopping(job.patience), Course(), time.process_time()
    bayesian, losses = is_patched(model), []
    while course.epochs < job.max_epochs and not stopping.is_over:
        model.train()
        optimizer.zero_grad()
        logits = model(graph.x, graph.edge_index)
        loss = cross_entropy(logits[graph.train], graph.labels[graph.train])
        kl = kl_loss(model) if bayesian else torch.zeros(())
        (loss + kl).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(torch.stack([loss.detach(), kl.detach()]))
        if not losses[-1].isfinite().all():
            raise FloatingPointError(
                f"The loss is not finite at epoch {course.epochs} (task {loss:g}, KL {kl:g}); lower kl_weight or the "
                "learning rate."
            )
        course.epochs += 1
        if rules := stopping.update(*validate(model, graph)):
            weights = copy.deepcopy(model.state_dict())
            course.best_epochs |= dict.fromkeys(rules, course.epochs)
            course.weights |= dict.fromkeys(rules, weights)
    course.task_loss, course.kl_loss = torch.stack(losses).mean(dim=0).tolist()
    course.seconds = time.process_time() - start
    return course


@torch.no_grad()
def validate(model: nn.Module, graph: Any) -> tuple[float, float]:
    """Return accuracy and loss on the validation nodes, with mean attention."""
    logits = model.eval()(graph.x, graph.edge_index)[graph.validation]
    labels = graph.labels[graph.validation]
    return (logits.argmax(dim=-1) == labels).float().mean().item(), cross_entropy(logits, labels).item()
