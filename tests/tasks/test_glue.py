"""The nine tasks, on files in the official layouts."""

import shutil
from pathlib import Path

import datasets
import pytest
from datasets import Dataset

from hf_bam.tasks import get_task
from hf_bam.tasks.base import DataError
from hf_bam.tasks.glue import SPECS, Glue

PUBLISHED = Path(__file__).parents[2] / ".." / "shared" / "data" / "glue"

MNLI_TEXT = "promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse"
MNLI = f"index {MNLI_TEXT} sentence1 sentence2".split()
MNLI_ROW = ["31193", "31193n", "government", "( A )", "( B )", "(ROOT A)", "(ROOT B)", 'A "quote.', "B."]
STS = ["index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2"]
STS_ROW = ["main-captions", "MSRvid", "2012test", "0001", "none", "none", "A plane.", "An air plane."]
PAIRS = ["index", "sentence1", "sentence2"]

# For each task: labelled file, test file (header and row), and the first row and labels that come of them.
LABELLED = {
    "cola": [["gj04", "1", "", 'A "fine one.'], ["gj04", "0", "*", "Fine one a."]],
    "sst-2": [["sentence", "label"], ['a " fine one ', "1"], ["not a fine one ", "0"]],
    "mrpc": [
        ["\ufeffQuality", "#1 ID", "#2 ID", "#1 String", "#2 String"],
        ["1", "12", "13", 'He said " no .', "He denied it ."],
        ["0", "14", "15", "He said no .", "She said yes ."],
    ],
    "sts-b": [[*STS, "score"], ["0", *STS_ROW, "5.000"], ["1", *STS_ROW, "0.600"]],
    "qqp": [
        ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"],
        ["133", "1", "2", "How is it?", 'Is it "so?', "0"],
        ["134", "3", "4", "What is it"],
        ["?", "What is that?", "1"],
        ["135", "5", "6", "What?", "What?", "1"],
    ],
    "mnli": [
        [*MNLI, "label1", "label2", "label3", "label4", "label5", "gold_label"],
        ["0", *MNLI_ROW, *5 * ["neutral"], "neutral"],
        ["1", *MNLI_ROW, "neutral", "entailment", "contradiction", "neutral", "entailment", "-"],
        ["2", *MNLI_ROW, *5 * ["contradiction"], "contradiction"],
        ["3", *MNLI_ROW, *5 * ["entailment"], "entailment"],
    ],
    "qnli": [
        ["index", "question", "sentence", "label"],
        ["0", "Who?", "He.", "entailment"],
        ["1", "Why?", "So.", "not_entailment"],
    ],
    "rte": [[*PAIRS, "label"], ["0", "A.", "B.", "not_entailment"], ["1", "C.", "D.", "entailment"]],
    "wnli": [[*PAIRS, "label"], ["0", "A.", "B.", "1"], ["1", "C.", "D.", "0"]],
}
TEST = {
    "cola": [["index", "sentence"], ["7", "A one fine."]],
    "sst-2": [["index", "sentence"], ["7", "fine ."]],
    "mrpc": [["\ufeffindex", "#1 ID", "#2 ID", "#1 String", "#2 String"], ["7", "1", "2", "A .", "B ."]],
    "sts-b": [STS, ["7", *STS_ROW]],
    "qqp": [["id", "question1", "question2"], ["7", "A?", "B?"]],
    "mnli": [MNLI, ["7", *MNLI_ROW]],
    "qnli": [["index", "question", "sentence"], ["7", "A?", "B."]],
    "rte": [PAIRS, ["7", "A.", "B."]],
    "wnli": [PAIRS, ["7", "A.", "B."]],
}
FIRST = {
    "cola": ['A "fine one.'],
    "sst-2": ['a " fine one '],
    "mrpc": ['He said " no .', "He denied it ."],
    "sts-b": ["A plane.", "An air plane."],
    "qqp": ["How is it?", 'Is it "so?'],
    "mnli": ['A "quote.', "B."],
    "qnli": ["Who?", "He."],
    "rte": ["A.", "B."],
    "wnli": ["A.", "B."],
}
LABELS = {
    "cola": [1, 0],
    "sst-2": [1, 0],
    "mrpc": [1, 0],
    "sts-b": [5.0, 0.6],
    "qqp": [0, 1],
    "mnli": [1, 2, 0],
    "qnli": [0, 1],
    "rte": [1, 0],
    "wnli": [1, 0],
}
# What the server takes for the first class and for the number 5.7.
SUBMISSIONS = {
    "cola": {"CoLA": "0"},
    "sst-2": {"SST-2": "0"},
    "mrpc": {"MRPC": "0"},
    "sts-b": {"STS-B": "5.000"},
    "qqp": {"QQP": "0"},
    "mnli": {"MNLI-m": "entailment", "MNLI-mm": "entailment"},
    "qnli": {"QNLI": "entailment"},
    "rte": {"RTE": "entailment"},
    "wnli": {"WNLI": "0"},
}
METRICS = {"cola": "matthews", "mrpc": "average", "qqp": "average", "sts-b": "average"}


def write(file, lines):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join("\t".join(fields) for fields in lines) + "\n", encoding="utf-8")
    return file


def parts(task):
    return ["_matched", "_mismatched"] if task == "mnli" else [""]


@pytest.fixture
def glue(tmp_path):
    for task, lines in LABELLED.items():
        folder = tmp_path / SPECS[task].folder
        for name in ["train", *(f"dev{part}" for part in parts(task))]:
            write(folder / f"{name}.tsv", lines)
        for part in parts(task):
            write(folder / f"test{part}.tsv", TEST[task])
    # The training file of MNLI has one annotator's label.
    header, *rows = LABELLED["mnli"]
    write(tmp_path / "MNLI" / "train.tsv", [line[: len(MNLI) + 1] + line[-1:] for line in (header, *rows)])
    return tmp_path


@pytest.mark.parametrize("name", SPECS)
def test_official_files(glue, name):
    task = get_task(name)
    data = task.load(glue)
    assert list(data.evaluation) == [f"dev{part}" for part in parts(name)]
    assert list(data.test) == [f"test{part}" for part in parts(name)]
    for rows in (data.train, *data.evaluation.values()):
        assert list(rows["label"]) == LABELS[name]
        assert list(rows["idx"]) == list(range(len(rows)))
        assert [rows[0][column] for column in ("sentence1", "sentence2") if column in rows[0]] == FIRST[name]
    for rows in data.test.values():
        assert (rows[0]["idx"], rows[0]["label"]) == (7, None)
    assert task.load(glue / SPECS[name].folder).train[:] == data.train[:]
    assert task.metric == METRICS.get(name, "accuracy")


@pytest.mark.parametrize("name", SPECS)
def test_submissions(glue, tmp_path, name):
    task = get_task(name)
    data = task.load(glue)
    prediction = 0 if SPECS[name].names else 5.7
    files = [task.write(rows, [prediction], split, tmp_path / "out") for split, rows in data.test.items()]
    assert {file.stem: file.read_text() for file in files} == {
        stem: f"index\tprediction\n7\t{text}\n" for stem, text in SUBMISSIONS[name].items()
    }
    assert (
        task.write(data.train, [prediction] * len(data.train), "dev", tmp_path).name == f"{SPECS[name].folder}-dev.tsv"
    )


@pytest.mark.parametrize("name", SPECS)
def test_perfect_predictions_have_the_score_one(glue, name):
    task = get_task(name)
    rows = task.load(glue).train
    assert task.score(rows, list(rows["label"]))[task.metric] == pytest.approx(1)


def test_similarities_are_clipped_and_rounded(glue, tmp_path):
    task = get_task("sts-b")
    rows = task.load(glue).train
    assert task.write(rows, [-0.3, 2.34567], "test", tmp_path).read_text() == "index\tprediction\n0\t0.000\n1\t2.346\n"


def test_names_reach_the_model_config(glue):
    for name, names in {"rte": ["entailment", "not_entailment"], "cola": ["unacceptable", "acceptable"]}.items():
        settings = get_task(name).model_settings(get_task(name).load(glue))
        assert settings["id2label"] == dict(enumerate(names))
        assert settings["label2id"] == {names[0]: 0, names[1]: 1}
        assert (settings["num_labels"], settings["problem_type"]) == (2, "single_label_classification")
    assert get_task("mnli").model_settings(get_task("mnli").load(glue))["label2id"] == {
        "entailment": 0,
        "neutral": 1,
        "contradiction": 2,
    }
    assert get_task("sts-b").model_settings(get_task("sts-b").load(glue)) == {
        "num_labels": 1,
        "problem_type": "regression",
    }


def test_what_is_left_out_is_counted(glue, caplog):
    get_task("qqp").load(glue)
    assert f"{glue / 'QQP' / 'train.tsv'}: left out 2 broken lines; the first: " in caplog.text
    assert "line 3: expected 6 columns (id, qid1, qid2, question1, question2, is_duplicate), found 4" in caplog.text
    get_task("mnli").load(glue)
    assert f"{glue / 'MNLI' / 'dev_mismatched.tsv'}: left out 1 rows whose gold_label is '-'" in caplog.text


def replace_line(file, number, line):
    lines = file.read_text(encoding="utf-8").split("\n")
    lines[number - 1] = line
    file.write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "file", "number", "line", "message"),
    [
        ("cola", "train", 2, "gj04\t2\t*\tA.", "line 2: expected one of 0, 1 in column 'label', found '2'"),
        ("cola", "dev", 1, "gj04\t1", r"line 1: expected 4 columns \(source, label, star, sentence\), found 2"),
        ("cola", "test", 2, "x\tA.", "line 2: expected an integer in column 'index', found 'x'"),
        ("cola", "test", 2, "1_0\tA.", "line 2: expected an integer in column 'index', found '1_0'"),
        (
            "mrpc",
            "train",
            1,
            "Quality\ta\tb\tc\t#2 String",
            "line 1: expected a column '#1 String', found the columns",
        ),
        ("mrpc", "train", 3, "1\t1\t2\tA.", "line 3: expected 5 columns .*, found 4"),
        (
            "sts-b",
            "train",
            2,
            "\t".join(["0", *STS_ROW, "5.1"]),
            "line 2: expected a number from 0 to 5 in column 'score', found '5.1'",
        ),
        (
            "sts-b",
            "train",
            2,
            "\t".join(["0", *STS_ROW, "nan"]),
            "line 2: expected a number from 0 to 5 in column 'score', found 'nan'",
        ),
        (
            "sts-b",
            "dev",
            2,
            "\t".join(["0", *STS_ROW, "five"]),
            "line 2: expected a number from 0 to 5 in column 'score', found 'five'",
        ),
        (
            "qqp",
            "train",
            2,
            "1\t1\t2\tA?\tB?\tyes",
            "line 2: expected one of 0, 1 in column 'is_duplicate', found 'yes'",
        ),
        ("qqp", "test", 2, "1\tA?", r"line 2: expected 3 columns \(id, question1, question2\), found 2"),
        (
            "rte",
            "dev",
            3,
            "1\tA.\tB.\tneutral",
            "line 3: expected one of entailment, not_entailment in column 'label', found 'neutral'",
        ),
        (
            "rte",
            "dev",
            3,
            "1\tA.\tB.\t",
            "line 3: expected one of entailment, not_entailment in column 'label', found ''",
        ),
    ],
)
def test_errors_name_file_and_line(glue, name, file, number, line, message):
    replace_line(glue / SPECS[name].folder / f"{file}.tsv", number, line)
    with pytest.raises(DataError, match=rf"{SPECS[name].folder}/{file}\.tsv, {message}"):
        get_task(name).load(glue)


def test_missing_files(glue, tmp_path):
    (glue / "RTE" / "test.tsv").unlink()
    assert get_task("rte").load(glue).test == {}
    (glue / "RTE" / "dev.tsv").write_text("\t".join([*PAIRS, "label"]))
    with pytest.raises(DataError, match=r"RTE/dev\.tsv: expected rows, found none"):
        get_task("rte").load(glue)
    (glue / "RTE" / "dev.tsv").unlink()
    with pytest.raises(DataError, match=r"RTE/dev\.tsv: there is no such file"):
        get_task("rte").load(glue)
    with pytest.raises(
        DataError, match=r"nowhere: expected RTE/train\.tsv or train\.tsv in this folder, found neither"
    ):
        get_task("rte").load(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["mnli", "sts-b"])
def test_the_layout_of_the_hub(tmp_path, monkeypatch, name):
    """load_dataset prefers a folder of the same name; here it has the columns and splits of the Hub."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    texts = {"mnli": ["premise", "hypothesis"], "sts-b": ["sentence1", "sentence2"]}[name]
    folder, stem = Path("nyu-mll/glue"), name.replace("-", "")
    splits = {split: split for split in ["train", *(f"{s}{p}" for s in ("validation", "test") for p in parts(name))]}
    for split in splits:
        labels = [-1, -1] if split.startswith("test") else LABELS[name][:2]
        rows = Dataset.from_dict({texts[0]: ["A.", "C."], texts[1]: ["B.", "D."], "label": labels, "idx": [4, 5]})
        rows.to_parquet(folder / stem / f"{split}.parquet")
    files = "".join(f"\n  - split: {split}\n    path: {stem}/{split}.parquet" for split in splits)
    (folder / "README.md").write_text(f"---\nconfigs:\n- config_name: {stem}\n  data_files:{files}\n---\n")
    data = get_task(name).load(None)
    assert list(data.evaluation) == [f"dev{part}" for part in parts(name)]
    assert data.train[0] == {"sentence1": "A.", "sentence2": "B.", "label": LABELS[name][0], "idx": 4}
    assert next(iter(data.test.values()))[1] == {"sentence1": "C.", "sentence2": "D.", "label": None, "idx": 5}


def test_an_unknown_task_is_named_with_the_choices():
    with pytest.raises(ValueError, match="task='ax' is not valid; it must be one of 'cola', 'sst-2'"):
        Glue("ax")


@pytest.mark.skipif(not PUBLISHED.exists(), reason="needs the published GLUE files in ../shared/data")
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("cola", (8551, 1043, 1063)),
        ("mrpc", (3668, 408, 1725)),
        ("rte", (2490, 277, 3000)),
        ("sts-b", (5749, 1500, 1379)),
        ("wnli", (635, 71, 146)),
        ("sst-2", (67349, 872, 1821)),
    ],
)
def test_published_files_have_the_published_counts(name, counts):
    data = get_task(name).load(PUBLISHED)
    assert (len(data.train), len(data.evaluation["dev"]), len(data.test["test"])) == counts
    assert list(data.test["test"]["idx"]) == list(range(counts[2]))


@pytest.mark.skipif(not PUBLISHED.exists(), reason="needs the published GLUE files in ../shared/data")
def test_published_questions(tmp_path):
    for source, name in (("dev", "train"), ("dev", "dev"), ("test", "test")):
        shutil.copy(PUBLISHED / "QNLI" / f"{source}.tsv", tmp_path / f"{name}.tsv")
    data = get_task("qnli").load(tmp_path)
    assert (len(data.evaluation["dev"]), len(data.test["test"])) == (5463, 5463)
