"""Parallel text in files, right and wrong."""

import gzip
import logging
import re
from pathlib import Path

import pytest

from hf_bam.tasks.base import DataError
from hf_bam.tasks.parallel import read_folder, read_lines, write_folder, write_lines

MULTI30K = Path(__file__).parents[2] / ".." / "shared" / "data" / "multi30k" / "raw"
SOUND = {
    "train.en": b"a dog\na cat\n",
    "train.de": b"ein Hund\neine Katze\n",
    "dev.en": b"a bird\n",
    "dev.de": b"ein Vogel\n",
}


@pytest.fixture
def folder(tmp_path):
    """A function that makes a folder of sound files, some of them changed, added or (None) left out."""

    def make(**changes):
        for name, content in {**SOUND, **{name.replace("_", "."): c for name, c in changes.items()}}.items():
            if content is not None:
                (tmp_path / name).write_bytes(content)
        return tmp_path

    return make


def error(folder, match):
    with pytest.raises(DataError, match=match):
        read_folder(folder, "en", "de")


def test_sets_in_both_directions(folder):
    path = folder()
    data = read_folder(path, "en", "de")
    assert data.train.to_dict() == {"source": ["a dog", "a cat"], "target": ["ein Hund", "eine Katze"]}
    assert {name: rows.to_dict() for name, rows in data.evaluation.items()} == {
        "dev": {"source": ["a bird"], "target": ["ein Vogel"]}
    }
    assert data.test == {}
    assert read_folder(path, "de", "en").train[1] == {"source": "eine Katze", "target": "a cat"}


@pytest.mark.parametrize("name", ["val", "valid", "validation", "dev"])
def test_names_of_a_development_set(folder, name):
    changes = {"dev_en": None, "dev_de": None, f"{name}_en": b"a fox\n", f"{name}_de": b"ein Fuchs\n"}
    assert list(read_folder(folder(**changes), "en", "de").evaluation) == [name]


def test_tests_with_references_are_evaluated_after_the_development_set_and_others_are_predicted(folder):
    tests = {"test2_en": b"two\n", "test2_de": b"zwei\n", "test1_en": b"one\n", "test1_de": b"eins\n"}
    data = read_folder(folder(**tests, testblind_en=b"three\n"), "en", "de")
    assert list(data.evaluation) == ["dev", "test1", "test2"]
    assert {name: rows.to_dict() for name, rows in data.test.items()} == {"testblind": {"source": ["three"]}}


def test_files_of_other_languages_are_left_alone(folder):
    data = read_folder(folder(train_fr=b"", test_fr=b"", notes_txt=b"\xff"), "en", "de")
    assert list(data.evaluation) == ["dev"]


def test_compressed_files(folder):
    data = read_folder(folder(train_en=None, train_en_gz=gzip.compress(SOUND["train.en"])), "en", "de")
    assert list(data.train["source"]) == ["a dog", "a cat"]


def test_only_a_newline_ends_a_line(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("\ufeffone\u2028still one\x0b\x0c\x1c\x85one\r\n\u00a0two\u2029 \rtwo".encode())
    assert read_lines(path) == ["one\u2028still one\x0b\x0c\x1c\x85one", "two\u2029 \rtwo"]


def test_pairs_with_an_empty_side_are_left_out_of_training_and_counted(folder, caplog):
    path = folder(train_en=b"a dog\n\na cat\na fox\n", train_de=b"ein Hund\nein Hase\neine Katze\n \n")
    with caplog.at_level(logging.WARNING):
        assert list(read_folder(path, "en", "de").train["target"]) == ["ein Hund", "eine Katze"]
    assert f"{path / 'train.en'}: 2 of 4 lines left out, empty here or in train.de" in caplog.text


def test_a_folder_that_is_not_there(tmp_path):
    error(tmp_path / "nowhere", r"data_dir='.*nowhere' is not a folder; expected one with train.en, train.de")


@pytest.mark.parametrize("name", ["train.en", "train.de", "dev.de", "dev.en"])
def test_a_missing_file_is_named_with_those_that_are_there(folder, name):
    there = ", ".join(sorted({*SOUND} - {name}))
    path = folder(**{name.replace(".", "_"): None})
    error(path, rf"{re.escape(str(path / name))} is missing \(also with .gz\); the folder has {there}")


def test_references_without_sources_are_not_a_test(folder):
    error(folder(test_de=b"eins\n"), r"test.en is missing")


def test_no_development_set(folder):
    error(
        folder(dev_en=None, dev_de=None),
        r"no development set; expected one of val.en, valid.en, validation.en, dev.en",
    )


def test_different_numbers_of_lines(folder):
    match = r"train.de, line 3: no translation, as .*train.en has only 2 lines of 4; expected as many in both"
    error(folder(train_de=b"ein Hund\neine Katze\nein Fuchs\nein Hase\n"), match)
    error(folder(train_de=b"ein Hund"), r"train.en, line 2: no translation, as .*train.de has only 1 lines of 2")


@pytest.mark.parametrize("content", [b"", b"\n", b" \n\n", b"\xef\xbb\xbf"])
def test_an_empty_file(folder, content):
    error(folder(dev_de=content), r"dev.de is empty; expected one sentence a line")


def test_no_pair_is_whole(folder):
    error(
        folder(train_en=b"a dog\n\n", train_de=b"\nein Hund\n"),
        r"train.en and .*train.de have no line with text in both",
    )


@pytest.mark.parametrize("name", ["dev_en", "dev_de", "testblind_en"])
def test_an_empty_line_in_a_set_that_is_evaluated(folder, name):
    error(
        folder(**{name: b"one\n\nthree\n"}),
        rf"{name.replace('_', '.')}, line 2: empty; expected a sentence on every line",
    )


def test_bytes_that_are_no_text(folder):
    latin = "ein Hund\neine K\u00e4tzin\n".encode("latin-1")
    error(folder(train_de=latin), r"train.de, line 2: invalid continuation byte; expected text in UTF-8")
    error(folder(train_de=b"\xef\xbb\xbfein Hund\n\xff\n"), r"train.de, line 2: invalid start byte")


PACKED = gzip.compress(b"a dog\na cat\n", mtime=0)


@pytest.mark.parametrize("content", [b"a dog\n", PACKED[:-9], PACKED[:9]], ids=["not packed", "torn", "header only"])
def test_a_file_that_cannot_be_decompressed(folder, content):
    error(folder(train_en=None, train_en_gz=content), r"train.en.gz cannot be decompressed .*; expected a gzip file")


def test_a_written_folder_is_read_back(folder, tmp_path):
    data = read_folder(folder(testblind_en=b"three\n"), "en", "de")
    files = write_folder(tmp_path / "copy", data, "en", "de")
    names = ["train.en", "train.de", "dev.en", "dev.de", "testblind.en"]
    assert files == [tmp_path / "copy" / name for name in names]
    copy = read_folder(tmp_path / "copy", "en", "de")
    assert copy.train.to_dict() == data.train.to_dict()
    assert copy.test["testblind"].to_dict() == data.test["testblind"].to_dict()


def test_every_sentence_stays_on_its_line(tmp_path):
    path = write_lines(tmp_path / "out", ["one\r\ntwo", "", "thr\u00e9e\u2028three\r"])
    assert path.read_bytes() == "one two\n\nthr\u00e9e\u2028three\n".encode()


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="Multi30k is not here")
def test_multi30k():
    data = read_folder(MULTI30K, "en", "de")
    sizes = {name: len(rows) for name, rows in data.evaluation.items()}
    assert len(data.train) == 29000
    assert sizes == {"val": 1014, "test_2016_flickr": 1000, "test_2017_flickr": 1000, "test_2017_mscoco": 461}
    assert not data.test
