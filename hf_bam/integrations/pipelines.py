"""Pipelines of transformers with uncertainty: `pipeline("bam-text-classification", model=..., tokenizer=...)`."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from transformers import (
    AutoModelForCausalLM,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    Pipeline,
)
from transformers.pipelines import PIPELINE_REGISTRY

ARRAYS = ("samples", "alignments")
"""Fields of a result that a pipeline leaves out."""


class BamPipeline(Pipeline):
    """Pipeline of a [`BamPredictor`][hf_bam.BamPredictor], whose arguments the pipeline and its calls take.

    The results are dictionaries with the fields of the predictor's results, without the samples themselves.
    """

    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    heads: ClassVar[tuple[str, ...]] = ("classification", "multi-label", "regression")

    def _sanitize_parameters(self, **settings: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        return {}, settings, {}

    def preprocess(self, inputs: Any) -> dict[str, Any]:
        return {"item": inputs}

    def _forward(self, model_inputs: dict[str, Any], **settings: Any) -> dict[str, Any]:
        from ..prediction import BamPredictor

        predictor = BamPredictor(self.model, self.tokenizer, **{"progress": False, **settings})
        if predictor.head_name not in self.heads:
            raise ValueError(
                f"This pipeline is for {', '.join(self.heads)}; a {type(self.model).__name__} has "
                f"head={predictor.head_name!r}."
            )
        return {"result": predictor([model_inputs["item"]])[0]}

    def postprocess(self, model_outputs: dict[str, Any]) -> dict[str, Any]:
        fields = dataclasses.asdict(model_outputs["result"])
        return {name: value for name, value in fields.items() if name not in ARRAYS and value is not None}


class BamTokenPipeline(BamPipeline):
    """Pipeline of token classifiers."""

    heads = ("tokens",)


class BamQuestionPipeline(BamPipeline):
    """Pipeline of question answering; takes `{"question": ..., "context": ...}` or pairs."""

    heads = ("question-answering",)


class BamGenerationPipeline(BamPipeline):
    """Pipeline of translation and text generation."""

    heads = ("generation",)


TASKS: dict[str, tuple[type[BamPipeline], Any]] = {
    "bam-text-classification": (BamPipeline, AutoModelForSequenceClassification),
    "bam-token-classification": (BamTokenPipeline, AutoModelForTokenClassification),
    "bam-question-answering": (BamQuestionPipeline, AutoModelForQuestionAnswering),
    "bam-translation": (BamGenerationPipeline, AutoModelForSeq2SeqLM),
    "bam-text-generation": (BamGenerationPipeline, AutoModelForCausalLM),
}


def register() -> None:
    """Register the pipelines with transformers, once."""
    for task, (pipeline, model) in TASKS.items():
        if task not in PIPELINE_REGISTRY.supported_tasks:
            PIPELINE_REGISTRY.register_pipeline(task, pipeline_class=pipeline, pt_model=model, type="text")
