"""Methods of attention modules that a patched module has as attributes of its own."""

from __future__ import annotations

from types import FunctionType, MethodType

from torch import nn

from .layer import BamLayer

WRAPPED = "_old_forward"
"""Name under which a module has its `forward` while a hook of Accelerate is around it."""


class Method:
    """Method of a module, which has it as an attribute: copies and pickles of the module have their own.

    Attributes:
        name: name of the method.
        module: the module, which has its Bayesian layer under `bam` while it is patched.
    """

    name: str

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    @property
    def layer(self) -> BamLayer | None:
        """Bayesian layer of the module; None: unpatched, and a caller has kept this method."""
        return getattr(self.module, "bam", None)

    def plain(self) -> FunctionType:
        """Return the method of the class."""
        function: FunctionType = getattr(type(self.module), self.name)
        return function

    def install(self) -> None:
        """Put the method into its module, inside of a hook of Accelerate."""
        hooked = self.name == "forward" and WRAPPED in vars(self.module)
        setattr(self.module, WRAPPED if hooked else self.name, self)


def remove_methods(module: nn.Module) -> None:
    """Undo `Method.install` for all methods of a module."""
    for name, method in [*vars(module).items()]:
        if isinstance(method, Method) and name == WRAPPED:
            setattr(module, name, MethodType(method.plain(), module))
        elif isinstance(method, Method):
            delattr(module, name)
