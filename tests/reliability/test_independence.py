"""Samples of an input depend on its content and the seed, and not on batch, budget, thread or task."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import BertForQuestionAnswering, BertForTokenClassification

import hf_bam
from hf_bam.prediction import BamPredictor

from ..models import bert, classification, gpt2, llama, marian, t5, text
from .threads import SAMPLERS, TEXTS, different_calls

LARGE = {"initializer_range": 0.3}


def tagger(**changes):
    return BertForTokenClassification(bert(**changes).config)


def answerer(**changes):
    return BertForQuestionAnswering(bert(num_labels=2, **changes).config)


KINDS = {
    "classification": (bert, LARGE, TEXTS),
    "multi-label": (bert, {**LARGE, "problem_type": "multi_label_classification"}, TEXTS),
    "regression": (bert, {**LARGE, "problem_type": "regression", "num_labels": 1}, TEXTS),
    "tokens": (tagger, LARGE, TEXTS),
    "question-answering": (
        answerer,
        LARGE,
        [(f"what is {t}?", " ".join([t] * (1 + i % 9))) for i, t in enumerate(TEXTS)],
    ),
}
GENERATORS = {
    "gpt2": (gpt2, LARGE),
    "llama": (llama, LARGE),
    "marian": (marian, {"init_std": 0.3}),
    "t5": (t5, {"initializer_factor": 3.0}),
}


def predictor(kind, tokenizer, **options):
    build, changes, _ = KINDS[kind]
    torch.manual_seed(0)
    model = hf_bam.patch(build(vocab_size=len(tokenizer), **changes), k=1.0).eval()
    limits = {"max_length": 40, "stride": 5} if kind == "question-answering" else {}
    return BamPredictor(model, tokenizer, num_samples=6, progress=False, **limits, **options)


def writer(name, tokenizer, **options):
    build, changes = GENERATORS[name]
    torch.manual_seed(0)
    special = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.sep_token_id}
    model = hf_bam.patch(build(vocab_size=len(tokenizer), **special, **changes), k=1.0).eval()
    generation = {"max_new_tokens": 6, "do_sample": False}
    options = {"num_samples": 4, "hypotheses": 3, "generation": generation, **options}
    return BamPredictor(model, tokenizer, progress=False, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_an_input_has_the_same_samples_alone_and_in_any_batch(kind, tokenizer):
    inputs = KINDS[kind][2]
    together = predictor(kind, tokenizer, batch_size=16)(inputs)
    spread = np.mean([result.samples.std(axis=0).max() for result in together])
    assert spread > 1e-3
    for options in ({"batch_size": 60}, {"batch_size": 7, "token_budget": 64}, {"token_budget": 1}):
        for one, other in zip(together, predictor(kind, tokenizer, **options)(inputs), strict=True):
            np.testing.assert_allclose(other.samples, one.samples, atol=1e-5)
    one_by_one = predictor(kind, tokenizer)
    for index in (0, 17, 59):
        (alone,) = one_by_one([inputs[index]])
        np.testing.assert_allclose(alone.samples, together[index].samples, atol=1e-5)
    backwards = one_by_one(inputs[::-1])
    np.testing.assert_allclose(backwards[0].samples, together[-1].samples, atol=1e-5)
    other_seed = predictor(kind, tokenizer, seed=1)(inputs[:3])
    assert all(np.abs(a.samples - b.samples).max() > 1e-4 for a, b in zip(other_seed, together, strict=False))


def test_adaptive_samples_are_the_first_of_all(tokenizer):
    everything = predictor("classification", tokenizer)
    adaptive = everything.with_settings(adaptive=True)(TEXTS)
    assert len(set(adaptive.num_samples)) > 1
    for one, other in zip(everything(TEXTS), adaptive, strict=True):
        np.testing.assert_allclose(other.samples, one.samples[: other.num_samples], atol=1e-5)


@pytest.mark.parametrize("name", GENERATORS)
def test_generated_texts_do_not_depend_on_the_batch(name, single_tokenizer):
    """Decoders have their prompts padded on the left, so that positions differ from batch to batch."""
    write = writer(name, single_tokenizer, batch_size=8)
    together = write(TEXTS[:8])
    assert len({text for result in together for text in result.hypotheses}) > 8
    for index in (0, 3, 7):
        (alone,) = write([TEXTS[index]])
        assert alone.text == together[index].text
        assert alone.hypotheses == together[index].hypotheses
        np.testing.assert_allclose(alone.samples, together[index].samples, atol=1e-4)


def test_beams_share_the_sample_of_their_hypothesis(single_tokenizer):
    generation = {"max_new_tokens": 6, "num_beams": 3}
    write = writer("marian", single_tokenizer, batch_size=4, generation=generation)
    together = write(TEXTS[:4])
    assert [write([text])[0].hypotheses for text in TEXTS[:4]] == [result.hypotheses for result in together]


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("training", [False, True])
def test_eight_threads_give_exactly_the_sequential_results(kind, training, tokenizer):
    assert different_calls(tokenizer, kind, training, 40) == []


def test_threads_that_generate(single_tokenizer):
    write = writer("gpt2", single_tokenizer, generation={"max_new_tokens": 4, "do_sample": True})
    calls = [TEXTS[i : i + 2] for i in range(8)]
    expected = [[(r.text, r.hypotheses) for r in write(texts)] for texts in calls]
    with ThreadPoolExecutor(8) as pool:
        actual = list(pool.map(lambda texts: [(r.text, r.hypotheses) for r in write(texts)], calls))
    assert actual == expected


def test_training_goes_on_while_another_thread_predicts(tokenizer):
    """The prediction leaves the mode of the model and the global random state alone, so training is the same."""

    def train(predicting):
        torch.manual_seed(0)
        model = hf_bam.patch(bert(vocab_size=len(tokenizer)), k=1.0).train()
        batch = classification()
        stop = threading.Event()
        predict = BamPredictor(model, tokenizer, num_samples=2, progress=False)

        def ask():
            while not stop.is_set():
                predict(TEXTS[:2])

        thread = threading.Thread(target=ask)
        if predicting:
            thread.start()
        losses = [model(**batch).loss.item() for _ in range(30)]
        stop.set()
        if predicting:
            thread.join()
        return losses

    assert train(predicting=True) == train(predicting=False)


def test_tasks_that_wait_within_sampling_do_not_disturb_each_other():
    model, batch = hf_bam.patch(bert(**LARGE), k=1.0).eval(), classification()
    mean = model(**batch).logits

    def sequential(seed):
        with hf_bam.sampling(model, seed=seed):
            return [model(**batch).logits for _ in range(3)]

    async def sample(seed):
        results = []
        with hf_bam.sampling(model, seed=seed):
            for _ in range(3):
                await asyncio.sleep(0.001 * (seed % 3))
                results.append(model(**batch).logits)
        return results

    async def plain():
        await asyncio.sleep(0.002)
        return [model(**batch).logits]

    async def everything():
        return await asyncio.gather(*(sample(seed) for seed in range(8)), plain())

    *sampled, undisturbed = asyncio.run(everything())
    for seed, results in enumerate(sampled):
        assert all(torch.equal(a, b) for a, b in zip(results, sequential(seed), strict=True))
    assert torch.equal(undisturbed[0], mean)
    assert torch.equal(model(**batch).logits, mean)  # nothing is left on


def test_a_task_hands_sampling_to_its_thread():
    model, batch = hf_bam.patch(bert(**LARGE), k=1.0).eval(), classification()

    async def sample():
        with hf_bam.sampling(model, seed=0):
            return await asyncio.to_thread(lambda: model(**batch).logits)

    with hf_bam.sampling(model, seed=0):
        expected = model(**batch).logits
    assert torch.equal(asyncio.run(sample()), expected)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_tasks_cannot_share_a_compiled_model_unnoticed():
    torch._dynamo.reset()
    model, batch = hf_bam.patch(bert(num_hidden_layers=1), k=1.0).eval(), classification()
    forward = torch.compile(model, backend="eager", fullgraph=True)

    async def sample(seed):
        with hf_bam.sampling(model, seed=seed):
            await asyncio.sleep(0)
            forward(**batch)

    async def both():
        await asyncio.gather(sample(0), sample(1))

    with pytest.raises(Exception, match="Several tasks of one thread"):
        asyncio.run(both())


def test_generators_of_a_stream_can_be_mixed(tokenizer):
    predict = predictor("classification", tokenizer)
    first, second = predict.stream(TEXTS[:4]), predict.stream(TEXTS[4:8])
    mixed = [next(stream).samples for _ in range(4) for stream in (first, second)]
    expected = predict(TEXTS[:8]).samples
    for index in range(4):
        np.testing.assert_allclose(mixed[2 * index], expected[:, index], atol=1e-5)
        np.testing.assert_allclose(mixed[2 * index + 1], expected[:, 4 + index], atol=1e-5)


def test_sampling_by_hand_does_not_depend_on_the_neighbours():
    """`hf_bam.sampling` knows rows by their index: what follows a row, and how it is padded, does not change it."""
    model, batch = hf_bam.patch(bert(**LARGE), k=1.0).eval(), text((3, 5, 7))
    alone = {name: x[:1, :3] for name, x in batch.items()}
    for options in ({}, {"output_attentions": True}):
        with hf_bam.sampling(model, seed=0):
            together = model(**batch, **options).logits
        with hf_bam.sampling(model, seed=0):
            torch.testing.assert_close(model(**alone, **options).logits, together[:1])


def test_seeds_of_texts_are_those_of_their_content():
    from hf_bam.prediction.inputs import content_seed

    seeds = {content_seed(seed, item) for seed in range(5) for item in ["a b", ("a", "b"), "ab", ("ab", ""), "a", "b"]}
    assert len(seeds) == 30
    assert all(-(2**63) <= seed < 2**63 for seed in seeds)
    assert content_seed(0, json.loads('"\\ud800"')) != content_seed(0, "x")  # half a surrogate pair is a string, too


def test_uniform_numbers_of_texts_are_those_of_their_content():
    from hf_bam.prediction.inputs import content_seed, content_uniform

    numbers = np.array([content_uniform(0, f"text {i}") for i in range(4000)])
    assert stats.kstest(numbers, "uniform").pvalue > 1e-3
    others = [np.array([content_uniform(1, f"text {i}") for i in range(4000)])]
    others.append(np.array([content_seed(0, f"text {i}") for i in range(4000)], dtype=float))
    assert all(abs(np.corrcoef(numbers, other)[0, 1]) < 0.06 for other in others)
    assert numbers[0] == content_uniform(0, "text 0")
