"""Adapters: attention modules that do not use transformers' attention interface call the attention function here.

An adapter is a method of the module's class that a patched module has as an attribute of its own. Where nothing is
sampled it calls the method of the class.
"""

from __future__ import annotations

from torch import nn

from .alibi import Bloom, Falcon
from .base import Adapter
from .deberta import Deberta, DebertaV2
from .gpt import GPTJ, GPTNeo
from .mpnet import MPNet

__all__ = ["ADAPTERS", "Adapter", "adapter_for", "install"]

ADAPTERS: dict[str, type[Adapter]] = {
    "bloom.BloomAttention": Bloom,
    "deberta.DisentangledSelfAttention": Deberta,
    "deberta_v2.DisentangledSelfAttention": DebertaV2,
    "falcon.FalconAttention": Falcon,
    "gpt_neo.GPTNeoSelfAttention": GPTNeo,
    "gptj.GPTJAttention": GPTJ,
    "mpnet.MPNetSelfAttention": MPNet,
}
"""Adapters by the folder in `transformers.models` and the class of the attention module."""


def adapter_for(cls: type[nn.Module]) -> type[Adapter] | None:
    """Return the adapter of an attention class, also of one derived from it that has the same code."""
    own = next(base for base in cls.__mro__ if "forward" in vars(base))
    package, _, folder = own.__module__.rpartition(".")[0].rpartition(".")
    found = ADAPTERS.get(f"{folder}.{own.__name__}") if package == "transformers.models" else None
    return found if found is not None and getattr(cls, found.name) is vars(own).get(found.name) else None


def install(module: nn.Module) -> None:
    """Give an attention module, which has its Bayesian layer under `bam`, its adapter if it needs one."""
    adapter = adapter_for(type(module))
    if adapter is not None:
        adapter(module).install()
