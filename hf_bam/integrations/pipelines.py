"""Pipelines of transformers with uncertainty: `pipeline("bam-text-classification", model="out/model")`."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from torch.utils.data import Dataset
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    Pipeline,
)
from transformers.pipelines import PIPELINE_REGISTRY

from ..attention.interface import NAME
from .hub import location_in

if TYPE_CHECKING:
    from ..prediction import BamPredictor

ARRAYS = ("samples", "alignments", "std")
"""Fields of a result that a pipeline leaves out, if they are arrays."""
SAVED = "_hf_bam_saved"
"""Attribute of a model that a pipeline has loaded: the calibration of its folder, and the settings there."""


class BamPipeline(Pipeline):
    """Pipeline of a [`BamPredictor`][hf_bam.BamPredictor], whose arguments the pipeline and its calls take.

    A model by folder or name is loaded as the Bayesian one, with the calibration and the settings of its predictor if
    they were saved with it. Inputs are those of a predictor: a list gives a list, a generator or a dataset of torch
    gives an iterator. Results are dictionaries with the fields of the predictor's results, without the samples.
    """

    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    heads: ClassVar[tuple[str, ...]] = ("classification", "multi-label", "regression")

    def _sanitize_parameters(self, **settings: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        after = {"top_k": settings.pop("top_k")} if "top_k" in settings else {}
        return {}, settings, after

    def predictor(self, **settings: Any) -> BamPredictor[Any]:
        """Return the predictor of one call."""
        from ..prediction import BamPredictor, Calibration, storage

        calibration, about = getattr(self.model, SAVED, (Calibration(), None))
        saved = (
            {} if about is None else {"head": about.head, **about.settings, "dropout": about.sampler.get("dropout")}
        )
        options = {"progress": False, **saved, **settings}
        made = BamPredictor[Any](self.model, self.tokenizer or self.image_processor, **options)
        if made.head_name not in self.heads:
            raise ValueError(
                f"This pipeline is for {', '.join(self.heads)}; a {type(self.model).__name__} has "
                f"head={made.head_name!r}."
            )
        return storage.Stored(self.model, made.tokenizer, calibration, about, {}).calibrate(made)

    def __call__(self, inputs: Any, *, text_pair: Any = None, batch_size: int | None = None, **settings: Any) -> Any:
        """Return the results of one input or of several.

        Args:
            text_pair: the second text, or one for each input.
            batch_size: inputs at a time.
            settings: `top_k`, the number of labels to list; arguments of the predictor.
        """
        settings.pop("num_workers", None)
        _, forward, after = self._sanitize_parameters(**settings)
        size = batch_size or self._batch_size
        forward = {**({"batch_size": size} if size else {}), **self._forward_params, **forward}
        after = {**self._postprocess_params, **after}
        if text_pair is not None:
            inputs = list(zip(inputs, text_pair, strict=True)) if isinstance(inputs, list) else (inputs, text_pair)
        predictor = self.predictor(**forward)
        if isinstance(inputs, (Dataset, types.GeneratorType)):
            return self._stream(predictor, inputs, after)
        if isinstance(inputs, (str, dict)) or not hasattr(inputs, "__len__") or _is_pair(inputs):
            return self.postprocess({"result": predictor([inputs])[0]}, **after)
        return [self.postprocess({"result": result}, **after) for result in predictor(inputs)]

    def _stream(self, predictor: BamPredictor[Any], inputs: Any, after: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for result in predictor.stream(inputs):
            yield self.postprocess({"result": result}, **after)

    def preprocess(self, inputs: Any) -> dict[str, Any]:
        return {"item": inputs}

    def _forward(self, model_inputs: dict[str, Any], **settings: Any) -> dict[str, Any]:
        return {"result": self.predictor(**settings)([model_inputs["item"]])[0]}

    def postprocess(self, model_outputs: dict[str, Any], **options: Any) -> dict[str, Any]:
        """Return the fields of a result that are numbers and texts, with the first labels if `top_k` is given."""
        result = model_outputs["result"]
        fields = dataclasses.asdict(result)
        shown = {name: value for name, value in fields.items() if name not in ARRAYS or isinstance(value, float)}
        shown = {name: value for name, value in shown.items() if value is not None}
        return shown | ({"top_k": self.top(result, options["top_k"])} if "top_k" in options else {})

    def top(self, result: Any, number: int | None) -> list[dict[str, Any]]:
        """Return the most probable labels of a result, all of them for None."""
        if "classification" not in self.heads or result.samples.ndim != 2:
            raise ValueError(f"top_k={number!r} is for pipelines of classification.")
        mean, names = result.samples.mean(axis=0), self.model.config.id2label
        std = result.samples.std(axis=0, ddof=1) if len(result.samples) > 1 else 0 * mean
        order = (-mean).argsort(kind="stable")[:number]
        return [{"label": names[int(i)], "probability": float(mean[i]), "std": float(std[i])} for i in order]


class BamTokenPipeline(BamPipeline):
    """Pipeline of token classifiers."""

    heads = ("tokens",)


class BamQuestionPipeline(BamPipeline):
    """Pipeline of question answering; takes `{"question": ..., "context": ...}` or pairs.

    `top_k` is the number of answers in `n_best`.
    """

    heads = ("question-answering",)

    def _sanitize_parameters(self, **settings: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        number = {"n_best": settings.pop("top_k")} if "top_k" in settings else {}
        return {}, {**settings, **number}, {}


class BamGenerationPipeline(BamPipeline):
    """Pipeline of translation and text generation."""

    heads = ("generation",)


class BamEmbeddingPipeline(BamPipeline):
    """Pipeline of embeddings; the result has the vector as a list."""

    heads = ("embeddings",)

    def postprocess(self, model_outputs: dict[str, Any], **options: Any) -> dict[str, Any]:
        return {**super().postprocess(model_outputs, **options), "vector": model_outputs["result"].prediction}


class BamImagePipeline(BamPipeline):
    """Pipeline of image classifiers; takes images of PIL, paths or arrays."""

    _load_image_processor = True
    _load_tokenizer = False
    heads = ("classification",)


class BayesianLoader:
    """Auto class of a pipeline, which loads a Bayesian model as one, with what was saved for its predictor."""

    auto_class: ClassVar[Any]

    @classmethod
    def from_pretrained(cls, name_or_path: Any, **kwargs: Any) -> Any:
        from ..prediction import storage

        location = location_in(kwargs)
        config = kwargs.get("config") or AutoConfig.from_pretrained(name_or_path, **location)
        usual = {"attn_implementation": NAME} if hasattr(config, NAME) else {}
        model = cls.auto_class.from_pretrained(name_or_path, **{**usual, **kwargs})
        setattr(model, SAVED, storage.find(name_or_path, location))
        return model


TASKS: dict[str, tuple[type[BamPipeline], Any, str]] = {
    "bam-text-classification": (BamPipeline, AutoModelForSequenceClassification, "text"),
    "bam-token-classification": (BamTokenPipeline, AutoModelForTokenClassification, "text"),
    "bam-question-answering": (BamQuestionPipeline, AutoModelForQuestionAnswering, "text"),
    "bam-translation": (BamGenerationPipeline, AutoModelForSeq2SeqLM, "text"),
    "bam-text-generation": (BamGenerationPipeline, AutoModelForCausalLM, "text"),
    "bam-feature-extraction": (BamEmbeddingPipeline, AutoModel, "text"),
    "bam-image-classification": (BamImagePipeline, AutoModelForImageClassification, "image"),
}


def register() -> None:
    """Register the pipelines with transformers, once."""
    for task, (pipeline, auto_class, kind) in TASKS.items():
        if task not in PIPELINE_REGISTRY.supported_tasks:
            loader = type(f"Bayesian{auto_class.__name__}", (BayesianLoader,), {"auto_class": auto_class})
            PIPELINE_REGISTRY.register_pipeline(task, pipeline_class=pipeline, pt_model=loader, type=kind)


def _is_pair(inputs: Any) -> bool:
    return isinstance(inputs, tuple) and len(inputs) == 2 and all(isinstance(part, str) for part in inputs)
