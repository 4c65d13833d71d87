"""A fitted filter is what was fitted: no parameter set afterwards moves what it releases or what is claimed of it.

Every public filter and baseline is fitted once, small. Then each of its constructor's parameters is set to another
valid value, and the release of fixed records, the noise that is really drawn and the certified bounds must be those of
before, bit by bit; or `transform` says that the filter must be fitted again. A new public filter or parameter without
another value here is an error.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from torch import nn

import tacit
from tacit.audit.certification import Terms, certify_release
from tacit.errors import InputError
from tacit.filters.base import Filter

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


RECORDS = {"rows": _told((4,)), "windows": _told((2, 32)), "images": _told((1, 8, 8))}


def _layer(n_in, n_out):
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(n_in)), n_out))


SMALL: dict[str, list[dict]] = {
    "CodebookFilter": [
        {"n_codes": 4, "n_folds": 2},
        {"n_codes": 4, "n_folds": 2, "output": "code"},
        {"n_codes": 4, "n_folds": 2, "decode": True},
        {"n_codes": 4, "features": "raw", "epochs": 2},
    ],
    "EIGAN": [{"n_components": 2, "epochs": 2, "noise": 0.5}, {"n_components": 2, "epochs": 2, "pieces": 4}],
    "MinimaxFilter": [
        {"n_components": 2, "max_iter": 2, "noise": 0.5},
        {"n_components": 3, "max_iter": 2, "adversary": "exact"},
    ],
    "DPFE": [{"n_components": 2, "epochs": 2, "backbone_epochs": 2, "noise_ratio": 0.5}],
    "AnonymizingAutoencoder": [{"n_maps": 4, "epochs": 1, "regularisers": ("wide",)}, {"codes": 3, "epochs": 1}],
    "TaskMask": [{"epochs": 1}],
    "Autoencoder": [{"n_components": 2, "epochs": 2}],
    "VariationalObfuscator": [{"epochs": 2}],
    "SingularSpectrum": [{"embedding": 8}],
}
FORM = dict.fromkeys(["AnonymizingAutoencoder", "Resample", "SingularSpectrum"], "windows") | {"TaskMask": "images"}

# another valid value of every parameter; several where one is near and one turns a thing off or on
OTHER: dict[str, list] = {
    "adversarial": [False], "adversary": ["softmax", "exact"], "adversary_steps": [2], "alpha": [0.9],
    "always": [(0, 0, 2, 2)], "augment": [np.negative], "backbone_epochs": [3], "batch_size": [16], "beta": [0.5],
    "beta_activity": [1.0], "beta_distortion": [0.5], "beta_identity": [3.0], "budget": [0.5], "checkpoint": ["other"],
    "class_maps": [False], "classifier": [nn.Identity()], "clip": [0.01], "codes": [None, 4],
    "complement": ["paper"], "components": [1, (2, 3)], "cut": [0.5], "decode": [False, True], "device": ["cpu"],
    "embedding": [12], "encoder": [_layer], "epochs": [3], "epsilon": [0.01, 9.0], "features": ["raw", "posterior"],
    "fidelity": [0.9], "fill": [0.25], "from_rate": [100.0], "head_speed": [1.0], "hidden": [(5,)],
    "identity_loss": ["paper"], "init": ["random"], "inner_max_iter": [5], "inner_tolerance": [1e-3], "joint": [True],
    "keep": [0.6], "lam": [0.1], "leakage_weight": [9.0], "learning_rate": [0.1], "margin": [1.0], "masker": [_layer],
    "max_iter": [1], "n_codes": [3], "n_components": [1], "n_features": [20], "n_folds": [3], "n_maps": [5],
    "n_noise": [3], "network": [_layer], "never": [(0, 0, 2, 2)], "noise": [None, 3.0], "noise_ratio": [0.0, 4.0],
    "output": ["onehot", "code", "prototype"], "patience": [2], "penalty": [5.0], "pieces": [None, 3],
    "predictor": [_layer], "privacy_loss": ["binary"], "privacy_weight": [3.0], "random_state": [7], "rare": [0.3],
    "rate": [20.0], "regularise_output": [False], "regularisers": [("deep",)], "regulariser_steps": [1],
    "restart_every": [None], "rho": [0.01], "ridge": [0.5], "sensitive_head": [_layer],
    "sensitive_weights": [{"s": 2.0}], "sigma": [0.3], "simple": [True], "solver": ["alternating", "closed"],
    "target_head": [_layer], "target_weights": [{"y": 2.0}], "tolerance": [1e-2], "utility": ["reconstruction"],
    "validation": [0.3], "verbose": [True],
}  # fmt: skip
NOT_HERE = {("CodebookFilter", "alternating"), ("MinimaxFilter", "closed")}  # values of other filters'

# covers learn nothing and nothing but their parameters makes them; they are not certified
COVERS = {"BlockMask", "BlurMask", "Pixelate", "RandomMask"}


def public() -> dict[str, type]:
    """Every filter and baseline that the public lists name."""
    homes = [(tacit, tacit.__all__), (tacit.baselines, tacit.baselines.__all__)]
    found = {name: getattr(home, name) for home, names in homes for name in names}
    return {n: c for n, c in found.items() if isinstance(c, type) and hasattr(c, "transform") and hasattr(c, "fit")}


def _cases():
    for name, make in public().items():
        if name in COVERS:
            continue
        for number, settings in enumerate(SMALL.get(name, [{}])):
            for parameter, now in make(**settings).get_params(deep=False).items():
                for value in OTHER.get(parameter, [OTHER]):
                    if value is now or value == now or (isinstance(value, str) and (name, value) in NOT_HERE):
                        continue
                    case = f"{name}{number}-{parameter}={getattr(value, '__name__', value)}"
                    yield pytest.param(name, number, parameter, value, id=case)


@pytest.fixture(scope="module")
def fitted():
    """Each filter, fitted once, and what it released and claimed then."""
    made: dict = {}

    def get(name: str, number: int):
        if (name, number) not in made:
            f = public()[name](**SMALL.get(name, [{}])[number], random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", tacit.TacitWarning)  # trained so little, it may collapse
                f.fit(RECORDS[FORM.get(name, "rows")], LABELS["y"], sensitive_features=pd.DataFrame({"s": LABELS["s"]}))
            made[name, number] = f, _seen_from_outside(f, name)
        return made[name, number]

    return get


def _seen_from_outside(f, name):
    """The release of fixed records, its noise, and every certified bound."""
    X = RECORDS[FORM.get(name, "rows")]
    data = tacit.Dataset(X, LABELS["y"], pd.DataFrame({"s": LABELS["s"]}), np.arange(80), classes={"s": [0, 1]})
    halves = data.take(np.arange(40)), data.take(np.arange(40, 80))
    Z = [f.transform(part.X, part.units_of()) for part in halves]
    certified = certify_release(f, [(Z[0], halves[0], Z[1], halves[1])], Terms(0.95, look=1))
    return np.concatenate([np.asarray(z) for z in Z]), f.mechanism_.noise, certified.bound


def test_every_public_filter_and_each_of_its_parameters_has_another_value():
    lacking = {(p.values[0], p.values[2]) for p in _cases() if p.values[3] is OTHER}
    assert not lacking
    assert set(public()) >= COVERS
    assert all(issubclass(c, Filter) for n, c in public().items() if n not in COVERS)
    assert {"CodebookFilter", "LaplaceMechanism", "Resample"} <= set(public())


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
        ("CodebookFilter", 0, "leakage_weight", 60.0),
        ("EIGAN", 0, "noise", 3.0),
        ("LaplaceMechanism", 0, "epsilon", 0.01),
    ):
        f, (Z, noise, bound) = fitted(name, number)
        g = type(f)(**{**f.get_params(), parameter: value})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tacit.TacitWarning)
            g.fit(RECORDS["rows"], LABELS["y"], sensitive_features=pd.DataFrame({"s": LABELS["s"]}))
        Z_now, noise_now, bound_now = _seen_from_outside(g, name)
        assert not np.array_equal(Z, Z_now)
        if noise is not None:
            assert noise.scale != noise_now.scale
            assert bound != bound_now
