"""Objectives over several samples of one batch: the multi-sample bound, and consistency of the predictions.

A likelihood has the predictions of M samples, (M, B, ...), for the labels of a batch, (B, ...). An item has one label:
it is an example, or one of its tokens.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

IGNORED = -100
"""Label of an item that has none, such as padding."""


@dataclass(frozen=True, eq=False)
class Likelihood(ABC):
    """Distribution of labels under the predictions of M samples.

    The mean of its negative logarithm over the items is, up to a constant, the usual loss of such labels.

    Attributes:
        predictions: (M, B, ...).
        labels: (B, ...).
    """

    predictions: Tensor
    labels: Tensor

    @property
    def labelled(self) -> Tensor:
        """Items that have a label, (B, ...)."""
        return torch.ones_like(self.labels, dtype=torch.bool)

    @abstractmethod
    def log_prob(self) -> Tensor:
        """Return the log probability of every label, (M, B, ...)."""

    @abstractmethod
    def symmetric_kl(self) -> Tensor:
        """Return ``(KL(p || q) + KL(q || p)) / 2`` of every item, a mean over all pairs of samples, (B, ...)."""


@dataclass(frozen=True, eq=False)
class Categorical(Likelihood):
    """One of C classes for each item: logits (M, B, ..., C), labels (B, ...); its loss is the cross-entropy.

    Attributes:
        mask: broadcastable to (B, ..., C), classes that the symmetric KL compares; None: all.
    """

    mask: Tensor | None = None

    @property
    def labelled(self) -> Tensor:
        return self.labels != IGNORED

    def log_prob(self) -> Tensor:
        chosen = self.labels.clamp(min=0).expand(self.predictions.shape[:-1]).unsqueeze(-1)
        return self.predictions.log_softmax(dim=-1).gather(-1, chosen).squeeze(-1)

    def symmetric_kl(self) -> Tensor:
        logits = self.predictions
        log_p = (logits if self.mask is None else logits.masked_fill(~self.mask, -torch.inf)).log_softmax(dim=-1)
        p = log_p.exp()
        return covariance(p, log_p.masked_fill(log_p.isinf(), 0.0)).sum(dim=-1)


@dataclass(frozen=True, eq=False)
class Bernoulli(Likelihood):
    """Yes or no for each item: logits (M, B, L), labels (B, L); its loss is the binary cross-entropy."""

    def log_prob(self) -> Tensor:
        labels = self.labels.to(self.predictions).expand_as(self.predictions)
        return -binary_cross_entropy_with_logits(self.predictions, labels, reduction="none")

    def symmetric_kl(self) -> Tensor:
        return covariance(self.predictions.sigmoid(), self.predictions)


@dataclass(frozen=True, eq=False)
class Gaussian(Likelihood):
    """A number for each item: means (M, B, L), labels (B, L), variance 1/2; its loss is the squared error."""

    def log_prob(self) -> Tensor:
        return -(self.predictions - self.labels.to(self.predictions)).square()

    def symmetric_kl(self) -> Tensor:
        return covariance(self.predictions, 2 * self.predictions)


def covariance(mean: Tensor, natural: Tensor) -> Tensor:
    """Return the covariance of two parameters over the samples, (M, ...) each.

    For the mean and the natural parameter of an exponential family it is the mean of the symmetric KL over all pairs
    of samples, because that of two distributions is half the product of both differences.
    """
    products = (mean - mean.mean(dim=0)) * (natural - natural.mean(dim=0))
    return products.sum(dim=0) / (len(mean) - 1)


def mean_loss(likelihood: Likelihood) -> Tensor:
    """Return the usual loss, averaged over the samples: ``-mean_m log p(y | x, W_m)`` per item."""
    log_prob = likelihood.log_prob().masked_fill(~likelihood.labelled, 0.0)
    return -log_prob.sum() / (len(log_prob) * _items(likelihood))


def multi_sample_loss(likelihood: Likelihood) -> Tensor:
    """Return the multi-sample bound, ``-log mean_m p(y | x, W_m)`` per item.

    The labels of an example belong together: ``p(y | x, W_m)`` is the product over its items. With one sample it is
    the usual loss.
    """
    log_prob = likelihood.log_prob().masked_fill(~likelihood.labelled, 0.0)
    log_prob = log_prob.reshape(*log_prob.shape[:2], -1).sum(dim=-1)  # (M, B)
    bound = log_prob.logsumexp(dim=0) - math.log(len(log_prob))
    return -bound.sum() / _items(likelihood)


def consistency_loss(likelihood: Likelihood) -> Tensor:
    """Return the symmetric KL between the predictions of two samples, a mean over pairs of samples and items."""
    return likelihood.symmetric_kl().masked_fill(~likelihood.labelled, 0.0).sum() / _items(likelihood)


def _items(likelihood: Likelihood) -> Tensor:
    return likelihood.labelled.sum().clamp(min=1)
