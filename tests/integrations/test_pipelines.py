"""Pipelines of transformers with a patched model, and the pipelines with uncertainty."""

import json

import pytest
from transformers import BertForMaskedLM, BertForQuestionAnswering, BertForTokenClassification, pipeline
from transformers.pipelines import PIPELINE_REGISTRY

import hf_bam
from hf_bam.prediction import BamPredictor

from ..models import PAD, bert, marian
from ..prediction.heads.test_questions import CONTEXT, QUESTION

TEXTS = ["a film of rare beauty", "well, it exists"]
SIZES = {"initializer_range": 0.3, "max_position_embeddings": 128}


def test_an_ordinary_pipeline_is_unchanged(tokenizer):
    model = bert(vocab_size=len(tokenizer), **SIZES).eval()
    before = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")(TEXTS)
    hf_bam.patch(model)
    after = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")(TEXTS)
    assert [result["label"] for result in after] == [result["label"] for result in before]
    assert [r["score"] for r in after] == pytest.approx([r["score"] for r in before], abs=1e-6)


ORDINARY = {
    "fill-mask": (BertForMaskedLM, ("a film of [MASK] beauty",), {}),
    "token-classification": (BertForTokenClassification, (TEXTS[0],), {}),
    "question-answering": (BertForQuestionAnswering, (), {"question": QUESTION, "context": CONTEXT}),
}


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # transformers 5.0 with a new numpy
@pytest.mark.parametrize("task", ORDINARY)
def test_other_ordinary_pipelines_are_unchanged(task, tokenizer):
    if task not in PIPELINE_REGISTRY.get_supported_tasks():
        pytest.skip(f"this transformers has no {task} pipeline")
    cls, texts, inputs = ORDINARY[task]
    model = cls(bert(vocab_size=len(tokenizer), num_labels=2, **SIZES).config).eval()
    before = pipeline(task, model=model, tokenizer=tokenizer, device="cpu")(*texts, **inputs)
    after = pipeline(task, model=hf_bam.patch(model), tokenizer=tokenizer, device="cpu")(*texts, **inputs)
    before, after = (result if isinstance(result, list) else [result] for result in (before, after))
    assert [r["score"] for r in after] == pytest.approx([r["score"] for r in before], abs=1e-6)
    assert [r | {"score": 0} for r in after] == [r | {"score": 0} for r in before]


def test_an_ordinary_translation_pipeline_is_unchanged(single_tokenizer):
    if "translation" not in PIPELINE_REGISTRY.get_supported_tasks():
        pytest.skip("this transformers has no translation pipeline")
    model = marian(vocab_size=len(single_tokenizer), init_std=0.5).eval()
    options = {"model": model, "tokenizer": single_tokenizer, "device": "cpu"}
    before = pipeline("translation", **options)(TEXTS, max_new_tokens=5)
    hf_bam.patch(model)
    assert pipeline("translation", **options)(TEXTS, max_new_tokens=5) == before


def test_classification_with_uncertainty(tokenizer):
    model = hf_bam.patch(bert(vocab_size=len(tokenizer), **SIZES), k=1.0)
    classify = pipeline("bam-text-classification", model=model, tokenizer=tokenizer, device="cpu", num_samples=8)
    results = classify(TEXTS)
    expected = BamPredictor(model, tokenizer, num_samples=8)(TEXTS[:1])[0]
    assert results[0]["label"] == expected.label
    assert results[0]["probability"] == pytest.approx(expected.probability)
    assert {"std", "p_value", "significant", "entropy", "aleatoric", "epistemic", "num_samples"} <= set(results[0])
    assert classify("one text", num_samples=3)["num_samples"] == 3


def test_tokens_and_questions(tokenizer):
    config = bert(vocab_size=len(tokenizer), num_labels=2, **SIZES).config
    tagger = hf_bam.patch(BertForTokenClassification(config))
    tokens = pipeline("bam-token-classification", model=tagger, tokenizer=tokenizer, device="cpu", num_samples=3)(
        TEXTS[0]
    )
    assert [token["text"] for token in tokens["tokens"]] == TEXTS[0].split()
    reader = hf_bam.patch(BertForQuestionAnswering(config))
    answer = pipeline("bam-question-answering", model=reader, tokenizer=tokenizer, device="cpu", num_samples=3)
    for item in ({"question": QUESTION, "context": CONTEXT}, (QUESTION, CONTEXT)):
        result = answer(item)
        assert CONTEXT[result["start"] : result["end"]] == result["answer"]
        assert result["n_best"][0]["answer"] == result["answer"]


def test_translation(single_tokenizer):
    model = hf_bam.patch(marian(vocab_size=len(single_tokenizer), init_std=0.5), k=1.0)
    options = {"generation": {"max_new_tokens": 5, "pad_token_id": PAD}, "num_samples": 4, "hypotheses": 2}
    result = pipeline("bam-translation", model=model, tokenizer=single_tokenizer, device="cpu", **options)(TEXTS[0])
    assert len(result["hypotheses"]) == 2
    assert result["epistemic"] > 0
    assert [token["text"] for token in result["tokens"]]


def test_results_of_a_latent_alignment_are_numbers_and_texts(tokenizer, single_tokenizer):
    classifier = hf_bam.patch(bert(vocab_size=len(tokenizer), **SIZES), family="categorical").eval()
    translator = hf_bam.patch(marian(vocab_size=len(tokenizer), init_std=0.5), family="categorical").eval()
    options = {"device": "cpu", "num_samples": 3}
    (label, _) = pipeline("bam-text-classification", model=classifier, tokenizer=tokenizer, **options)(TEXTS)
    generation = {"max_new_tokens": 4}
    (text, _) = pipeline(
        "bam-translation", model=translator, tokenizer=single_tokenizer, generation=generation, **options
    )(TEXTS)
    assert {"label", "epistemic"} <= json.loads(json.dumps(label)).keys()
    assert {"text", "epistemic"} <= json.loads(json.dumps(text)).keys()


def test_an_unsupported_model_raises(tokenizer):
    model = hf_bam.patch(bert(vocab_size=len(tokenizer), **SIZES))
    with pytest.raises(ValueError, match="This pipeline is for tokens; a BertForSequenceClassification has"):
        pipeline("bam-token-classification", model=model, tokenizer=tokenizer, device="cpu")("text")
    plain = bert(vocab_size=len(tokenizer), **SIZES)
    with pytest.raises(ValueError, match="not patched"):
        pipeline("bam-text-classification", model=plain, tokenizer=tokenizer, device="cpu")("text")


@pytest.fixture
def saved(tokenizer, tmp_path):
    """Folder of a predictor with prediction sets."""
    model = hf_bam.patch(bert(vocab_size=len(tokenizer), **SIZES), k=1.0)
    predictor = BamPredictor(model, tokenizer, num_samples=4, progress=False)
    predictor.conformal([f"film {i}" for i in range(30)], [i % 3 for i in range(30)])
    predictor.save_pretrained(tmp_path)
    return str(tmp_path), predictor


def test_a_folder_gives_the_bayesian_model_and_its_calibration(saved, log):
    folder, predictor = saved
    classify = pipeline("bam-text-classification", model=folder, device="cpu", batch_size=2)
    texts = [*TEXTS, "one more film"]
    expected = predictor(texts)
    results = classify(texts)
    assert [result["prediction_set"] for result in results] == [result.prediction_set for result in expected]
    assert [result["epistemic"] for result in results] == pytest.approx([r.epistemic for r in expected], abs=1e-6)
    assert [result["num_samples"] for result in classify(text for text in texts)] == [4, 4, 4]
    assert "prediction_set" not in classify(texts[0], num_samples=3)  # it holds for four samples
    assert "loaded as a plain one" not in log.text


def test_pairs_and_the_first_labels(saved):
    folder, predictor = saved
    classify = pipeline("bam-text-classification", model=folder, device="cpu", top_k=None)
    (expected,) = predictor([(TEXTS[0], TEXTS[1])])
    results = [
        classify({"text": TEXTS[0], "text_pair": TEXTS[1]}),
        classify(TEXTS[0], text_pair=TEXTS[1]),
        classify([TEXTS[0]], text_pair=[TEXTS[1]])[0],
        classify((TEXTS[0], TEXTS[1])),
    ]
    means = expected.samples.mean(axis=0)
    for result in results:
        assert result["probability"] == pytest.approx(expected.probability, abs=1e-6)
        assert [own["probability"] for own in result["top_k"]] == pytest.approx(sorted(means, reverse=True), abs=1e-6)
    assert len(classify(TEXTS[0], top_k=2)["top_k"]) == 2
    assert results[0]["top_k"][0] == pytest.approx(
        {"label": results[0]["label"], "probability": results[0]["probability"], "std": results[0]["std"]}
    )


def test_a_name_on_the_hub(tokenizer, hub):
    model = hf_bam.patch(bert(vocab_size=len(tokenizer), **SIZES), k=1.0)
    BamPredictor(model, tokenizer, num_samples=3).push_to_hub("somebody/tiny")
    result = pipeline("bam-text-classification", model="somebody/tiny", device="cpu")(TEXTS[0])
    expected = BamPredictor(model, tokenizer, num_samples=3, progress=False)(TEXTS[0])[0]
    assert result["num_samples"] == 3
    assert result["epistemic"] == pytest.approx(expected.epistemic, abs=1e-6)
    assert BamPredictor.from_pretrained("somebody/tiny", progress=False)(TEXTS[0])[0].label == result["label"]
