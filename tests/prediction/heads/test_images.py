"""Classification of images, against the model itself."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from PIL import Image
from transformers import ViTImageProcessorPil, pipeline

import hf_bam
from hf_bam.prediction import BamPredictor, Plain, Predictor
from hf_bam.prediction.batched import tokens_of

from ...models import vit

IMAGES = [np.random.default_rng(i).integers(0, 256, (10, 12, 3), dtype=np.uint8) for i in range(60)]


@pytest.fixture(scope="module")
def processor():
    return ViTImageProcessorPil(size={"height": 8, "width": 8})


@pytest.fixture
def model():
    return hf_bam.patch(vit(initializer_range=0.5), k=1.0).eval()


def test_one_pass_is_the_model(model, processor):
    predictor = Predictor(Plain(model), processor, batch_size=2, progress=False)
    with torch.no_grad():
        logits = model(**processor(IMAGES[:3], return_tensors="pt")).logits
    np.testing.assert_allclose(predictor.predict_proba(IMAGES[:3]), logits.softmax(-1).numpy(), atol=1e-6)
    assert tokens_of(model, {"pixel_values": torch.zeros(3, 3, 8, 8)}) == 3 * (8 // model.config.patch_size) ** 2


def test_inputs_and_samples(model, processor, tmp_path):
    """Arrays, images, paths and a data set give the same samples, in any order and batch."""
    predictor = BamPredictor(model, processor, num_samples=4, batch_size=2, progress=False)
    images = [Image.fromarray(array) for array in IMAGES[:3]]
    paths = [tmp_path / f"{i}.png" for i in range(3)]
    for path, image in zip(paths, images, strict=True):
        image.save(path)
    want = predictor(IMAGES[:3])
    assert want[0].epistemic > 0
    dataset = Dataset.from_dict({"image": [str(path) for path in paths]})
    for inputs in (images, paths, [str(path) for path in paths], dataset):
        np.testing.assert_allclose(predictor(inputs).samples, want.samples, atol=1e-6)
    np.testing.assert_allclose(predictor(images[1])[0].samples, want[1].samples, atol=1e-6)
    with pytest.raises(TypeError, match=r"inputs\[0\] is 3; it must be an image"):
        predictor([3])


def test_fits_files_and_pipeline(model, processor, tmp_path):
    labels = [i % 3 for i in range(60)]
    predictor = BamPredictor(model, processor, num_samples=2, progress=False)
    predictor.fit(IMAGES, labels, false_alarms=0.3).conformal(IMAGES, labels, alpha=0.2)
    result = predictor(IMAGES[:1])[0]
    predictor.save_pretrained(tmp_path)
    loaded = BamPredictor.from_pretrained(tmp_path, progress=False)(IMAGES[:1])[0]
    assert loaded.prediction_set == result.prediction_set
    assert loaded.novelty.score == pytest.approx(result.novelty.score, rel=1e-5)
    found = pipeline("bam-image-classification", model=str(tmp_path), device="cpu", top_k=2)(IMAGES[:1])[0]
    assert found["prediction_set"] == result.prediction_set
    assert found["top_k"][0]["label"] == result.label
    comparison = hf_bam.compare({"BAM": predictor}, IMAGES[:9], labels[:9])
    assert len(comparison.texts) == 9
