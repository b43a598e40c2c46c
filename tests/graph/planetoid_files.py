"""A small made graph in the published format of Planetoid."""

import pickle

import numpy as np
from scipy import sparse

CLASSES, TRAIN, VALIDATION, OTHER, TEST, WORDS = 3, 12, 500, 8, 40, 30


def write_graph(folder, dataset="pubmed", isolated=()):
    """Write the files `ind.DATASET.*`: words and neighbours of a node tell its class.

    Args:
        isolated: numbers of test nodes, from 0, that the files leave out, as those of Citeseer do.
    """
    random = np.random.default_rng(0)
    known = TRAIN + VALIDATION + OTHER
    nodes = known + TEST
    classes = np.arange(nodes) % CLASSES
    words = random.random((nodes, WORDS)) < np.where(np.arange(WORDS) % CLASSES == classes[:, None], 0.4, 0.1)
    words[0] = False  # a document without words
    one_hot = np.eye(CLASSES, dtype=np.int32)[classes]
    kept = [known + number for number in range(TEST) if number not in isolated]
    order = random.permutation(kept)
    graph = {node: [] for node in range(nodes) if node in kept or node < known}
    for node in graph:
        for other in random.choice(list(graph), 4):
            if classes[node] == classes[other]:
                graph[node].append(int(other))
                graph[int(other)].append(node)
    parts = {
        "x": sparse.csr_matrix(words[:TRAIN], dtype=np.float32),
        "allx": sparse.csr_matrix(words[:known], dtype=np.float32),
        "tx": sparse.csr_matrix(words[order], dtype=np.float32),
        "y": one_hot[:TRAIN],
        "ally": one_hot[:known],
        "ty": one_hot[order],
        "graph": graph,
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        (folder / f"ind.{dataset}.{name}").write_bytes(pickle.dumps(part, protocol=2))
    (folder / f"ind.{dataset}.test.index").write_text("".join(f"{node}\n" for node in order))
    return words, classes
