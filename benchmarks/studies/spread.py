"""Spread of the predictions of a plain model under noise that it was not trained with.

MiniLM is finetuned on the VADER sentiment snippets with plain attention. Its predictions are then sampled with noise
of all kinds and widths, in all layers or in the last one, without and with dropout.
"""

import tempfile
from itertools import product

import numpy as np
import torch

import hf_bam
from hf_bam.evaluation.temperature import with_temperatures
from hf_bam.prediction import Dropout, Plain, Predictor
from hf_bam.training.evaluation import subsample
from hf_bam.training.run import run
from hf_bam.training.settings import resolve
from hf_bam.training.uncertainty import USUAL_DROPOUT

from .methods import RATES, SHAPES, with_noise

KINDS, LAYERS = ("entry", "key", "token"), ("all", 1)
STEPS, ROWS, NUM_SAMPLES = 300, 300, 16
MEASURES = ("accuracy", "nll", "ece", "error_auroc", "epistemic", "seconds")


def rows():
    settings = {"task_name": "sentiment", "model_name_or_path": "minilm", "recipe": "fast", "attention": "plain"}
    job = resolve({**settings, "precision": "bf16", "max_steps": STEPS, "num_samples": 0})
    with tempfile.TemporaryDirectory() as folder:
        trained = run(job, folder, report=False).trained
    task, model = job.make_task(), trained.model
    sentences = subsample(trained.data.evaluation["validation"], ROWS)

    def measured(sampler, **about):
        predictor = Predictor(sampler, trained.tokenizer, NUM_SAMPLES, max_length=job.recipe.max_length)
        with torch.autocast("cpu", torch.bfloat16):
            found = with_temperatures(hf_bam.compare({"": predictor}, task.inputs(sentences), task.labels(sentences)))
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
