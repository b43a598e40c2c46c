"""Tables of the sweep in the documentation."""

import re

from hf_bam.evaluation.tables import as_markdown

from ..storage import read
from .tiny import TASKS

STATUS = {"passed": "works", "unsupported": "unsupported", "failed": "fails", "not built": "not built"}
SHORT = {
    r".*\((\w+)\) computes its attention without.*": r"\1 has attention code of its own",
    r".*\((\w+)\) has attention sinks.*": r"\1 has attention sinks",
    r".*\((\w+)\) chooses the keys of its queries by an indexer.*": r"\1 selects keys by an indexer",
    r".*has no attention that goes through.*": "no attention",
    r".*requires the (\w+) library.*": r"needs \1",
    r".*(shared_kv_states cannot be None|hidden_size_per_layer_input must be 0).*": "drafts for another model",
    r".*exactly one of input_features or.*": "needs audio",
}
"""Short forms of error messages, by pattern."""


def summary(found):
    """Return the number of classes by task and status."""
    rows = found["rows"]
    lines = []
    for task in (*TASKS, "all"):
        statuses = [row["status"] for row in rows if task in (row["task"], "all")]
        counts = {name: statuses.count(status) for status, name in STATUS.items()}
        lines.append({"task": task, "classes": len(statuses), **counts})
    types = len({row["type"] for row in rows})
    versions = f"transformers {found['transformers']}, torch {found['torch']}; {types} model types."
    return f"{versions}\n\n{as_markdown(lines)}"


def reason(row):
    """Return in a few words why a pair does not work; empty if it does."""
    if row["status"] == "failed":
        return f"wrong: {', '.join(row['failures'])}"
    text = row.get("reason", "")
    for pattern, words in SHORT.items():
        if re.fullmatch(pattern, text):
            return re.sub(pattern, words, text)
    return text


def type_table(found):
    """Return one line for each model type: its tasks, and the reasons for those that do not work."""
    by_type = {}
    for row in found["rows"]:
        by_type.setdefault(row["type"], {})[row["task"]] = row
    lines = []
    for name, own in by_type.items():
        marks = {task: STATUS[own[task]["status"]] if task in own else "" for task in TASKS}
        reasons = dict.fromkeys(filter(None, map(reason, own.values())))
        lines.append({"model type": name, **marks, "reason": "; ".join(reasons)})
    return as_markdown(lines, text_columns=len(lines[0]))


def pages():
    found = read("architectures")
    return {"architectures.md": {"summary": summary(found), "types": type_table(found)}}


def figures():
    return {}
