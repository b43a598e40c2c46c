"""Captions of images: a vision encoder and a text decoder are patched, trained and sampled."""

import pytest
import torch
from transformers import BertConfig, GPT2Config, VisionEncoderDecoderConfig, VisionEncoderDecoderModel, ViTConfig

import hf_bam
from hf_bam import plots
from hf_bam.prediction.maps import attention_maps

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
DECODERS = {
    "bert": lambda: BertConfig(**SIZES, vocab_size=20, max_position_embeddings=16),
    "gpt2": lambda: GPT2Config(vocab_size=20, n_embd=32, n_layer=2, n_head=4, n_positions=16),
}


def build(name):
    torch.manual_seed(0)
    vision = ViTConfig(**SIZES, image_size=8, patch_size=4)
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(vision, DECODERS[name]())
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 2, 0, 3
    model = VisionEncoderDecoderModel(config)
    model.generation_config.update(decoder_start_token_id=2, pad_token_id=0, eos_token_id=3, bos_token_id=2)
    return hf_bam.patch(model, k=2.0)


@pytest.mark.parametrize("name", DECODERS)
def test_a_captioning_model_is_trained_and_generates_with_samples(name):
    model = build(name)
    images = torch.randn(4, 3, 8, 8)
    captions = torch.tensor([[5, 6, 7, 3], [8, 9, 3, -100], [10, 11, 12, 3], [13, 14, 3, -100]])
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    losses = []
    for _ in range(40):
        out = model.train()(pixel_values=images, labels=captions)
        assert out.kl_loss > 0
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(out.task_loss.item())
    assert losses[-1] < 0.3 * losses[0]
    model.eval()
    greedy = model.generate(pixel_values=images, max_new_tokens=4, num_beams=1)
    found = [[token for token in row if token not in (0, 2)] for row in greedy.tolist()]
    assert found == [[token for token in row if token != -100] for row in captions.tolist()]
    with hf_bam.sampling(model, seed=0, fixed=True):
        sampled = model.generate(pixel_values=images.repeat(8, 1, 1, 1), max_new_tokens=4, num_beams=1)
        again = model.generate(pixel_values=images.repeat(8, 1, 1, 1), max_new_tokens=4, num_beams=2)
    assert sampled.shape[0] == again.shape[0] == 32

    words = captions[:1, :3]
    decoder_input_ids = torch.cat([torch.tensor([[2]]), words[:, :-1]], dim=1)
    maps = attention_maps(model, {"pixel_values": images[:1], "decoder_input_ids": decoder_input_ids}, 8)
    cross = next(own for path, own in maps.items() if "cross" in path.lower())
    assert cross.mean.shape == (1, 4, 3, 5)  # words, and four patches behind the class token
    weights = {"prior": cross.prior, "posterior": cross.mean}
    rows = {key: own.mean(dim=1)[0, :, 1:] for key, own in weights.items()}
    figure = plots.image_words(images[0].permute(1, 2, 0).clamp(0, 1), ["a", "b", "c"], rows)
    assert len(figure.axes) == 6
