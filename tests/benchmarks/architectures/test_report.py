"""Tables of the sweep."""

import pytest

from benchmarks.architectures.report import reason, summary, type_table

ROWS = [
    {"type": "bert", "task": "causal LM", "status": "passed"},
    {"type": "bert", "task": "masked LM", "status": "failed", "failures": {"kl": "kl = nan", "noise": "equal"}},
    {
        "type": "fnet",
        "task": "masked LM",
        "status": "unsupported",
        "reason": "It has no attention that goes through it.",
    },
]
FOUND = {"transformers": "5.0", "torch": "2.0", "rows": ROWS}


def test_the_summary_counts_classes_by_status():
    lines = summary(FOUND).splitlines()
    assert lines[0] == "transformers 5.0, torch 2.0; 2 model types."
    assert lines[-2:] == ["| masked LM | 2 | 0 | 1 | 1 | 0 |", "| all | 3 | 1 | 1 | 1 | 0 |"]


def test_a_model_type_has_one_line_with_the_reasons():
    assert type_table(FOUND).splitlines()[2:] == [
        "| bert |  | works |  | fails | wrong: kl, noise |",
        "| fnet |  |  |  | unsupported | no attention |",
    ]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("A (GitAttention) computes its attention without B.", "GitAttention has attention code of its own"),
        ("needs something else", "needs something else"),
    ],
)
def test_known_messages_are_shortened(message, words):
    assert reason({"status": "unsupported", "reason": message}) == words
