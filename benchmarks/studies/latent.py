"""Studies of latent variables for text: questions from sentences, and sentences of the Penn Treebank.

python benchmarks/run.py questions --data_dir DATA --jobs 2
python benchmarks/run.py ptb --data_dir DATA --jobs 2
python -m benchmarks.studies.latent FOLDER SETTINGS    # one run; SETTINGS: JSON, from grid.settings

`questions.yaml` and `ptb.yaml` have the plans. A finished run is a line of results/questions.jsonl or ptb.jsonl,
and an interrupted study continues with the first missing run.
"""

import json
import sys
from argparse import Namespace
from pathlib import Path

import hf_bam
from hf_bam.evaluation.diversity import generation_metrics
from hf_bam.prediction import Bam, Plain, Predictor
from hf_bam.prediction.bound import measure_bound
from hf_bam.tasks.autoencode import Autoencode
from hf_bam.training.evaluation import evenly
from hf_bam.training.files import write_json
from hf_bam.training.run import Run
from hf_bam.training.settings import resolve

from ..storage import RESULTS
from . import runner
from .worker import training_cost

HELD_OUT, TEST_ROWS, TEXTS = 500, 2000, 10
"""Rows of the training part that are held out, rows of the test part, and texts for each source."""
NO_SOURCE = "."
"""Source of a language model, which is the same for all texts."""


def main(options):
    """Write the files of a study and execute its runs."""
    name = options.benchmark
    folder = Path(options.output, "data")
    PREPARE[name](Path(options.data_dir), folder)
    paths = {"grid": Path(__file__).with_name(f"{name}.yaml"), "records": RESULTS / f"{name}.jsonl"}
    about = {**paths, "data_dir": folder, "worker": "benchmarks.studies.latent"}
    runner.main(Namespace(**{**vars(options), **about}))


def prepare_questions(data_dir, folder):
    """Write the dev part as training rows, some of it as development rows, and evenly spaced rows of the test part."""
    for side, ending in (("src", "src"), ("tgt", "tgt")):
        train, test = (lines(data_dir / "nqg" / f"{side}-{part}.txt") for part in ("dev", "test"))
        write(folder / "questions" / f"train.{ending}", train[:-HELD_OUT])
        write(folder / "questions" / f"dev.{ending}", train[-HELD_OUT:])
        write(folder / "questions" / f"test.{ending}", [test[i] for i in evenly(len(test), TEST_ROWS)])


def prepare_ptb(data_dir, folder):
    """Write the sentences of every set, and the same with a source that says nothing, for a language model."""
    for part in ("train", "valid", "test"):
        texts = lines(data_dir / "ptb" / f"ptb.{part}.txt")
        write(folder / "ptb" / f"{part}.txt", texts)
        write(folder / "ptb_lm" / f"{part}.tgt", texts)
        write(folder / "ptb_lm" / f"{part}.src", [NO_SOURCE] * len(texts))


PREPARE = {"questions": prepare_questions, "ptb": prepare_ptb}


def lines(path):
    return [line.strip() for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def write(path, texts):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def work(folder, settings):
    """Train and evaluate one run, and write its record."""
    job = resolve(settings)
    run = Run(job, folder, (), print)
    result = run.go(resume=True, report=False, hub_model_id=None)
    cost, data = training_cost(folder, result), run.load()
    model, tokenizer = run.task.build(str(folder / "model"), data)
    if job.attention == "bam":
        hf_bam.load(model, folder / "model")
    record = {"scores": result.scores, "steps": result.about["steps"], **cost}
    evaluate = questions if Path(job.data_dir).name == "questions" else sentences
    write_json(folder / "record.json", record | evaluate(run, model.eval(), tokenizer, data, result))


def questions(run, model, tokenizer, data, result):
    """Return quality and diversity of several texts for each source of the test set."""
    rows = data.evaluation["test"]
    bayesian = run.job.attention == "bam"
    sampler = Bam(model) if bayesian else Plain(model)
    options = {"num_samples": 1, "hypotheses": TEXTS, "batch_size": 32, "max_length": run.recipe.max_length}
    results = Predictor(sampler, tokenizer, progress=False, **options, **run.task.predictor_options)(
        run.task.inputs(rows)
    )
    samples = [own.hypotheses if bayesian else own.hypotheses * TEXTS for own in results]
    found = generation_metrics(samples, list(rows["target"]), tokenize="none")
    examples = [{"source": rows["source"][i], "texts": samples[i]} for i in evenly(len(samples), 3)]
    return {"samples": found, "examples": examples}


def sentences(run, model, tokenizer, data, result):
    """Return the bound of every set, the mean number of words, and sentences from the prior of codes."""
    found, words = {}, {}
    for name, rows in data.evaluation.items():
        words[name] = sum(len(text.split()) + 1 for text in rows["target"]) / len(rows)  # with the end
        scores = result.scores[name]
        if "bound" in scores:
            found[name] = {key: scores[key] for key in ("reconstruction", "kl", "bound")}
        else:
            own = measure_bound(model, list(run.task.encode(rows, tokenizer, run.recipe.max_length)))
            found[name] = {"reconstruction": own.reconstruction, "kl": own.kl, "bound": own.bound}
    log = [json.loads(line) for line in (run.folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    perplexities = [line["perplexity"] for line in log if "perplexity" in line]
    record = {"bounds": found, "words": words, "code_perplexity": perplexities[-1] if perplexities else None}
    file = run.folder / "predictions" / "from_prior.txt"
    return record | {"texts": lines(file) if isinstance(run.task, Autoencode) and file.exists() else []}


if __name__ == "__main__":
    work(Path(sys.argv[1]), json.loads(sys.argv[2]))
