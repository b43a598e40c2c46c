"""Attention to the tokens of an input, against the model's own attention weights."""

import pytest
import torch

from hf_bam.demo.attention import shown_tokens, token_weights

TEXT = "a film of rare beauty"


def test_weights_of_mean_attention_are_those_of_the_model(classifier):
    tokens = token_weights(classifier.at(4, noise=0), TEXT)
    model, tokenizer = classifier.predictor.sampler.model, classifier.predictor.tokenizer
    with torch.no_grad():
        attentions = model(**tokenizer(TEXT, return_tensors="pt"), output_attentions=True).attentions
    expected = torch.stack(attentions).mean(dim=(0, 1, 2, 3))[1:-1]  # without [CLS] and [SEP]
    assert [token.text for token in tokens] == TEXT.split()
    assert [token.mean for token in tokens] == pytest.approx(expected.tolist(), rel=1e-5)
    assert [token.std for token in tokens] == [0.0] * 5


def test_samples_have_a_spread(classifier):
    tokens = token_weights(classifier.at(8, noise=1), TEXT)
    assert min(token.std for token in tokens) > 0
    assert max(token.mean_share for token in tokens) == max(token.std_share for token in tokens) == 1
    wider = token_weights(classifier.at(8, noise=3), TEXT)
    assert sum(token.std for token in wider) > sum(token.std for token in tokens)


def test_a_decoder_attends_to_the_source(translator):
    tokens = token_weights(translator.at(4, noise=1), TEXT)
    assert [token.text for token in tokens] == TEXT.split()
    assert 0 < sum(token.mean for token in tokens) < 1  # the rest is for special tokens


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["un", "##usual", "film"], [("un", False), ("usual", True), ("film", False)]),
        (["▁un", "usual", "▁film"], [("un", False), ("usual", True), ("film", False)]),
        (["ĠA", "Ġfilm", "."], [("A", False), ("film", False), (".", True)]),
    ],
)
def test_marks_of_tokenizers(names, expected):
    assert shown_tokens(names) == expected
