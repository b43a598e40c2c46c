"""Tables of docs/architectures.md, from results/architectures.json."""

import json
import re
from pathlib import Path

from render import RESULTS, fill, markdown
from tiny import TASKS

PAGE = Path(__file__).parent.parent / "docs" / "architectures.md"
STATUS = {"passed": "works", "refused": "refused", "failed": "fails", "not built": "not built"}
SHORT = {
    r".*\((\w+)\) computes its attention without.*": r"\1 has attention code of its own",
    r".*\((\w+)\) has attention sinks.*": r"\1 has attention sinks",
    r".*\((\w+)\) chooses the keys of its queries by an indexer.*": r"\1 selects keys by an indexer",
    r".*has no attention that goes through.*": "no attention",
    r".*requires the (\w+) library.*": r"needs \1",
    r".*(shared_kv_states cannot be None|hidden_size_per_layer_input must be 0).*": "drafts for another model",
    r".*exactly one of input_features or.*": "needs audio",
}


def results(path=RESULTS / "architectures.json"):
    return json.loads(path.read_text(encoding="utf-8"))


def summary(found):
    """How many pairs of each task work."""
    rows = found["rows"]
    lines = []
    for task in (*TASKS, "all"):
        own = [row["status"] for row in rows if task in (row["task"], "all")]
        lines.append([task, len(own), *(own.count(status) for status in STATUS)])
    types = len({row["type"] for row in rows})
    about = f"transformers {found['transformers']}, torch {found['torch']}; {types} model types."
    return f"{about}\n\n{markdown(['task', 'classes', *STATUS.values()], lines)}"


def reason(row):
    """Why a pair does not work, in a few words; empty if it does."""
    if row["status"] == "failed":
        return f"wrong: {', '.join(row['failures'])}"
    text = row.get("reason", "")
    for pattern, words in SHORT.items():
        if re.fullmatch(pattern, text):
            return re.sub(pattern, words, text)
    return text


def types(found):
    """A line for each model type: its tasks and, where one does not work, why."""
    by_type = {}
    for row in found["rows"]:
        by_type.setdefault(row["type"], {})[row["task"]] = row
    lines = []
    for name, own in by_type.items():
        marks = [STATUS[own[task]["status"]] if task in own else "" for task in TASKS]
        lines.append([name, *marks, "; ".join(dict.fromkeys(filter(None, map(reason, own.values()))))])
    return markdown(["model type", *TASKS, "why not"], lines)


def fill_page(page=PAGE):
    found = results()
    fill(page, {"summary": summary(found), "types": types(found)})
