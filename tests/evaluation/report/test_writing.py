"""HTML and Markdown reports on a comparison."""

import csv
import hashlib
import io
import math
import re
from base64 import b64decode, b64encode
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from hf_bam.evaluation.comparison import Comparison, Outcome
from hf_bam.evaluation.findings import Findings, Judged
from hf_bam.evaluation.outcomes import measure
from hf_bam.evaluation.plots.style import BLUE, GREY, INK, VERMILION
from hf_bam.evaluation.report import report
from hf_bam.evaluation.report.pictures import Picture
from hf_bam.prediction import Regression

from ...browser import browser_page
from ..plots.cases import share_of

NASTY = (
    '<script>alert("x")</script> & <img src=https://example.org/x.png> | *a* `b` [c](d) \U0001f600 \u202e\u0641 \ud800'
)


def outcome(count=4, inputs=30, classes=3, seed=0):
    random = np.random.default_rng(seed)
    return Outcome(random.dirichlet(np.ones(classes), size=(count, inputs)), 1.5, np.full(inputs, count))


def comparison(methods=("plain", "BAM"), count=4, **changes):
    table = [{"method": name, "accuracy": 0.9 - 0.1 * row, "ece": 0.3 - 0.1 * row} for row, name in enumerate(methods)]
    values = {
        "outcomes": {name: outcome(count, seed=seed) for seed, name in enumerate(methods)},
        "labels": np.arange(30) % 3,
        "texts": [f"text number {number}" for number in range(30)],
        "label_names": ["bad", "so so", "good"],
        "table": table,
    }
    return Comparison(**{**values, **changes})


@pytest.fixture
def without_figures(monkeypatch):
    """Skip the figures, which take most of the time."""

    def none(comparison, judged, folder):
        folder.mkdir(parents=True, exist_ok=True)
        return {kind: [Picture(kind, kind, "data:")] for kind in ("risk", "reliability", "uncertainty")}

    monkeypatch.setattr("hf_bam.evaluation.report.writing.make_pictures", none)


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch):
    monkeypatch.setattr("hf_bam.evaluation.report.resampling.RESAMPLES", 40)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Path of a page whose methods and texts have special characters."""
    hard = comparison(methods=("a/b", "a b", "\u7535\u5f71"), texts=[NASTY] * 30)
    return report(hard, tmp_path_factory.mktemp("report") / "new" / "folder", title="Reviews")


class Page(HTMLParser):
    """Parser of a page that keeps its tags, addresses and bold texts."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.addresses, self.links, self.strong, self.open = [], [], [], [], None
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.open = tag
        self.addresses += [value for name, value in attributes if name in ("src", "srcset", "data", "action")]
        self.links += [value for name, value in attributes if name == "href"]

    def handle_data(self, data):
        if self.open == "strong":
            self.strong.append(data)
        self.open = None


def markdown(directory):
    return (directory / "report.md").read_text(encoding="utf-8")


def column(page, name):
    """Return the body cells under a header of the first table, without their intervals."""
    head, *body = re.findall(r"<tr>(.*?)</tr>", page.source.split("</table>")[0], flags=re.DOTALL)
    names = [re.sub("<.*?>", "", cell).strip() for cell in re.findall(r"<th[ >].*?</th>", head, flags=re.DOTALL)]
    index = next(i for i, own in enumerate(names) if own.split(" ")[0] == name)
    cells = [re.findall(r"<td.*?>(.*?)</td>", row)[index] for row in body]
    return [re.sub(r'<span class="interval">.*?</span>', "", cell) for cell in cells]


def test_report_writes_a_page_a_summary_and_the_figures(page):
    assert page.parts[-3:] == ("new", "folder", "report.html")
    assert "<title>Reviews</title>" in page.read_text(encoding="utf-8")
    assert markdown(page.parent).startswith("## Reviews\n")
    assert "- inputs: 30 labelled\n- methods: a/b: 4 samples; a b: 4 samples; " in markdown(page.parent)
    assert len(list((page.parent / "figures").glob("*.png"))) == 1 + 3 * 3


def test_the_recommendation_is_part_of_both(page):
    found = comparison(methods=("a/b", "a b", "\u7535\u5f71")).recommendation
    assert found.startswith("Use a/b (1 pass)")
    assert found in page.read_text(encoding="utf-8")
    assert found in markdown(page.parent)


def test_page_loads_nothing_and_runs_only_its_own_script(page):
    """The policy of the page allows one script by its hash, which browsers enforce, and it does not depend on data."""
    content = Page(page)
    assert content.tags.count("img") == 1 + 3 * 3
    assert all(address.startswith("data:image/png;base64,iVBOR") for address in content.addresses)
    assert not {"link", "iframe", "object"} & set(content.tags)
    assert not re.search(r"@import|url\(", content.source)
    (script,) = re.findall(r"<script>(.*?)</script>", content.source, flags=re.DOTALL)
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'Security-Policy" content="(.*?)"', content.source)[1]
    assert f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" == policy
    assert "alert" not in script


def test_rows_as_csv(page):
    """The file inside of the page has every input of every method, with its text unchanged."""
    (address,) = Page(page).links
    assert address.startswith("data:text/csv;charset=utf-8;base64,")
    rows = list(csv.DictReader(io.StringIO(b64decode(address.split(",")[1]).decode(), newline="")))
    assert [row["method"] for row in rows[::30]] == ["a/b", "a b", "\u7535\u5f71"]
    assert {row["text"] for row in rows} == {NASTY.replace("\ud800", "?")}
    first = outcome(seed=0)
    assert float(rows[0]["uncertainty"]) == pytest.approx(first.entropy[0], rel=1e-5)
    assert rows[4]["prediction"] == ["bad", "so so", "good"][first.mean[4].argmax()]
    total = [float(row["aleatoric"]) + float(row["epistemic"]) for row in rows]
    assert total == pytest.approx([float(row["uncertainty"]) for row in rows], abs=1e-5)


def test_metadata(tmp_path, without_figures):
    page = Page(report(comparison(), tmp_path, about={"model": "<b>m</b>", "seed": 3}))
    assert "<dt>model</dt><dd><bdi>&lt;b&gt;m&lt;/b&gt;</bdi></dd>" in page.source
    assert "<dt>seed</dt><dd><bdi>3</bdi></dd>" in page.source
    assert re.search(r"<dt>date</dt><dd><bdi>20\d\d-\d\d-\d\d", page.source)
    assert f"torch {torch.__version__}" in page.source
    assert "- seed: 3\n" in markdown(tmp_path)


def test_pictures_of_the_page_are_the_figures(page):
    """The pictures in the page and the files beside it are the same, and show what their kind has to show."""
    inline = [b64decode(address.split(",")[1]) for address in Page(page).addresses]
    files = {path.name: path.read_bytes() for path in (page.parent / "figures").iterdir()}
    assert sorted(inline) == sorted(files.values())
    for name, content in files.items():
        pixels = imread(io.BytesIO(content))[..., :3]
        assert min(pixels.shape[:2]) > 300
        both = (BLUE, VERMILION)
        expected = {"reliability": (BLUE, GREY), "uncertainty": both, "risk": both, "parts": ()}
        for color in expected[name.split("-")[0]]:
            assert share_of(pixels, color) > 2e-4, (name, color)


def test_links_of_the_summary_exist(page):
    links = re.findall(r"!\[.*?\]\((.*?)\)", markdown(page.parent))
    assert len(links) == len(set(links)) == 1 + 3 * 3
    assert all((page.parent / link).is_file() for link in links)


@pytest.mark.usefixtures("without_figures")
def test_text_is_escaped_in_the_page(tmp_path):
    changes = {"texts": [NASTY] * 30, "label_names": ["<i>bad</i>", "b&b", "c"]}
    page = Page(report(comparison(methods=("<u>one</u>", '"two"'), **changes), tmp_path, title="<em>title</em>"))
    assert not {"i", "u", "em"} & set(page.tags)
    assert page.tags.count("script") == 1
    assert "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;" in page.source


@pytest.mark.usefixtures("without_figures")
def test_text_is_escaped_in_the_summary(tmp_path):
    report(comparison(texts=[NASTY] * 30), tmp_path)
    rows = [line for line in markdown(tmp_path).splitlines() if "alert" in line]
    assert len(rows) == 5
    for row in rows:
        assert "<" not in row
        assert r"\| \*a\* \`b\` \[c\](d)" in row
        assert "\u202e" not in row
        assert len(re.findall(r"(?<!\\)\|", row)) == 7


@pytest.mark.usefixtures("without_figures")
def test_long_text_is_cut(tmp_path):
    page = Page(report(comparison(texts=["word " * 5000] * 30), tmp_path))
    assert max(len(line) for line in page.source.splitlines() if "word word" in line) < 400
    assert max(map(len, markdown(tmp_path).splitlines())) < 300


def good_and_bad():
    """Return a comparison of a method that is almost always right, one that guesses, and a copy of the first."""
    labels = np.arange(60) % 3
    right = np.full((60, 3), 0.05)
    right[np.arange(60), labels] = 0.9
    right[:3] = right[:3, [1, 2, 0]]
    outcomes = {
        "good": Outcome(right[None], 1.0, np.ones(60, int)),
        "guess": outcome(1, inputs=60, seed=5),
        "same": Outcome(right[None], 1.0, np.ones(60, int)),
    }
    table = [{"method": name, **measure(labels, own.samples)} for name, own in outcomes.items()]
    return comparison(outcomes=outcomes, labels=labels, table=table, texts=["text"] * 60)


@pytest.mark.usefixtures("without_figures")
def test_bold_is_beyond_noise_and_has_an_interval(tmp_path):
    page = Page(report(good_and_bad(), tmp_path))
    assert column(page, "accuracy")[::2] == ["<strong>0.950</strong>"] * 2
    assert "strong" not in column(page, "accuracy")[1]
    found = re.search(r'0\.950</strong><span class="interval">(\S+) to (\S+)</span>', page.source)
    # A binomial with 60 trials and probability 0.95, of which these are percentiles of 40 resamples.
    assert 0.86 <= float(found[1]) <= 0.93
    assert 0.96 <= float(found[2]) <= 1.0
    assert "| method | accuracy ↑ | NLL ↓ |" in markdown(tmp_path)
    assert re.search(r"\| good \| \*\*0\.950\*\* \(0\.\d+ to \S+\) \|", markdown(tmp_path))


@pytest.mark.usefixtures("without_figures")
def test_nothing_is_bold_within_noise(tmp_path):
    both = good_and_bad()
    kept = {name: own for name, own in both.outcomes.items() if name != "guess"}
    page = Page(report(replace(both, outcomes=kept, table=both.table[::2]), tmp_path))
    assert page.strong == []
    assert "no difference is beyond noise" in page.source


@pytest.mark.usefixtures("without_figures")
@pytest.mark.parametrize("missing", [{"nll": math.nan}, {}])
def test_missing_values_are_a_dash(missing, tmp_path):
    table = [{"method": "plain", **missing}, {"method": "BAM", "nll": 0.5}]
    page = Page(report(comparison(table=table), tmp_path))
    assert column(page, "NLL") == ["—", "0.500"]
    assert "| plain | — |" in markdown(tmp_path)


@pytest.mark.usefixtures("without_figures")
def test_measures_have_definitions(tmp_path):
    page = Page(report(comparison(), tmp_path))
    text = "Expected calibration error: mean gap between confidence and accuracy over 15 bins."
    assert f'<button type="button" title="{text}">ECE ↓</button>' in page.source
    assert f"<dt>ECE</dt><dd>{text}</dd>" in page.source


@pytest.mark.usefixtures("without_figures")
def test_the_most_uncertain_inputs_come_first_and_errors_by_confidence(tmp_path):
    samples = np.full((2, 30, 3), [0.98, 0.01, 0.01])
    samples[:, 7] = [0.34, 0.33, 0.33]  # the most uncertain; its label is 1, so it is incorrect
    samples[:, 3] = [[0.6, 0.2, 0.2], [0.4, 0.3, 0.3]]  # correct: its label is 0
    samples[:, 8] = [0.01, 0.98, 0.01]  # incorrect: its label is 2
    labels = np.zeros(30, dtype=int)
    labels[[7, 8]] = 1, 2
    one = comparison(outcomes={"BAM": Outcome(samples, 1.0, np.full(30, 2))}, labels=labels)
    uncertain, mistakes = Page(report(one, tmp_path)).source.split("<h2>Most uncertain inputs</h2>")[1].split("<h2>")
    assert re.findall(r"text number (\d+)", uncertain)[:2] == ["7", "3"]
    assert "0.50 ± 0.14" in uncertain  # standard deviation of 0.6 and 0.4
    assert re.findall(r"text number (\d+)", mistakes) == ["8", "7"]
    assert re.findall(r"[✓✗] \w+", mistakes) == ["✗ incorrect"] * 2
    assert "| text number 7 | bad | so so | 0.34 ± 0.00 | 1.10 | no |" in markdown(tmp_path)


@pytest.mark.usefixtures("without_figures")
def test_a_method_without_errors(tmp_path):
    samples = np.eye(3)[np.arange(30) % 3][None]
    page = Page(report(comparison(outcomes={"perfect": Outcome(samples, 1.0, np.ones(30, int))}), tmp_path))
    assert "<bdi>perfect</bdi> made none." in page.source


def test_single_method_with_one_sample(tmp_path):
    page = Page(report(comparison(methods=("plain",), count=1), tmp_path))
    assert page.strong == []
    assert "- methods: plain: 1 sample\n" in markdown(tmp_path)
    assert "±" not in page.source
    assert "±" not in markdown(tmp_path)


def test_out_of_distribution_inputs(tmp_path):
    with_them = report(comparison(["BAM"], ood={"BAM": outcome(inputs=17)}), tmp_path / "with")
    without = report(comparison(["BAM"]), tmp_path / "without")
    assert "17 out-of-distribution inputs" in with_them.read_text(encoding="utf-8")
    assert "out-of-distribution" not in without.read_text(encoding="utf-8")
    pixels = [imread(path.parent / "figures" / "uncertainty-1-bam.png")[..., :3] for path in (with_them, without)]
    assert share_of(pixels[0], INK) > 2 * share_of(pixels[1], INK)  # the outline of a third histogram


@pytest.mark.usefixtures("without_figures")
def test_inputs_are_those_of_the_sampling_method_or_of_the_given_one(tmp_path):
    both = comparison(outcomes={"plain": outcome(1), "BAM": outcome(4, seed=1)})
    assert "By <bdi>BAM</bdi>" in report(both, tmp_path).read_text(encoding="utf-8")
    assert "By <bdi>plain</bdi>" in report(both, tmp_path, method="plain").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="method='other' was not compared; choose one of plain, BAM"):
        report(both, tmp_path, method="other")


@pytest.mark.usefixtures("without_figures")
def test_numbers_of_samples_that_differ_between_inputs_are_reported(tmp_path):
    adaptive = replace(outcome(8), num_samples=np.array([4, 8] * 15))
    report(comparison(outcomes={"BAM": adaptive}), tmp_path)
    assert "BAM: 4 to 8 samples, 6.0 on average" in markdown(tmp_path)


@pytest.mark.usefixtures("without_figures")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outcomes": {}}, "outcomes is empty"),
        ({"label_names": ["no", "yes"]}, r"expected \(samples, 30, 2\), as there are 30 labels and 2 label_names"),
        ({"texts": ["one"]}, "texts has 1 entries; expected 30"),
    ],
)
def test_inconsistent_comparisons_raise_before_anything_is_written(changes, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        report(comparison(**changes), tmp_path / "never")
    assert not (tmp_path / "never").exists()


@pytest.mark.usefixtures("without_figures")
def test_measures_without_a_direction_get_no_arrow_and_no_bold(tmp_path):
    table = [{"method": "plain", "passes": 1.0, "ece": 0.3}, {"method": "BAM", "passes": 32.0, "ece": 0.2}]
    page = report(comparison(table=table), tmp_path).read_text(encoding="utf-8")
    assert re.search(r"<button[^>]*>passes</button>", page)
    assert "32.0" in page
    assert not re.search(r"<(b|strong)>\s*32\.0", page)


def numbers(count, spread, seed):
    random = np.random.default_rng(seed)
    for target in range(30):
        samples = target + random.normal(size=count) * spread
        low, high = np.quantile(samples, [0.05, 0.95])
        std = samples.std(ddof=1) if count > 1 else 0.0
        yield Regression(samples.mean(), std, low, high, False, count, samples)


def test_numbers(tmp_path):
    """A report on a regression: intervals, losses as absolute errors, and the figures of numbers."""
    targets, judged = np.arange(30.0), {}
    for name, count, spread in (("mean attention", 1, 2.0), ("BAM", 8, 0.5)):
        results = list(numbers(count, spread, 0))
        values = [result.value for result in results]
        judged[name] = Judged.of_results(results, values, abs(np.array(values) - targets))
    table = [
        {"method": name, "loss": own.losses.mean(), "passes": 1.0 + 7 * i}
        for i, (name, own) in enumerate(judged.items())
    ]
    found = Findings(
        judged, [f"text {i}" for i in range(30)], [f"{i}" for i in range(30)], table, "absolute error", targets
    )
    page = Page(report(found, tmp_path))
    assert found.recommended == "BAM"
    assert "Use BAM (8 passes): compared with mean attention (1 pass), its absolute error is lower by" in page.source
    assert column(page, "absolute")[1] == f"<strong>{judged['BAM'].losses.mean():.3f}</strong>"
    kinds = {path.name.split("-")[0] for path in (tmp_path / "figures").iterdir()}
    assert kinds == {"risk", "numbers", "loss"}
    assert page.source.count('data-name="absolute error"') == 20


@pytest.mark.usefixtures("without_figures")
def test_texts_with_references(tmp_path):
    """A report on generated texts, whose parts are escaped."""
    judged = {"BAM": Judged([NASTY] * 30, ["0.50"] * 30, np.linspace(0, 1, 30), np.ones(30), np.full(30, 4))}
    found = Findings(judged, [NASTY] * 30, [NASTY] * 30, [{"method": "BAM", "bleu": 30.0, "loss": 0.5}], "1 - bleu")
    page = Page(report(found, tmp_path))
    assert page.tags.count("script") == 1
    assert "<bdi>&lt;script&gt;" in page.source
    assert "Use BAM (1 pass), the only method." in page.source


def test_the_page_in_a_browser(page):
    """A header sorts its table by numbers, down and up, under the content security policy of the page."""
    table = "table.sortable >> nth=0"
    with browser_page() as tab:
        problems = []
        tab.on("console", lambda message: problems.append(message.text))
        tab.goto(page.as_uri())
        header = tab.locator(f"{table} >> th >> nth=2 >> button")
        for order in (-1, 1):
            header.click()
            cells = tab.locator(f"{table} >> tbody td:nth-child(3)").all()
            shown = [float(cell.get_attribute("data-sort")) for cell in cells]
            assert shown == sorted(shown, reverse=order < 0)
        assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert problems == []
