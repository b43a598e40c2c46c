"""Last-layer Laplace approximation of a classifier, by laplace-torch: a rival of the study of uncertainty."""

import copy
from importlib.util import find_spec

import torch
from torch.utils.data import DataLoader, TensorDataset

from hf_bam.prediction.features import NAME, linear_layers

PACKAGE = "laplace"


def is_available():
    return find_spec(PACKAGE) is not None


def laplace_samples(model, features, labels, others, number, seed):
    """Return samples of the probabilities of several sets by name, (S, B, C) each.

    The prior precision maximises the marginal likelihood.

    Args:
        features: features of the training set, as a predictor returns them.
        labels: (B,) indices of its classes.
        others: features of the sets by name.
    """
    from laplace import Laplace

    layer = copy.deepcopy(list(linear_layers(model, model.config.num_labels))[-1]).float()
    rows = TensorDataset(torch.from_numpy(features[NAME]).float(), torch.as_tensor(labels))
    posterior = Laplace(layer, "classification", subset_of_weights="all", hessian_structure="kron")
    torch.manual_seed(seed)
    with torch.autocast("cpu", enabled=False):
        posterior.fit(DataLoader(rows, batch_size=256))
        posterior.optimize_prior_precision(method="marglik")

        def samples(x):
            # Of the weights: the layer is linear, so this is the linearised model, without its large Jacobian.
            return posterior.predictive_samples(torch.from_numpy(x).float(), pred_type="nn", n_samples=number)

        return {name: samples(own[NAME]).double().numpy() for name, own in others.items()}
