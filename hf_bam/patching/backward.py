"""KL in every backward pass, also from a loss that a trainer or a loop computes from the outputs of the model.

A patched model adds the KL to the loss that it returns. Trainers, wrappers and loops that compute a loss of their own
do not use that loss. So the outputs of a forward record its KL in the metadata of their autograd nodes, and
`torch.autograd.backward`, which `Tensor.backward` calls, searches for such records between the loss and the outputs. A
KL that is nowhere in the loss becomes a further root of the same backward pass.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from ..attention.runtime import Meter

OUTPUT, KL = "hf_bam_output", "hf_bam_kl"
"""Keys of a node's metadata: the KL terms of forwards whose output it made, and the forward whose KL it computes."""
THROUGH = frozenset({"ToCopyBackward0", "CloneBackward0", "AliasBackward0", "ViewBackward0", "SqueezeBackward0"})
"""Nodes that pass a loss on as it is."""
SIDE_BY_SIDE = frozenset({"_DDPSinkBackward"})
"""Nodes that pass several tensors on, each for itself: DDP puts all outputs of a model through one."""
SUMS = frozenset({"SumBackward0", "SumBackward1"})
SUM_REDUCTION = 2
MOST_NODES = 100_000

Edge = tuple[Any, int]

_live: weakref.WeakSet[Forward] = weakref.WeakSet()
_scale: ContextVar[float | None] = ContextVar("hf_bam_loss_scale", default=None)


@dataclass(eq=False)
class Forward:
    """Forward pass in training mode. It has no reference to its graph, whose nodes refer to it.

    Attributes:
        terms: values for the logs, once it was trained.
        meter: the logs.
        tally: number of such forwards of the model since its last optimizer step, and of those that were trained.
        trained: whether a backward pass had its KL.
        term: its KL, while a backward pass may still need it.
    """

    terms: dict[str, Tensor]
    meter: Meter
    tally: Tally
    trained: bool = False
    term: weakref.ref[Term] | None = None

    def take(self, own_loss: bool) -> None:
        """Count its KL as trained, and its task loss if the model's own loss was differentiated."""
        if self.trained:
            return
        self.trained = True
        self.forget()
        self.tally.trained += 1
        self.meter.add(**{name: term for name, term in self.terms.items() if own_loss or name != "task_loss"})

    def forget(self) -> None:
        """Release its KL.

        An output that the KL depends on, as the states of an encoder, records a term that refers back to the graph of
        this output. Nothing else would ever free such a circle.
        """
        term = None if self.term is None else self.term()
        if term is not None:
            term.kl_loss, term.before = None, ()


@dataclass(eq=False)
class Term:
    """Weighted KL of a forward, None once it is released, and those of forwards whose outputs went into it."""

    forward: Forward
    kl_loss: Tensor | None
    before: tuple[Term, ...] = ()


@dataclass
class Tally:
    """Forwards in training mode since the last optimizer step."""

    forwards: int = 0
    trained: int = 0


def forget(tally: Tally) -> None:
    """Release the KL of all forwards of a model: its weights have changed, so no backward pass is possible."""
    for forward in list(_live):
        if forward.tally is tally:
            forward.forget()


def record(forward: Forward, kl: Tensor, kl_loss: Tensor, loss: Tensor | None, inputs: Any, output: Any) -> None:
    """Record the KL for backward passes from any output; `kl`, `kl_loss` and `loss` include it already."""
    forward.tally.forwards += 1
    before = _search(_edges(inputs), 64)[0] if _live else []
    term = Term(forward, kl_loss, tuple(other for other in before if other.kl_loss is not None))
    forward.term = weakref.ref(term)
    for node, _ in _edges([kl, kl_loss, loss]):
        node.metadata[KL] = forward
    for node, _ in _edges(output):
        if KL not in node.metadata:
            node.metadata.setdefault(OUTPUT, []).append(term)
    _live.add(forward)


def _edges(values: Any) -> list[Edge]:
    """Return the nodes that made the tensors in a structure, with the number of their output."""
    if isinstance(values, Tensor):
        return [] if values.grad_fn is None else [(values.grad_fn, values.output_nr)]
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, (tuple, list)):
        return []
    return [edge for value in values for edge in _edges(value)]


def _search(roots: Iterable[Edge], most: int) -> tuple[list[Term], set[Forward]]:
    """Return the KL terms of forwards whose outputs lie below these nodes, and the forwards whose KL does.

    Below an output lies the model itself, which is not searched.
    """
    found: dict[Term, None] = {}
    with_kl: set[Forward] = set()
    searched: set[Edge] = set()
    waiting = list(roots)
    while waiting and len(searched) < most:
        edge = node, number = waiting.pop()
        if node is None or edge in searched:
            continue
        searched.add(edge)
        terms, forward = node.metadata.get(OUTPUT, ()), node.metadata.get(KL)
        if forward is not None:
            with_kl.add(forward)
        for term in terms:
            found.update(dict.fromkeys((term, *term.before)))
        if forward is None and not terms:
            following = node.next_functions
            waiting += following[number : number + 1] if node.name() in SIDE_BY_SIDE else following
    return list(found), with_kl


def loss_scale(loss: Tensor) -> float:
    """Return the factor by which a loss was scaled at its end: for gradient accumulation, or for half precision.

    A division by the number of terms of a sum makes a mean of it and is no such factor.
    """
    node: Any = loss.grad_fn
    factors: list[float] = []
    while node is not None:
        kind = node.name()
        following = [child for child, _ in node.next_functions if child is not None]
        if len(following) != 1:
            break
        if kind in ("MulBackward0", "DivBackward0"):
            constant = node._saved_other if node._saved_other is not None else node._saved_self
            if constant is None or constant.numel() != 1:
                break
            factors.append(abs(float(constant)) ** (1 if kind == "MulBackward0" else -1))
        elif kind not in THROUGH:
            break
        node = following[0]
    is_sum = node is not None and (node.name() in SUMS or getattr(node, "_saved_reduction", None) == SUM_REDUCTION)
    scale = 1.0
    for factor in factors[:-1] if is_sum else factors:
        scale *= factor
    return scale


@contextmanager
def scaled(scale: float) -> Iterator[None]:
    """Set the factor by which losses are scaled within this context."""
    token = _scale.set(scale)
    try:
        yield
    finally:
        _scale.reset(token)


def install() -> None:
    """Wrap `torch.autograd.backward` with the search for KL terms, once."""
    original = torch.autograd.backward
    if hasattr(original, "_hf_bam"):
        return

    @functools.wraps(original)
    def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> None:
        if not _live or not isinstance(tensors, (Tensor, list, tuple)) or isinstance(tensors, GradientEdge):
            return original(tensors, grad_tensors, *args, **kwargs)
        roots = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
        gradients = grad_tensors if isinstance(grad_tensors, Sequence) else (grad_tensors,) * len(roots)
        more, values = _missing(roots)
        return original((*roots, *more), (*gradients, *values), *args, **kwargs)

    backward._hf_bam = True  # type: ignore[attr-defined]
    torch.autograd.backward = backward


def _missing(roots: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Return the KL terms that a backward pass from these roots would leave out, and their gradients."""
    found, with_kl = _search(_edges(roots), MOST_NODES)
    for forward in with_kl:
        forward.take(own_loss=True)
    missing = [(term.forward, term.kl_loss) for term in found if term.kl_loss is not None]
    known = _scale.get()
    is_loss = len(roots) == 1 and isinstance(roots[0], Tensor) and roots[0].dim() == 0
    scale = known if known is not None else loss_scale(roots[0]) if missing and is_loss else 1.0
    for forward, _ in missing:
        forward.take(own_loss=False)
    return [kl_loss for _, kl_loss in missing], [torch.full_like(kl_loss, scale) for _, kl_loss in missing]
