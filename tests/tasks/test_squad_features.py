"""Sliding windows: nothing of a context is lost, and positions point to the answer."""

from itertools import pairwise

import pytest
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertForQuestionAnswering, DistilBertForQuestionAnswering, PreTrainedTokenizerFast

from hf_bam.tasks.squad import ROW, Squad

from ..models import bert, distilbert

CONTEXT = " ".join(
    f"The keeper of lighthouse {n} was called Nr{n}, and he came from harbour {n * 7}." for n in range(20)
)

INPUTS = ["input_ids", "token_type_ids", "attention_mask"]


def rows(*questions, context=CONTEXT):
    """Rows of pairs (question, answer); None is no answer."""
    return Dataset.from_list(
        [
            {
                "id": str(index),
                "question": question,
                "context": context,
                "answers": {"text": [answer], "answer_start": [context.index(answer)]}
                if answer
                else {"text": [], "answer_start": []},
            }
            for index, (question, answer) in enumerate(questions)
        ],
        features=ROW,
    )


@pytest.fixture(scope="module")
def end_tokenizer():
    """Words with the space before them, a classification token at the end, and padding on the left."""
    words = ["▁" + word.rstrip(".,") for word in set(f"Who? {CONTEXT}".split())]
    vocabulary = {word: index for index, word in enumerate(["<pad>", "<unk>", "<sep>", "<cls>", ",", ".", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <sep> <cls>", pair="$A <sep> $B:1 <sep>:1 <cls>:2", special_tokens=[("<sep>", 2), ("<cls>", 3)]
    )
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "sep_token": "<sep>", "cls_token": "<cls>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, padding_side="left", model_input_names=INPUTS, **special
    )


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
    features = Squad(version="2.0", doc_stride=16).encode(data, tokenizer, max_length, training=False)
    whole = tokenizer(CONTEXT, add_special_tokens=False, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    assert features["row"][:] == sorted(features["row"])
    for row in range(len(data)):
        own = features.select([i for i, owner in enumerate(features["row"]) if owner == row])
        assert (len(own) == 1) == (max_length == 384)
        found = [
            [(a, b) for a, b in zip(begins, ends, strict=True) if a >= 0]
            for begins, ends in zip(own["begins"], own["ends"], strict=True)
        ]
        assert sorted({place for window in found for place in window}) == whole
        assert all(len(tokens) <= max_length for tokens in own["input_ids"])
        assert all(window[-16:] == after[:16] for window, after in pairwise(found))


@pytest.mark.parametrize("kind", ["tokenizer", "end_tokenizer"])
def test_positions_point_to_the_answer_in_every_window_that_holds_it(kind, request):
    tokenizer = request.getfixturevalue(kind)
    data, task = rows(*QUESTIONS), Squad(version="2.0", doc_stride=16)
    training, plain = (task.encode(data, tokenizer, 64, training=flag) for flag in (True, False))
    assert training["input_ids"][:] == plain["input_ids"][:]
    held = dict.fromkeys(range(len(data)), 0)
    for labels, feature in zip(training, plain, strict=True):
        answers = data[feature["row"]]["answers"]
        text, start = (answers["text"] or [None])[0], (answers["answer_start"] or [-1])[0]
        first, last = labels["start_positions"], labels["end_positions"]
        known = [(a, b) for a, b in zip(feature["begins"], feature["ends"], strict=True) if a >= 0]
        if text and known[0][0] <= start and start + len(text) <= known[-1][1]:
            assert CONTEXT[feature["begins"][first] : feature["ends"][last]].strip() == text
            held[feature["row"]] += 1
        else:
            assert first == last == feature["null"]
            assert feature["input_ids"][first] == tokenizer.cls_token_id
    assert [min(count, 1) for count in held.values()] == [1, 1, 1, 0]


def test_an_answer_that_is_part_of_a_word_has_the_whole_token(tokenizer):
    feature = Squad().encode(rows(("Who?", "light")), tokenizer, 384, training=True)[0]
    assert feature["start_positions"] == feature["end_positions"]
    assert tokenizer.decode([feature["input_ids"][feature["start_positions"]]]).startswith("light")


def test_the_collator_pads_on_the_right_and_keeps_what_the_model_takes(end_tokenizer):
    data, task = rows(("Who?", "Nr3"), context=CONTEXT[:300]), Squad(doc_stride=8)
    collate = task.collator(end_tokenizer, BertForQuestionAnswering(bert().config))
    for training in (True, False):
        features = list(task.encode(data, end_tokenizer, 24, training=training))
        batch = collate(features)
        positions = {"start_positions", "end_positions"} if training else set()
        assert set(batch) == {*INPUTS, *positions}
        for feature, ids, mask in zip(features, batch["input_ids"], batch["attention_mask"], strict=True):
            length = len(feature["input_ids"])
            assert ids[:length].tolist() == feature["input_ids"]
            assert mask.tolist() == [1] * length + [0] * (len(ids) - length)
        assert {len(feature["input_ids"]) for feature in features} != {24}
    without_types = task.collator(end_tokenizer, DistilBertForQuestionAnswering(distilbert(num_labels=2).config))
    assert set(without_types(features)) == {"input_ids", "attention_mask"}


def test_blanks_around_a_question_do_not_count(tokenizer):
    plain, spaced = (
        Squad().encode(rows((q, "Nr3")), tokenizer, 64, training=True) for q in ("Who?", " \n " * 99 + "Who? ")
    )
    assert plain["input_ids"][:] == spaced["input_ids"][:]


def test_a_question_that_leaves_no_room_is_told(tokenizer):
    with pytest.raises(ValueError, match=r"A question of 60 tokens leaves no room for a context within 64"):
        Squad().encode(rows(("why " * 60, None)), tokenizer, 64, training=False)
