"""Random predictions, and the same numbers in every type that the metrics accept."""

import numpy as np
import torch


def random_samples(count=7, inputs=60, classes=3, seed=0):
    """Return (S, B, C) probabilities and (B,) labels that contain every class."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(1, inputs, classes)) + 0.7 * rng.normal(size=(count, inputs, classes))
    samples = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    labels = np.where(
        rng.random(inputs) < 0.6, samples.mean(axis=0).argmax(axis=-1), rng.integers(classes, size=inputs)
    )
    labels[:classes] = np.arange(classes)
    return samples, labels


def in_every_type(array):
    """Return the array as nested lists, array, tensor, list of tensors and, if it is float, tensor with a gradient."""
    array = np.asarray(array)
    tensor = torch.tensor(array)
    return [array.tolist(), array, tensor, list(tensor), tensor.clone().requires_grad_(tensor.is_floating_point())]
