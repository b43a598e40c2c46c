"""Tables of the studies of latent variables for text."""

import math

import pandas as pd

from hf_bam.evaluation.tables import as_markdown

from .graph_tables import NONE_YET, interval

QUESTIONS = {"bleu_1": "BLEU-1", "bleu_2": "BLEU-2", "bleu_3": "BLEU-3", "bleu_4": "BLEU-4"}
DIVERSITY = {"entropy": "entropy", "dist_1": "Dist-1", "dist_2": "Dist-2"}
PAPER_QUESTIONS = {
    "deterministic": (5.08, 2.214, 0.132, 0.176),
    "Gaussian, zero prior": (4.87, 2.320, 0.165, 0.231),
    "Gaussian, mean prior": (4.96, 2.316, 0.162, 0.228),
}
"""BLEU-4, entropy, Dist-1 and Dist-2 of samples (Bahuleyan et al. 2018)."""
PAPER_PTB = {
    "language model": (None, 100.47),
    "VAE": (101.27, 101.39),
    "GAVAM": (102.20, 105.94),
    "DAVAM, K = 128": (83.57, 50.15),
    "DAVAM, K = 512": (60.16, 17.94),
}
"""Reconstruction in nats per sentence, and perplexity, which leaves the codes of DAVAM out (Fang et al.)."""


def by_configuration(records):
    """Yield every configuration with its records, in the order in which they appear."""
    names = dict.fromkeys(record["configuration"] for record in records)
    for name in names:
        yield name, [record for record in records if record["configuration"] == name]


def question_table(records):
    """Return quality and diversity of the samples of each configuration."""
    if not records:
        return NONE_YET
    lines = []
    for name, own in by_configuration(records):
        samples = pd.DataFrame([record["samples"] for record in own])
        values = {title: interval(samples[key], 2) for key, title in QUESTIONS.items()}
        values |= {title: interval(samples[key], 3) for key, title in DIVERSITY.items()}
        lines.append({"attention": name, "seeds": str(len(own)), **values})
    return as_markdown(lines, text_columns=1)


def question_paper_table():
    """Return the paper's values of the same measures."""
    titles = ("BLEU-4", *DIVERSITY.values())
    rows = ((name, values) for name, values in PAPER_QUESTIONS.items())
    lines = [{"attention": name, **dict(zip(titles, map(str, values), strict=True))} for name, values in rows]
    return as_markdown(lines, text_columns=1)


def question_differences(records):
    """Return differences to deterministic attention, paired by seed."""
    frame = pd.DataFrame([{**r["samples"], "name": r["configuration"], "seed": r["seed"]} for r in records])
    if frame.empty or "deterministic" not in set(frame["name"]):
        return NONE_YET
    lines = []
    for name in [name for name in PAPER_QUESTIONS if name in set(frame["name"]) and name != "deterministic"]:
        line = {"attention": name}
        for key, title in {"bleu_4": "BLEU-4", **DIVERSITY}.items():
            wide = frame.pivot_table(index="seed", columns="name", values=key)
            line[title] = interval(wide[name] - wide["deterministic"], 2 if key == "bleu_4" else 3, "+")
        lines.append(line)
    return as_markdown(lines, text_columns=1) if lines else NONE_YET


def ptb_table(records, split="test"):
    """Return reconstruction, KL, bound and perplexities of a word, beside the values of the paper."""
    if not records:
        return NONE_YET
    lines = []
    for name, own in by_configuration(records):
        bounds = pd.DataFrame([{**record["bounds"][split], "words": record["words"][split]} for record in own])
        codes = [record["code_perplexity"] for record in own if record["code_perplexity"] is not None]
        reconstruction, perplexity = PAPER_PTB.get(name, (None, None))
        lines.append(
            {
                "model": name,
                "seeds": str(len(own)),
                "reconstruction": interval(bounds["reconstruction"]),
                "KL": interval(bounds["kl"]),
                "bound": interval(bounds["bound"]),
                "PPL of the bound": interval(word_perplexity(bounds, "bound"), 1),
                "PPL of the reconstruction": interval(word_perplexity(bounds, "reconstruction"), 1),
                "codes in use": interval(codes, 0),
                "paper: reconstruction": "-" if reconstruction is None else f"{reconstruction:.2f}",
                "paper: PPL": "-" if perplexity is None else f"{perplexity:.2f}",
            }
        )
    return as_markdown(lines, text_columns=1)


def word_perplexity(bounds, column):
    """Return the perplexity of a word, with the end of a sentence as one, of each run."""
    return (bounds[column] / bounds["words"]).map(math.exp)


def sentence_list(records):
    """Return the sentences that the first run of the largest codebook wrote from its prior."""
    found = [record for record in records if record.get("texts")]
    if not found:
        return NONE_YET
    first = min(found, key=lambda record: (-record["settings"]["bam"]["num_codes"], record["seed"]))
    return "\n".join(f"- {text}" for text in first["texts"])


def example_list(records, number=3):
    """Return the different texts of a source, by configuration, from the runs with the lowest seed."""
    parts = []
    for name, own in by_configuration(records):
        first = min(own, key=lambda record: record["seed"])
        for example in first.get("examples", [])[:1]:
            texts = list(dict.fromkeys(example["texts"]))[:number]
            parts += [f"{name}:", "", *(f"- {text}" for text in texts), ""]
    return "\n".join(parts) if parts else NONE_YET


def parts(questions, ptb):
    """Return the generated parts of the page by marker."""
    return {
        "questions": question_table(questions),
        "questions of the paper": question_paper_table(),
        "question differences": question_differences(questions),
        "question examples": example_list(questions),
        "ptb": ptb_table(ptb),
        "ptb sentences": sentence_list(ptb),
    }
