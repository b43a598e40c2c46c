"""Forward of the recurrent model against its equations, and its independence of padding."""

import pytest
import torch

from .cases import PAD, VOCABULARY, batch, build, source
from .reference import encode, teacher_forced

SHAPES = {
    "one head": {},
    "three heads": {"num_attention_heads": 3},
    "no input feeding": {"input_feeding": False},
    "one layer": {"num_hidden_layers": 1},
    "untied": {"tie_word_embeddings": False},
}


@pytest.fixture(params=SHAPES)
def model(request):
    return build(**SHAPES[request.param])


def pairs(inputs):
    """Yield the source and the target of every row without padding."""
    for ids, mask, labels in zip(*inputs.values(), strict=True):
        yield ids[mask.bool()].tolist(), labels[labels != -100].tolist()


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_logits_and_alignments_are_those_of_the_equations(model, implementation):
    model.set_attn_implementation(implementation)
    inputs = batch()
    with torch.no_grad():
        out, quiet = model(**inputs, output_attentions=True), model(**inputs)
    for row, (ids, target) in enumerate(pairs(inputs)):
        logits, alignments = teacher_forced(model, ids, target)
        torch.testing.assert_close(out.logits[row, : len(target)], logits)
        torch.testing.assert_close(out.cross_attentions[0][row, :, : len(target), : len(ids)], alignments)
        assert not out.cross_attentions[0][row, :, :, len(ids) :].any()
    torch.testing.assert_close(quiet.logits, out.logits)
    assert quiet.cross_attentions is None


def test_the_encoder_is_that_of_the_equations(model):
    inputs = source()
    with torch.no_grad():
        out = model.get_encoder()(**inputs, output_hidden_states=True)
    for row, mask in enumerate(inputs["attention_mask"].bool()):
        memory, finals = encode(model.state_dict(), inputs["input_ids"][row][mask].tolist(), out.hidden_state.shape[1])
        torch.testing.assert_close(out.last_hidden_state[row][mask], memory)
        torch.testing.assert_close(out.hidden_state[row], torch.stack([hidden for hidden, _ in finals]))
        torch.testing.assert_close(out.cell_state[row], torch.stack([cell for _, cell in finals]))
        assert not out.last_hidden_state[row][~mask].any()
    assert len(out.hidden_states) == 1 + out.hidden_state.shape[1]
    assert torch.equal(out.hidden_states[0], model.get_input_embeddings()(inputs["input_ids"]))


def test_the_loss_is_the_mean_negative_log_probability_of_the_target(model):
    inputs = batch()
    losses = []
    for ids, target in pairs(inputs):
        log_p = teacher_forced(model, ids, target)[0].log_softmax(-1)
        losses += [-log_p[step, token] for step, token in enumerate(target)]
    out = model(**inputs)
    assert out.loss.item() == pytest.approx(torch.stack(losses).mean().item(), abs=1e-12)
    given = model(**inputs, decoder_input_ids=model.prepare_decoder_input_ids_from_labels(inputs["labels"]))
    assert torch.equal(out.logits, given.logits)
    assert (model.prepare_decoder_input_ids_from_labels(inputs["labels"]) != -100).all()


def padded(inputs, before, after, between=0):
    """Return the inputs with random tokens that the mask hides around them, and `between` their first and second."""
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    noise = [torch.randint(2, VOCABULARY, (len(ids), size)) for size in (before, between, after)]
    ids = torch.cat([noise[0], ids[:, :1], noise[1], ids[:, 1:], noise[2]], dim=1)
    empty = [torch.zeros_like(part) for part in noise]
    mask = torch.cat([empty[0], mask[:, :1], empty[1], mask[:, 1:], empty[2]], dim=1)
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize(("before", "after", "between"), [(0, 3, 0), (2, 0, 0), (1, 1, 2)])
def test_padding_of_the_source_changes_nothing(model, before, after, between):
    inputs = batch()
    more = inputs | padded(inputs, before, after, between)
    with torch.no_grad():
        torch.testing.assert_close(model(**more).logits, model(**inputs).logits)
        alone = model(**{name: value[1:2] for name, value in inputs.items()}).logits
        torch.testing.assert_close(model(**more).logits[1:2], alone)


def test_padding_of_the_target_changes_nothing(model):
    inputs = batch()
    ids = model.prepare_decoder_input_ids_from_labels(inputs.pop("labels"))
    filler = torch.full((len(ids), 2), 5)
    ones = torch.ones_like(ids)
    with torch.no_grad():
        plain = model(**inputs, decoder_input_ids=ids, use_cache=True)
        for parts, own in (([filler, ids], slice(2, None)), ([ids, filler], slice(0, -2))):
            mask = torch.cat([torch.zeros_like(part) if part is filler else ones for part in parts], dim=1)
            whole = torch.cat(parts, dim=1)
            out = model(**inputs, decoder_input_ids=whole, decoder_attention_mask=mask, use_cache=True)
            torch.testing.assert_close(out.logits[:, own], plain.logits)
            torch.testing.assert_close(out.past_key_values.state, plain.past_key_values.state)


def test_all_steps_at_once_or_one_by_one():
    """A mask with padding at the end makes a model without input feeding go step by step."""
    model, inputs = build(input_feeding=False), batch()
    mask = (inputs["labels"] != -100).long()
    with torch.no_grad():
        torch.testing.assert_close(
            model(**inputs, decoder_attention_mask=mask).logits[mask.bool()], model(**inputs).logits[mask.bool()]
        )


def test_dropout_is_in_training_only():
    model, inputs = build(dropout=0.5), batch()
    assert torch.equal(model(**inputs).logits, model(**inputs).logits)
    model.train()
    assert not torch.equal(model(**inputs).logits, model(**inputs).logits)


def test_a_source_without_tokens_is_no_error():
    inputs = batch()
    inputs["attention_mask"][2] = 0
    model = build()
    model.set_attn_implementation("eager")
    assert torch.isfinite(model(**inputs).logits).all()


def test_inputs_that_are_missing_are_named():
    model, inputs = build(), source()
    with pytest.raises(ValueError, match="give decoder_input_ids, decoder_inputs_embeds or labels"):
        model(**inputs)
    memory = (torch.zeros(3, 6, 12, dtype=torch.float64),)
    with pytest.raises(ValueError, match=r"give the output of model.get_encoder\(\)"):
        model(encoder_outputs=memory, decoder_input_ids=torch.full((3, 1), PAD))


def test_embeddings_and_tuples_take_the_place_of_tokens_and_dictionaries():
    model, inputs = build(), batch()
    decoder_ids = model.prepare_decoder_input_ids_from_labels(inputs["labels"])
    embeds = {
        "inputs_embeds": model.get_input_embeddings()(inputs["input_ids"]),
        "decoder_inputs_embeds": model.get_decoder().embed_tokens(decoder_ids),
    }
    rest = {name: inputs[name] for name in ("attention_mask", "labels")}
    expected = model(**inputs)
    torch.testing.assert_close(model(**embeds, **rest).logits, expected.logits)
    loss, logits, *_ = model(**inputs, return_dict=False)
    assert torch.equal(loss, expected.loss)
    assert torch.equal(logits, expected.logits)
    states = model.get_encoder()(inputs["input_ids"], inputs["attention_mask"], return_dict=False)
    torch.testing.assert_close(model(**rest, encoder_outputs=states).logits, expected.logits)
