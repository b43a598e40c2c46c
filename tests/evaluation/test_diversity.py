"""Quality and diversity of generated texts, against sacreBLEU's function, nltk-free counts and hand-made cases."""

import pytest
import torch
from sacrebleu import corpus_bleu
from scipy import stats

import hf_bam
from hf_bam.evaluation.diversity import generation_metrics
from hf_bam.evaluation.metrics import distinct, unigram_entropy
from hf_bam.tasks import vocabulary

from ..models import recurrent

SAMPLES = [["the cat sat on a mat", "the cat sat on the mat"], ["who is it ?", "what is it about ?"]]
REFERENCES = ["the cat sat on the mat", "what is it about ?"]


def test_unigram_entropy_by_scipy():
    texts = ["a b b", "b c", ""]
    assert unigram_entropy(texts) == pytest.approx(stats.entropy([1, 3, 1]))
    assert unigram_entropy(["", " "]) == 0.0
    with pytest.raises(ValueError, match="expected a list of strings"):
        unigram_entropy("a b")


def test_bleu_by_sacrebleu_and_means_over_the_sources():
    found = generation_metrics(SAMPLES, REFERENCES)
    flat = [text for own in SAMPLES for text in own]
    repeated = [reference for reference in REFERENCES for _ in range(2)]
    assert found["bleu_4"] == pytest.approx(corpus_bleu(flat, [repeated]).score)
    # 5 of 6, 6 of 6, 3 of 4 and 5 of 5 words are right, and one text is shorter than its reference: 21 for 22 words.
    assert found["bleu_1"] == pytest.approx(100 * 19 / 21 * 2.718281828 ** (1 - 22 / 21))
    assert found["bleu_1"] > found["bleu_2"] > found["bleu_3"] > found["bleu_4"]
    assert found["dist_1"] == pytest.approx((6 / 12 + 6 / 9) / 2)
    assert found["dist_2"] == pytest.approx((distinct(SAMPLES[0], 2) + distinct(SAMPLES[1], 2)) / 2)
    first = stats.entropy([3, 2, 2, 2, 1, 2])
    second = stats.entropy([1, 2, 2, 2, 1, 1])
    assert found["entropy"] == pytest.approx((first + second) / 2)


def test_equal_texts_are_not_diverse():
    same = generation_metrics([[text] * 3 for text in REFERENCES], REFERENCES)
    assert same["bleu_4"] == pytest.approx(100.0)
    assert same["dist_1"] == pytest.approx((5 / 18 + 5 / 15) / 2)


def test_wrong_arguments_are_errors():
    with pytest.raises(ValueError, match="samples has 2 sources and references 1"):
        generation_metrics(SAMPLES, REFERENCES[:1])
    with pytest.raises(ValueError, match="a source without texts"):
        generation_metrics([[], ["a"]], REFERENCES)


def test_results_of_a_predictor():
    """Every hypothesis has a sample of its own, the same for the same seed."""
    torch.manual_seed(0)
    tokenizer = vocabulary.fit(["a b c d e f g h"] * 60, 60, 32)
    model = recurrent(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, eos_token_id=0)
    hf_bam.patch(model, family="gaussian", sentence_latent=4, initial_sigma=3.0)
    options = {"num_samples": 1, "hypotheses": 5, "generation": {"max_new_tokens": 8, "num_beams": 1}}
    predictor = hf_bam.BamPredictor(model, tokenizer, **options)
    results, again = predictor(["a b c", "d e"]), predictor(["d e"])
    found = generation_metrics(results, ["a b c", "d e"])
    assert found["dist_1"] > 0
    assert len(set(results[0].hypotheses)) > 1
    assert again[0].hypotheses == results[1].hypotheses
