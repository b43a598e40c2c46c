"""Evaluation of a trained model on labelled data: `hf-bam evaluate`.

`command` parses the options, `sources` finds the rows, and `run` evaluates with the code that ends a training run.
"""

from .run import evaluate
from .settings import Evaluation

__all__ = ["Evaluation", "evaluate"]
