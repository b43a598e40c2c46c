"""Loading the compiled kernel, and doing without."""

import logging
import os
import shutil
import sys

import pytest
import torch

from hf_bam.attention.backends import attend, native
from hf_bam.attention.mask import AttentionMask
from hf_bam.attention.noise import NoiseSeed
from hf_bam.families import Weibull

load = native.library.__wrapped__  # without the cache of this process
needs_kernel = pytest.mark.skipif(not native.available(), reason="the kernel was not built")


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """An empty folder in the place of the kernel's."""
    built = native.FOLDER
    monkeypatch.setattr(native, "FOLDER", tmp_path)
    return built


def output():
    x = torch.randn(1, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    return attend(
        x, x, x, posterior=Weibull(1.0), seed=NoiseSeed(0), scale=1.0, mask=AttentionMask((1, 2, 5, 5))
    ).output


@needs_kernel
@pytest.mark.parametrize("variant", native.variants())
def test_every_variant_that_the_cpu_runs_agrees(monkeypatch, variant):
    expected, loaded = output(), native.load(native.FOLDER / f"attention_{variant}.so")
    monkeypatch.setattr(native, "library", lambda: loaded)
    torch.testing.assert_close(output(), expected)


@needs_kernel
@pytest.mark.parametrize(("capability", "variant"), [("AVX512", "avx512"), ("AVX2", "avx2"), ("ZVECTOR", "portable")])
def test_the_cpu_chooses_the_variant(monkeypatch, capability, variant):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(native, "load", lambda path: path.name)
    assert load() == f"attention_{variant}.so"


@needs_kernel
@needs_kernel
@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
@pytest.mark.parametrize("size", [100, 4096, 9000])
def test_a_library_that_is_cut_off_is_not_loaded(size, tmp_path):
    """The dynamic loader would end the process."""
    path = tmp_path / "attention.so"
    path.write_bytes((native.FOLDER / "attention_portable.so").read_bytes()[:size])
    with pytest.raises(OSError, match=r"attention\.so is cut off"):
        native.load(path)


def test_a_damaged_library_is_passed_over(folder, tmp_path, caplog):
    *better, last = native.variants()
    for variant in better:
        (tmp_path / f"attention_{variant}.so").write_bytes(b"\x7fELF")
    shutil.copy(folder / f"attention_{last}.so", tmp_path)
    assert load() is not None
    assert not caplog.records


def test_without_a_kernel_torch_does_it_and_says_so(monkeypatch, folder, caplog):
    expected = output()
    assert load() is None
    assert "Install a C compiler" in caplog.text
    monkeypatch.setattr(native, "library", lambda: None)
    torch.testing.assert_close(output(), expected)


def test_switched_off_it_is_silent(monkeypatch, caplog):
    monkeypatch.setenv("HF_BAM_KERNEL", "0")
    with caplog.at_level(logging.DEBUG):
        assert load() is None
    assert not caplog.records


def test_running_without_it_is_an_error(monkeypatch):
    monkeypatch.setattr(native, "library", lambda: None)
    with pytest.raises(RuntimeError, match="install a C compiler"):
        native.run(native.Call())


@needs_kernel
def test_it_is_loaded_from_the_package():
    """Not from a place that others may write to, such as a cache."""
    assert native.FOLDER.parent == native.FOLDER.parents[3] / "hf_bam" / "attention" / "backends"
    assert os.path.samefile(native.library()._name, native.FOLDER / f"attention_{native.variants()[0]}.so")
