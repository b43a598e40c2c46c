"""The text-to-text task: rows from files and tables, word dropout, scores, and a run from the command line."""

import json

import pytest
import torch
from datasets import Dataset
from sacrebleu import corpus_bleu
from scipy import stats

from hf_bam.cli import main
from hf_bam.tasks import get_task
from hf_bam.tasks.base import DataError
from hf_bam.tasks.collation import drop_words
from hf_bam.tasks.text2text import TextToText
from hf_bam.training import resolve

SOURCES = ["the tower was built in 1889 by eiffel", "the river is long", "she wrote it in paris", "it rains"]
TARGETS = ["when was the tower built ?", "what is long ?", "where did she write it ?", "what does it do ?"]
PAIRS = {"source": SOURCES, "target": TARGETS}
TASK = TextToText(max_target_length=12, vocabulary=60, width=16, layers=1, heads=1, num_beams=1)


def write_files(folder, source="src", target="tgt", times=1):
    for name in ("train", "dev", "test"):
        (folder / f"{name}.{source}").write_text("\n".join(SOURCES * times) + "\n")
        (folder / f"{name}.{target}").write_text("\n".join(TARGETS * times) + "\n")


def test_files_of_lines(tmp_path):
    write_files(tmp_path)
    data = TextToText("src", "tgt").load(tmp_path)
    assert data.train.to_dict() == PAIRS
    assert list(data.evaluation) == ["dev", "test"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_columns_of_tables(tmp_path, ending):
    rows = Dataset.from_dict({"sentence": SOURCES, "question": TARGETS, "other": [1, 2, 3, 4]})
    for name in ("train", "validation", "test"):
        own = rows.remove_columns("question") if name == "test" else rows
        if ending == "tsv":
            own.to_csv(tmp_path / f"{name}.tsv", sep="\t")
        else:
            getattr(own, {"jsonl": "to_json"}.get(ending, f"to_{ending}"))(tmp_path / f"{name}.{ending}")
    data = TextToText("sentence", "question").load(tmp_path)
    assert data.train.to_dict() == data.evaluation["validation"].to_dict() == PAIRS
    assert data.test["test"].to_dict() == {"source": SOURCES}
    with pytest.raises(DataError, match="expected a column 'answer'"):
        TextToText("sentence", "answer").load(tmp_path)


def test_an_empty_text_is_an_error_with_its_line(tmp_path):
    for name in ("train", "validation"):
        (tmp_path / f"{name}.csv").write_text("source,target\na,b\n ,c\n")
    with pytest.raises(DataError, match=r"train.csv, line 3: expected a text in column 'source', found ' '"):
        TextToText().load(tmp_path)
    with pytest.raises(DataError, match=r"text2text needs data_dir: a folder with train.source, train.target"):
        TextToText().load(None)
    with pytest.raises(ValueError, match="source='a' is also the target; a text-to-text task needs two sides"):
        TextToText("a", "a")


def test_scores_are_those_of_sacrebleu():
    rows = Dataset.from_dict(PAIRS)
    guesses = [target.replace("what", "who") for target in TARGETS]
    found = TASK.score(rows, guesses)
    assert list(found) == ["bleu", "bleu_1", "bleu_2", "bleu_3", "chrf"]
    assert found["bleu"] == corpus_bleu(guesses, [TARGETS]).score
    words = sum(len(target.split()) for target in TARGETS)
    assert found["bleu_1"] == pytest.approx(100 * (words - 2) / words)
    assert TASK.signatures["bleu_1"]


class TestWordDropout:
    LABELS = torch.randint(3, 60, (400, 11)).masked_fill(torch.arange(11) > 8, -100)
    INPUTS = torch.nn.functional.pad(LABELS, (1, -1), value=2).masked_fill(torch.arange(11) > 9, 1)

    def test_the_rate(self):
        found = drop_words(self.INPUTS, self.LABELS, 0.25, 0)
        dropped = (found == 0)[:, 1:10]
        assert stats.binomtest(int(dropped.sum()), dropped.numel(), 0.25).pvalue > 1e-3
        assert torch.equal(found[:, 0], self.INPUTS[:, 0])
        assert torch.equal(found[:, 10:], self.INPUTS[:, 10:])
        kept = found != 0
        assert torch.equal(found[kept], self.INPUTS[kept])

    def test_it_is_a_function_of_the_batch(self):
        one, again, other = (drop_words(x, self.LABELS, 0.25, 0) for x in (self.INPUTS, self.INPUTS, self.INPUTS + 1))
        assert torch.equal(one, again)
        assert not torch.equal(one == 0, other == 0)

    def test_batches_of_the_task(self):
        rows = Dataset.from_dict({name: own * 30 for name, own in PAIRS.items()})
        data = type("Rows", (), {"train": rows})
        model, tokenizer = TASK.build("recurrent", data)
        found = {}
        for rate in (0.0, 0.5):
            task = TextToText(word_dropout=rate)
            found[rate] = task.collator(tokenizer, model)(list(task.encode(rows, tokenizer, 64)))
        assert torch.equal(found[0.0]["labels"], found[0.5]["labels"])
        changed = found[0.0]["decoder_input_ids"] != found[0.5]["decoder_input_ids"]
        assert (found[0.5]["decoder_input_ids"][changed] == tokenizer.unk_token_id).all()
        real = (found[0.0]["labels"] != -100)[:, :-1].sum().item()
        assert 0.4 < changed.sum().item() / real < 0.6

    def test_a_tokenizer_without_an_unknown_token(self):
        data = type("Rows", (), {"train": Dataset.from_dict(PAIRS)})
        model, tokenizer = TASK.build("recurrent", data)
        tokenizer.unk_token = None
        with pytest.raises(ValueError, match=r"word_dropout=0.1 needs an unknown token"):
            TextToText(word_dropout=0.1).collator(tokenizer, model)


def test_recipes_are_those_of_translation():
    for recipe in ("fast", "paper"):
        for model in ("scratch", "recurrent", "t5-small"):
            jobs = [
                resolve({"task_name": task, "model_name_or_path": model, "recipe": recipe})
                for task in ("translation", "text2text")
            ]
            assert jobs[0].recipe == jobs[1].recipe


def test_a_run_from_the_command_line(tmp_path, capsys):
    write_files(tmp_path, times=20)
    line = ["text2text", "--data_dir", str(tmp_path), "--source", "src", "--target", "tgt", "--model", "recurrent"]
    line += ["--output_dir", str(tmp_path / "out"), "--recipe", "fast", "--width", "16", "--vocabulary", "80"]
    line += ["--family", "gaussian", "--prior", "mean_value", "--sentence_latent", "4", "--word_dropout", "0.25"]
    line += ["--max_steps", "4", "--batch_size", "16", "--num_samples", "2", "--num_beams", "1", "--no_report"]
    line += ["--max_target_length", "12", "--gamma", "0.1", "--annealing", "logistic", "--eval_limit", "4", "--debug"]
    assert main(line) == 0
    capsys.readouterr()
    config = json.loads((tmp_path / "out" / "model" / "config.json").read_text())["bam"]
    assert (config["family"], config["prior"], config["sentence_latent"]) == ("gaussian", "mean_value", 4)
    assert get_task("text2text").name == "text2text"
