import math

from hf_bam.evaluation.tables import as_markdown, as_text

ROWS = [
    {"method": "plain", "accuracy": 0.5, "samples": 1},
    {"method": "BAM", "accuracy": math.nan, "extra": 123.456, "samples": None},
]


def test_text():
    assert as_text(ROWS).splitlines() == [
        "method  accuracy  samples  extra",
        "plain      0.500        1",
        "BAM            -        -  123.5",
    ]


def test_markdown():
    assert as_markdown(ROWS).splitlines()[1:3] == ["| :--- | ---: | ---: | ---: |", "| plain | 0.500 | 1 |  |"]


def test_markdown_with_two_text_columns():
    rule = as_markdown([{"task": "cola", "method": "plain", "nll": 0.5}], text_columns=2).splitlines()[1]
    assert rule == "| :--- | :--- | ---: |"
