"""Actions that wait until a module of another library is imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class _Then(Loader):
    """Loader of another one, with an action after it."""

    def __init__(self, loader: Any, action: Callable[[], None]) -> None:
        self.loader, self.action = loader, action

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = self.loader  # for whoever asks the module for its source
        module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.action()


class _Waiting(MetaPathFinder):
    """Finder that adds the action to the loader of one module, once."""

    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self.name, self.action = name, action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Then(spec.loader, self.action)
        return spec


def when_imported(name: str, action: Callable[[], None]) -> None:
    """Run an action after a module is imported: now, if it is."""
    if name in sys.modules:
        action()
    elif not any(isinstance(finder, _Waiting) and finder.name == name for finder in sys.meta_path):
        sys.meta_path.insert(0, _Waiting(name, action))
