"""Processor of the co-attention model: an image processor and a tokenizer."""

from __future__ import annotations

from typing import Any

from transformers import ProcessorMixin


class CoAttentionProcessor(ProcessorMixin):
    """Image processor and tokenizer of a co-attention model, with one `save_pretrained` and `from_pretrained`.

    Args:
        image_processor: that of a ViT.
        tokenizer: that of the questions.

    Calls take `images` and `text`.
    """

    def __init__(self, image_processor: Any = None, tokenizer: Any = None) -> None:
        super().__init__(image_processor, tokenizer)
