"""Sweep over architectures: checks, workers and results."""

import json
import os
import signal
from argparse import Namespace

import pytest
import torch
import transformers
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import hf_bam
from benchmarks.architectures import sweep

WORK = [
    ("bert", "sequence classification"),
    ("bert", "causal LM"),
    ("bert", "masked LM"),
    ("bigbird_pegasus", "causal LM"),
    ("encoder-decoder", "seq2seq LM"),
    ("gemma3_text", "causal LM"),
    ("llama", "causal LM"),
    ("nllb-moe", "seq2seq LM"),
    ("t5", "seq2seq LM"),
    ("t5", "sequence classification"),
    ("zamba", "causal LM"),
]
WORK_OR_UNSUPPORTED = [
    ("blt", "causal LM"),  # attention over patches of tokens
    ("deepseek_v32", "causal LM"),  # keys that an indexer selects
    ("minimax_m3_vl_text", "causal LM"),
    ("gpt_oss", "causal LM"),
    ("xlnet", "sequence classification"),
]


def examine(model_type, task):
    pair = next((pair for pair in sweep.pairs() if pair[:2] == (model_type, task)), None)
    if pair is None:
        pytest.skip(f"transformers {transformers.__version__} has no {model_type}")
    return sweep.examine(*pair)


@pytest.mark.parametrize(("model_type", "task"), WORK)
def test_architectures_that_work(model_type, task):
    record = examine(model_type, task)
    assert record["status"] == "passed", record
    assert "skipped" not in record


@pytest.mark.parametrize(("model_type", "task"), WORK_OR_UNSUPPORTED)
def test_architectures_with_attention_of_another_kind_work_or_are_unsupported(model_type, task):
    record = examine(model_type, task)
    assert record["status"] in ("passed", "unsupported"), record


def without_mask(module, query, key, value, attention_mask, **kwargs):
    return BAM(module, query, key, value, None, **kwargs)


def never_causal(module, query, key, value, attention_mask, **kwargs):
    return BAM(module, query, key, value, attention_mask, **{**kwargs, "is_causal": False})


def only_mean(module, query, key, value, attention_mask, **kwargs):
    return ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, value, attention_mask, **kwargs)


def without_cache(module, query, key, value, attention_mask, **kwargs):
    if query.shape[2] == 1 and key.shape[2] > 1:
        key = torch.zeros_like(key)
    return BAM(module, query, key, value, attention_mask, **kwargs)


def without_scale(module, query, key, value, attention_mask, **kwargs):
    return BAM(module, query, key, value, attention_mask, **{**kwargs, "scaling": 1.0})


BAM = ALL_ATTENTION_FUNCTIONS["bam"]
WRONG = [
    (without_mask, "bert", "sequence classification", {"mean mode", "vanishing noise", "kl"}),
    (without_mask, "t5", "seq2seq LM", {"mean mode", "vanishing noise", "generate"}),
    (never_causal, "llama", "causal LM", {"mean mode", "vanishing noise", "causality"}),
    (only_mean, "bert", "masked LM", {"noise", "kl"}),
    (without_cache, "llama", "causal LM", {"generate"}),
    (without_scale, "marian", "seq2seq LM", {"mean mode", "vanishing noise", "generate"}),
]


@pytest.mark.parametrize(("attention", "model_type", "task", "checks"), WRONG)
def test_wrong_attention_is_found(monkeypatch, attention, model_type, task, checks):
    for name in filter(lambda name: name.startswith("bam"), ALL_ATTENTION_FUNCTIONS.valid_keys()):
        monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, name, attention)
    record = examine(model_type, task)
    assert record["status"] == "failed"
    assert checks <= set(record["failures"])


def test_any_other_exception_is_a_failure(monkeypatch):
    monkeypatch.setattr(hf_bam, "patch", lambda model, **settings: 1 / 0)
    assert examine("bert", "masked LM")["failures"] == {"patch": "ZeroDivisionError: division by zero"}


def crash(connection):
    os.kill(os.getpid(), signal.SIGSEGV)


@pytest.mark.slow
def test_a_crash_or_a_hang_affects_one_pair():
    pair = next(sweep.pairs())
    (record,) = sweep.sweep([pair], target=crash)
    assert record["status"] == "failed"
    assert record["failures"] == {"process": "the process ended with code -11"}
    (record,) = sweep.sweep([pair], seconds=0.01)
    assert record["failures"] == {"process": "took longer than 0.01 seconds"}


def test_an_interrupted_sweep_is_resumed(monkeypatch, tmp_path):
    pairs = [("b", "causal LM", "B"), ("a", "masked LM", "A"), ("a", "causal LM", "A")]
    asked = []

    def answers(wanted, jobs):
        for model_type, task, class_name in wanted:
            asked.append((model_type, task))
            if len(asked) == 2:
                raise KeyboardInterrupt
            yield {"type": model_type, "task": task, "class": class_name, "status": "passed"}

    changes = {"PROGRESS": tmp_path / "progress.jsonl", "FILE": tmp_path / "results.json"}
    for name, value in {**changes, "pairs": lambda: pairs, "sweep": answers, "pages": dict}.items():
        monkeypatch.setattr(sweep, name, value)
    with pytest.raises(KeyboardInterrupt):
        sweep.main(Namespace(jobs=1))
    sweep.main(Namespace(jobs=1))
    assert asked == [("a", "causal LM"), ("a", "masked LM"), ("a", "masked LM"), ("b", "causal LM")]
    found = json.loads(changes["FILE"].read_text(encoding="utf-8"))
    assert found["transformers"] == transformers.__version__
    assert [row["type"] for row in found["rows"]] == ["a", "a", "b"]
    assert not changes["PROGRESS"].exists()


def test_the_results_name_every_pair_once_and_in_order():
    found = json.loads(sweep.FILE.read_text(encoding="utf-8"))
    names = [(row["type"], row["task"], row["class"]) for row in found["rows"]]
    assert names == sorted(set(names))
    if found["transformers"] == transformers.__version__:
        assert names == sorted(sweep.pairs())


@pytest.mark.slow
def test_every_architecture_has_the_status_of_the_results():
    found = json.loads(sweep.FILE.read_text(encoding="utf-8"))
    if found["transformers"] != transformers.__version__:
        pytest.skip(f"the results are those of transformers {found['transformers']}")
    records = sweep.sweep(sorted(sweep.pairs()), os.cpu_count())
    expected = {(row["type"], row["task"]): row["status"] for row in found["rows"]}
    assert {(record["type"], record["task"]): record["status"] for record in records} == expected
