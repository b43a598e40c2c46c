"""Features of SQuAD: windows cover the whole context, and positions point to the answer."""

from itertools import pairwise

import pytest
from transformers import BertForQuestionAnswering, DistilBertForQuestionAnswering

from hf_bam.tasks.squad import Squad

from ..models import bert, distilbert
from .squad_scores import CONTEXT, INPUTS, rows, windows_of

QUESTIONS = [
    ("Who kept the first lighthouse?", "Nr0"),
    ("Where did Nr7 come from?", "harbour 49"),
    ("Who kept the last lighthouse?", "Nr19"),
    ("Who lives on the moon?", None),
]


@pytest.mark.parametrize("max_length", [48, 128, 384])
@pytest.mark.parametrize("kind", ["tokenizer", "end_tokenizer"])
def test_every_token_of_the_context_is_in_a_window(kind, max_length, request):
    tokenizer = request.getfixturevalue(kind)
    data = rows(*QUESTIONS)
    features = windows_of(data, tokenizer, max_length, 16)
    whole = tokenizer(CONTEXT, add_special_tokens=False, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    assert [feature["row"] for feature in features] == sorted(feature["row"] for feature in features)
    for row in range(len(data)):
        own = [feature for feature in features if feature["row"] == row]
        assert (len(own) == 1) == (max_length == 384)
        found = [
            [(a, b) for a, b in zip(feature["begins"], feature["ends"], strict=True) if a >= 0] for feature in own
        ]
        assert sorted({place for window in found for place in window}) == whole
        assert all(len(feature["input_ids"]) <= max_length for feature in own)
        assert all(window[-16:] == after[:16] for window, after in pairwise(found))


@pytest.mark.parametrize("kind", ["tokenizer", "end_tokenizer"])
def test_positions_point_to_the_answer_in_every_window_that_contains_it(kind, request):
    tokenizer = request.getfixturevalue(kind)
    data, task = rows(*QUESTIONS), Squad(version="2.0", doc_stride=16)
    training, plain = task.encode(data, tokenizer, 64), windows_of(data, tokenizer, 64, 16)
    assert training["input_ids"][:] == [feature["input_ids"] for feature in plain]
    containing = dict.fromkeys(range(len(data)), 0)
    for labels, feature in zip(training, plain, strict=True):
        answers = data[feature["row"]]["answers"]
        text, start = (answers["text"] or [None])[0], (answers["answer_start"] or [-1])[0]
        first, last = labels["start_positions"], labels["end_positions"]
        known = [(a, b) for a, b in zip(feature["begins"], feature["ends"], strict=True) if a >= 0]
        if text and known[0][0] <= start and start + len(text) <= known[-1][1]:
            assert CONTEXT[feature["begins"][first] : feature["ends"][last]].strip() == text
            containing[feature["row"]] += 1
        else:
            assert first == last == feature["null"]
            assert feature["input_ids"][first] == tokenizer.cls_token_id
    assert [min(count, 1) for count in containing.values()] == [1, 1, 1, 0]


def test_an_answer_that_is_part_of_a_word_has_the_whole_token(tokenizer):
    feature = Squad().encode(rows(("Who?", "light")), tokenizer, 384)[0]
    assert feature["start_positions"] == feature["end_positions"]
    assert tokenizer.decode([feature["input_ids"][feature["start_positions"]]]).startswith("light")


def test_the_collator_pads_on_the_right_and_keeps_inputs_of_the_model(end_tokenizer):
    data, task = rows(("Who?", "Nr3"), context=CONTEXT[:300]), Squad(doc_stride=8)
    collate = task.collator(end_tokenizer, BertForQuestionAnswering(bert().config))
    labels = {"start_positions", "end_positions"}
    features = list(task.encode(data, end_tokenizer, 24))
    batch = collate(features)
    assert set(batch) == {*INPUTS, *labels}
    for feature, ids, mask in zip(features, batch["input_ids"], batch["attention_mask"], strict=True):
        length = len(feature["input_ids"])
        assert ids[:length].tolist() == feature["input_ids"]
        assert mask.tolist() == [1] * length + [0] * (len(ids) - length)
    assert {len(feature["input_ids"]) for feature in features} != {24}
    unlabelled = [{name: value for name, value in feature.items() if name not in labels} for feature in features]
    assert set(collate(unlabelled)) == set(INPUTS)
    without_types = task.collator(end_tokenizer, DistilBertForQuestionAnswering(distilbert(num_labels=2).config))
    assert set(without_types(features)) == {"input_ids", "attention_mask", *labels}


def test_whitespace_around_a_question_is_ignored(tokenizer):
    plain, spaced = (Squad().encode(rows((q, "Nr3")), tokenizer, 64) for q in ("Who?", " \n " * 99 + "Who? "))
    assert plain["input_ids"][:] == spaced["input_ids"][:]


def test_a_question_that_leaves_no_room_is_an_error(tokenizer):
    with pytest.raises(ValueError, match=r"A question of 60 tokens leaves no room for a context within 64"):
        Squad().encode(rows(("why " * 60, None)), tokenizer, 64)
