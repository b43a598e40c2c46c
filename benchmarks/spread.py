"""How far draws of the attention move the predictions of a model that was trained plainly.

MiniLM learns the rated sentences with plain attention. Then its attention is drawn, without further training: noise of
all kinds and strengths, in all layers or in the last one, and dropout beside it.
"""

import tempfile
from itertools import product

import numpy as np
import torch
from cell import RATES, SHAPES, with_noise

import hf_bam
from hf_bam.evaluation.temperature import with_temperatures
from hf_bam.prediction import Dropout, Plain, Predictor
from hf_bam.training.evaluation import subsample
from hf_bam.training.run import run
from hf_bam.training.settings import resolve
from hf_bam.training.uncertainty import USUAL_DROPOUT

KINDS, LAYERS = ("entry", "key", "token"), ("all", 1)
STEPS, ROWS, DRAWS = 300, 300, 16
MEASURES = ("accuracy", "nll", "ece", "error_auroc", "epistemic", "seconds")


def study():
    told = {"task_name": "sentiment", "model_name_or_path": "minilm", "recipe": "fast", "attention": "plain"}
    job = resolve({**told, "precision": "bf16", "max_steps": STEPS, "num_samples": 0})
    with tempfile.TemporaryDirectory() as folder:
        trained = run(job, folder, report=False).trained
    task, model = job.make_task(), trained.model
    rows = subsample(trained.data.evaluation["validation"], ROWS)

    def measured(sampler, **about):
        predictor = Predictor(sampler, trained.tokenizer, DRAWS, max_length=job.recipe.max_length)
        with torch.autocast("cpu", torch.bfloat16):
            found = with_temperatures(hf_bam.compare({"": predictor}, task.inputs(rows), task.labels(rows)))
        odds = np.log(found.outcomes[""].samples[..., 1] / found.outcomes[""].samples[..., 0])  # (S, B)
        own, scaled = found.table
        row = {**about, "logit_deviation": float(odds.std(axis=0).mean()), "nll_with_temperature": scaled["nll"]}
        return row | {name: own[name] for name in MEASURES}

    yield measured(Plain(model), method="plain")
    for rate in RATES:
        yield measured(Dropout(model, rate=rate), method="dropout", rate=rate)
    for layers, kind, k in product(LAYERS, KINDS, SHAPES):
        config = hf_bam.BamConfig(prior="none", noise=kind, layers=layers)
        yield measured(with_noise(model, config, k), method=kind, k=k, layers=layers)
        if k == 1:
            both = with_noise(model, config, k, dropout=USUAL_DROPOUT)
            yield measured(both, method=kind, k=k, layers=layers, rate=USUAL_DROPOUT)
