"""A fitted filter is what was fitted: no parameter set afterwards moves what it releases or what is claimed of it.

Every registered filter is fitted once with each of its quick settings (the first ones here, the others in the slow
suite). Then each parameter of its constructor is set to another valid value, and the release of fixed records, the
noise that is really drawn and the certified bounds must be those of before, bit by bit; or `transform` says that the
filter must be fitted again. A new parameter without another value here is an error.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from torch import nn

import tacit
from tacit.auditing.certification import Terms, certify_trial
from tacit.auditing.trial import Trial
from tacit.errors import InputError
from tacit.filters.mechanism import transformed
from tacit.filters.registry import registered_filters

pytestmark = pytest.mark.usefixtures("few_steps")  # any code will do

RNG = np.random.default_rng(0)
LABELS = {"y": RNG.integers(2, size=80), "s": RNG.integers(2, size=80)}
PLACES = np.array([-1.0, 1.0])


def _told(shape, size=0.5):
    """Records that tell target and sensitive label: one in the first half of the numbers, one in the other."""
    X = size * RNG.standard_normal((80, *shape))
    flat = X.reshape(80, -1)
    half = flat.shape[1] // 2
    flat[:, :half] += PLACES[LABELS["y"]][:, None]
    flat[:, half:] += PLACES[LABELS["s"]][:, None]
    return X


RECORDS = {"table": _told((4,)), "people": _told((4,)), "windows": _told((2, 32)), "images": _told((1, 8, 8))}


def _layer(n_in, n_out):
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(n_in)), n_out))


FILTERS = registered_filters()
# another valid value of every parameter; several where one is near and one turns a thing off or on
OTHER: dict[str, list] = {
    "adversarial": [False], "adversary": ["softmax", "exact"], "adversary_steps": [2], "alpha": [0.9],
    "ally_model": ["solved"], "centre": [False], "decoder": ["mlp"], "standardise": [False],
    "always": [(0, 0, 2, 2)], "augment": [np.negative], "backbone_epochs": [3], "batch_size": [16], "beta": [0.5],
    "beta_activity": [1.0], "beta_distortion": [0.5], "beta_identity": [3.0], "budget": [0.5], "checkpoint": ["other"],
    "class_maps": [False], "classifier": [nn.Identity()], "clip": [0.01], "codes": [None, 4], "dp": [tacit.DP()],
    "complement": ["paper"], "components": [1, (2, 3)], "cut": [0.5], "decode": [False, True], "device": ["cpu"],
    "embedding": [12], "encoder": [_layer], "epochs": [3], "epsilon": [0.01, 9.0], "features": ["raw", "posterior"],
    "fidelity": [0.9], "fill": [0.25], "from_rate": [100.0], "head_lr_factor": [1.0], "hidden": [(5,)],
    "identity_loss": ["paper"], "init": ["random"], "inner_max_iter": [5], "inner_tolerance": [1e-3], "joint": [True],
    "max_odds": [1.2], "contrast": ["difference"], "pairs": ["all"],
    "min_frequency": [0.3],
    "keep": [0.6], "lam": [0.1], "order": [["x1"]], "pass_through": [["x0"]], "resolution": [3], "strength": [0.2],
    "unknown": ["draw"],
    "leakage_weight": [9.0], "learning_rate": [0.1], "margin": [1.0], "masker": [_layer],
    "max_iter": [1], "n_codes": [3], "n_components": [1], "n_features": [20], "n_folds": [3], "n_maps": [5],
    "n_noise": [3], "network": [_layer], "never": [(0, 0, 2, 2)], "noise": [None, 3.0], "noise_ratio": [0.0, 4.0],
    "output": ["onehot", "code", "prototype"], "patience": [2], "penalty": [5.0], "n_bins": [None, 3],
    "predictor": [_layer], "privacy_loss": ["binary"], "privacy_weight": [3.0], "random_state": [7],
    "rate": [20.0], "regularize_output": [False], "regularizers": [("deep",)], "regularizer_steps": [1],
    "restart_every": [None], "rounds": [2],
    "start": ["other"], "rho": [0.01], "ridge": [0.5], "sensitive_head": [_layer],
    "sensitive_weights": [{"s": 2.0}], "sigma": [0.3], "simple": [True], "solver": ["alternating", "closed"],
    "target_head": [_layer], "target_weights": [{"y": 2.0}], "tolerance": [1e-2], "utility": ["reconstruction"],
    "validation": [0.3], "verbose": [True], "weight_decay": [0.1], "balanced": [False], "bounded": [False, True],
    "dropout": [0.5], "encoder_first": [True], "equation": [4],
    "soft": [True], "narrowing": [False], "temperature": [0.5], "smooth": [2],
}  # fmt: skip
NOT_HERE = {("codebook", "alternating"), ("minimax", "closed")}  # values of the other filter's `solver`
NOISY = ("eigan", 1)  # whose noise is claimed too


def _cases():
    for name, known in FILTERS.items():
        for number, f in enumerate(known.example_filters()):
            for parameter, now in f.get_params(deep=False).items():
                for value in OTHER.get(parameter, [OTHER]):
                    if value is now or value == now or (isinstance(value, str) and (name, value) in NOT_HERE):
                        continue
                    case = f"{name} {number}: {parameter}={getattr(value, '__name__', value)}"
                    marks = [] if number == 0 or (name, number) == NOISY else [pytest.mark.slow]
                    yield pytest.param(name, number, parameter, value, id=case, marks=marks)


def _fit(f, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tacit.TacitWarning)  # trained so little, it may collapse
        return f.fit(RECORDS[FILTERS[name].modality], LABELS["y"], sensitive_features=pd.DataFrame({"s": LABELS["s"]}))


@pytest.fixture(scope="module")
def fitted():
    """Each filter, fitted once, and what it released and claimed then."""
    made: dict = {}

    def get(name: str, number: int):
        if (name, number) not in made:
            f = _fit(FILTERS[name].example_filters(random_state=0)[number], name)
            made[name, number] = f, _seen_from_outside(f, name)
        return made[name, number]

    return get


def _seen_from_outside(f, name):
    """The release of fixed records, its noise, and every certified bound."""
    X = RECORDS[FILTERS[name].modality]
    data = tacit.Dataset(X, LABELS["y"], pd.DataFrame({"s": LABELS["s"]}), np.arange(80), classes={"s": [0, 1]})
    halves = data.take(np.arange(40)), data.take(np.arange(40, 80))
    Z = [transformed(f, part) for part in halves]
    certified = certify_trial(Trial(halves, tuple(Z), f), Terms(0.95, look=1))
    return np.concatenate([np.asarray(z) for z in Z]), f.mechanism_.noise, certified.bound


def test_each_parameter_has_another_value():
    assert not {(p.values[0], p.values[2]) for p in _cases() if p.values[3] is OTHER}
    assert {"codebook", "laplace", "mask", "resample"} <= set(FILTERS)


@pytest.mark.parametrize("name, number, parameter, value", list(_cases()))
def test_a_parameter_set_after_the_fit_moves_neither_release_nor_claim(fitted, name, number, parameter, value):
    f, (Z, noise, bound) = fitted(name, number)
    before = f.get_params(deep=False)[parameter]
    f.set_params(**{parameter: value})
    try:
        Z_now, noise_now, bound_now = _seen_from_outside(f, name)
    except InputError as error:
        if "fit" in str(error):
            return  # it says that it must be fitted again
        raise
    finally:
        f.set_params(**{parameter: before})
    assert (noise, bound) == (noise_now, bound_now)
    assert np.array_equal(Z, Z_now)


def test_what_is_compared_differs_between_two_fits(fitted):
    """The control: a fit with another knob does move the release, and for noise its size and the bound."""
    for name, number, parameter, value in (
        ("codebook", 0, "n_codes", 2),
        ("eigan", 1, "noise", 3.0),
        ("laplace", 0, "epsilon", 0.01),
    ):
        f, (Z, noise, bound) = fitted(name, number)
        other = _fit(type(f)(**{**f.get_params(), parameter: value}), name)
        Z_now, noise_now, bound_now = _seen_from_outside(other, name)
        assert not np.array_equal(Z, Z_now)
        if name != "codebook":
            assert noise.scale != noise_now.scale
            assert bound != bound_now
