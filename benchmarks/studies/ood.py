"""Out-of-distribution inputs: inputs on which a model should be more uncertain than on its evaluation set."""

from pathlib import Path

from hf_bam.tasks import get_task
from hf_bam.tasks.squad_files import read as read_squad
from hf_bam.training.evaluation import subsample


def sets(task, data, data_dir, names, rows):
    """Return inputs of other evaluation sets of the task, at most `rows` of each."""
    return [text for name in names for text in task.inputs(subsample(data.evaluation[name], rows))]


def other_task(task, data, data_dir, name, split):
    """Return the inputs of an evaluation set of another task."""
    other = get_task(name)
    return other.inputs(other.load(Path(data_dir)).evaluation[split])


def last_column(task, data, data_dir, file):
    """Return the last column of a file with tabs."""
    lines = Path(data_dir, file).read_text(encoding="utf-8").splitlines()
    return [line.split("\t")[-1] for line in lines]


def unanswerable(task, data, data_dir, file, rows):
    """Return questions without an answer, from a file of SQuAD 2.0."""
    found = read_squad(Path(data_dir, file), "2.0")
    indices = [index for index, answers in enumerate(found["answers"]) if not answers["text"]]
    return task.inputs(subsample(found.select(indices), rows))


READERS = {"sets": sets, "task": other_task, "last_column": last_column, "unanswerable": unanswerable}


def read(spec, task, data, data_dir):
    """Return the inputs that an entry `ood` of the grid describes; none for None.

    Args:
        spec: the name of a `reader`, and its arguments.
    """
    if spec is None:
        return []
    arguments = {name: value for name, value in spec.items() if name != "reader"}
    return READERS[spec["reader"]](task, data, data_dir, **arguments)


def remove(task, rows, inputs):
    """Return the rows whose input is not out-of-distribution."""
    known = set(inputs)
    return rows.select([index for index, text in enumerate(task.inputs(rows)) if text not in known])
