"""Settings of a Bayesian attention model."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, get_args

from .families import FAMILIES, Family
from .families.presets import PRESETS
from .fields import CHOICES, LARGEST, check_fields, is_number, parse_json, setting, shown
from .objective import SCHEDULES, Reduction

REDUCTIONS = get_args(Reduction)


class BamSettings(TypedDict, total=False):
    """Keywords of [`patch`][hf_bam.patch]: the fields of `BamConfig` and the settings of all families."""

    family: str
    kl_weight: float
    kl_reduction: Reduction
    annealing: str
    annealing_rate: float
    layers: str | int | tuple[int, ...] | list[int]
    attention: str
    noise: str
    prior: str
    d_mid: int
    k: float
    beta: float
    prior_shape: str
    alpha: float | None
    sigma: float
    sigma_prior: float
    prior_location: str
    counts: int
    objective: str
    d_inference: int
    top_k: int | None
    test_time: str
    estimator: str
    temperature: float
    concentration: float
    gamma: float
    initial_sigma: float
    d_sigma: int
    sentence_latent: int | None
    latent: str
    num_codes: int
    decay: float
    revive_below: float
    commitment: float
    commitment_start: float
    commitment_steps: int
    latent_size: int


@dataclass(frozen=True, init=False)
class BamConfig:
    """Family of stochastic attention with its settings, the layers that it is put into, and the weight of its KL.

    The call is flat, `BamConfig(family="weibull", k=2.0, kl_weight=1e-3)`, and so are attributes (`config.k`) and
    `to_dict`; the settings of a family are the fields of its own dataclass, `config.settings`. A wrong value raises a
    `ValueError` that names the field, the value and the choices; so does a setting that the family does not have.
    """

    family: str = setting("weibull", choices=FAMILIES)
    """Kind of stochastic attention: noise on the scores, `"weibull"` or `"lognormal"`; relative frequencies of keys
    that are drawn from the soft attention, `"multinomial"`; a latent alignment, `"categorical"`, `"gumbel"` or
    `"dirichlet"`; Gaussian attention vectors, `"gaussian"`; or codes in the place of the encoder's states,
    `"quantized"`."""
    kl_weight: float = setting(1e-4, least=0, most=1e6)
    """Weight of the KL in the loss, once annealing is over. The KL pulls the attention towards the prior in proportion
    to `kl_weight * beta`. The default of latent alignments and of the family `"quantized"` is 1, the bound itself."""
    kl_reduction: Reduction = setting("mean", choices=REDUCTIONS)
    """`"mean"`: over an example's heads, queries and keys and over the layers; `"sum"`: the literal ELBO. Both are
    then averaged over the examples of a batch. Padding never counts."""
    annealing: str = setting("constant", choices=SCHEDULES)
    """Growth of the weight with the optimizer step t: `"constant"`, `"sigmoid"` (of rate*t, from one half, as in the
    paper's Algorithm 1), `"logistic"` (sigmoid of 10*rate*t - 5, from nearly 0 to nearly 1 at t = 1/rate), `"linear"`
    (rate*t up to 1) or `"cyclic"` (period 1/rate, rising in its first half)."""
    annealing_rate: float = setting(1e-3, above=0, most=1e6)
    """Rate of the annealing, per optimizer step."""
    layers: str | int | tuple[int, ...] = "all"
    """Layers of each stack: `"all"`, a number N for the last N, or a list of indices (negative ones count from the
    end). The default of latent alignments is 1."""
    attention: str = setting("both", choices=("both", "self", "cross", "alignment"))
    """Attention to make stochastic: `"self"`, `"cross"`, `"both"`, or `"alignment"`, the cross-attention of a model
    that has any, otherwise its self-attention. The default of latent alignments is `"alignment"`."""
    settings: Family = dataclasses.field(init=False)

    def __init__(self, family: str = "weibull", **values: Any) -> None:
        own = {item.name: item for item in dataclasses.fields(self) if item.name != "settings"}
        usual = common_defaults(family)
        for name in own:
            object.__setattr__(self, name, values.pop(name, usual[name]) if name != "family" else family)
        object.__setattr__(self, "layers", _layers(self.layers))
        check_fields(self)
        cls = FAMILIES[self.family]
        names = setting_names(self.family)
        for name in values:
            if name not in names:
                raise ValueError(
                    f"BamConfig has no {shown(name)} with family={self.family!r}; the settings of this family are "
                    f"{', '.join(names)}, and those of all families {', '.join(own)}."
                )
        object.__setattr__(self, "settings", cls(**values))

    def __getattr__(self, name: str) -> Any:
        settings = self.__dict__.get("settings")
        if settings is None or not hasattr(settings, name):
            raise AttributeError(f"{type(self).__name__} with family={self.__dict__.get('family')!r} has no {name!r}")
        return getattr(settings, name)

    @classmethod
    def preset(cls, name: str, **changes: Any) -> BamConfig:
        """Return settings by name, with changes.

        `"BAM-WC"`, `"BAM-WF"`, `"BAM-LC"`, `"BAM-LF"`, `"BAM-NOKL"` are the paper's variants with our defaults;
        `"cola"`, `"sts-b"`, `"sst-2"`, `"mnli"`, `"qnli"`, `"qqp"`, `"rte"`, `"mrpc"`, `"squad-1.1"` and
        `"squad-2.0"` are the paper's own values for these tasks; `"cora-wc"`, `"cora-wf"`, `"cora-lc"`, `"cora-lf"`,
        `"cora-nokl"` and the same of `citeseer` and `pubmed` those for these graphs.
        """
        if not isinstance(name, str) or name.lower() not in PRESETS:
            raise ValueError(f"preset={shown(name)} is not known; choose one of {', '.join(PRESETS)}.")
        return cls(**PRESETS[name.lower()]).replace(**changes)

    def replace(self, **changes: Any) -> BamConfig:
        """Return a copy with some fields changed; another family takes over the settings that both have.

        Fields with the default of the one family get that of the other, and so do choices that the other does not
        have.
        """
        family, values = changes.get("family", self.family), self.to_dict()
        if family != self.family:
            usual = common_defaults(self.family)
            values = {name: value for name, value in values.items() if name not in usual or value != usual[name]}
        return BamConfig(**{**carried_over(family, values), **changes})

    def to_dict(self) -> dict[str, Any]:
        """Return the common fields and those of the family as plain values that JSON can store."""
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self) if item.name != "settings"}
        values["layers"] = list(self.layers) if isinstance(self.layers, tuple) else self.layers
        return {**values, **dataclasses.asdict(self.settings)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BamConfig:
        """Return the settings of `to_dict`; fields that are left out get their defaults, unknown ones are an error."""
        return cls(**values)

    @classmethod
    def from_saved(cls, values: Any) -> BamConfig:
        """Return settings from a file; earlier versions stored those of both families, whichever was chosen."""
        if not isinstance(values, Mapping):
            raise ValueError(f"{shown(values)} is not a mapping of names to values.")
        return cls(**for_family(values.get("family", "weibull"), values))

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, text: str) -> BamConfig:
        return cls.from_dict(parse_json(text))


def is_family(name: Any) -> bool:
    """Return whether a value, of any type, is the name of a family."""
    return isinstance(name, str) and name in FAMILIES


def common_defaults(family: Any) -> dict[str, Any]:
    """Return the defaults of the fields that all families have."""
    own = FAMILIES[family].defaults if is_family(family) else {}
    return {item.name: own.get(item.name, item.default) for item in dataclasses.fields(BamConfig) if item.init}


def setting_names(family: str) -> list[str]:
    """Return the names of a family's own settings."""
    return [item.name for item in dataclasses.fields(FAMILIES[family])]


def for_family(family: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without the settings that only other families have; unknown names are kept."""
    if not is_family(family):
        return dict(values)
    others = {name for other in FAMILIES for name in setting_names(other)} - {*setting_names(family)}
    return {name: value for name, value in values.items() if name not in others}


def carried_over(family: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of another family's settings that this family takes over, choices only if it has them."""
    fields = {item.name: item for item in dataclasses.fields(FAMILIES[family])} if is_family(family) else {}
    choices = {name: item.metadata[CHOICES] for name, item in fields.items() if CHOICES in item.metadata}
    kept = for_family(family, values)
    return {name: value for name, value in kept.items() if name not in choices or value in choices[name]}


def option_fields() -> dict[str, tuple[type, dataclasses.Field[Any]]]:
    """Return every setting by name, with its dataclass: common fields first, then those of the families.

    A setting of several families has the choices of all of them.
    """
    own = {item.name: (BamConfig, item) for item in dataclasses.fields(BamConfig) if item.name != "settings"}
    found: dict[str, tuple[type, dataclasses.Field[Any]]] = {**own}
    for cls in FAMILIES.values():
        for item in dataclasses.fields(cls):
            owner, first = found.setdefault(item.name, (cls, item))
            found[item.name] = owner, _with_choices_of(first, item)
    return found


def _with_choices_of(item: dataclasses.Field[Any], other: dataclasses.Field[Any]) -> dataclasses.Field[Any]:
    choices = dict.fromkeys((*item.metadata.get(CHOICES, ()), *other.metadata.get(CHOICES, ())))
    if len(choices) == len(item.metadata.get(CHOICES, ())):
        return item
    joined = setting(item.default, choices=tuple(choices))
    joined.name, joined.type = item.name, item.type
    return joined


def _layers(value: Any) -> str | int | tuple[int, ...]:
    if value == "all" or (_is_int(value) and 0 < value <= LARGEST):
        return value
    if isinstance(value, (list, tuple)) and value and all(map(_is_int, value)):
        return tuple(value)
    raise ValueError(
        f"BamConfig.layers={shown(value)} is not valid; it must be 'all', a whole number N above 0 (the last N "
        "layers) or a list of layer indices."
    )


def _is_int(value: Any) -> bool:
    return is_number(value) and isinstance(value, int)
