"""Settings of a predictor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypedDict

from ..fields import check_fields, setting

NUM_SAMPLES = 8


@dataclass(frozen=True)
class Settings:
    """Settings of a [`Predictor`][hf_bam.prediction.Predictor]; some apply to one kind of model only."""

    num_samples: int = setting(NUM_SAMPLES, least=1, most=10**6)
    """Samples of each input. Six have the quality of 32 (docs/uncertainty.md); more make standard deviations and
    p-values steadier."""
    threshold: float = setting(0.05, above=0, below=1)
    """The lead of the most probable class is significant when the p-value of its t-test is lower."""
    paired: bool = False
    """Pair the samples of the two classes in the t-test."""
    temperature: float = setting(1.0, least=1e-6, most=1e6)
    """Divides the logits; `Predictor.calibrated` fits it."""
    adaptive: bool = False
    """Stop sampling an input once its decision is unlikely to change; classification only."""
    error: float = setting(0.01, above=0, below=1)
    """With `adaptive`, the fraction of inputs whose decision may differ from the one over all samples."""
    level: float = setting(0.9, above=0, below=1)
    """Regression: probability that the interval covers."""
    max_length: int = setting(512, least=1)
    """Longer texts are truncated, and their results are marked."""
    allow_empty: bool = False
    """Predict empty texts, too, instead of raising `ValueError`."""
    seed: int | None = 0
    """The same seed and input give the same samples, whatever else is in the batch; None: new ones in every call."""
    max_answer_tokens: int = setting(30, least=1)
    """Question answering: number of tokens of the longest answer."""
    stride: int = setting(128, least=0)
    """Question answering: overlap of the windows of a long context, in tokens."""
    n_best: int = setting(20, least=1)
    """Question answering: number of spans in `n_best`."""
    null_answer: bool = False
    """Question answering: allow "no answer", as in SQuAD 2.0."""
    null_threshold: float = 0.0
    """Question answering: log odds of "no answer" against the best span above which it is the answer."""
    hypotheses: int = setting(0, least=0)
    """Generation: number of further texts, each generated from one sample of the attention."""
    generation: dict[str, Any] = field(default_factory=dict)
    """Generation: arguments of `generate`."""

    pooling: str = setting("mean", choices=("mean", "first", "last"))
    """Embeddings: `"mean"` of the hidden states of all tokens, or the state of the `"first"` or the `"last"` one."""
    normalize: bool = False
    """Embeddings: scale every sample, and their mean, to length 1."""

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def probabilities(self) -> tuple[Any, ...]:
        """Settings on which the probabilities of a prediction depend."""
        return (self.num_samples, self.temperature, self.adaptive, self.max_length)


class FurtherSettings(TypedDict, total=False):
    """Fields of `Settings` that are not arguments of a predictor by name."""

    threshold: float
    paired: bool
    temperature: float
    adaptive: bool
    error: float
    level: float
    allow_empty: bool
    max_answer_tokens: int
    stride: int
    n_best: int
    null_answer: bool
    null_threshold: float
    hypotheses: int
    generation: dict[str, Any]
    pooling: str
    normalize: bool


class SettingChanges(FurtherSettings, total=False):
    """Keywords of `Predictor.with_settings`: all fields of `Settings`."""

    num_samples: int
    max_length: int
    seed: int | None


class PredictorOptions(FurtherSettings, total=False):
    """Further keywords of [`BamPredictor`][hf_bam.BamPredictor]."""

    head: str | None
    batch_size: int
    seed: int | None
    max_length: int | None
    progress: bool | None


class LoadingOptions(PredictorOptions, total=False):
    """Keywords of `Predictor.from_pretrained`: those of the predictor and of transformers' `from_pretrained`."""

    num_samples: int
    cache_dir: str
    force_download: bool
    local_files_only: bool
    revision: str
    subfolder: str
    token: str | bool
    device_map: Any
    dtype: Any


class BamLoadingOptions(LoadingOptions, total=False):
    """Keywords of `BamPredictor.from_pretrained`."""

    dropout: float | None
    token_budget: int
