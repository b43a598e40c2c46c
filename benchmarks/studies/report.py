"""Tables and figures of the studies in the documentation."""

from pathlib import Path

from ..storage import RESULTS, read, read_lines
from . import alignment_tables, graph_tables, latent_tables, samples, tables, uncertainty_tables, vqa_tables
from . import figures as plots
from .ensemble import ensembles
from .frames import method_rows, score_rows
from .grid import in_order
from .grid import read as read_grid


def study():
    """Return the records of the study, with those of the ensembles."""
    records = read_lines(RESULTS / "study.jsonl")
    return [*records, *ensembles(records)]


def finished(name):
    """Return the records of a study in the order of its plan."""
    grid = read_grid(Path(__file__).with_name(f"{name}.yaml"))
    return in_order(read_lines(RESULTS / f"{name}.jsonl"), grid)


def pages():
    records = study()
    rows, scores = method_rows(records), score_rows(records)
    classification, others = rows[rows["nll"].notna()], rows[rows["nll"].isna()]
    details = {
        "scores": tables.score_table(scores),
        "gains": tables.gain_table(scores),
        "tasks": tables.by_task(rows, tables.task_table),
        "pairs": tables.pair_table(classification),
        "pairs of other tasks": tables.by_task(others, lambda own: tables.pair_table(own, tables.PAIRED_OTHERS)),
        "differences": tables.difference_table(classification),
        "ranks": tables.rank_table(classification),
        "pilot": tables.pilot_table(records),
        "selection": tables.selection_table(records),
        "objective": tables.objective_table(records),
        "spread": tables.spread_table(read("spread")["rows"]),
        "costs": tables.cost_table(rows),
    }
    return {
        "results.md": {"headline": tables.headline_table(records, scores)},
        "results-tables.md": details,
        "graphs.md": graph_tables.parts(read_lines(RESULTS / "graphs.jsonl")),
        "alignments.md": alignment_tables.parts(finished("alignments")),
        "latent.md": latent_tables.parts(*map(finished, ("questions", "ptb"))),
        "uncertainty.md": {
            **uncertainty_tables.parts(finished("uncertainty")),
            "samples": samples.table(read("samples")["rows"]),
        },
        "visual_questions.md": vqa_tables.parts(read_lines(RESULTS / "vqa.jsonl")),
        "howto/settings.md": {"prior": tables.prior_table(read("prior")["rows"])},
    }


def figures():
    records = study()
    rows, scores = method_rows(records), score_rows(records)
    return {
        "study.svg": plots.uncertainty(rows[rows["nll"].notna()]),
        "scores.svg": plots.scores(scores),
        "vqa.svg": vqa_tables.noise_figure(read_lines(RESULTS / "vqa.jsonl")),
    }
