"""HTML and Markdown reports on a comparison."""

import io
import math
import re
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.image import imread

from hf_bam.evaluation.comparison import Comparison, Outcome
from hf_bam.evaluation.plots.style import BLUE, GREY, INK, VERMILION
from hf_bam.evaluation.report import Picture, report

from .plots.cases import share_of

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

    def none(comparison, uncertainties, errors, folder):
        folder.mkdir(parents=True, exist_ok=True)
        return {kind: [Picture(kind, kind, "data:")] for kind in ("risk", "reliability", "uncertainty")}

    monkeypatch.setattr("hf_bam.evaluation.report._pictures", none)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Path of a page whose methods and texts have special characters."""
    hard = comparison(methods=("a/b", "a b", "\u7535\u5f71"), texts=[NASTY] * 30)
    return report(hard, tmp_path_factory.mktemp("report") / "new" / "folder", title="Reviews")


class Page(HTMLParser):
    """Parser of a page that keeps its tags, addresses and bold texts."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.addresses, self.strong, self.open = [], [], [], None
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.open = tag
        self.addresses += [value for name, value in attributes if name in ("src", "href", "srcset", "data", "action")]

    def handle_data(self, data):
        if self.open == "strong":
            self.strong.append(data)
        self.open = None


def markdown(directory):
    return (directory / "report.md").read_text(encoding="utf-8")


def column(page, name):
    """Return the body cells under a header of the first table."""
    head, *body = re.findall(r"<tr>(.*?)</tr>", page.source.split("</table>")[0], flags=re.DOTALL)
    names = [re.sub("<.*?>", "", cell).split(" ")[0] for cell in re.findall(r"<th.*?>(.*?)</th>", head)]
    return [re.findall(r"<td.*?>(.*?)</td>", row)[names.index(name)] for row in body]


def test_report_writes_a_page_a_summary_and_the_figures(page):
    assert page.parts[-3:] == ("new", "folder", "report.html")
    assert "<title>Reviews</title>" in page.read_text(encoding="utf-8")
    assert markdown(page.parent).startswith("## Reviews\n")
    assert "3 methods on 30 labelled inputs (a/b: 4 samples; a b: 4 samples; " in markdown(page.parent)
    assert len(list((page.parent / "figures").glob("*.png"))) == 1 + 2 * 3


def test_the_recommendation_is_part_of_both(page):
    found = comparison(methods=("a/b", "a b", "\u7535\u5f71")).recommendation
    assert found.startswith("Use a/b (1 pass)")
    assert found in page.read_text(encoding="utf-8")
    assert found in markdown(page.parent)


def test_page_loads_nothing_and_runs_nothing(page):
    content = Page(page)
    assert content.tags.count("img") == 1 + 2 * 3
    assert all(address.startswith("data:image/png;base64,iVBOR") for address in content.addresses)
    assert not {"script", "link", "iframe", "object"} & set(content.tags)
    assert not re.search(r"@import|url\(", content.source)


def test_pictures_of_the_page_are_the_figures(page):
    """The pictures in the page and the files beside it are the same, and show what their kind has to show."""
    inline = [b64decode(address.split(",")[1]) for address in Page(page).addresses]
    files = {path.name: path.read_bytes() for path in (page.parent / "figures").iterdir()}
    assert sorted(inline) == sorted(files.values())
    for name, content in files.items():
        pixels = imread(io.BytesIO(content))[..., :3]
        assert min(pixels.shape[:2]) > 300
        expected = {"reliability": (BLUE, GREY), "uncertainty": (BLUE, VERMILION), "risk": (BLUE, VERMILION)}
        for color in expected[name.split("-")[0]]:
            assert share_of(pixels, color) > 2e-4, (name, color)


def test_links_of_the_summary_exist(page):
    links = re.findall(r"!\[.*?\]\((.*?)\)", markdown(page.parent))
    assert len(links) == len(set(links)) == 1 + 2 * 3
    assert all((page.parent / link).is_file() for link in links)


@pytest.mark.usefixtures("without_figures")
def test_text_is_escaped_in_the_page(tmp_path):
    changes = {"texts": [NASTY] * 30, "label_names": ["<i>bad</i>", "b&b", "c"]}
    page = Page(report(comparison(methods=("<u>one</u>", '"two"'), **changes), tmp_path, title="<em>title</em>"))
    assert not {"script", "i", "u", "em"} & set(page.tags)
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


@pytest.mark.usefixtures("without_figures")
def test_best_values_are_bold_and_arrows_show_the_direction(tmp_path):
    page = Page(report(comparison(), tmp_path))
    assert column(page, "accuracy") == ["<strong>0.900</strong>", "0.800"]
    assert column(page, "ECE") == ["0.300", "<strong>0.200</strong>"]
    assert page.strong == ["0.900", "0.200"]
    assert "| method | accuracy ↑ | ECE ↓ |\n| :--- | ---: | ---: |\n| plain | **0.900** | 0.300 |" in markdown(
        tmp_path
    )
    assert "| BAM | 0.800 | **0.200** |" in markdown(tmp_path)


@pytest.mark.usefixtures("without_figures")
@pytest.mark.parametrize("missing", [{"nll": math.nan}, {}])
def test_missing_values_are_a_dash_and_never_the_best(missing, tmp_path):
    table = [{"method": "a", **missing}, {"method": "b", "nll": 0.5}, {"method": "c", "nll": 0.7}]
    page = Page(report(comparison(table=table), tmp_path))
    assert column(page, "NLL") == ["—", "<strong>0.500</strong>", "0.700"]
    assert "| a | — |" in markdown(tmp_path)


@pytest.mark.usefixtures("without_figures")
def test_values_that_print_the_same_are_equally_good(tmp_path):
    table = [{"method": "a", "pavpu": 0.80001, "note": "x"}, {"method": "b", "pavpu": 0.80002, "note": "y"}]
    page = Page(report(comparison(table=table), tmp_path))
    assert column(page, "PAvPU") == ["<strong>0.800</strong>"] * 2
    assert column(page, "note") == ["x", "y"]
    assert "| method | PAvPU ↑ | note |" in markdown(tmp_path)


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
    assert "plain: 1 sample)" in markdown(tmp_path)
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
    assert re.search(r"<th[^>]*>\s*passes\s*</th>", page)
    assert "32.0" in page
    assert not re.search(r"<(b|strong)>\s*32\.0", page)
