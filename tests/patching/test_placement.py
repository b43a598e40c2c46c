"""Places of latent alignments in a model."""

import pytest

import hf_bam

from ..models import ARCHITECTURES, bart, bert, gpt2, marian, t5

whisper = ARCHITECTURES["whisper"].build


@pytest.mark.parametrize(
    ("build", "settings", "message"),
    [
        (
            marian,
            {"layers": 2},
            r"gives 2 latent alignments .*cannot be enumerated. Use .*'variational' with estimator='score'",
        ),
        (marian, {"layers": [0]}, r"behind which attention mixes positions.*estimator='score'"),
        (marian, {"layers": 2, "objective": "hard"}, r"Use estimator='score', which samples them, or layers=1"),
        (bart, {"attention": "both"}, "gives 3 latent alignments"),
        (whisper, {}, r"a 'whisper' model, and known are those of bart, bert.*estimator='score'"),
        (t5, {"attention": "self"}, "gives 2 latent alignments"),
        (lambda: marian().model, {}, "MarianModel cannot have family='categorical'"),
        (lambda: bert().bert, {}, "BertModel cannot have family='categorical'"),
        (gpt2, {}, "GPT2LMHeadModel cannot have family='categorical'"),
    ],
    ids=["two layers", "first layer", "hard", "both", "whisper", "self", "no head", "encoder", "decoder"],
)
def test_places_that_cannot_have_a_latent_alignment(build, settings, message):
    model = build()
    with pytest.raises(ValueError, match=message):
        hf_bam.patch(model, family="categorical", **settings)
    assert not hf_bam.is_patched(model)
    assert model.config._attn_implementation != "bam"
