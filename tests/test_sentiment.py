"""The rated sentences, on an archive of the same form."""

import hashlib
import io
import tarfile
import zipfile

import pytest

from hf_bam.tasks import sentiment

TEXTS = "\ufeff1\t0.5\tGood.\r\n2\t-2.0\tBad, and a 'quote\".\r\n3\t1.0\tAnother.\r\n"
RATINGS = "1\t0.5\t0.5\t[1, 0]\r\n2\t-2.0\t1.0\t[-1, -3]\r\n3\t-1.0\t0.0\t[-1, -1]\r\n"


@pytest.fixture
def archive(tmp_path, monkeypatch):
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:gz") as tar:
        for name, text in (("GroundTruth", TEXTS), ("anonDataRatings", RATINGS)):
            info = tarfile.TarInfo(f"hutto_ICWSM_2014/tweets_{name}.txt")
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


def test_a_changed_archive_is_refused(archive, monkeypatch):
    monkeypatch.setattr(sentiment, "SHA256", "0" * 64)
    with pytest.raises(ValueError, match="checksum differs"):
        sentiment.load(archive, "tweets")


def test_an_unknown_domain_is_named_with_the_choices(archive):
    with pytest.raises(ValueError, match=r"domain='books'.*movies, products, news, tweets"):
        sentiment.load(archive, "books")


def test_an_archive_that_is_there_is_not_fetched_again(archive):
    assert sentiment.download(archive.parent) == archive


def test_no_network_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(sentiment, "PACKAGE", "vaderSentiment==0.0.0.not.there")
    with pytest.raises(RuntimeError, match="check the network, or put the archive at"):
        sentiment.download(tmp_path / "cache")
