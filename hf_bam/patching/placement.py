"""Places of latent alignments in a model, and their inference networks."""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers import PreTrainedModel

from ..config import BamConfig
from ..families import AlignmentFamily
from .architectures import PROJECTIONS
from .discovery import Site, UnsupportedModelError


def generates(model: PreTrainedModel) -> bool:
    """Return whether the model has an encoder and a decoder that gives the probabilities of tokens."""
    return bool(model.config.is_encoder_decoder) and model.get_output_embeddings() is not None


def has_alternatives(
    model: PreTrainedModel, sites: list[Site], uses: list[tuple[bool, ...]], config: BamConfig
) -> bool:
    """Return whether alternatives of a latent alignment can follow behind its attention; False for other families.

    Raises:
        UnsupportedModelError: for a model that cannot have a latent alignment.
        ValueError: for a place at which the family cannot be.
    """
    family = config.settings
    if not isinstance(family, AlignmentFamily):
        return False
    if not generates(model):
        raise UnsupportedModelError(
            f"{type(model).__name__} cannot have family={config.family!r}: a latent alignment needs an "
            "encoder-decoder model that generates tokens."
        )
    latent = [site for site, own in zip(sites, uses, strict=True) if any(own)]
    if len(latent) == 1 and is_last_cross(latent[0], sites) and model_type(latent[0]) in PROJECTIONS:
        return True
    if family.enumerates or family.has_expectation:
        raise cannot_enumerate(model, latent, sites, config)
    if family.has_network and not all(site.decoder for site in latent):
        raise ValueError(
            f"BamConfig.objective={family.objective!r} has an inference network for positions of the target, and "
            f"layers={config.layers!r} with attention={config.attention!r} has alignments in the encoder. Use "
            "attention='cross', or objective='hard'."
        )
    return False


def is_last_cross(site: Site, sites: list[Site]) -> bool:
    """Return whether a site is the last cross-attention of its stack, behind which positions are not mixed again."""
    return site.cross and site.layers[-1] == max(other.layers[-1] for other in sites if other.stack == site.stack)


def cannot_enumerate(model: nn.Module, latent: list[Site], sites: list[Site], config: BamConfig) -> ValueError:
    """Return the error for alignments that cannot be enumerated at their places."""
    family: Any = config.settings
    asked = f"BamConfig.layers={config.layers!r} with attention={config.attention!r}"
    way = "estimator='score', which samples them," if family.enumerates else "test_time='soft'"
    if len(latent) > 1:
        places = ", ".join(site.path for site in latent)
        return ValueError(
            f"{asked} gives {len(latent)} latent alignments ({places}), whose combinations cannot be enumerated. Use "
            f"{way} or layers=1 and attention='cross'."
        )
    if not is_last_cross(latent[0], sites):
        return ValueError(
            f"{asked} puts the latent alignment into {latent[0].path}, behind which attention mixes positions, so "
            f"that alignments cannot be enumerated one by one. Use {way} or layers=1 and attention='cross', the last "
            "cross-attention."
        )
    return UnsupportedModelError(
        f"{type(model).__name__} cannot enumerate the alignments of family={config.family!r}: {latent[0].path} is "
        f"attention of a {model_type(latent[0])!r} model, and known are those of {', '.join(PROJECTIONS)}. Use {way} "
        "or one of these models."
    )


def model_type(site: Site) -> str:
    config: Any = site.module.config
    return str(config.model_type)


def inference_network(model: PreTrainedModel, site: Site, config: BamConfig) -> dict[str, nn.Module]:
    """Return the inference network of an attention module, by name; none for other families."""
    family = config.settings
    if not isinstance(family, AlignmentFamily) or not family.has_network:
        return {}
    embeddings: Any = target_embeddings(model)
    return family.sequence_network(embeddings.embedding_dim, site.heads * site.head_dim)


def target_embeddings(model: PreTrainedModel) -> nn.Module:
    """Return the embeddings of target tokens."""
    decoder: Any = model.get_decoder()
    found: nn.Module = decoder.get_input_embeddings()
    return found
