"""`generate` of patched models, encoder-decoder and decoder-only."""

import pytest
import torch

import hf_bam

from ..models import ARCHITECTURES

INTERFACE = ["bert-decoder", "bert2bert", "marian", "bart", "gpt2", "llama", "t5", "whisper", "recurrent"]
ADAPTED = ["bloom", "falcon", "falcon-alibi", "gptj", "gpt-neo"]

STRATEGIES = {
    "greedy": {},
    "beam": {"num_beams": 3, "num_return_sequences": 2},
    "sampling": {"do_sample": True, "top_k": 10},
    "beam sampling": {"do_sample": True, "num_beams": 2},
}


@pytest.fixture(params=[*INTERFACE, *ADAPTED])
def case(request):
    architecture = ARCHITECTURES[request.param]
    model = architecture.build().eval()
    inputs = {name: tensor for name, tensor in architecture.batch((7, 7), 7).items() if name != "labels"}
    return model, inputs


def generate(model, inputs, **settings):
    torch.manual_seed(5)
    return model.generate(**inputs, max_new_tokens=6, pad_token_id=1, **settings)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_mean_mode_equals_the_plain_model_with_and_without_a_cache(case, strategy):
    model, inputs = case
    plain = generate(model, inputs, **STRATEGIES[strategy])
    hf_bam.patch(model)
    for use_cache in (True, False):
        assert torch.equal(generate(model, inputs, use_cache=use_cache, **STRATEGIES[strategy]), plain)


def test_fixed_noise_gives_the_same_text_with_and_without_a_cache(case):
    model, inputs = case
    hf_bam.patch(model, k=0.5)
    texts = []
    for use_cache in (True, False):
        with hf_bam.sampling(model, seed=1, fixed=True):
            texts.append(generate(model, inputs, use_cache=use_cache))
    assert torch.equal(*texts)
