"""ALBERT runs one attention module in many layers."""

from __future__ import annotations

import re
from typing import Any


def layers_of(config: Any, path: str) -> tuple[int, ...]:
    """The layers in which the module at `path` runs, in the order in which they run."""
    found = re.search(r"albert_layer_groups\.(\d+)\.", path)
    if found is None:
        raise ValueError(f"{path!r} is not a module of an ALBERT layer group.")
    layers_per_group = config.num_hidden_layers / config.num_hidden_groups
    return tuple(i for i in range(config.num_hidden_layers) if int(i / layers_per_group) == int(found[1]))
