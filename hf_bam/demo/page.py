"""The page of a demo, built and served with Gradio."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, Template

from ..extras import check_extra
from .session import Session
from .views import view

SAMPLES = (1, 64)
NOISE = (0.0, 3.0)
"""Ends of the sliders."""
FIELDS: dict[str, tuple[tuple[str, int], ...]] = {
    "classification": (("Text", 3), ("Second text, for a model of pairs", 2)),
    "regression": (("Text", 3), ("Second text, for a model of pairs", 2)),
    "question-answering": (("Question", 1), ("Context", 6)),
    "generation": (("Source text", 3),),
}
"""Text fields by kind of model: label and lines."""
CONTEXT = (
    "Ada Lovelace wrote the first published algorithm for a machine in 1843, as a note to her translation of an "
    "article on the Analytical Engine of Charles Babbage."
)
EXAMPLES: dict[str, list[list[str]]] = {
    "classification": [["A film of rare beauty."], ["Well, it exists."], ["So bad it is good."]],
    "regression": [["A film of rare beauty."], ["Well, it exists."]],
    "question-answering": [["Who wrote the first algorithm?", CONTEXT], ["Who built the engine?", CONTEXT]],
    "generation": [["The old house stands near the river."]],
}
EMPTY = '<div class="bam-empty">The prediction and its uncertainty appear here.</div>'
SCROLL = """() => {
  const output = document.getElementById("bam-output");
  if (output.getBoundingClientRect().top > window.innerHeight / 2) output.scrollIntoView({behavior: "smooth"});
}"""
"""On a narrow screen the prediction is below the form."""
ABOUT = "Predictions with their uncertainty"


def gradio() -> Any:
    """Return the module, without its telemetry; raise `MissingExtraError` if it is not installed."""
    check_extra("demo", "The demo")
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    import gradio as module

    return module


def render(session: Session, texts: Sequence[str], num_samples: float, noise: float) -> str:
    """Return the HTML of a prediction; all texts are escaped.

    Args:
        texts: contents of the text fields; an empty second one is left out.
    """
    first, *rest = (text.strip() for text in texts)
    second = rest[0] if rest else ""
    if not first or (session.kind == "question-answering" and not second):
        return EMPTY
    item = (first, second) if second else first
    shown = session.predict(item, int(num_samples), float(noise))
    return _template().render(view=view(session, shown))


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("hf_bam.demo"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("result.html.j2")


def make_page(session: Session, *, title: str | None = None, examples: Sequence[Sequence[str]] | None = None) -> Any:
    """Return the page, a `gradio.Blocks`.

    Args:
        title: heading; by default the name of the model.
        examples: contents of the text fields to choose from.
    """
    gr = gradio()
    title = title or session.title
    fields, examples = FIELDS[session.kind], EXAMPLES[session.kind] if examples is None else examples
    with gr.Blocks(title=title, analytics_enabled=False) as page:
        gr.HTML(_heading(title), elem_classes="bam-head")
        with gr.Row():
            with gr.Column(scale=2, min_width=300):
                texts = [
                    gr.Textbox(label=label, lines=lines, elem_id=f"bam-text-{number}", autofocus=number == 0)
                    for number, (label, lines) in enumerate(fields)
                ]
                samples = gr.Slider(
                    SAMPLES[0],
                    max(SAMPLES[1], session.predictor.settings.num_samples),
                    session.predictor.settings.num_samples,
                    step=1,
                    label="Samples",
                    elem_id="bam-samples",
                    visible=session.is_random,
                )
                noise = gr.Slider(
                    *NOISE,
                    1.0,
                    step=0.1,
                    label="Noise of the attention",
                    info="1: as trained; 0: mean attention",
                    elem_id="bam-noise",
                    visible=session.has_noise_level,
                )
                button = gr.Button("Predict", variant="primary", elem_id="bam-predict")
                if examples:
                    width = max(map(len, examples))
                    gr.Examples([list(row) for row in examples], texts[:width], label="Examples")
            with gr.Column(scale=3, min_width=340):
                output = gr.HTML(EMPTY, elem_id="bam-output")

        def predict(*values: Any) -> str:
            *contents, number, level = values
            try:
                return render(session, contents, number, level)
            except ValueError as error:
                raise gr.Error(str(error)) from error

        inputs = [*texts, samples, noise]
        done = button.click(predict, inputs, output, api_name="predict")
        done.then(None, js=SCROLL)
        for trigger in (texts[0].submit, samples.release, noise.release):
            trigger(predict, inputs, output, api_name=False)
    return page


def _heading(title: str) -> str:
    environment = Environment(autoescape=True)
    text = "<h1>{{ title }}</h1><p>{{ about }}</p>"
    return environment.from_string(text).render(title=title, about=ABOUT)


def launch(
    model: str | os.PathLike[str] | Session,
    *,
    title: str | None = None,
    examples: Sequence[Sequence[str]] | None = None,
    num_samples: int | None = None,
    dropout: float | None = None,
    **options: Any,
) -> Any:
    """Serve the page of a model, until the program ends unless `prevent_thread_lock=True`.

    Args:
        model: folder or name on the Hub of a trained model, or a session.
        title: heading; by default the name of the model.
        examples: contents of the text fields to choose from.
        num_samples: samples at the start; by default those that are saved with the model, or 8.
        dropout: rate of Monte Carlo dropout, for a plain model; by default it makes one deterministic pass.
        options: arguments of Gradio's `launch`: `server_name`, `server_port`, ...

    Returns:
        The page, which `close()` stops.
    """
    gr = gradio()
    if not isinstance(model, Session):
        given = {} if num_samples is None else {"num_samples": num_samples}
        model = Session.load(model, dropout=dropout, **given)
    page = make_page(model, title=title, examples=examples)
    fonts: Any = {"font": ("system-ui", "sans-serif"), "font_mono": ("ui-monospace", "monospace")}
    own = {
        "theme": gr.themes.Soft(primary_hue="blue", neutral_hue="slate", **fonts),
        "css": Path(__file__).with_name("templates").joinpath("style.css").read_text(encoding="utf-8"),
        "footer_links": [],
        "ssr_mode": False,
    }
    page.launch(**{**own, **options})
    return page
