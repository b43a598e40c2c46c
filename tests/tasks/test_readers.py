import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_bam.tasks.base import DataError
from hf_bam.tasks.readers import READERS, read_csv, read_json, read_parquet, read_tsv


def file(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def values(records):
    return [record.values for record in records]


def test_tsv_takes_quotes_for_text_and_only_line_feeds_for_line_ends(tmp_path):
    path = file(tmp_path, "a.tsv", '\ufefftext\tlabel\r\n"One\x85two\u2028three\rfour\t1\r\n\n"\t0')
    rows = list(read_tsv(path, ["text", "label"]))
    assert values(rows) == [{"text": '"One\x85two\u2028three\rfour', "label": "1"}, {"text": '"', "label": "0"}]
    assert [row.place for row in rows] == ["line 2", "line 4"]


def test_tsv_without_a_header(tmp_path):
    path = file(tmp_path, "a.tsv", "1\tone\n2\ttwo\n")
    rows = list(read_tsv(path, ["text"], header=["label", "text"]))
    assert values(rows) == [{"label": "1", "text": "one"}, {"label": "2", "text": "two"}]
    assert rows[0].place == "line 1"


@pytest.mark.parametrize("line", ["only", "one\t1\tmore"])
def test_tsv_names_a_broken_line_or_collects_it(tmp_path, line):
    path = file(tmp_path, "a.tsv", f"text\tlabel\none\t1\n{line}\ntwo\t2\n")
    message = rf"a\.tsv, line 3: expected 2 columns \(text, label\), found {len(line.split(chr(9)))}\."
    with pytest.raises(DataError, match=message):
        list(read_tsv(path, ["text"]))
    broken = []
    assert [row["label"] for row in read_tsv(path, ["text"], broken=broken)] == ["1", "2"]
    assert [str(error) for error in broken] == [
        f"{path}, line 3: expected 2 columns (text, label), found {len(line.split(chr(9)))}."
    ]


def test_csv_rows_span_lines_and_say_where_they_begin(tmp_path):
    path = file(tmp_path, "a.csv", '\ufefftext,label\n"a, ""b""\nc",1\n\nd,2\n')
    rows = list(read_csv(path, ["text", "label"]))
    assert values(rows) == [{"text": 'a, "b"\nc', "label": "1"}, {"text": "d", "label": "2"}]
    assert [row.place for row in rows] == ["line 2", "line 5"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('text,label\na,1\n"b,2\n', "line 3: expected a row of comma-separated values, found unexpected end of data"),
        ('text,label\n"a"b,2\n', "line 2: expected a row of comma-separated values"),
        ("text,label\na,1\nb\n", r"line 3: expected 2 columns \(text, label\), found 1"),
        ("sentence,label\na,1\n", "line 1: expected a column 'text', found the columns 'sentence', 'label'"),
        ("", "line 1: expected a column 'text', found the columns"),
        ("text,label,text\na,1,b\n", "line 1: expected every column once, found 'text' twice"),
        ("text,a,a\na,1,b\n", "line 1: expected every column once, found 'a' twice"),
        (b"text,label\na,1\nb\xff,2\n", "line 3: expected UTF-8 text, found 'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_csv_errors(tmp_path, content, message):
    with pytest.raises(DataError, match=r"a\.csv, " + message):
        list(read_csv(file(tmp_path, "a.csv", content), ["text"]))


ROWS = [{"text": "a", "label": 1}, {"text": "b\u2028", "label": None}]


@pytest.mark.parametrize(
    "content", [json.dumps(ROWS), "\n" + "\n\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS)]
)
def test_json_is_a_list_or_an_object_a_line(tmp_path, content):
    assert values(read_json(file(tmp_path, "a.json", "\ufeff" + content), ["text"])) == ROWS


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"text": "a"},\n {"text": "b"]', "line 2: expected JSON, found Expecting ',' delimiter"),
        ('[{"text": "a"}, 3]', "row 2: expected an object with the columns, found 3"),
        ('[{"text": "a"}, {"b": 1}]', "row 2: expected a column 'text', found the columns 'b'"),
        ('{"text": "a"}\n{"text": \n', "line 2: expected a JSON object"),
        ('{"text": "a"}\n[1]\n', "line 2: expected an object with the columns"),
        ('{"text": "a"}\n\n{"b": 1}\n', "line 3: expected a column 'text', found the columns 'b'"),
        ('{"text": "a"}\n{"text": "b", "text": "c"}\n', "line 2: expected every name once .*, found 'text' twice"),
        ('[{"text": "a"}, {"text": "b", "text": "c"}]', "row 2: expected every name once .*, found 'text' twice"),
    ],
)
def test_json_errors(tmp_path, content, message):
    with pytest.raises(DataError, match=r"a\.jsonl, " + message):
        list(read_json(file(tmp_path, "a.jsonl", content), ["text"]))


def test_parquet(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), path)
    rows = list(read_parquet(path, ["text"]))
    assert values(rows) == ROWS
    assert [row.place for row in rows] == ["row 1", "row 2"]
    with pytest.raises(
        DataError, match=r"a\.parquet, the file: expected a column 'x', found the columns 'text', 'label'"
    ):
        list(read_parquet(path, ["x"]))
    with pytest.raises(DataError, match=r"b\.parquet, the file: expected Parquet, found"):
        list(read_parquet(file(tmp_path, "b.parquet", "text,label\n"), ["text"]))


def test_columns_that_occur_twice(tmp_path):
    with pytest.raises(DataError, match=r"a\.tsv, line 1: expected every column once, found 'label' twice"):
        list(read_tsv(file(tmp_path, "a.tsv", "text\tlabel\tlabel\na\t1\t0\n"), ["text"]))
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table([pa.array(["a"]), pa.array([0]), pa.array([1])], names=["text", "label", "label"]), path)
    with pytest.raises(DataError, match=r"a\.parquet, the file: expected every column once, found 'label' twice"):
        list(read_parquet(path, ["text", "label"]))
    unnamed = file(tmp_path, "a.csv", "text,label,,\na,1,,\n")  # as a spreadsheet leaves them
    assert next(read_csv(unnamed, ["text"]))["label"] == "1"


@pytest.mark.parametrize("ending", READERS)
def test_a_missing_file(tmp_path, ending):
    with pytest.raises(DataError, match="there is no such file"):
        list(READERS[ending](tmp_path / f"a{ending}", ["text"]))
