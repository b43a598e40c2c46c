"""Settings of a prediction of files."""

from __future__ import annotations

from dataclasses import dataclass

from ...fields import check_fields, setting


@dataclass(frozen=True)
class Prediction:
    """Model, rows and output of a prediction."""

    model_name_or_path: str
    """Trained model: the folder model of a run, the folder of a predictor or of any transformers model, or a name on
    the Hub."""
    input: str
    """Rows to predict: a file (.csv, .tsv, .json, .jsonl, .parquet, or .txt with a text a line), or the folder or the
    name on the Hub of a data set."""
    output: str | None = None
    """File for the rows with their predictions (.csv, .tsv, .jsonl, .parquet, or .txt with the predictions alone).
    none: standard output, as JSON lines."""
    overwrite: bool = False
    """Replace the file of --output."""
    text_column: str | None = None
    """Column of the text. none: that of the run that trained the model, or else text (question, for question
    answering; image, with the paths of files, for a model that reads images), or else the only column."""
    pair_column: str | None = None
    """Column of the second text. none: that of the run, or else text_pair if there is one (context, for question
    answering; question, for questions about images)."""
    target_column: str | None = None
    """Score the texts of this column, such as translations, in place of generating texts."""
    label_column: str = "label"
    """Column of the label, in the files of --held_out and --train."""
    prefix: str = ""
    """Beginning of the names of the new columns."""
    split: str | None = None
    """Split of a data set. none: its only one."""
    config_name: str | None = None
    """Configuration of a data set of the Hub."""
    limit: int | None = setting(None, least=1)
    """Predict this many rows, for a quick trial. none: all rows."""
    train: str | None = None
    """Fit the novelty of inputs to this file of rows on which the model was trained. none: that which was saved with
    the model."""
    held_out: str | None = None
    """Fit prediction sets, or the intervals of a regression, to this file of labelled rows on which the model was not
    trained. none: those that were saved with the model."""
    alpha: float = setting(0.1, above=0, below=1)
    """Share of the prediction sets that may miss the label."""
    num_samples: int | None = setting(None, least=1)
    """Samples of each input. none: those of the saved predictor or of the run, or else 32; 1 for a plain model."""
    dropout: float | None = setting(None, least=0, below=1)
    """Rate of MC dropout, for a plain model. none: one deterministic pass."""
    batch_size: int = setting(16, least=1)
    """Inputs at a time."""
    max_length: int | None = setting(None, least=1)
    """Truncate texts to this many tokens. none: that of the run, or else the limit of the model."""
    hypotheses: int = setting(0, least=0)
    """Generation: number of further texts, each generated from one sample of the attention."""
    head: str | None = None
    """Kind of output, such as classification. none: it follows from the class of the model."""
    seed: int | None = setting(None, least=0)
    """Seed of the samples. none: that of the saved predictor, or else 0."""
    num_processes: int = setting(1, least=1)
    """Predict with this many processes, each with a copy of the model; the output is the same."""

    def __post_init__(self) -> None:
        check_fields(self)
