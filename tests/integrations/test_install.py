"""`install`: its documentation lists exactly the methods of other libraries that run code of hf_bam."""

import importlib
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import torch
import transformers
from peft import PeftModel
from torch.optim.optimizer import _global_optimizer_post_hooks
from transformers.pipelines import PIPELINE_REGISTRY

from hf_bam.integrations import install
from hf_bam.integrations.pipelines import TASKS

SEARCH = """
import functools, inspect, sys, types
from pathlib import Path
import hf_bam
import peft, transformers.trainer  # in this order: hf_bam waits for them

folder = str(Path(hf_bam.__file__).parent)

def is_ours(value):
    while isinstance(value, (classmethod, staticmethod, types.MethodType)):
        value = value.__func__
    while isinstance(value, functools.partial):
        value = value.func
    return isinstance(value, types.FunctionType) and value.__code__.co_filename.startswith(folder)

def search(name, members):
    for key, value in list(members.items()):
        if is_ours(value):
            print(f"{name}.{key}")
        if isinstance(value, dict) and any(map(is_ours, list(dict.values(value)))):
            print(f"{name}.{key}[]")
        if inspect.isclass(value) and value.__module__ == name:
            search(f"{name}.{value.__qualname__}", vars(value))

for name, module in list(sys.modules.items()):
    if module is not None and name.partition(".")[0] not in ("hf_bam", "__main__"):
        search(name, vars(module))
"""
"""Program that prints every name in a module, class or dictionary of another library that is a function of hf_bam."""
REGISTRIES = {
    "transformers.modeling_utils.AttentionInterface._global_mapping[]",
    "torch.optim.optimizer._global_optimizer_post_hooks[]",
}


def documented():
    """Return the names in the list of wrapped methods of the docstring."""
    text = install.install.__doc__.partition("Wrapped methods:")[2].partition("Registered:")[0]
    return re.findall(r"^ *- `([\w.]+)`:", text, flags=re.MULTILINE)


def defining_name(name):
    """Return a documented name with the module that defines the class or function."""
    owner_name, _, attribute = name.rpartition(".")
    module_name, _, class_name = owner_name.rpartition(".")
    owner = getattr(importlib.import_module(module_name), class_name)
    return f"{owner.__module__}.{owner.__qualname__}.{attribute}" if isinstance(owner, type) else name


def test_the_documented_methods_are_those_that_run_our_code():
    found = subprocess.check_output([sys.executable, "-c", SEARCH], text=True, cwd=Path(__file__).parents[2])
    names = {defining_name(name) for name in documented()}
    assert len(names) == len(documented()) == 13
    assert set(found.split()) == names | REGISTRIES


def test_the_documented_methods_are_the_table_and_the_backward_pass():
    table = {f"{path.partition('.')[0]}.{path.rpartition('.')[2]}.{name}" for path, name, _ in install.WRAPPERS}
    assert {*documented()} == {*table, "torch.autograd.backward"}


def test_the_registered_names():
    text = install.install.__doc__.partition("Registered:")[2]
    assert '`"bam"`' in text
    assert "bam" in transformers.AttentionInterface().valid_keys()
    assert "bam" in transformers.AttentionMaskInterface().valid_keys()
    assert '`"bam-..."`' in text
    assert {name for name in PIPELINE_REGISTRY.get_supported_tasks() if "bam" in name} == TASKS.keys()
    assert all(name.startswith("bam-") for name in TASKS)
    assert "register_optimizer_step_post_hook" in text


def test_installing_twice_changes_nothing():
    wrapped = (transformers.PreTrainedModel, PeftModel, transformers.Trainer)
    before = [dict(vars(cls)) for cls in wrapped], torch.autograd.backward, dict(_global_optimizer_post_hooks)
    install.install()
    after = [dict(vars(cls)) for cls in wrapped], torch.autograd.backward, dict(_global_optimizer_post_hooks)
    assert after == before


def test_wrapped_methods_keep_their_name_and_documentation():
    for path, name, _ in install.WRAPPERS:
        method = getattr(pydoc.locate(path), name)
        assert method.__name__ == name
        assert method.__wrapped__.__doc__ == method.__doc__
