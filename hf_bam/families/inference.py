"""Inference networks: the posterior ``q(z | x, y)`` of an alignment, which also reads the target.

The posterior of a position is ``q(z = i) = softmax_i(log p_i + s_i)``. A network computes the scores ``s``, which are
0 at first, so that training starts with ``q = p``. The best ones are the log-likelihoods ``log f(i)``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class SequenceInference(nn.Module):
    """Scores of the alignments of a target sequence.

    ``s_ti = h_t^T U x_i`` for the states ``h`` of a bidirectional LSTM over the target and the keys ``x`` of the
    attention, all heads together. ``U`` is not in an `nn.Linear`, which PEFT and quantisers would take for a layer of
    the model.

    Args:
        target_dim: size of the embeddings of the target.
        key_dim: size of a key, all heads together.
        d_inference: size of the states of each direction.
    """

    def __init__(self, target_dim: int, key_dim: int, d_inference: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(target_dim, d_inference, batch_first=True, bidirectional=True)
        self.bilinear = nn.Parameter(torch.zeros(key_dim, 2 * d_inference))

    def forward(self, target: Tensor, target_mask: Tensor, keys: Tensor) -> Tensor:
        """Return the scores, (B, T, S) in float32 or better.

        Args:
            target: (B, T, E) embeddings of the target tokens.
            target_mask: (B, T) tokens that are not padding; what follows the last of them is not read.
            keys: (B, S, F).
        """
        dtype = self.bilinear.dtype
        last = torch.arange(1, target_mask.shape[1] + 1, device=target_mask.device) * target_mask
        lengths = last.amax(dim=1).clamp(min=1)
        # Half precision is for the matrices of the model; a recurrence adds up its errors.
        with torch.autocast(target.device.type, enabled=False):
            packed = pack_padded_sequence(target.to(dtype), lengths.cpu(), batch_first=True, enforce_sorted=False)
            states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=target.shape[1])
            scores = (states @ self.bilinear.T) @ keys.to(dtype).transpose(-1, -2)
        return scores.to(torch.promote_types(dtype, torch.float32))


class LabelInference(nn.Module):
    """Scores of the alignment of a classifier: ``s_i = u_y^T x_i``, with a vector for every label.

    Args:
        num_labels: number of classes.
        key_dim: size of a key, all heads together.
    """

    def __init__(self, num_labels: int, key_dim: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.zeros(num_labels, key_dim))

    def forward(self, labels: Tensor, keys: Tensor) -> Tensor:
        """Return the scores, (B, 1, S) in float32 or better, for labels (B,)."""
        dtype = self.vectors.dtype
        scores = self.vectors[labels.clamp(min=0)].unsqueeze(1) @ keys.to(dtype).transpose(-1, -2)
        return scores.to(torch.promote_types(dtype, torch.float32))
