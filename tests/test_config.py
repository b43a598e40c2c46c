import copy
import dataclasses
import json
import pickle

import pytest

from hf_bam import BamConfig
from hf_bam.config import option_fields
from hf_bam.families import FAMILIES
from hf_bam.fields import describe


@pytest.mark.parametrize(
    ("field", "value", "choices"),
    [
        ("family", "gauss", "'weibull', 'lognormal', 'multinomial'"),
        ("family", ["weibull"], "'weibull', 'lognormal', 'multinomial'"),
        ("prior", None, "'contextual', 'fixed', 'none'"),
        ("noise", "row", "'entry', 'key'"),
        ("prior_shape", "beta", "'beta*psi', 'psi'"),
        ("attention", "all", "'both', 'self', 'cross'"),
        ("kl_reduction", "max", "'mean', 'sum'"),
        ("annealing", "cosine", "'constant', 'sigmoid', 'logistic', 'linear', 'cyclic'"),
        ("k", 0, "0.01 or above"),
        ("k", 5e-324, "0.01 or above"),
        ("k", float("nan"), "0.01 or above"),
        ("k", "5", "0.01 or above"),
        ("k", True, "0.01 or above"),
        ("beta", float("inf"), "100000000 at most"),
        ("beta", 1e308, "100000000 at most"),
        ("d_mid", 10**9, "8192 at most"),
        ("annealing_rate", 0.0, "above 0"),
        ("kl_weight", -0.1, "0 or above"),
        ("d_mid", 2.5, "1 or above"),
        ("d_mid", 0, "1 or above"),
        ("layers", "last", "a list of layer indices"),
        ("layers", 0, "a list of layer indices"),
        ("layers", [], "a list of layer indices"),
        ("layers", [1.5], "a list of layer indices"),
        ("alpha", 1.0, "family='weibull' with prior='fixed'"),
    ],
)
def test_a_wrong_value_is_named_with_the_choices(field, value, choices):
    with pytest.raises(ValueError, match=f"BamConfig.{field}=") as error:
        BamConfig(**{field: value})
    assert repr(value) in str(error.value)
    assert choices in str(error.value)


@pytest.mark.parametrize(("field", "value"), [("sigma", -1.0), ("sigma", 10000000000.0), ("sigma_prior", 0.0)])
def test_a_wrong_value_of_another_family(field, value):
    with pytest.raises(ValueError, match=rf"BamConfig.{field}={value} is not valid; it must be a number, "):
        BamConfig(family="lognormal", **{field: value})


def test_a_flat_prior_is_one_of_the_median():
    assert BamConfig(family="lognormal", sigma_prior=1e15, prior_location="median").sigma_prior == 1e15
    with pytest.raises(ValueError, match=r"sigma_prior=1000000000000000.0 is not valid; it must be at most 10000"):
        BamConfig(family="lognormal", sigma_prior=1e15)


@pytest.mark.parametrize("alpha", [-1, 1e300])
def test_alpha_has_bounds(alpha):
    with pytest.raises(ValueError, match=r"BamConfig.alpha=.* is not valid; it must be a number, 1e-15 or above"):
        BamConfig(prior="fixed", alpha=alpha)


@pytest.mark.parametrize("field", ["k", "kl_weight", "d_mid", "layers"])
def test_a_number_without_end_is_named_by_its_size(field):
    with pytest.raises(ValueError, match=rf"BamConfig.{field}=a number of 16610 bits is not valid"):
        BamConfig(**{field: 10**5000})


COMMON = {
    "kl_weight": 0,
    "kl_reduction": "sum",
    "annealing": "cyclic",
    "annealing_rate": 0.1,
    "layers": [0, -1],
    "attention": "cross",
}
SCORES = {"noise": "key", "prior": "fixed", "d_mid": 7}
ALIGNMENT = {"objective": "hard", "d_inference": 7}
CODES = {"latent": "gaussian", "num_codes": 3, "decay": 0.5, "revive_below": 0, "latent_size": 7}


@pytest.mark.parametrize(
    "settings",
    [
        {"family": "weibull", **SCORES, "k": 2, "beta": 3, "prior_shape": "psi", "alpha": 0.5},
        {"family": "lognormal", **SCORES, "sigma": 0.5, "sigma_prior": 2, "prior_location": "median"},
        {"family": "multinomial", "counts": 3},
        {"family": "categorical", **ALIGNMENT, "top_k": 3, "test_time": "expectation", "estimator": "score"},
        {"family": "gumbel", **ALIGNMENT, "top_k": 3, "test_time": "expectation", "temperature": 0.1},
        {"family": "dirichlet", **ALIGNMENT, "concentration": 2},
        {"family": "gaussian", "prior": "none", "gamma": 0.1, "initial_sigma": 2, "d_sigma": 7, "sentence_latent": 3},
        {"family": "quantized", **CODES, "commitment": 1, "commitment_start": 2, "commitment_steps": 3},
    ],
    ids=FAMILIES,
)
def test_json_round_trip_of_every_field(settings):
    config, default = BamConfig(**COMMON, **settings), BamConfig(family=settings["family"])
    assert config.to_dict().keys() == default.to_dict().keys() == {*COMMON, *settings}
    changed = {name for name, value in default.to_dict().items() if config.to_dict()[name] != value}
    assert changed == config.to_dict().keys() - {"family"}
    assert BamConfig.from_json(config.to_json()) == config
    assert BamConfig.from_dict(json.loads(json.dumps(default.to_dict()))) == default
    assert config.layers == (0, -1)


def test_an_unknown_setting_is_an_error_that_lists_the_settings():
    with pytest.raises(ValueError, match=r"no 'simga' with family='weibull'.*k, beta.*kl_weight"):
        BamConfig.from_dict({"simga": 1.0})


def test_a_setting_of_another_family_is_an_error_that_names_the_settings_of_this_one():
    with pytest.raises(ValueError, match=r"BamConfig has no 'k' with family='lognormal'.*d_mid, sigma, sigma_prior,"):
        BamConfig(family="lognormal", k=1.0)
    with pytest.raises(AttributeError, match="family='lognormal' has no 'k'"):
        _ = BamConfig(family="lognormal").k


def test_another_family_takes_over_the_settings_that_both_have():
    config = BamConfig(k=3.0, noise="key", kl_weight=0.5).replace(family="lognormal", sigma=0.2)
    assert config == BamConfig(family="lognormal", sigma=0.2, noise="key", kl_weight=0.5)


def test_files_of_earlier_versions_have_the_settings_of_both_families():
    flat = {"k": 3.0, "sigma": 0.2, "noise": "key", "prior": "contextual", "d_mid": 5, "beta": 9.0, "alpha": None}
    flat |= {"prior_shape": "beta*psi", "sigma_prior": 2.0, "kl_weight": 0.1, "layers": [0]}
    assert BamConfig.from_saved({"family": "weibull", **flat}) == BamConfig(
        k=3.0, noise="key", beta=9.0, kl_weight=0.1, layers=[0]
    )
    assert BamConfig.from_saved({"family": "lognormal", **flat}) == BamConfig(
        family="lognormal", sigma=0.2, sigma_prior=2.0, noise="key", kl_weight=0.1, layers=[0]
    )
    with pytest.raises(ValueError, match="no 'simga'"):
        BamConfig.from_saved({"family": "weibull", "simga": 1.0})


def test_copies_and_pickles_are_equal():
    config = BamConfig(family="lognormal", sigma=0.2, layers=2)
    for other in (copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert other == config
        assert hash(other) == hash(config)


def test_options_are_the_common_fields_and_those_of_every_family():
    found = option_fields()
    own = {name for family in FAMILIES for name in BamConfig(family=family).to_dict()}
    assert found.keys() == own
    owners = {"k": FAMILIES["weibull"], "sigma": FAMILIES["lognormal"], "counts": FAMILIES["multinomial"]}
    assert {name: found[name][0] for name in owners} == owners
    assert found["kl_weight"][0] is BamConfig
    assert all(describe(cls)[name] for name, (cls, _) in found.items())


def test_an_option_of_several_families_has_the_choices_of_all():
    choices = option_fields()["prior"][1].metadata["choices"]
    assert choices == ("contextual", "fixed", "none", "standard", "mean_value")
    assert option_fields()["noise"][1] is next(f for f in dataclasses.fields(FAMILIES["weibull"]) if f.name == "noise")


def test_another_family_does_not_take_over_choices_that_it_does_not_have():
    assert BamConfig(family="categorical").replace(family="gumbel").objective == "variational"
    assert BamConfig(family="categorical", objective="hard").replace(family="gumbel").objective == "hard"
    assert BamConfig(prior="none").replace(family="gaussian").prior == "none"


def test_frozen_and_replace():
    config = BamConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.k = 3.0
    assert config.replace(k=3).k == 3.0
    with pytest.raises(ValueError, match=r"BamConfig.k=-3"):
        config.replace(k=-3)


@pytest.mark.parametrize(
    ("name", "family", "prior"),
    [
        ("BAM-WC", "weibull", "contextual"),
        ("BAM-WF", "weibull", "fixed"),
        ("BAM-LC", "lognormal", "contextual"),
        ("BAM-LF", "lognormal", "fixed"),
        ("BAM-NOKL", "weibull", "none"),
    ],
)
def test_the_variants_of_the_paper(name, family, prior):
    assert BamConfig.preset(name) == BamConfig(family=family, prior=prior)


@pytest.mark.parametrize(
    ("task", "k"),
    [
        ("CoLA", 10),
        ("STS-B", 20),
        ("SST-2", 1000),
        ("MNLI", 5),
        ("QNLI", 500),
        ("QQP", 1000),
        ("RTE", 1000),
        ("MRPC", 100),
        ("SQuAD-1.1", 10),
        ("SQuAD-2.0", 2000),
    ],
)
def test_the_recipes_of_the_paper(task, k):
    config = BamConfig.preset(task)
    assert (config.family, config.prior, config.prior_shape) == ("weibull", "contextual", "psi")
    assert (config.k, config.beta, config.d_mid, config.annealing) == (k, 0.01, 5, "constant")


def test_presets_take_changes_and_name_the_choices():
    assert BamConfig.preset("BAM-LC", sigma=0.7).sigma == 0.7
    with pytest.raises(ValueError, match=r"preset='BAM-X' is not known.*bam-wc.*squad-2.0"):
        BamConfig.preset("BAM-X")
