"""HTML and Markdown report on a comparison of methods, for classifiers and for models of numbers, answers and texts.

`writing` collects the content and renders it, `columns` makes the table with intervals, `resampling` draws the
bootstrap, `pictures` draws the figures, and `escaping` makes texts safe for both formats. Needs the extra `plots`.
"""

from ...extras import check_extra

check_extra("plots", "hf_bam.report")

from .writing import report

__all__ = ["report"]
