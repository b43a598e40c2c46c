"""Tables as text and as Markdown."""

import math

import pytest

from hf_bam.evaluation.tables import as_markdown, as_text, format_value, markdown_table

ROWS = [
    {"method": "plain", "accuracy": 0.5, "passes": 1},
    {"method": "BAM", "accuracy": math.nan, "extra": 123.456, "passes": None},
]


def test_text():
    assert as_text(ROWS).splitlines() == [
        "method  accuracy  passes  extra",
        "plain      0.500       1",
        "BAM            -       -  123.5",
    ]


def test_columns_that_do_not_fit_follow_below():
    assert as_text(ROWS, width=24).splitlines() == [
        "method  accuracy  passes",
        "plain      0.500       1",
        "BAM            -       -",
        "",
        "method  extra",
        "plain",
        "BAM     123.5",
    ]
    assert max(map(len, as_text(ROWS, width=23).splitlines())) == 21
    assert as_text(ROWS, width=1).count("method") == 3  # a column has to be somewhere


def test_markdown():
    assert as_markdown(ROWS).splitlines()[1:3] == ["| :--- | ---: | ---: | ---: |", "| plain | 0.500 | 1 |  |"]


def test_markdown_with_two_text_columns():
    rule = as_markdown([{"task": "cola", "method": "plain", "nll": 0.5}], text_columns=2).splitlines()[1]
    assert rule == "| :--- | :--- | ---: |"


def test_cells_of_a_markdown_table_are_one_line_without_pipes():
    table = markdown_table(("a", "b", "c"), [("x|y", "two\nlines", "**1**")], "lr")
    assert table == "| a | b | c |\n| :--- | ---: | ---: |\n| x\\|y | two lines | **1** |\n"


@pytest.mark.parametrize(
    ("value", "name", "text"),
    [
        (0.12345, "nll", "0.123"),
        (-9.9996, "nll", "-10.000"),
        (1234.56, "nll", "1235"),
        (1.0, "passes", "1.0"),
        (32.0, "passes", "32.0"),
        (123.456, "seconds", "123.5"),
        (math.nan, "seconds", "-"),
        (math.inf, "nll", "inf"),
        (None, "nll", "-"),
        (7, "passes", "7"),
        ("text", "nll", "text"),
    ],
)
def test_format_of_values(value, name, text):
    assert format_value(value, name) == text
