"""The settings of a Bayesian attention model."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from .families import FAMILIES
from .objective import SCHEDULES, Reduction
from .presets import PRESETS
from .priors import PRIORS

CHOICES: dict[str, tuple[str, ...]] = {
    "family": tuple(FAMILIES),
    "prior": tuple(PRIORS),
    "prior_shape": ("beta*psi", "psi"),
    "noise": ("entry", "key", "token"),
    "attention": ("both", "self", "cross"),
    "kl_reduction": get_args(Reduction),
    "annealing": tuple(SCHEDULES),
}
Settings = TypeVar("Settings")
POSITIVE = ("k", "sigma", "beta", "sigma_prior", "annealing_rate")


@dataclass(frozen=True)
class BamConfig:
    """How attention is made stochastic and what its KL term looks like.

    Frozen and checked: a wrong value raises a `ValueError` that names the field, the value and the choices.
    """

    family: str = "weibull"
    """Law of the unnormalised weights: `"weibull"` or `"lognormal"`."""
    k: float = 1.0
    """Weibull shape. The log weights have a standard deviation of 1.2825/k; from 5 on draws hardly differ."""
    sigma: float = 1.28
    """Standard deviation of the Lognormal's log weights; the default is as wide as `k=1`."""
    noise: str = "entry"
    """`"entry"`: independent noise for every query and key, as in the paper; `"key"`: one draw per key and head,
    shared by all queries; `"token"`: one per key, shared by all queries and heads of a layer."""
    prior: str = "contextual"
    """`"contextual"`: a small network of the keys; `"fixed"`: uniform over the keys; `"none"`: no KL."""
    d_mid: int = 5
    """Width of the contextual prior's hidden layer."""
    beta: float = 100.0
    """Rate of the Gamma prior (Weibull): large values hold the weights closer to the prior."""
    prior_shape: str = "beta*psi"
    """Shape of the Gamma prior: `"beta*psi"` makes the prior mean Psi; `"psi"` is the paper's."""
    alpha: float | None = None
    """A constant Gamma shape for `prior="fixed"`. None: uniform prior attention, by `prior_shape`."""
    sigma_prior: float = 1.0
    """Standard deviation of the Lognormal prior's log weights."""
    kl_weight: float = 1e-4
    """Weight of the KL in the loss, once annealing is over. The KL pulls the attention towards the prior in proportion
    to `kl_weight * beta`."""
    kl_reduction: Reduction = "mean"
    """`"mean"`: over an example's heads, queries and keys and over the layers; `"sum"`: the literal ELBO. Both are
    then averaged over the examples of a batch. Padding never counts."""
    annealing: str = "constant"
    """How the weight grows with the optimizer step t: `"constant"`, `"sigmoid"` (of rate*t, from one half, as in the
    paper's Algorithm 1), `"linear"` (rate*t up to 1) or `"cyclic"` (period 1/rate, rising in its first half)."""
    annealing_rate: float = 1e-3
    """The rate of the annealing, per optimizer step."""
    layers: str | int | tuple[int, ...] = "all"
    """Which layers of each stack: `"all"`, a number N for the last N, or a list of indices (negative ones count from
    the end)."""
    attention: str = "both"
    """Which attention: `"self"`, `"cross"` or `"both"`."""

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise _error(name, getattr(self, name), "one of " + ", ".join(map(repr, choices)))
        for name in POSITIVE:
            object.__setattr__(self, name, _number(name, getattr(self, name)))
        object.__setattr__(self, "kl_weight", _number("kl_weight", self.kl_weight, zero=True))
        if not _is_int(self.d_mid) or self.d_mid < 1:
            raise _error("d_mid", self.d_mid, "a whole number, 1 or above")
        object.__setattr__(self, "layers", _layers(self.layers))
        self._check_alpha()

    def _check_alpha(self) -> None:
        if self.alpha is None:
            return
        object.__setattr__(self, "alpha", _number("alpha", self.alpha))
        if (self.family, self.prior) != ("weibull", "fixed"):
            raise _error(
                "alpha",
                self.alpha,
                f"None with family={self.family!r} and prior={self.prior!r}: it is the Gamma shape of "
                "family='weibull' with prior='fixed'",
            )

    @classmethod
    def preset(cls, name: str, **changes: Any) -> BamConfig:
        """Settings by name, with changes.

        `"BAM-WC"`, `"BAM-WF"`, `"BAM-LC"`, `"BAM-LF"`, `"BAM-NOKL"` are the paper's variants with our defaults;
        `"cola"`, `"sts-b"`, `"sst-2"`, `"mnli"`, `"qnli"`, `"qqp"`, `"rte"`, `"mrpc"`, `"squad-1.1"` and
        `"squad-2.0"` are the paper's own values for these tasks.
        """
        if str(name).lower() not in PRESETS:
            raise ValueError(f"preset={name!r} is not known; choose one of {', '.join(PRESETS)}.")
        return cls(**{**PRESETS[name.lower()], **changes})

    def replace(self, **changes: Any) -> BamConfig:
        """A copy with some fields changed."""
        return self.from_dict({**self.to_dict(), **changes})

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values that JSON can hold."""
        values = dataclasses.asdict(self)
        values["layers"] = list(self.layers) if isinstance(self.layers, tuple) else self.layers
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> BamConfig:
        """The inverse of `to_dict`; fields that are left out get their defaults, unknown ones are an error."""
        return from_fields(cls, values)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, text: str) -> BamConfig:
        return cls.from_dict(json.loads(text))


def from_fields(cls: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Settings, a dataclass, from its fields; those left out get their defaults, unknown ones are an error."""
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    for name in values:
        if name not in names:
            raise ValueError(f"{name!r} is not a field of {cls.__name__}; the fields are {', '.join(names)}.")
    return cls(**values)


def _error(name: str, value: Any, wanted: str) -> ValueError:
    return ValueError(f"BamConfig.{name}={value!r} is not valid; it must be {wanted}.")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(name: str, value: Any, zero: bool = False) -> float:
    is_number = (_is_int(value) or isinstance(value, float)) and math.isfinite(value)
    if not is_number or value < 0 or (value == 0 and not zero):
        raise _error(name, value, "a finite number, 0 or above" if zero else "a finite number above 0")
    return float(value)


def _layers(value: Any) -> str | int | tuple[int, ...]:
    if value == "all" or (_is_int(value) and value > 0):
        return value
    if isinstance(value, (list, tuple)) and value and all(map(_is_int, value)):
        return tuple(value)
    raise _error("layers", value, "'all', a whole number N above 0 (the last N layers) or a list of layer indices")
