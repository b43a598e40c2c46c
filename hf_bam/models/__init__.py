"""Models of hf_bam itself, for transformers: a recurrent encoder-decoder, and co-attention of questions and images.

The attention of a model here goes through transformers' attention interface, so that `hf_bam.patch` treats it like any
other. `import hf_bam` registers the models with the auto classes. Imports torch and transformers only.
"""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    AutoModelForVisualQuestionAnswering,
    AutoProcessor,
)

from .attention import RecurrentAttention
from .cache import RecurrentCache
from .coattention import CoAttentionConfig, CoAttentionForVisualQuestionAnswering
from .configuration import FEEDBACK, RecurrentConfig
from .decoder import RecurrentDecoder
from .encoder import RecurrentEncoder, RecurrentEncoderOutput
from .processing import CoAttentionProcessor
from .recurrent import RecurrentForConditionalGeneration, RecurrentModel

__all__ = [
    "FEEDBACK",
    "CoAttentionConfig",
    "CoAttentionForVisualQuestionAnswering",
    "CoAttentionProcessor",
    "RecurrentAttention",
    "RecurrentCache",
    "RecurrentConfig",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "RecurrentEncoderOutput",
    "RecurrentForConditionalGeneration",
    "RecurrentModel",
    "register",
]


def register() -> None:
    """Register the models with `AutoConfig` and the auto classes of their tasks."""
    AutoConfig.register(RecurrentConfig.model_type, RecurrentConfig, exist_ok=True)
    AutoModel.register(RecurrentConfig, RecurrentModel, exist_ok=True)
    AutoModelForSeq2SeqLM.register(RecurrentConfig, RecurrentForConditionalGeneration, exist_ok=True)
    AutoConfig.register(CoAttentionConfig.model_type, CoAttentionConfig, exist_ok=True)
    AutoModelForVisualQuestionAnswering.register(
        CoAttentionConfig, CoAttentionForVisualQuestionAnswering, exist_ok=True
    )
    AutoProcessor.register(CoAttentionConfig, CoAttentionProcessor, exist_ok=True)
