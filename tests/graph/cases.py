"""Small graphs and graph models."""

import torch
from torch import nn
from torch.nn.functional import dropout, elu
from torch_geometric.nn import GATConv, GATv2Conv

LAYERS = {"GATConv": GATConv, "GATv2Conv": GATv2Conv}
NODES, FEATURES, CLASSES, HEADS, CHANNELS = 12, 6, 3, 4, 5


class Net(nn.Module):
    """Two layers of graph attention, as in the paper."""

    def __init__(self, layer=GATConv, rate=0.0, **options):
        super().__init__()
        self.rate = rate
        self.conv1 = layer(FEATURES, CHANNELS, heads=HEADS, dropout=rate, **options)
        self.conv2 = layer(HEADS * CHANNELS, CLASSES, heads=1, concat=False, dropout=rate, **options)

    def forward(self, x, edge_index):
        x = dropout(x, self.rate, self.training)
        return self.conv2(dropout(elu(self.conv1(x, edge_index)), self.rate, self.training), edge_index)


def features(nodes=NODES, size=FEATURES, **options):
    return torch.randn(nodes, size, generator=torch.Generator().manual_seed(1), **options)


def labels():
    return torch.randint(CLASSES, (NODES,), generator=torch.Generator().manual_seed(2))


def complete_graph(nodes=NODES):
    """Return all pairs of nodes, self-loops included, (2, N * N)."""
    return torch.cartesian_prod(torch.arange(nodes), torch.arange(nodes)).T.contiguous()


def random_graph(sources=NODES, targets=NODES, edges=40):
    """Return distinct edges, in no order; the last node has none."""
    generator = torch.Generator().manual_seed(3)
    pairs = torch.cartesian_prod(torch.arange(sources - 1), torch.arange(targets - 1))
    return pairs[torch.randperm(len(pairs), generator=generator)[:edges]].T.contiguous()
