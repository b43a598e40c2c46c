"""A small Marian with Bayesian attention learns the small language from scratch, and doubts where it has to."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch.optim.lr_scheduler import OneCycleLR

import hf_bam
from hf_bam.tasks.language import ceiling
from hf_bam.tasks.translation import Translation

pytestmark = pytest.mark.slow

TASK = Translation("en", "qaa", dataset="language", max_target_length=48, vocabulary=400, width=128, layers=2)
STEPS, BATCH = 1000, 32


@pytest.fixture(scope="module")
def data():
    return TASK.load(None)


@pytest.fixture(scope="module")
def trained(data):
    torch.manual_seed(0)
    model, tokenizer = TASK.build("scratch", data)
    hf_bam.patch(model)
    features = list(TASK.encode(data.train, tokenizer, 64, training=True))
    collator = TASK.collator(tokenizer, model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = OneCycleLR(optimizer, max_lr=2e-3, total_steps=STEPS, pct_start=0.1, anneal_strategy="linear")
    order = torch.cat([torch.randperm(len(features)) for _ in range(1 + STEPS * BATCH // len(features))])
    for indices in order.split(BATCH)[:STEPS]:
        model.train()(**collator([features[i] for i in indices])).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return model.eval(), tokenizer


@pytest.fixture(scope="module")
def predictions(trained, data):
    return hf_bam.BamPredictor(*trained, samples=16)(TASK.inputs(data.evaluation["test"]))


def of_kind(rows, *kinds):
    return [index for index, kind in enumerate(rows["kind"]) if kind in kinds]


def test_it_translates(predictions, data):
    rows, texts = data.evaluation["test"], [result.text for result in predictions]
    solvable = of_kind(rows, "plain", "resolved")
    bleu = TASK.score(rows.select(solvable), [texts[i] for i in solvable])["bleu"]
    all_bleu, best = TASK.score(rows, texts)["bleu"], ceiling(rows)
    print(f"BLEU {all_bleu:.1f} of about {best:.1f}; where context resolves all {bleu:.1f}")
    assert bleu > 95
    assert all_bleu > best - 4
    for kind in ("plain", "resolved", "open"):
        chosen = of_kind(rows, kind)
        right = np.mean([texts[i] in rows[i]["translations"] for i in chosen])
        print(f"{kind}: {right:.3f} right")
        assert right > 0.9


def test_it_doubts_where_a_word_is_open(predictions, data):
    rows = data.evaluation["test"]
    is_open = np.isin(np.arange(len(rows)), of_kind(rows, "open"))
    for name in ("entropy", "epistemic"):
        highest = np.array([max(getattr(token, name) for token in result.tokens) for result in predictions])
        means = {kind: highest[of_kind(rows, kind)].mean() for kind in ("plain", "resolved", "open")}
        area = roc_auc_score(is_open, highest)
        print(f"{name}, highest of a sentence: {means}, AUROC {area:.3f}")
        if name == "entropy":
            assert area > 0.9
            assert means["open"] == pytest.approx(math.log(2), abs=0.2)
            assert max(means["plain"], means["resolved"]) < 0.35


def test_the_doubt_is_at_the_very_word(trained, predictions, data):
    """The token of the highest entropy is the first one in which the two right translations differ."""
    rows, tokenizer, found = data.evaluation["test"], trained[1], []
    for index in of_kind(rows, "open"):
        pair = zip(*(tokenizer.tokenize(text) for text in rows[index]["translations"]), strict=False)
        fork = next(position for position, (one, other) in enumerate(pair) if one != other)
        found.append(np.argmax([token.entropy for token in predictions[index].tokens]) == fork)
    print(f"doubt at the open word: {np.mean(found):.3f}")
    assert np.mean(found) > 0.9
