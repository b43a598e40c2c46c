"""Tiny random models of every text architecture in transformers, and batches for them.

A configuration has the defaults of its class. Every size, dropout rate and special token in it is made small, also in
nested configurations. `EXTRAS` corrects the cases in which these rules fail.
"""

import inspect
import re

import torch
import transformers
from torch import nn
from transformers import CONFIG_MAPPING, PreTrainedConfig
from transformers.models.auto import modeling_auto
from transformers.pytorch_utils import Conv1D

TASKS = {
    "sequence classification": "SEQUENCE_CLASSIFICATION",
    "causal LM": "CAUSAL_LM",
    "seq2seq LM": "SEQ_TO_SEQ_CAUSAL_LM",
    "masked LM": "MASKED_LM",
}
VOCABULARY, PAD, BOS, EOS, LABELS = 64, 1, 2, 3, 3
LENGTHS, WIDTH = (9, 6, 4), 9

SIZES = {
    r".*vocab_size.*|.*_vocab": VOCABULARY,
    r"num_kv_shared_layers|num_nextn_predict_layers|.*dense_replace|num_dense_layers": 0,
    r"n_group|topk_group|num_expert_group|.*n_?groups|num_groups|.*_step|num_codebooks": 1,
    r".*(_layers|n_layer|_blocks|depth|_cycles)|.*experts_per_tok.*|.*top_?k|moe_k|.*(key_value|kv|kv_n)_heads": 2,
    r".*experts|zero_expert_num|.*n_heads|n_head|num_heads|.*(attention|key|value|mamba|index)_heads": 4,
    r".*window.*|.*chunk_size|.*chunk_length|local_attention|local_radius|.*block_size|patch_size": 4,
    r"rotary_dim": 8,
    r".*head_?dim|.*_d_head|d_kv|d_head|dim_head|.*head_size|kv_channels|.*d_state|.*state_size|.*rank|d_rel": 16,
    r"image_size|.*(num_latents|num_hash.*|_channels?|num_centroids|_size_base|_parts|landmarks)": 16,
    r".*(positions|position_embeddings|_ctx|seq_len|max_length|context_length|_extent)": 64,
    r".*(hidden_size.*|d_model|n_embd|dim|embedding_size|d_inner|ffn.*|intermediate_size.*|d_ff|dff|dim_ff)": 64,
    r".*(_width|emb_size|feed_forward_size|feat_size|d_latents|bottleneck_size|d_ssm)": 64,
}
"""Largest value of a setting, by a pattern for its full name; the first match applies."""
KEPT = r"num_layers_per_stack|chunk_length|acoustic_tokenizer_chunk_size|qk_head_dim|(num|in|out|audio)_channels"
OFF = {"head_dim": 16, "sliding_window": 4, "use_sliding_window": True}
"""Values of settings that are off by default."""
TOKENS = {"pad": PAD, "bos": BOS, "decoder_start": BOS, "cls": BOS, "eos": EOS, "sep": EOS, "image": 63, "audio": 62}

ROPE = {"rope_type": "default", "rope_theta": 10000.0}
ZAMBA = {
    "num_hidden_layers": 4,
    "layers_block_type": ["linear_attention", "hybrid"] * 2,
    "attention_hidden_size": 128,
    "attention_head_dim": 32,
}
EXTRAS = {
    "bamba": {"num_hidden_layers": 2, "attn_layer_indices": [1], "mamba_n_heads": 4, "mamba_d_head": 32},
    "blt": {"num_hidden_layers": 2},
    "cohere_compass_text": {"rope_parameters": {"full_attention": ROPE, "sliding_attention": ROPE}},
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "kv_n_heads": 2, "clip_qkv": 8}},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "esm": {"vocab_size": VOCABULARY},
    "falcon_h1": {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_ssm": 64},
    "gpt_neo": {"num_layers": 2, "attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": {
        "num_hidden_layers": 2,
        "layer_types": ["mamba", "attention"],
        "mamba_n_heads": 4,
        "mamba_d_head": 32,
    },
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2_moe": {"num_hidden_layers": 2, "layer_types": ["conv", "full_attention"]},
    "mamba2": {"num_heads": 4, "head_dim": 32},
    "minimax_m3_vl_text": {
        "num_hidden_layers": 2,
        "layer_types": ["full_attention", "minimax_m3_sparse"],
        "mlp_layer_types": ["dense", "sparse"],
        "index_block_size": 2,
    },
    "mistral4": {"rope_parameters": {**ROPE, "original_max_position_embeddings": 64, "llama_4_scaling_beta": 0.1}},
    "qwen4_exp_text": {
        "indexer_n_heads": 2,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 16,
        "indexer_budget": 4,
        "indexer_compress_ratio": 2,
    },
    "recurrent_gemma": {"num_hidden_layers": 3},
    "reformer": {"axial_pos_embds_dim": [32, 32], "axial_pos_shape": [8, 8]},
    "siglip_vision_model": {"vision_use_head": False},  # as in the checkpoints of models that have it inside
    "vibevoice_acoustic_tokenizer_encoder": {"num_filters": 2},
    "xmod": {"default_language": "en_XX"},
    "zamba": ZAMBA,
    "zamba2": {**ZAMBA, "hybrid_layer_ids": [1, 3], "n_mamba_heads": 8},
}


class NotBuilt(Exception):
    """Raised for a model without a tiny configuration, or that does not run on token ids alone."""


def pairs():
    """Yield every model type with every task that it has a class for, and the name of that class."""
    for task, name in TASKS.items():
        for model_type, found in getattr(modeling_auto, f"MODEL_FOR_{name}_MAPPING_NAMES").items():
            yield model_type, task, found if isinstance(found, str) else found[0]


def build(model_type, task, class_name):
    """Return a tiny model in evaluation mode."""
    torch.manual_seed(0)
    try:
        cls, config = getattr(transformers, class_name), tiny_config(model_type, task)
        if not isinstance(config, cls.config_class):
            config = config.get_text_config(decoder=True)
        model = cls(config).eval()
    except Exception as error:
        raise NotBuilt(f"{type(error).__name__}: {' '.join(str(error).split())}") from error
    enlarge(model)
    return model


def tiny_config(model_type, task):
    config = shrink(CONFIG_MAPPING[model_type])
    config.num_labels = LABELS
    if config.is_encoder_decoder:
        config.decoder_start_token_id = BOS
    if model_type == "encoder-decoder":
        config.decoder.is_decoder = config.decoder.add_cross_attention = True
    elif task == "causal LM" and hasattr(config, "is_decoder"):
        config.is_decoder = True
    return config


def shrink(cls):
    """Return a tiny configuration of a class."""
    default = cls()
    about = vars(default)
    changes = {name: small(name, value) for name, value in about.items()} | layers(about)
    if about.get("num_attention_heads") and about.get("num_key_value_heads") in (about["num_attention_heads"], None):
        changes["num_key_value_heads"] = changes["num_attention_heads"]
    changes = {name: value for name, value in changes.items() if value is not None}
    return cls(**{**changes, **EXTRAS.get(cls.model_type, {})})


def small(name, value):
    """Return the small value of a setting, or None to keep the default."""
    if isinstance(value, PreTrainedConfig):
        return shrink(type(value))
    if re.fullmatch(r".*_token_(id|index)", name) and (value is not None or name.startswith(("pad", "eos"))):
        return next((token for prefix, token in TOKENS.items() if name.startswith(prefix)), 61)
    if isinstance(value, float) and re.search("drop|jitter", name):
        return 0.0
    if not value:
        return OFF.get(name)
    if type(value) is not int or re.fullmatch(KEPT, name):
        return None
    return next((min(value, size) for pattern, size in SIZES.items() if re.fullmatch(pattern, name)), None)


def layers(about):
    """Return settings with one layer of each kind, for configurations with lists of one entry per layer."""
    depth = about.get("num_hidden_layers")
    names = [name for name, value in about.items() if isinstance(value, list) and len(value) == depth]
    kinds = dict.fromkeys(zip(*(about[name] for name in names), strict=True))
    if len(kinds) < 2:
        return {}  # the class fills the lists itself
    lists = zip(names, zip(*kinds, strict=True), strict=True)
    return {"num_hidden_layers": len(kinds)} | {name: [small(name, v) or v for v in values] for name, values in lists}


def enlarge(model):
    """Replace the weights so that attention affects the logits: outputs as large as inputs, no bias or gate zero."""
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            noise = torch.randn_like(parameter)
            if parameter.dim() < 2:
                parameter.data += 0.1 * noise
            elif isinstance(module, nn.Embedding):
                parameter.data = noise
            else:
                parameter.data = noise * parameter.shape[0 if isinstance(module, Conv1D) else -1] ** -0.5


def batch(model, padding):
    """Return inputs with padding on the "right" or on the "left", or with "none" and then without masks."""
    generator = torch.Generator().manual_seed(1)
    inputs = text(padding, generator)
    if model.config.is_encoder_decoder and "decoder_input_ids" in inspect.signature(model.forward).parameters:
        inputs |= {f"decoder_{name}": value for name, value in text(padding, generator).items()}
    return inputs


def text(padding, generator):
    """Return token ids that end in EOS, the token that BART classifies by, and their mask."""
    lengths = torch.tensor(LENGTHS if padding != "none" else [WIDTH] * len(LENGTHS))[:, None]
    mask = torch.arange(WIDTH) < lengths
    ids = torch.randint(4, 56, mask.shape, generator=generator).scatter(1, lengths - 1, EOS).where(mask, PAD)
    if padding == "none":
        return {"input_ids": ids}
    if padding == "left":
        order = (torch.arange(WIDTH) + lengths) % WIDTH
        ids, mask = ids.gather(1, order), mask.gather(1, order)
    return {"input_ids": ids, "attention_mask": mask.long()}
