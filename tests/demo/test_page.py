"""HTML of the predictions of a demo, its page, and the page in a real browser."""

import gc
import re
import sys
import urllib.parse
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

from hf_bam.demo import Session, launch
from hf_bam.demo.page import EMPTY, render
from hf_bam.demo.views import strip
from hf_bam.extras import MissingExtraError
from hf_bam.prediction import Plain, Predictor

from ..browser import browser_page
from ..models import bert

TEXT = "a film of rare beauty"
NASTY = "<script>alert(1)</script> <img src=x onerror=alert(2)>"


class Tags(HTMLParser):
    def __init__(self, source):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


def shown(html):
    return " ".join(Tags(html).text.split())


def test_a_classification_is_the_one_of_the_predictor(classifier):
    html = render(classifier, [TEXT, ""], 6, 1.0)
    (result,) = classifier.predictor([TEXT])
    samples = result.samples[:, result.prediction]
    low, high = np.quantile(samples, [0.05, 0.95])
    interval = f"{samples.mean():.2f}, 90 % of the samples between {low:.2f} and {high:.2f}"
    assert f"Prediction {result.label} {interval}" in shown(html)
    numbers = f"aleatoric {result.aleatoric:.3f}epistemic {result.epistemic:.3f}total {result.entropy:.3f} nats"
    assert f"{numbers} of at most 0.69" in shown(html)
    assert html.count('class="bam-line"') == 2
    assert html.count("<i style=") == 2 * 6 + 1  # points, and the epistemic part of the bar
    chips = re.search(r'class="bam-chips">(.*?)</p>', html)[1]
    assert re.findall(r"<span>(.*?)</span>", chips) == result.prediction_set
    assert f"more unusual than {100 * result.novelty.percentile:.0f} % of held-out inputs" in shown(html)


def test_guarantees_hold_for_the_settings_of_their_fit(classifier):
    assert "contains the true label of at least 90 % of such inputs" in shown(render(classifier, [TEXT], 6, 1.0))
    for samples, noise in ((7, 1.0), (6, 2.0)):
        assert "prediction sets hold for the noise and the number" in shown(render(classifier, [TEXT], samples, noise))


def test_no_noise_is_one_deterministic_pass(classifier):
    assert "one deterministic pass" in shown(render(classifier, [TEXT], 6, 0.0))


def test_an_answer_is_marked_in_its_context(questions):
    html = render(questions, ["who wrote it ?", "Ada wrote the first note in 1843."], 6, 1.0)
    (result,) = questions.predictor([("who wrote it ?", "Ada wrote the first note in 1843.")])
    assert f"<mark>{result.answer}</mark>" in html
    assert "Ada wrote the first note in 1843." in shown(html)
    assert f"{result.answer} {result.probability:.2f}, 90 % of the samples" in shown(html)


def test_a_translation_has_its_tokens_and_other_outputs(translator):
    html = render(translator, [TEXT], 6, 1.0)
    (result,) = translator.at(6, 1.0)([TEXT])
    assert shown(html).startswith(f"Output {' '.join(result.text.split())}")
    assert html.count('class="bam-line"') == len(result.tokens)
    assert html.count("<li ") == len(set(result.hypotheses))


def test_a_number_has_its_interval(regressor):
    html = render(regressor, [TEXT], 6, 1.0)
    (result,) = regressor.predictor([TEXT])
    assert f"Prediction {result.value:.3f} ± {result.std:.3g} over the samples" in shown(html)


def test_texts_are_escaped(classifier, questions):
    for html in (render(classifier, [NASTY], 2, 1.0), render(questions, ["who?", NASTY], 2, 1.0)):
        assert not {"script", "img"} & set(Tags(html).tags)
    assert "alert" in shown(html)


def test_nothing_to_predict(classifier, questions):
    assert render(classifier, ["  ", ""], 6, 1.0) == EMPTY
    assert render(questions, ["who?", ""], 6, 1.0) == EMPTY


def test_positions_of_a_strip():
    one = strip("label", np.array([0.2, 0.4, 0.6]), scale=(0.0, 2.0))
    assert [x for x, _ in one.points] == [10.0, 20.0, 30.0]
    assert one.mean == 20.0
    assert one.band == pytest.approx((11.0, 18.0))  # quantiles 0.05 and 0.95 of three samples: 0.22 and 0.58


def test_a_missing_extra_is_named(monkeypatch, classifier):
    monkeypatch.setitem(sys.modules, "gradio", None)
    with pytest.raises(MissingExtraError, match=r'pip install "hf_bam\[demo\]"'):
        launch(classifier)


def test_a_plain_model_makes_one_pass(tokenizer, tmp_path):
    """The page of a saved plain predictor without dropout: its prediction, and no sliders that change nothing."""
    torch.manual_seed(0)
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = bert(vocab_size=len(tokenizer), num_labels=2, initializer_range=0.2, **rates).eval()
    texts = [f"text number {number} of the set" for number in range(40)]
    Predictor(Plain(model), tokenizer).conformal(texts, [0, 1] * 20).save_pretrained(tmp_path)
    session = Session.load(tmp_path)
    html = render(session, [TEXT, ""], session.predictor.settings.num_samples, 1.0)
    batch = tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        expected = model(**batch).logits.softmax(-1).max()
    assert f"{expected:.2f}, one deterministic pass" in shown(html)
    assert "contains the true label of at least 90 % of such inputs" in shown(html)
    assert (session.is_random, session.has_noise_level) == (False, False)
    assert all(token.mean > 0 for token in session.predict(TEXT, 32).tokens)
    assert Session.load(tmp_path, dropout=0.1).is_random


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_page_in_a_browser(classifier):
    """The page shows what the predictor says, follows the number of samples, and loads nothing from elsewhere."""
    pytest.importorskip("gradio", reason="the extra demo is not installed")
    page = launch(classifier, title="Tiny <b>", prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    try:
        with browser_page() as tab:
            asked = []
            tab.on("request", lambda request: asked.append(urllib.parse.urlsplit(request.url).hostname))
            tab.goto(page.local_url, wait_until="domcontentloaded")
            tab.fill("#bam-text-0 textarea", TEXT)
            tab.click("#bam-predict")
            headline = tab.wait_for_selector(".bam-headline").inner_text()
            assert headline == classifier.predictor([TEXT])[0].label
            assert tab.locator(".bam-line i").count() == 12
            assert tab.locator("h1").inner_text() == "Tiny <b>"
            samples = tab.locator("#bam-samples input[type=number]")
            samples.fill("9")
            tab.click("#bam-predict")
            tab.wait_for_function("document.querySelectorAll('.bam-line i').length == 18")
            width = tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert width <= 0
            assert set(asked) <= {"127.0.0.1", None}
    finally:
        page.close()
        del page
        gc.collect()  # event loops of Gradio that it leaves open; their warnings belong to this test
