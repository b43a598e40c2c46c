"""Sizes of the tiny models of the tests."""

VOCABULARY, PAD, LABELS = 60, 1, 3

# No dropout: only the attention of these models is random.
SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "classifier_dropout_prob": 0.0,
    "pad_token_id": PAD,
    "num_labels": LABELS,
}
SMALL_SEQ2SEQ = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "max_position_embeddings": 64,
    "pad_token_id": PAD,
    "bos_token_id": 2,
    "eos_token_id": 0,
    "decoder_start_token_id": PAD,
    "forced_eos_token_id": None,
}
