"""Models of hf_bam itself, for transformers: a recurrent encoder-decoder with attention.

The attention of a model here goes through transformers' attention interface, so that `hf_bam.patch` treats it like any
other. `import hf_bam` registers the models with the auto classes. Imports torch and transformers only.
"""

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

from .attention import RecurrentAttention
from .cache import RecurrentCache
from .configuration import FEEDBACK, RecurrentConfig
from .decoder import RecurrentDecoder
from .encoder import RecurrentEncoder, RecurrentEncoderOutput
from .recurrent import RecurrentForConditionalGeneration, RecurrentModel

__all__ = [
    "FEEDBACK",
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
    """Register the models with `AutoConfig`, `AutoModel` and `AutoModelForSeq2SeqLM`."""
    AutoConfig.register(RecurrentConfig.model_type, RecurrentConfig, exist_ok=True)
    AutoModel.register(RecurrentConfig, RecurrentModel, exist_ok=True)
    AutoModelForSeq2SeqLM.register(RecurrentConfig, RecurrentForConditionalGeneration, exist_ok=True)
