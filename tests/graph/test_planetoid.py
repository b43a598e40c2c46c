"""Citation graphs in the published format, and the model of their benchmark."""

from pathlib import Path

import pytest
import torch
from torch.nn.functional import dropout
from torch_geometric.datasets import Planetoid

from hf_bam.tasks.base import DataError
from hf_bam.tasks.planetoid import NAMES, Gat, load, sparse_dropout

from .planetoid_files import CLASSES, TEST, TRAIN, VALIDATION, WORDS, write_graph

PUBLISHED = Path(__file__).parents[3] / "shared" / "data" / "planetoid"
"""The published files, which are not part of the project."""


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "planetoid"


def test_the_parts_of_a_graph(folder):
    words, classes = write_graph(folder)
    graph = load("pubmed", folder)
    assert graph.x.shape == (len(classes), WORDS)
    assert graph.labels.tolist() == classes.tolist()
    assert graph.num_classes == CLASSES
    counts = torch.tensor(words).float()
    torch.testing.assert_close(graph.x.to_dense(), counts / counts.sum(1, keepdim=True).clamp(min=1))
    assert [own.sum() for own in (graph.train, graph.validation, graph.test)] == [TRAIN, VALIDATION, TEST]
    assert not (graph.train & graph.validation | graph.validation & graph.test).any()
    assert graph.test[-TEST:].all()
    source, target = graph.edge_index
    assert (graph.labels[source] == graph.labels[target]).all()
    assert {*zip(source.tolist(), target.tolist(), strict=True)} == {
        *zip(target.tolist(), source.tolist(), strict=True)
    }


def test_test_nodes_that_the_files_leave_out(folder):
    write_graph(folder, "citeseer", isolated=(3, 7))
    graph = load("citeseer", folder)
    alone = torch.tensor([len(graph.labels) - TEST + number for number in (3, 7)])
    assert not graph.test[alone].any()
    assert graph.x.to_dense()[alone].sum() == 0
    assert not torch.isin(graph.edge_index, alone).any()


def test_the_folder_of_pyg(folder):
    write_graph(folder / NAMES["cora"] / "raw", "cora")
    graph = load("cora", folder)
    theirs = Planetoid(str(folder), "Cora")[0]
    assert torch.equal(graph.labels, theirs.y)
    assert torch.equal(graph.edge_index, theirs.edge_index)


def test_missing_and_damaged_files(folder):
    with pytest.raises(DataError, match=r"has no ind.cora.x, .*ind.cora.test.index: the files of cora"):
        load("cora", folder)
    write_graph(folder, "cora")
    (folder / "ind.cora.ty").unlink()
    with pytest.raises(DataError, match=r"planetoid has no ind.cora.ty: the files"):
        load("cora", folder)
    (folder / "ind.cora.ty").write_bytes(b"\x80\x02]q")
    with pytest.raises(DataError, match="the files of cora cannot be read, they are damaged"):
        load("cora", folder)


def test_download(folder, monkeypatch):
    asked = []

    def download(root, name):
        asked.append(name)
        write_graph(Path(root) / name / "raw", name.lower())

    monkeypatch.setattr("hf_bam.tasks.planetoid.Planetoid", download)
    assert load("citeseer", folder, download=True).num_classes == CLASSES
    assert load("citeseer", folder, download=True).num_classes == CLASSES
    assert asked == ["CiteSeer"]


@pytest.mark.parametrize("layer", ["GATConv", "GATv2Conv"])
def test_the_model_is_the_same_for_dense_features(folder, layer):
    write_graph(folder)
    graph = load("pubmed", folder)
    model = Gat(WORDS, CLASSES, layer=layer, output_heads=2).eval()
    logits = model(graph.x, graph.edge_index)
    assert logits.shape == (len(graph.labels), CLASSES)
    torch.testing.assert_close(logits, model(graph.x.to_dense(), graph.edge_index))
    logits.sum().backward()
    assert model.conv1.lin_l.weight.grad is not None if layer == "GATv2Conv" else model.conv1.lin.weight.grad.any()


def test_dropout_of_sparse_features(folder):
    write_graph(folder)
    x = load("pubmed", folder).x
    assert sparse_dropout(x, 0.5, training=False) is x
    torch.manual_seed(0)
    ours = sparse_dropout(x, 0.25, training=True)
    torch.manual_seed(0)
    values = dropout(x.values(), 0.25)
    assert torch.equal(ours.values(), values)
    kept = ours.to_dense() != 0
    torch.testing.assert_close(ours.to_dense()[kept], x.to_dense()[kept] / 0.75)
    assert 0.65 < kept.sum() / (x.to_dense() != 0).sum() < 0.85


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published graphs are not part of the project")
@pytest.mark.parametrize(
    ("name", "sizes"), [("cora", (2708, 1433, 10556, 7)), ("citeseer", (3327, 3703, 9104, 6))], ids=str
)
def test_published_graphs(name, sizes):
    graph = load(name, PUBLISHED)
    assert (*graph.x.shape, graph.edge_index.shape[1], graph.num_classes) == sizes
    assert [own.sum() for own in (graph.train, graph.validation, graph.test)] == [20 * sizes[3], 500, 1000]
