"""The contract of patch and unpatch."""

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import hf_bam
from hf_bam import BamConfig

from ..models import PROMISED, albert, bert, classification, marian, translation


@pytest.fixture(params=PROMISED)
def architecture(request):
    return PROMISED[request.param]


def priors(model):
    return {name: p for name, p in model.named_parameters() if ".bam." in name}


def test_in_place_and_by_config_or_keywords():
    model = bert()
    assert not hf_bam.is_patched(model)
    assert hf_bam.patch(model) is model
    assert hf_bam.is_patched(model)
    assert hf_bam.get_config(model) == BamConfig()
    hf_bam.patch(model, family="lognormal", sigma=0.3, prior="fixed")
    assert hf_bam.get_config(model) == BamConfig(family="lognormal", sigma=0.3, prior="fixed")
    hf_bam.patch(model, BamConfig(k=3.0), beta=7.0)
    assert hf_bam.get_config(model) == BamConfig(k=3.0, beta=7.0)


def test_unpatch_gives_the_original_model_with_its_trained_weights(architecture):
    model, batch = architecture.build(), architecture.batch()
    attributes = {name: set(vars(module)) for name, module in model.named_modules()}
    keys = set(model.state_dict())
    before = copy.deepcopy(model.state_dict())
    hf_bam.patch(model).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(**batch).loss.backward()
    optimizer.step()
    trained = {name: tensor.clone() for name, tensor in model.state_dict().items() if name in keys}
    assert hf_bam.unpatch(model) is model
    assert not hf_bam.is_patched(model)
    assert {name: set(vars(module)) for name, module in model.named_modules()} == attributes
    assert model.config._attn_implementation == "sdpa"
    after = model.state_dict()
    assert set(after) == keys
    assert all(torch.equal(after[name], trained[name]) for name in keys)
    assert not all(torch.equal(after[name], before[name]) for name in keys)
    out = model(**batch)
    assert "kl" not in out
    with pytest.raises(ValueError, match="not patched"):
        hf_bam.unpatch(model)


def test_each_model_gets_its_own_implementation_back():
    eager, other = bert(), bert()
    eager.set_attn_implementation("eager")
    hf_bam.unpatch(hf_bam.patch(eager))
    assert eager.config._attn_implementation == "eager"
    assert other.config._attn_implementation == "sdpa"


def test_patching_again_keeps_the_prior_that_fits_and_makes_a_new_one_that_does_not():
    model = hf_bam.patch(bert())
    before = {name: p.clone() for name, p in priors(model).items()}
    hf_bam.patch(model, k=2.0)
    assert {name: p.shape for name, p in priors(model).items()} == {name: p.shape for name, p in before.items()}
    assert all(torch.equal(p, before[name]) for name, p in priors(model).items())
    hf_bam.patch(model, d_mid=3)
    assert all(p.shape != before[name].shape for name, p in priors(model).items())
    hf_bam.patch(model, prior="fixed")
    assert not priors(model)


def test_patching_twice_counts_the_kl_once():
    model, batch = hf_bam.patch(bert(), k=1e6).train(), classification()
    once = model(**batch)
    twice = hf_bam.patch(model, k=1e6)(**batch)
    torch.testing.assert_close(once.kl, twice.kl, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(twice.loss, twice.task_loss + twice.kl_loss)


def test_a_failed_patch_leaves_a_patched_model_as_it_was():
    model = hf_bam.patch(bert(), k=3.0)
    with pytest.raises(ValueError, match=r"layers=\(9,\).*bert.encoder.layer \(self\): 2"):
        hf_bam.patch(model, layers=[9])
    assert hf_bam.get_config(model) == BamConfig(k=3.0)


def test_deep_copies_are_independent(architecture):
    model, batch = hf_bam.patch(architecture.build(), k=1.0).eval(), architecture.batch()
    copied = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.mul_(1.5)
        with hf_bam.sampling(model):
            assert not torch.equal(model(**batch).logits, model(**batch).logits)
            assert torch.equal(copied(**batch).logits, copied(**batch).logits)
        with hf_bam.sampling(copied):
            assert not torch.equal(copied(**batch).logits, copied(**batch).logits)
            assert torch.equal(model(**batch).logits, model(**batch).logits)
    copied.train()
    assert "kl" in copied(**batch)
    hf_bam.unpatch(copied)
    assert hf_bam.is_patched(model)
    assert "kl" in model.train()(**batch)
    assert "kl" not in copied(**batch)


def test_pickle_round_trip():
    model, batch = hf_bam.patch(marian(), k=1.0).eval(), translation()
    again = pickle.loads(pickle.dumps(model))
    with torch.no_grad(), hf_bam.sampling(model, seed=1), hf_bam.sampling(again, seed=1):
        assert torch.equal(model(**batch).logits, again(**batch).logits)
    out = pickle.loads(pickle.dumps(again.train()(**batch)))
    torch.testing.assert_close(out.loss, out.task_loss + out.kl_loss)


def test_state_dict_round_trip(architecture):
    torch.manual_seed(1)
    model, batch = hf_bam.patch(architecture.build(), k=1.0).eval(), architecture.batch()
    hf_bam.set_step(model, 17)
    other = hf_bam.patch(architecture.build(), k=1.0).eval()
    other.load_state_dict(model.state_dict())
    with torch.no_grad(), hf_bam.sampling(model, seed=1), hf_bam.sampling(other, seed=1):
        assert torch.equal(model(**batch).logits, other(**batch).logits)
    assert other.bam_step.item() == 17


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("first", ["patch", "move"])
def test_moving_to_another_dtype(dtype, first):
    model = hf_bam.patch(bert()).to(dtype) if first == "patch" else hf_bam.patch(bert().to(dtype))
    assert {p.dtype for p in model.parameters()} == {dtype}
    out = model.train()(**classification())
    out.loss.backward()
    assert out.kl.dtype == torch.promote_types(dtype, torch.float32)
    assert all(torch.isfinite(p.grad).all() for p in priors(model).values())


def test_moving_to_another_device():
    model = hf_bam.patch(bert())
    assert {tensor.device.type for tensor in model.to("meta").state_dict().values()} == {"meta"}
    on_meta = hf_bam.patch(bert().to("meta"))
    assert {tensor.device.type for tensor in on_meta.state_dict().values()} == {"meta"}


def test_training_or_evaluation_mode_is_taken_over():
    model = hf_bam.patch(bert().eval())
    assert not any(module.training for module in model.modules())


def test_evaluation_adds_nothing_and_training_says_the_terms(architecture):
    model, batch = hf_bam.patch(architecture.build()), architecture.batch()
    with hf_bam.sampling(model):
        assert not {"kl", "kl_loss", "task_loss"} & set(model.eval()(**batch))
    out = model.train()(**batch)
    assert {"kl", "kl_loss", "task_loss", "loss"} <= set(out)
    assert next(iter(out)) == "loss"
    unlabelled = {name: tensor for name, tensor in batch.items() if name != "labels"}
    if model.config.is_encoder_decoder:
        unlabelled["decoder_input_ids"] = batch["input_ids"]
    out = model(**unlabelled)
    assert {"kl", "kl_loss"} <= set(out)
    assert not {"loss", "task_loss"} & set(out)
    assert out.kl_loss.requires_grad


def test_attention_weights_that_the_config_asks_for():
    model, batch = bert().eval(), classification()
    model.set_attn_implementation("eager")
    model.config.output_attentions = True
    expected = model(**batch).attentions
    attentions = hf_bam.patch(model)(**batch).attentions
    assert len(attentions) == len(expected) == 2
    for ours, theirs in zip(attentions, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_tuples_carry_the_kl_in_their_loss(architecture):
    model, batch = hf_bam.patch(architecture.build(), kl_weight=3.0).train(), architecture.batch()
    torch.manual_seed(7)
    named = model(**batch)
    torch.manual_seed(7)
    loss, logits, *_ = model(**batch, return_dict=False)
    assert torch.equal(loss, named.loss)
    assert torch.equal(logits, named.logits)
    assert loss > named.task_loss


def test_outputs_keep_their_class_and_survive_ddp_style_rebuilding():
    from torch.utils import _pytree as pytree
    from transformers.modeling_outputs import SequenceClassifierOutput

    out = hf_bam.patch(bert()).train()(**classification())
    assert isinstance(out, SequenceClassifierOutput)
    leaves, spec = pytree.tree_flatten(out)
    rebuilt = pytree.tree_unflatten(leaves, spec)
    assert type(rebuilt) is type(out)
    assert torch.equal(rebuilt.kl, out.kl)


@pytest.mark.parametrize(
    ("layers", "stochastic"),
    [("all", range(12)), (1, [11]), (3, [9, 10, 11]), ([0, 5], [0, 5]), ([-1], [11])],
)
def test_albert_counts_the_uses_of_its_shared_layer(layers, stochastic):
    model = hf_bam.patch(albert(), k=1.0, layers=layers)
    batch = classification()
    first, second = (model.eval()(**batch, output_attentions=True).attentions for _ in range(2))
    assert all(map(torch.equal, first, second))
    with hf_bam.sampling(model):
        sampled = model(**batch, output_attentions=True).attentions
    # Once the attention of a layer is random so is the input of all later ones: only the first difference counts.
    assert [torch.equal(a, b) for a, b in zip(first, sampled, strict=True)].index(False) == min(stochastic)
    frames = []
    handle = model.register_forward_hook(lambda *_: frames.append(model._bam.runtime.frame), prepend=True)
    model.train()(**batch)
    handle.remove()
    assert len(frames[0].terms) == len(stochastic)


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_albert_layer_groups(groups):
    model = hf_bam.patch(albert(num_hidden_groups=groups, num_hidden_layers=6), layers=[0, 3, 5])
    uses = [module.bam.uses for module in model.modules() if hasattr(module, "bam")]
    assert sum(uses, ()) == (True, False, False, True, False, True)
    assert len(uses) == groups


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {},
            {
                "encoder.layers.0.self_attn",
                "encoder.layers.1.self_attn",
                "decoder.layers.0.self_attn",
                "decoder.layers.1.self_attn",
                "decoder.layers.0.encoder_attn",
                "decoder.layers.1.encoder_attn",
            },
        ),
        ({"attention": "cross"}, {"decoder.layers.0.encoder_attn", "decoder.layers.1.encoder_attn"}),
        ({"attention": "self", "layers": 1}, {"encoder.layers.1.self_attn", "decoder.layers.1.self_attn"}),
        ({"attention": "cross", "layers": [0]}, {"decoder.layers.0.encoder_attn"}),
    ],
)
def test_selection_of_layers_and_attention(settings, expected):
    model, batch = hf_bam.patch(marian(), k=1.0, **settings), translation()
    assert {name.split(".bam.")[0].removeprefix("model.") for name in priors(model)} == expected
    model.eval()
    mean = model(**batch, output_attentions=True)
    with hf_bam.sampling(model):
        drawn = model(**batch, output_attentions=True)
    first_cross_is_random = not torch.equal(mean.cross_attentions[0], drawn.cross_attentions[0])
    assert first_cross_is_random == any("encoder_attn" in e or "encoder." in e or "layers.0" in e for e in expected)
    assert torch.equal(mean.encoder_attentions[0], drawn.encoder_attentions[0]) == (
        "encoder.layers.0.self_attn" not in expected
    )


def test_selecting_attention_that_is_not_there_is_an_error():
    with pytest.raises(ValueError, match=r"attention='cross'.*bert.encoder.layer \(self\): 2"):
        hf_bam.patch(bert(), attention="cross")
    with pytest.raises(ValueError, match="layers=3"):
        hf_bam.patch(bert(), layers=3)


def test_the_base_model_inside_a_patched_model_works_by_itself():
    model, batch = hf_bam.patch(bert()).train(), classification()
    batch.pop("labels")
    out = model.bert(**batch)
    assert out.kl_loss.requires_grad
    with pytest.raises(ValueError, match=r"parts in common with a BertForSequenceClassification"):
        hf_bam.patch(model.bert)
    inner = bert()
    hf_bam.patch(inner.bert)
    with pytest.raises(ValueError, match=r"parts in common with a BertModel"):
        hf_bam.patch(inner)
    hf_bam.unpatch(inner.bert)
    hf_bam.patch(inner)


def test_what_the_model_said_about_its_loss_is_restored():
    model = bert()
    model.accepts_loss_kwargs = True
    assert hf_bam.patch(model).accepts_loss_kwargs is False
    assert hf_bam.unpatch(model).accepts_loss_kwargs is True


def test_wrappers_are_looked_through():
    model, batch = hf_bam.patch(bert(), k=1.0).eval(), classification()
    wrapped = nn.DataParallel(model)
    assert hf_bam.is_patched(wrapped)
    with hf_bam.sampling(wrapped):
        assert not torch.equal(wrapped(**batch).logits, wrapped(**batch).logits)
    with pytest.raises(ValueError, match="holds 2 patched models"):
        hf_bam.get_config(nn.ModuleList([model, hf_bam.patch(bert())]))


def test_wrong_objects_are_errors():
    with pytest.raises(TypeError, match="not Linear"):
        hf_bam.patch(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="not patched"), hf_bam.sampling(bert()):
        pass
    with pytest.raises(ValueError, match="no 'kk' with family='weibull'"):
        hf_bam.patch(bert(), kk=3)


def test_training_without_stochastic_attention_is_an_error():
    model, batch = hf_bam.patch(bert()).train(), classification()
    model.set_attn_implementation("sdpa")
    with pytest.raises(RuntimeError, match="none of its attention was sampled"):
        model(**batch)
    hf_bam.patch(model)
    assert "kl" in model(**batch)
    model.bert.eval()
    with pytest.raises(RuntimeError, match="none of its attention was sampled"):
        model(**batch)


def test_an_exception_in_the_forward_leaves_nothing_behind():
    model, batch = hf_bam.patch(bert()).train(), classification()
    with pytest.raises(ValueError, match="Expected input batch_size"):
        model(**batch | {"labels": torch.zeros(2, dtype=torch.long)})
    assert model._bam.runtime.frame is None
    expected = hf_bam.patch(copy.deepcopy(model), k=1e6)(**batch).kl
    torch.testing.assert_close(hf_bam.patch(model, k=1e6)(**batch).kl, expected, atol=1e-4, rtol=1e-4)


def test_threads_do_not_disturb_each_other():
    model, batch = hf_bam.patch(bert(), k=1.0).eval(), classification()
    mean = model(**batch).logits
    results = []
    with hf_bam.sampling(model):
        thread = threading.Thread(target=lambda: results.append(model(**batch).logits))
        thread.start()
        thread.join()
        assert not torch.equal(model(**batch).logits, mean)
    assert torch.equal(results[0], mean)


def test_threads_that_train_at_once_keep_their_kl_apart():
    """Two models, and two threads in each of them, on batches of different lengths."""
    models = [hf_bam.patch(bert(), k=1e8, beta=beta).train() for beta in (1.0, 100.0)]
    cases = [(model, classification((width,), width)) for model in models for width in (3, 7)]
    expected = [model(**batch).kl.item() for model, batch in cases]
    with ThreadPoolExecutor(4) as pool:
        kls = list(pool.map(lambda case: case[0](**case[1]).kl.item(), cases * 20))
    assert kls == pytest.approx(expected * 20, rel=1e-5)
    assert len(set(expected)) == 4


def test_seeded_sampling_leaves_the_global_random_state_alone():
    model, batch = hf_bam.patch(bert()).eval(), classification()
    before = torch.get_rng_state()
    with hf_bam.sampling(model, seed=0):
        model(**batch)
    assert torch.equal(torch.get_rng_state(), before)


def test_sampling_contexts_nest():
    model, batch = hf_bam.patch(bert(), k=1.0).eval(), classification()
    with hf_bam.sampling(model, seed=0):
        first, second = model(**batch).logits, model(**batch).logits
    with hf_bam.sampling(model, seed=0):
        assert torch.equal(model(**batch).logits, first)
        with hf_bam.sampling(model, seed=0):
            assert torch.equal(model(**batch).logits, first)
        assert torch.equal(model(**batch).logits, second)


def test_layers_draw_different_noise():
    """Two layers with the same weights and the same input, compared by their weights."""
    model = hf_bam.patch(bert(), k=1.0, prior="fixed").eval()
    first, second = (layer.attention.self for layer in model.bert.encoder.layer)
    second.load_state_dict(first.state_dict())
    hidden = torch.randn(1, 6, 32)
    with hf_bam.sampling(model, seed=0):
        assert not torch.equal(first(hidden, output_attentions=True)[1], second(hidden, output_attentions=True)[1])


@pytest.mark.parametrize("noise", ["entry", "key"])
def test_dropout_of_all_weights(noise):
    """Nothing is left of the attention, as in the unpatched model."""
    plain = bert(attention_probs_dropout_prob=1.0).train()
    bayesian, batch = hf_bam.patch(copy.deepcopy(plain), noise=noise), classification()
    out = bayesian(**batch)
    assert torch.allclose(out.logits, plain(**batch).logits, atol=1e-6)
    out.loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in bayesian.parameters())
