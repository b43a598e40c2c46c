import gzip
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset

from hf_bam.tasks import get_task
from hf_bam.tasks.base import DataError
from hf_bam.tasks.classification import label_names
from hf_bam.tasks.custom import Custom

ROWS = [{"text": "fine", "other": "so", "stars": 10}, {"text": "poor", "other": "no", "stars": 9}]


def csv(rows):
    return "\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)])


def put(folder, **files):
    for stem, content in files.items():
        name, ending = stem.rsplit("_", 1)
        (folder / f"{name}.{ending}").write_text(content)


def load(folder, label="stars", **options):
    return get_task("custom", text_column="text", label_column=label, **options).load(folder)


@pytest.mark.parametrize("ending", ["csv", "tsv", "json", "jsonl", "parquet"])
def test_every_format_gives_the_same_rows(tmp_path, ending):
    for stem in ("train", "dev"):
        file = tmp_path / f"{stem}.{ending}"
        if ending == "parquet":
            pq.write_table(pa.Table.from_pylist(ROWS), file)
        elif ending == "json":
            file.write_text(json.dumps(ROWS))
        elif ending == "jsonl":
            file.write_text("\n".join(map(json.dumps, ROWS)))
        else:
            file.write_text(csv(ROWS).replace(",", "\t" if ending == "tsv" else ","))
    data = load(tmp_path, pair_column="other")
    expected = [
        {"sentence1": "fine", "sentence2": "so", "label": 1, "idx": 0},
        {"sentence1": "poor", "sentence2": "no", "label": 0, "idx": 1},
    ]
    assert list(data.train) == list(data.evaluation["validation"]) == expected
    assert label_names(data.train) == ["9", "10"]  # as numbers, not as text
    assert data.test == {}


def test_a_test_file_is_evaluated_with_labels_and_predicted_without(tmp_path):
    put(tmp_path, train_csv=csv(ROWS), validation_csv=csv(ROWS), test_jsonl='{"text": "well"}')
    data = load(tmp_path)
    assert (list(data.evaluation), list(data.test)) == (["validation"], ["test"])
    assert data.test["test"][0] == {"sentence1": "well", "label": None, "idx": 0}
    task = get_task("custom", text_column="text", label_column="stars")
    file = task.write(data.test["test"], [1], "test", tmp_path / "out")
    assert (file.name, file.read_text()) == ("custom-test.tsv", "index\tprediction\n0\t10\n")
    put(tmp_path, test_jsonl='{"text": "well", "stars": 9}')
    data = load(tmp_path)
    assert (list(data.evaluation), data.test) == (["validation", "test"], {})


def test_regression(tmp_path):
    rows = [{"text": "a", "score": "0.5"}, {"text": "b", "score": "-2"}, {"text": "c", "score": "1e1"}]
    put(tmp_path, train_csv=csv(rows), dev_csv=csv(rows), test_csv="text\na")
    task = get_task("custom", text_column="text", label_column="score", regression=True)
    data = task.load(tmp_path)
    assert list(data.train["label"]) == [0.5, -2.0, 10.0]
    assert task.model_settings(data) == {"num_labels": 1, "problem_type": "regression"}
    assert task.labels(data.train) is None
    scores = task.score(data.train, [1.5, -2.0, 10.0])
    assert task.metric in scores
    assert scores["rmse"] == pytest.approx((1 / 3) ** 0.5)
    assert task.write(data.test["test"], [1 / 3], "test", tmp_path).read_text() == "index\tprediction\n0\t0.333333\n"


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ([{"text": "a", "stars": "x"}], r"line 2: expected at least two classes in column 'stars', found \['x'\]"),
        ([{"text": "a", "stars": ""}], "line 2: expected a label in column 'stars', found ''"),
        (
            [{"text": " ", "stars": "x"}, {"text": "b", "stars": "y"}],
            "line 2: expected a text in column 'text', found ' '",
        ),
        (
            [{"text": "a", "stars": "1"}, {"text": "b", "stars": "0.5"}],
            r"line 3: expected a class in column 'stars' .*numbers need regression=True\), found '0.5'",
        ),
        ([{"text": "a", "star": "1"}], "line 1: expected a column 'stars', found the columns 'text', 'star'"),
    ],
)
def test_errors_of_the_training_file(tmp_path, train, message):
    put(tmp_path, train_csv=csv(train), dev_csv=csv(ROWS))
    with pytest.raises(DataError, match=r"train\.csv, " + message):
        load(tmp_path)


@pytest.mark.parametrize(
    "label", ["nan", "NaN", "NAN", "-nan", "null", "NULL", "None", "<NA>", "NaT", "inf", "-Infinity", "  "]
)
@pytest.mark.parametrize("part", ["train", "dev"])
def test_a_missing_label_is_no_class(tmp_path, label, part):
    rows = [*ROWS, {"text": "well", "other": "so", "stars": label}]
    put(tmp_path, train_csv=csv(rows if part == "train" else ROWS), dev_csv=csv(rows))
    with pytest.raises(DataError, match=rf"{part}\.csv, line 4: expected a label in column 'stars', found '{label}'"):
        load(tmp_path)
    (tmp_path / "train.csv").unlink()
    put(tmp_path, train_jsonl="\n".join(json.dumps({"text": "a", "stars": x}) for x in ("x", "y", label)))
    with pytest.raises(DataError, match=rf"train\.jsonl, line 3: expected a label in column 'stars', found '{label}'"):
        load(tmp_path)


def test_names_that_only_look_like_a_missing_value(tmp_path):
    names = ["n/a", "none", "NA", "NONE", "nano", "information", "nullified"]
    put(tmp_path, train_csv=csv([{"text": "a", "stars": name} for name in names]), dev_csv="text,stars\na,none")
    assert label_names(load(tmp_path).train) == sorted(names)


def test_spaces_around_a_label_do_not_count(tmp_path):
    put(tmp_path, train_csv="text,stars\na, x\nb,y \nc,x", dev_csv="text,stars\na,y")
    data = load(tmp_path)
    assert label_names(data.train) == ["x", "y"]
    assert data.train["label"][:] == [0, 1, 0]


@pytest.mark.parametrize("value", ["1_0", "0x10", "nan", "inf", "1e999", "٣", "1,5", ""])
def test_numbers_are_plain_numbers(tmp_path, value):
    rows = [json.dumps({"text": "a", "stars": "1"}), json.dumps({"text": "a", "stars": value})]
    put(tmp_path, train_jsonl="\n".join(rows), dev_csv=csv(ROWS))
    with pytest.raises(DataError, match=r"train\.jsonl, line 2: expected a number in column 'stars', found"):
        load(tmp_path, regression=True)
    put(tmp_path, train_jsonl='{"text": "a", "stars": true}')
    with pytest.raises(DataError, match=r"line 1: expected a number in column 'stars', found True"):
        load(tmp_path, regression=True)


def test_numbers_of_parquet(tmp_path):
    for stem in ("train", "dev"):
        table = pa.table({"text": ["a", "b"], "stars": pa.array([Decimal("1.5"), Decimal("2.25")])})
        pq.write_table(table, tmp_path / f"{stem}.parquet")
    assert load(tmp_path, regression=True).train["label"][:] == [1.5, 2.25]


def test_a_test_file_with_some_labels(tmp_path):
    put(tmp_path, train_csv=csv(ROWS), dev_csv=csv(ROWS), test_jsonl='{"text": "a"}\n{"text": "b", "stars": 9}')
    with pytest.raises(DataError, match=r"test\.jsonl, line 1: expected a label in column 'stars', found None"):
        load(tmp_path)


def test_values_that_are_not_text_or_labels(tmp_path):
    put(tmp_path, dev_csv=csv(ROWS), train_jsonl='{"text": "a", "stars": 0.5}')
    with pytest.raises(DataError, match=r"train\.jsonl, line 1: expected a class .*, found 0.5"):
        load(tmp_path)
    put(tmp_path, train_jsonl='{"text": "a", "stars": 1}\n{"text": "b", "stars": null}')
    with pytest.raises(DataError, match=r"train\.jsonl, line 2: expected a label in column 'stars', found None"):
        load(tmp_path)
    put(tmp_path, train_jsonl='{"text": "a", "stars": 1}\n{"text": null, "stars": 2}')
    with pytest.raises(DataError, match=r"train\.jsonl, line 2: expected a text in column 'text', found None"):
        load(tmp_path)
    for value in ("null", '"x"', "NaN", "[1]"):
        put(tmp_path, train_jsonl=f'{{"text": "a", "stars": {value}}}')
        with pytest.raises(DataError, match=r"train\.jsonl, line 1: expected a number in column 'stars', found"):
            load(tmp_path, regression=True)


def test_a_class_that_training_does_not_know(tmp_path):
    put(tmp_path, train_csv=csv(ROWS), dev_csv=csv([*ROWS, {"text": "a", "other": "b", "stars": 8}]))
    with pytest.raises(
        DataError, match=r"dev\.csv, line 4: expected a class of the training file \(9, 10\), found '8'"
    ):
        load(tmp_path)


def test_files_that_are_missing_or_twice_there(tmp_path):
    with pytest.raises(DataError, match="custom needs data_dir"):
        load(None)
    with pytest.raises(DataError, match=r"expected one file called train \(.csv, .tsv, .*\), found none"):
        load(tmp_path)
    put(tmp_path, train_csv=csv(ROWS))
    put(tmp_path, dev_csv=csv(ROWS), validation_json="[]")
    with pytest.raises(DataError, match=r"found validation\.json, dev\.csv"):
        load(tmp_path)
    (tmp_path / "dev.csv").unlink()
    with pytest.raises(DataError, match=r"validation\.json: expected rows, found none"):
        load(tmp_path)


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "json", "parquet"])
def test_numbers_with_zeros_are_classes(ending, tmp_path):
    """Other programs write integers so where labels are missing in some rows."""
    rows = [{"text": f"text {i}", "label": float(i % 2)} for i in range(40)]
    if ending == "csv.gz":
        lines = ["text,label", *(f"{row['text']},{row['label']}" for row in rows)]
        (tmp_path / "train.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    else:
        getattr(Dataset.from_list(rows), f"to_{ending}")(tmp_path / f"train.{ending}")
    data = Custom("text", "label").load(tmp_path)
    assert data.train.features["label"].names == ["0", "1"]
    texts = {*data.train["sentence1"], *data.evaluation["validation"]["sentence1"]}
    assert texts == {row["text"] for row in rows}


def test_a_folder_without_a_validation_file(tmp_path, caplog):
    """One row of ten is held out, equal texts together and the same rows every time."""
    rows = [f"text {i % 500},{'ab'[i % 2]}" for i in range(1000)]
    (tmp_path / "train.csv").write_text("\n".join(["text,label", *rows]))
    first, second = (Custom("text", "label").load(tmp_path) for _ in range(2))
    held_out = first.evaluation["validation"]["sentence1"]
    assert list(held_out) == list(second.evaluation["validation"]["sentence1"])
    assert 60 < len(held_out) < 140
    assert not {*held_out} & {*first.train["sentence1"]}
    assert "no validation set" in caplog.text


def test_large_fields(tmp_path):
    text = "word " * 150_000
    (tmp_path / "train.csv").write_text(f'text,label\n"{text}",a\nb,b\nc,a\nd,b\n')
    (tmp_path / "dev.csv").write_text("text,label\nb,b\n")
    assert Custom("text", "label").load(tmp_path).train["sentence1"][0] == text
    (tmp_path / "train.csv").write_text(f'text,label\n"{text * 2}",a\nb,b\n')
    with pytest.raises(DataError, match="larger than field limit"):
        Custom("text", "label").load(tmp_path)


def test_a_data_set_of_the_hub(tmp_path):
    """`load_dataset` reads folders as it reads repositories."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("train", "validation", "test"):
        lines = [f"{name} {i},{'ab'[i % 2]}\n" for i in range(6)]
        (folder / f"{name}.csv").write_text("".join(["text,label\n", *lines]))
    data = Custom("text", "label", dataset=str(folder)).load(None)
    assert {name: len(rows) for name, rows in data.sets.items()} == {"train": 6, "validation": 6, "test": 6}
    with pytest.raises(DataError, match=r"column 'nothing'"):
        Custom("nothing", "label", dataset=str(folder)).load(None)
    with pytest.raises(DataError, match="are both given"):
        Custom("text", "label", dataset="x").load(tmp_path)
    with pytest.raises(DataError, match="cannot be loaded from the Hub"):
        Custom("text", "label", dataset=str(tmp_path / "nothing")).load(None)
    with pytest.raises(DataError, match="cannot be loaded from the Hub"):
        Custom("text", "label", dataset="/").load(None)
