"""Settings of a demo."""

from __future__ import annotations

from dataclasses import dataclass

from ...fields import check_fields, setting


@dataclass(frozen=True)
class DemoSettings:
    """Model of a demo, data to which it is fitted at the start, and the address of its page."""

    model_name_or_path: str = setting()
    """Trained model: the folder model of a run, any folder of a transformers model, or a name on the Hub."""
    train: str | None = None
    """Fit the novelty of inputs to these rows, on which the model was trained: a file with the columns text and label
    (.csv, .tsv, .json, .jsonl or .parquet)."""
    held_out: str | None = None
    """Fit prediction sets to these labelled rows, on which the model was not trained: a file like that of --train."""
    alpha: float = setting(0.1, above=0, below=1)
    """Share of the prediction sets that may miss the label."""
    num_samples: int | None = setting(None, least=1)
    """Samples of each input at the start. none: those that are saved with the model, or 8."""
    dropout: float | None = setting(None, least=0, below=1)
    """Rate of MC dropout, for a plain model. none: one deterministic pass."""
    title: str | None = None
    """Heading of the page. none: the name of the model."""
    host: str = "127.0.0.1"
    """Address to serve on. 0.0.0.0: all addresses of this machine."""
    port: int = setting(7860, least=0)
    """Port to serve on."""

    def __post_init__(self) -> None:
        check_fields(self)
