"""Building the compiled kernel, and doing without."""

import shutil

import pytest
import torch

from hf_bam.attention.backends import attend, native
from hf_bam.attention.mask import AttentionMask
from hf_bam.attention.noise import NoiseSeed
from hf_bam.families import Weibull

build = native.library.__wrapped__  # without the cache of this process
needs_compiler = pytest.mark.skipif(not native.available(), reason="no C compiler")


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def output():
    x = torch.randn(1, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    return attend(
        x, x, x, posterior=Weibull(1.0), seed=NoiseSeed(0), scale=1.0, mask=AttentionMask((1, 2, 5, 5))
    ).output


@needs_compiler
def test_it_is_built_once(folder):
    assert build() is not None
    (built,) = (folder / "hf_bam").iterdir()
    stamp = built.stat().st_mtime_ns
    assert build() is not None
    assert built.stat().st_mtime_ns == stamp


@needs_compiler
def test_without_openmp_it_runs_in_one_thread(monkeypatch, folder):
    compiler = folder / "cc-without-openmp"
    real = shutil.which("cc")
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *-fopenmp\\ *) exit 1;; esac\nexec {real} "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    expected, loaded = output(), build()
    assert loaded is not None
    monkeypatch.setattr(native, "library", lambda: loaded)
    torch.testing.assert_close(output(), expected)


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_without_a_working_compiler_torch_does_it(monkeypatch, compiler):
    expected = output()
    monkeypatch.setenv("CC", compiler)
    assert build() is None
    monkeypatch.setattr(native, "library", build)
    torch.testing.assert_close(output(), expected)


def test_it_can_be_switched_off(monkeypatch):
    monkeypatch.setenv("HF_BAM_KERNEL", "0")
    assert build() is None


def test_without_a_place_to_write_to_torch_does_it(monkeypatch, folder):
    (folder / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "file"))
    assert build() is None


def test_running_without_it_is_an_error(monkeypatch):
    monkeypatch.setattr(native, "library", lambda: None)
    with pytest.raises(RuntimeError, match="install a C compiler"):
        native.run(native.Call())
