"""Places of latent alignments in a model, and their inference networks."""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers import PreTrainedModel

from ..config import BamConfig
from ..families import AlignmentFamily
from .architectures import CLASSIFIERS, PROJECTIONS, SHARES_PREFIX
from .discovery import Site
from .reach import UnsupportedModelError


def generates(model: PreTrainedModel) -> bool:
    """Return whether the model has an encoder and a decoder that gives the probabilities of tokens."""
    return bool(model.config.is_encoder_decoder) and model.get_output_embeddings() is not None


def classifies(model: PreTrainedModel) -> bool:
    """Return whether the model is an encoder that gives one of several classes from the state of its first token."""
    config: Any = model.config
    # A forward with labels sets the type of the problem.
    single = config.num_labels > 1 and config.problem_type in (None, "single_label_classification")
    return config.model_type in SHARES_PREFIX and type(model).__name__.endswith(CLASSIFIERS) and single


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
    if not generates(model) and not classifies(model):
        raise UnsupportedModelError(
            f"{type(model).__name__} cannot have family={config.family!r}: a latent alignment needs an "
            "encoder-decoder model that generates tokens, or an encoder that classifies by its first token, one of "
            f"{', '.join(sorted(SHARES_PREFIX))}, into two or more classes."
        )
    # A module that runs in several layers has an alignment in each of them.
    latent = [site for site, own in zip(sites, uses, strict=True) for used in own if used]
    known = classifies(model) or model_type(latent[0]) in PROJECTIONS
    if len(latent) == 1 and known and is_last(latent[0], sites, uses, model):
        return True
    if family.enumerates or family.has_expectation():
        raise cannot_enumerate(model, latent, sites, uses, config)
    if family.has_network and (classifies(model) or not all(site.decoder for site in latent)):
        raise ValueError(
            f"BamConfig.objective={family.objective!r} has an inference network for the target, and "
            f"layers={config.layers!r} with attention={config.attention!r} has alignments in the encoder. Use "
            f"attention='alignment' with layers=1, or objective='hard'."
        )
    return False


def is_last(site: Site, sites: list[Site], uses: list[tuple[bool, ...]], model: PreTrainedModel) -> bool:
    """Return whether a site is the last attention of its stack, behind which positions are not mixed again."""
    last = site.layers[-1] == max(other.layers[-1] for other in sites if other.stack == site.stack)
    return last and uses[sites.index(site)][-1] and (site.cross or classifies(model))


def cannot_enumerate(
    model: PreTrainedModel, latent: list[Site], sites: list[Site], uses: list[tuple[bool, ...]], config: BamConfig
) -> ValueError:
    """Return the error for alignments that cannot be enumerated at their places."""
    family: Any = config.settings
    asked = f"BamConfig.layers={config.layers!r} with attention={config.attention!r}"
    way = "estimator='score', which samples them," if family.enumerates else "test_time='soft'"
    way = f"objective='hard' or 'variational' with {way}" if family.objective == "marginal" else way
    if len(latent) > 1:
        places = ", ".join(dict.fromkeys(site.path for site in latent))
        return ValueError(
            f"{asked} gives {len(latent)} latent alignments ({places}), whose combinations cannot be enumerated. Use "
            f"{way} or layers=1 and attention='alignment'."
        )
    if not is_last(latent[0], sites, uses, model):
        return ValueError(
            f"{asked} puts the latent alignment into {latent[0].path}, behind which attention mixes positions, so "
            f"that alignments cannot be enumerated one by one. Use {way} or layers=1 and attention='alignment', the "
            "last one."
        )
    return UnsupportedModelError(
        f"{type(model).__name__} cannot enumerate the alignments of family={config.family!r}: {latent[0].path} is "
        f"attention of a {model_type(latent[0])!r} model, and known are those of {', '.join(PROJECTIONS)}. Use {way} "
        "or one of these models."
    )


def model_type(site: Site) -> str:
    return str(getattr(getattr(site.module, "config", None), "model_type", ""))


def inference_network(model: PreTrainedModel, site: Site, config: BamConfig) -> dict[str, nn.Module]:
    """Return the inference network of an attention module, by name; none for other families."""
    family = config.settings
    if not isinstance(family, AlignmentFamily) or not family.has_network:
        return {}
    if classifies(model):
        return family.label_network(int(model.config.num_labels), site.heads * site.head_dim)
    embeddings: Any = target_embeddings(model)
    return family.sequence_network(embeddings.embedding_dim, site.heads * site.head_dim)


def target_embeddings(model: PreTrainedModel) -> nn.Module:
    """Return the embeddings of target tokens."""
    decoder: Any = model.get_decoder()
    found: nn.Module = decoder.get_input_embeddings()
    return found
