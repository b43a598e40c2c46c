"""A small recurrent model learns the small corpus and its alignments, with plain and with Bayesian attention."""

import pytest
import torch

import hf_bam
from hf_bam.evaluation.metrics import alignment_accuracy
from hf_bam.prediction import Plain, Predictor
from hf_bam.tasks.alignments import token_alignments
from hf_bam.tasks.language import ceiling
from hf_bam.tasks.translation import Translation

from .learning import learn

pytestmark = pytest.mark.slow

TASK = Translation("en", "qaa", dataset="language", max_target_length=48, vocabulary=400, width=128, num_beams=1)
STEPS = 400
PATCHES = {
    "Bayesian": {"k": 2.0},
    "marginal": {"family": "categorical", "objective": "marginal"},
    "variational": {"family": "categorical", "objective": "variational"},
}
KINDS = ["input feeding", "no input feeding", "scheduled sampling", *PATCHES]


@pytest.fixture(scope="module")
def data():
    return TASK.load(None)


@pytest.fixture(scope="module", params=KINDS)
def trained(request, data):
    torch.manual_seed(0)
    settings = {"no input feeding": {"input_feeding": False}, "scheduled sampling": {"scheduled_sampling": 0.2}}
    model, tokenizer = TASK.build("recurrent", data, **settings.get(request.param, {}))
    if request.param in PATCHES:
        hf_bam.patch(model, **PATCHES[request.param])
    return learn(TASK, data, model, tokenizer, STEPS, 3e-3), tokenizer


def test_it_translates(trained, data):
    rows = data.evaluation["test"]
    texts = [TASK.prediction(result) for result in Predictor(Plain(trained[0]), trained[1])(TASK.inputs(rows))]
    assert TASK.score(rows, texts)["bleu"] > ceiling(rows) - 10


def test_its_attention_is_an_alignment(trained, data):
    """At the first token of a word. A random source token is right once in ten times."""
    model, tokenizer = trained
    rows = data.evaluation["test"]
    batch = TASK.collator(tokenizer, model)(list(TASK.encode(rows, tokenizer, 64)))
    with torch.no_grad():
        weights = model(**batch, output_attentions=True).cross_attentions[0].mean(dim=1)
    assert alignment_accuracy(token_alignments(rows, tokenizer, first_only=True), weights) > 0.5


def test_prior_and_posterior_of_a_latent_alignment(trained, data):
    """The order of the target is determined by the source, so that the posterior knows little more than the prior."""
    model, tokenizer = trained
    if not hf_bam.is_patched(model) or hf_bam.get_config(model).family != "categorical":
        return
    rows = data.evaluation["test"]
    batch = TASK.collator(tokenizer, model)(list(TASK.encode(rows, tokenizer, 64)))
    found, truth = hf_bam.alignments(model, batch, batch["labels"]), token_alignments(rows, tokenizer, first_only=True)
    for weights in (found.p, found.q):
        assert weights is None or alignment_accuracy(truth, weights) > 0.5
