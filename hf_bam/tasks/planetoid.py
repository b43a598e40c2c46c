"""Planetoid citation graphs (Cora, Citeseer, Pubmed): files as they are published, and the GAT of their benchmark.

Nodes are documents with bags of words, edges are citations, and the class of a node is to be predicted. The split is
the public one: 20 nodes of each class for training, 500 for validation, 1,000 for testing (Yang et al. 2016).
"""

from __future__ import annotations

from ..extras import check_extra

check_extra("graph", "hf_bam.tasks.planetoid")

import pickle
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, elu
from torch_geometric.datasets import Planetoid
from torch_geometric.io import read_planetoid_data
from torch_geometric.nn import GATConv, GATv2Conv

from .base import DataError

NAMES = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
"""Names of the graphs in PyTorch Geometric."""
PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
"""Endings of the published files, `ind.cora.x` for instance. All but the last are pickles."""
LAYERS = {"GATConv": GATConv, "GATv2Conv": GATv2Conv}


@dataclass(frozen=True)
class CitationGraph:
    """Graph whose nodes are classified.

    Attributes:
        x: (N, F) word counts of each node, which add up to 1; sparse.
        edge_index: (2, E) citations, in both directions.
        labels: (N,) classes.
        train, validation, test: (N,) booleans, the nodes of each set.
    """

    x: Tensor
    edge_index: Tensor
    labels: Tensor
    train: Tensor
    validation: Tensor
    test: Tensor

    @property
    def num_classes(self) -> int:
        return int(self.labels.max()) + 1


def load(dataset: str, data_dir: Path, download: bool = False) -> CitationGraph:
    """Return a graph from the published files.

    The files are pickles, which can run code when they are read: take them from a source that you trust.

    Args:
        dataset: "cora", "citeseer" or "pubmed".
        data_dir: folder with the files `ind.DATASET.*`, or a root of PyG's `Planetoid`, which has them in a folder.
        download: let PyG download files that are missing to `data_dir`.
    """
    folder = next((place for place in _folders(dataset, data_dir) if not _missing(dataset, place)), None)
    if folder is None and download:
        Planetoid(str(data_dir), NAMES[dataset])
        folder = _folders(dataset, data_dir)[1]
    if folder is None:
        raise DataError(
            f"{data_dir} has no {', '.join(_missing(dataset, data_dir))}: the files of {dataset} as they are "
            "published. --download lets PyTorch Geometric download them."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # pickles name modules of an old scipy
            data = read_planetoid_data(str(folder), dataset)
    except (pickle.UnpicklingError, EOFError, AttributeError, IndexError, RuntimeError, TypeError) as error:
        raise DataError(f"{folder}: the files of {dataset} cannot be read, they are damaged: {error!r}") from error
    total = data.x.sum(dim=1, keepdim=True)
    x = data.x / torch.where(total == 0, 1, total)
    return CitationGraph(_sparse(x), data.edge_index, data.y, data.train_mask, data.val_mask, data.test_mask)


def _folders(dataset: str, data_dir: Path) -> tuple[Path, Path]:
    return data_dir, data_dir / NAMES[dataset] / "raw"


def _missing(dataset: str, folder: Path) -> list[str]:
    names = (f"ind.{dataset}.{part}" for part in PARTS)
    return [name for name in names if not (folder / name).is_file()]


def _sparse(x: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse")  # torch calls this layout new, and asks whether to check it
        return x.to_sparse_csr()


class Gat(nn.Module):
    """Graph attention network of two layers (Velickovic et al. 2018), for features that are sparse.

    Dropout is applied to the inputs of both layers and to their attention weights.

    Args:
        layer: class of the layers, `GATConv` or `GATv2Conv`.
        heads: heads of the first layer, which are concatenated; `output_heads` those of the second, averaged.
        channels: size of a head of the first layer.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        *,
        layer: str = "GATConv",
        channels: int = 8,
        heads: int = 8,
        output_heads: int = 1,
        rate: float = 0.6,
    ) -> None:
        super().__init__()
        kind: Any = LAYERS[layer]
        self.rate = rate
        self.conv1 = kind(num_features, channels, heads=heads, dropout=rate)
        self.conv2 = kind(channels * heads, num_classes, heads=output_heads, concat=False, dropout=rate)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits, (N, C)."""
        hidden = elu(self.conv1(sparse_dropout(x, self.rate, self.training), edge_index))
        logits: Tensor = self.conv2(dropout(hidden, self.rate, self.training), edge_index)
        return logits


def sparse_dropout(x: Tensor, rate: float, training: bool) -> Tensor:
    """Return dropout of a sparse matrix: of its entries, because zeros stay zeros."""
    if not training or rate == 0:
        return x
    values = dropout(x.values(), rate)
    return torch.sparse_csr_tensor(x.crow_indices(), x.col_indices(), values, x.shape, check_invariants=False)
