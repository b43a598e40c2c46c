"""Tables of the study on latent alignments."""

import pandas as pd

from hf_bam.evaluation.tables import as_markdown

from .graph_tables import NONE_YET, interval

SOFT = "soft"
TASKS = ("recurrent-language", "marian-language", "recurrent-multi30k", "marian-multi30k")
PAPER = {
    "soft": (7.17, 32.77, 1.24),
    "marginal": (6.34, 33.29, 0.82),
    "hard": (7.37, 31.40, 0.05),
    "variational": (6.08, 33.68, 0.54),
    "variational sampled": (6.17, 33.30, 0.52),
    "variational top 5": (6.42, 33.69, None),
    "gumbel": (6.51, 33.08, None),
    "dirichlet": (7.58, 30.05, 2.02),
}
"""Perplexity, BLEU and entropy of the attention on IWSLT14 German-English, LSTM (Deng et al. 2018)."""
MEASURES = {
    "perplexity": 3,
    "bleu": 1,
    "entropy_p": 2,
    "entropy_q": 2,
    "accuracy_p": 1,
    "accuracy_q": 1,
}
"""Measures of a run, with their decimals."""


def frame(records):
    """Return a row for each run. Accuracies are in percent, `time` is relative to soft attention."""
    rows = []
    for record in records:
        about = {name: record[name] for name in ("task", "configuration", "seed", "step_seconds")}
        scores = record["scores"][record["settings"]["evaluation_set"]]
        own = {name: record.get(name) for name in MEASURES} | {"bleu": scores["bleu"]}
        own |= {name: 100 * own[name] for name in ("accuracy_p", "accuracy_q") if own[name] is not None}
        rows.append({**about, **own})
    return pd.DataFrame(rows)


def task_table(records, task):
    """Return all measures by configuration, with the differences to soft attention, paired by seed."""
    rows = frame([record for record in records if record["task"] == task])
    if rows.empty:
        return NONE_YET
    soft = rows[rows["configuration"] == SOFT].set_index("seed")
    shown = {name: digits for name, digits in MEASURES.items() if rows[name].notna().any()}
    lines = []
    for name, own in rows.groupby("configuration", sort=False):
        own = own.set_index("seed")
        values = {key: interval(own[key], digits) for key, digits in shown.items()}
        difference = (own["perplexity"] - soft["perplexity"]).dropna()
        time = (own["step_seconds"] / soft["step_seconds"]).dropna()
        plain = name == SOFT or difference.empty
        values["perplexity minus soft"] = "-" if plain else interval(difference, 3, "+")
        values["time"] = "-" if time.empty else f"{time.mean():.1f}"
        lines.append({"attention": name, "seeds": str(len(own)), **values})
    return as_markdown(lines, text_columns=1)


def paper_table():
    """Return the figures of the paper."""
    lines = [
        {
            "attention": name,
            "perplexity": f"{perplexity:.2f}",
            "BLEU": f"{bleu:.2f}",
            "entropy": "-" if entropy is None else f"{entropy:.2f}",
        }
        for name, (perplexity, bleu, entropy) in PAPER.items()
    ]
    return as_markdown(lines, text_columns=1)


def parts(records):
    """Return the generated parts of the page by marker."""
    return {"paper": paper_table(), **{task: task_table(records, task) for task in TASKS}}
