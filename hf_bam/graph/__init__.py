"""Stochastic attention over the edges of a graph: the mathematics of an edge, and its place in a graph layer.

May import `attention` and what is below it. torch_geometric is not imported: its layers are recognised by their
classes, and its softmax is that of the layer.
"""
