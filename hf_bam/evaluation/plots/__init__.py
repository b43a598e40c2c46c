"""Plots of calibration, uncertainty and attention, as matplotlib figures that need no display.

Every function returns a `Figure`: save it with `figure.savefig("name.png")`, or leave it as the last line of a
notebook cell. matplotlib's global state does not change. Imports the metrics and matplotlib, which the extra `plots`
installs.
"""

from ...extras import check_extra

check_extra("plots", "hf_bam.plots")

from .attention import alignment_heatmap, attention_heatmap, prior_over_keys
from .calibration import reliability_diagram
from .images import image_answers, image_attention, image_words
from .rows import loss_against_uncertainty, predicted_numbers, uncertainty_parts
from .uncertainty import risk_coverage, uncertainty_histograms

__all__ = [
    "alignment_heatmap",
    "attention_heatmap",
    "image_answers",
    "image_attention",
    "image_words",
    "loss_against_uncertainty",
    "predicted_numbers",
    "prior_over_keys",
    "reliability_diagram",
    "risk_coverage",
    "uncertainty_histograms",
    "uncertainty_parts",
]
