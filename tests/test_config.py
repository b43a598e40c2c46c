import dataclasses
import json

import pytest

from hf_bam import BamConfig


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("family", "gauss", "'weibull', 'lognormal'"),
        ("prior", None, "'contextual', 'fixed', 'none'"),
        ("noise", "row", "'entry', 'key'"),
        ("prior_shape", "beta", "'beta*psi', 'psi'"),
        ("attention", "all", "'both', 'self', 'cross'"),
        ("kl_reduction", "max", "'mean', 'sum'"),
        ("annealing", "cosine", "'constant', 'sigmoid', 'linear', 'cyclic'"),
        ("k", 0, "above 0"),
        ("k", float("nan"), "above 0"),
        ("k", "5", "above 0"),
        ("k", True, "above 0"),
        ("sigma", -1.0, "above 0"),
        ("beta", float("inf"), "above 0"),
        ("sigma_prior", 0.0, "above 0"),
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
def test_a_wrong_value_is_named_with_the_choices(field, value, said):
    with pytest.raises(ValueError, match=f"BamConfig.{field}=") as error:
        BamConfig(**{field: value})
    assert repr(value) in str(error.value)
    assert said in str(error.value)


def test_alpha_must_be_positive():
    with pytest.raises(ValueError, match=r"BamConfig.alpha=-1"):
        BamConfig(prior="fixed", alpha=-1)


def test_json_round_trip_of_every_field():
    config = BamConfig(
        family="weibull",
        k=2,
        sigma=0.5,
        noise="key",
        prior="fixed",
        d_mid=7,
        beta=3,
        prior_shape="psi",
        alpha=0.5,
        sigma_prior=2,
        kl_weight=0,
        kl_reduction="sum",
        annealing="cyclic",
        annealing_rate=0.1,
        layers=[0, -1],
        attention="cross",
    )
    default = BamConfig()
    assert all(getattr(config, f.name) != f.default for f in dataclasses.fields(config) if f.name != "family")
    assert BamConfig.from_json(config.to_json()) == config
    assert BamConfig.from_dict(json.loads(json.dumps(default.to_dict()))) == default
    assert config.layers == (0, -1)


def test_an_unknown_field_is_an_error_that_lists_the_fields():
    with pytest.raises(ValueError, match=r"'simga' is not a field of BamConfig.*sigma_prior"):
        BamConfig.from_dict({"simga": 1.0})


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
