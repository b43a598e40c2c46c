"""A tiny model on disk, sentences that it can learn, and runs on them."""

import csv
import os

import datasets
import pytest
import torch
import transformers

from hf_bam.cli import main
from hf_bam.training import Loop

from ..models import bert

FOUR_STEPS = ["--recipe", "fast", "--max_steps", "4", "--save_steps", "1", "--batch_size", "8", "--samples", "0"]
WORDS = ["film", "plot", "cast", "music", "ending", "story", "scene", "actor"]


def sentences(number):
    """Yield rows of text and label; the first word is the label. Lengths differ, to group them."""
    for i in range(number):
        label = ("bad", "good")[i % 2]
        yield {"text": f"{label} {' '.join(WORDS[j % 8] for j in range(i, i + 1 + i % 7))}", "label": label}


@pytest.fixture(autouse=True)
def _libraries():
    """Restore the messages of libraries, which the command line turns off."""
    level = transformers.logging.get_verbosity()
    yield
    transformers.logging.set_verbosity(level)
    transformers.logging.enable_progress_bar()
    datasets.enable_progress_bars()


@pytest.fixture(scope="session")
def model_folder(tokenizer, tmp_path_factory):
    """A BERT of two small layers, with dropout, and MiniLM's tokenizer."""
    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    rates = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 16, "num_attention_heads": 2, "num_labels": 2}
    model = bert(**sizes, **rates, initializer_range=0.2)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory):
    """Files of the task custom."""
    folder = tmp_path_factory.mktemp("data")
    for name, number in {"train": 44, "validation": 14}.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, ["text", "label"])
            writer.writeheader()
            writer.writerows(sentences(number))
    (folder / "test.csv").write_text("text\nbad film\ngood music\n")
    return folder


@pytest.fixture(scope="session")
def custom(model_folder, data_folder):
    """Arguments of a run on them."""
    columns = ["--text_column", "text", "--label_column", "label"]
    return ["--model", str(model_folder), "--data_dir", str(data_folder), *columns]


@pytest.fixture
def start(custom, tmp_path, monkeypatch):
    """Function that runs a command with one and the same output folder and returns its exit code."""

    def start(*options):
        return main(
            ["custom", *custom, *FOUR_STEPS, "--attention", "plain", "--output", str(tmp_path / "run"), *options]
        )

    def signalled(number):
        """Start a run that gets a signal in its second step."""
        advance = Loop.advance

        def send(self, batches):
            if self.state.step == 1:
                os.kill(os.getpid(), number)
            advance(self, batches)

        with monkeypatch.context() as patched:
            patched.setattr(Loop, "advance", send)
            return start()

    start.folder, start.signalled = tmp_path / "run", signalled
    return start


@pytest.fixture
def kill(start, monkeypatch):
    """Function that starts a run and interrupts it before its third step."""
    advance = Loop.advance

    def stop(self, batches):
        if self.state.step == 2:
            raise KeyboardInterrupt
        advance(self, batches)

    def kill(*options):
        with monkeypatch.context() as patched:
            patched.setattr(Loop, "advance", stop)
            assert start(*options) == 130

    return kill
