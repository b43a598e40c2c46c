"""Steps without a leak: training and prediction keep no tensor of an earlier step.

`python -m tests.reliability.leaks --steps 2000` runs it for long; `test_leaks.py` for some steps.
"""

from __future__ import annotations

import argparse
import gc
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

import hf_bam

from ..models import bert, classification, gpt2, language_model, marian, recurrent, t5, translation

Way = Callable[[Any, dict[str, torch.Tensor]], None]
WARM_UP = 5
"""Steps after which a model holds all that it keeps: states of the optimizer, and the graph of the last forward."""


def own_loss(model: Any, batch: dict[str, torch.Tensor]) -> None:
    model(**batch).loss.backward()


def loss_of_logits(model: Any, batch: dict[str, torch.Tensor]) -> None:
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    labels = batch["labels"].clamp(min=0)
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = labels
    logits = model(**inputs).logits
    cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)).backward()


def loss_of_states(model: Any, batch: dict[str, torch.Tensor]) -> None:
    """A loss of a state in the middle of the model, on which the KL of later layers depends."""
    output = model(**batch, output_hidden_states=True)
    (output.get("encoder_hidden_states") or output.hidden_states)[1].square().mean().backward()


def unused_forward(model: Any, batch: dict[str, torch.Tensor]) -> None:
    """A forward whose outputs are dropped, before one that is trained."""
    model(**batch, output_hidden_states=True)
    own_loss(model, batch)


@dataclass(frozen=True)
class Case:
    """A model, its settings, its batch and the way to a loss."""

    build: Callable[..., Any]
    settings: dict[str, Any]
    batch: Callable[[], dict[str, torch.Tensor]]
    way: Way = own_loss


LATENT = {"family": "gaussian", "sentence_latent": 4, "attention": "cross"}
CASES = {
    "bert": Case(bert, {}, classification),
    "bert, loss of the logits": Case(bert, {}, classification, loss_of_logits),
    "bert, loss of the states": Case(bert, {}, classification, loss_of_states),
    "bert, unused forward": Case(bert, {}, classification, unused_forward),
    "bert, lognormal": Case(bert, {"family": "lognormal"}, classification),
    "bert, multinomial": Case(bert, {"family": "multinomial"}, classification),
    "gpt2": Case(gpt2, {}, language_model, unused_forward),
    "t5": Case(t5, {}, translation),
    "marian": Case(marian, {}, translation),
    "marian, loss of the logits": Case(marian, {}, translation, loss_of_logits),
    "marian, loss of the states": Case(marian, {}, translation, loss_of_states),
    "marian, unused forward": Case(marian, {}, translation, unused_forward),
    "marian, gaussian": Case(marian, LATENT, translation),
    "marian, quantized": Case(marian, {"family": "quantized", "num_codes": 4}, translation),
    "marian, variational": Case(marian, {"family": "categorical", "objective": "variational"}, translation),
    "marian, dirichlet": Case(marian, {"family": "dirichlet"}, translation),
    "recurrent": Case(recurrent, {}, translation),
    "recurrent, gaussian": Case(recurrent, LATENT, translation, loss_of_logits),
}
"""Cases by name."""


def tensors() -> int:
    """Return the number of tensors that are alive."""
    gc.collect()
    return sum(issubclass(type(value), torch.Tensor) for value in gc.get_objects())


def memory() -> float:
    """Return the memory of this process, in MB."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def grown(case: Case, steps: int) -> tuple[int, float]:
    """Return by how many tensors and by how many MB the process has grown after a number of steps.

    Tensors of before, which something else may still release, are not counted.
    """
    gc.collect()
    gc.freeze()
    torch.manual_seed(0)
    model, batch = hf_bam.patch(case.build(), **case.settings).train(), case.batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step() -> None:
        case.way(model, batch)
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(max(WARM_UP, steps // 10)):
        step()
    before = tensors(), memory()
    for _ in range(steps):
        step()
    return tensors() - before[0], memory() - before[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000, help="Steps of each case.")
    steps = parser.parse_args().steps
    for name, case in CASES.items():
        number, size = grown(case, steps)
        print(f"{name}: {steps} steps, {number:+d} tensors, {size:+.1f} MB", flush=True)


if __name__ == "__main__":
    main()
