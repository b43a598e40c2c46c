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


def check_placement(
    model: PreTrainedModel, sites: list[Site], uses: list[tuple[bool, ...]], config: BamConfig
) -> None:
    """Raise for a latent alignment where the model cannot have one; other families may be anywhere."""
    family = config.settings
    if not isinstance(family, AlignmentFamily):
        return
    if not generates(model):
        raise UnsupportedModelError(
            f"{type(model).__name__} cannot have family={config.family!r}: a latent alignment needs an "
            "encoder-decoder model that generates tokens."
        )
    latent = [site for site, own in zip(sites, uses, strict=True) if any(own)]
    if len(latent) > 1:
        places = ", ".join(site.path for site in latent)
        raise ValueError(
            f"BamConfig.layers={config.layers!r} with attention={config.attention!r} gives {len(latent)} latent "
            f"alignments ({places}), whose combinations cannot be enumerated. Use layers=1 and attention='cross'."
        )
    (site,) = latent
    depth = max(other.layers[-1] for other in sites if other.stack == site.stack)
    if not site.cross or site.layers[-1] != depth:
        raise ValueError(
            f"BamConfig.layers={config.layers!r} with attention={config.attention!r} puts the latent alignment into "
            f"{site.path}, and what follows it mixes the positions of the target, so that alignments cannot be "
            "enumerated one by one. Use layers=1 and attention='cross', the last cross-attention."
        )
    if model_type(site) not in PROJECTIONS:
        raise UnsupportedModelError(
            f"{type(model).__name__} cannot have family={config.family!r}: {site.path} is attention of a "
            f"{model_type(site)!r} model, and known are those of {', '.join(PROJECTIONS)}."
        )


def model_type(site: Site) -> str:
    config: Any = site.module.config
    return str(config.model_type)


def inference_network(model: PreTrainedModel, site: Site, config: BamConfig) -> dict[str, nn.Module]:
    """Return the inference network of an attention module, by name; none for other families."""
    family = config.settings
    if not isinstance(family, AlignmentFamily):
        return {}
    embeddings: Any = target_embeddings(model)
    return family.sequence_network(embeddings.embedding_dim, site.heads * site.head_dim)


def target_embeddings(model: PreTrainedModel) -> nn.Module:
    """Return the embeddings of target tokens."""
    decoder: Any = model.get_decoder()
    found: nn.Module = decoder.get_input_embeddings()
    return found
