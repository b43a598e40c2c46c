"""Co-attention model for questions about images: a ViT reads the image, a BERT with cross-attention the question."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import transformers
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import BertConfig, PretrainedConfig, PreTrainedModel, ViTConfig
from transformers import initialization as init
from transformers.modeling_outputs import SequenceClassifierOutput


class CoAttentionConfig(PretrainedConfig):
    """Settings of a co-attention model.

    Args:
        text_config: config of the BERT that reads the question, or a dictionary of its fields. Its layers have
            self-attention over the question and cross-attention to the image.
        vision_config: config of the ViT that reads the image, or a dictionary of its fields; both have the same
            `hidden_size`.
        classifier_dropout: dropout rate before the classifier.
    """

    model_type = "coattention"
    sub_configs: ClassVar[dict[str, Any]] = {"text_config": BertConfig, "vision_config": ViTConfig}

    def __init__(
        self,
        text_config: BertConfig | dict[str, Any] | None = None,
        vision_config: ViTConfig | dict[str, Any] | None = None,
        classifier_dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        text, vision = (
            cls(**{} if given is None else given) if given is None or isinstance(given, dict) else given
            for cls, given in ((BertConfig, text_config), (ViTConfig, vision_config))
        )
        # Layers of BERT have cross-attention in a decoder only; its causal mask is replaced in the forward.
        text.is_decoder = text.add_cross_attention = True
        text.use_cache = False
        if text.hidden_size != vision.hidden_size:
            raise ValueError(
                f"CoAttentionConfig.vision_config.hidden_size={vision.hidden_size} is not valid; it must be that of "
                f"text_config, {text.hidden_size}."
            )
        self.text_config, self.vision_config = text, vision
        self.classifier_dropout = classifier_dropout
        super().__init__(**kwargs)


class CoAttentionForVisualQuestionAnswering(PreTrainedModel):
    """Classifier of pairs of an image and a question, by the state of the question's first token.

    Attention is threefold, as in co-attention networks: of the image to itself, of the question to itself, and of the
    question to the image.
    """

    config_class = CoAttentionConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _supports_sdpa = True

    def __init__(self, config: CoAttentionConfig) -> None:
        super().__init__(config)
        self.vision = transformers.ViTModel(config.vision_config, add_pooling_layer=False)
        self.text = transformers.BertModel(config.text_config, add_pooling_layer=False)
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.text_config.hidden_size, config.num_labels)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.text.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.text.set_input_embeddings(value)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            init.normal_(module.weight, std=self.config.text_config.initializer_range)
            init.zeros_(module.bias)

    def forward(
        self,
        input_ids: Tensor,
        pixel_values: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Return the logits (B, C), and with labels their mean cross-entropy.

        Args:
            input_ids: (B, T) question.
            pixel_values: (B, channels, height, width) image.
            attention_mask: (B, T), 0 for padding.
            labels: (B,) index of the answer.
            kwargs: `output_attentions` and `output_hidden_states` of the question's layers.
        """
        image = self.vision(pixel_values).last_hidden_state  # (B, P + 1, D)
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        every = mask[:, None, None, :].expand(-1, 1, input_ids.shape[1], -1).bool()  # (B, 1, T, T), not causal
        outputs = self.text(input_ids, every, token_type_ids, encoder_hidden_states=image, use_cache=False, **kwargs)
        logits = self.classifier(self.dropout(outputs.last_hidden_state[:, 0]))
        return SequenceClassifierOutput(
            loss=None if labels is None else cross_entropy(logits.float(), labels),
            logits=logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.cross_attentions,
        )
