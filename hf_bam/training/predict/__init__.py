"""Prediction of files and data sets with a trained model: `hf-bam predict`.

`command` parses the options, `sources` reads the rows, `predictors` loads the model, and `run` predicts and writes.
"""

from .run import predict
from .settings import Prediction

__all__ = ["Prediction", "predict"]
