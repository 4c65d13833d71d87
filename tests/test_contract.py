"""Every public table filter keeps scikit-learn's contract: one suite that a new filter joins for free."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import tacit
from tacit.filters.registry import registered_filters
from tacit.testing import check_filter, people
from tacit.training.loop import Training

pytestmark = [
    pytest.mark.usefixtures("few_steps"),  # the door, not how well anything is learned
    pytest.mark.filterwarnings("ignore:.*collapsed"),  # so little training, or records that say nothing
    pytest.mark.filterwarnings("ignore:there is nothing to erase"),  # scikit-learn's checks pass no sensitive labels
]
TABLE_FILTERS = registered_filters("table")
FILTERS = [r.make() for r in TABLE_FILTERS.values()]


@pytest.fixture
def two_epochs(monkeypatch):
    """Default settings, and of every training its first two epochs."""
    begin = Training.__init__

    def brief(self, *given, **settings):
        begin(self, *given, **settings)
        self.n_epochs = min(self.n_epochs, 2)

    monkeypatch.setattr(Training, "__init__", brief)


# one for each way of taking records in: trained networks, codes, closed forms by chunks, coupled tables
EACH_BASE = (tacit.EIGAN, tacit.CodebookFilter, tacit.baselines.LinearEraser, tacit.CouplingFilter)


@pytest.mark.usefixtures("two_epochs")
@parametrize_with_checks([f for f in FILTERS if isinstance(f, EACH_BASE)])
def test_check_estimator(estimator, check):
    check(estimator)


@pytest.mark.slow  # the same code takes their records in
@pytest.mark.usefixtures("two_epochs")
@parametrize_with_checks([f for f in FILTERS if not isinstance(f, EACH_BASE)])
def test_check_estimator_of_every_other_filter(estimator, check):
    check(estimator)


# quick ones; left out are the mask that takes binary labels alone, and the mechanism that learns nothing but a scale
SMALL = [
    pytest.param(f, id=f"{type(f).__name__}-{number}", marks=[pytest.mark.slow] if number else [])
    for name, registered in TABLE_FILTERS.items()
    if name not in ("discriminability-mask", "laplace")
    for number, f in enumerate(registered.example_filters(random_state=0))
]
every_filter = pytest.mark.parametrize("f", SMALL)


@pytest.fixture(scope="module")
def plane():
    return tacit.load_dataset("quadrants", n=300, random_state=1)


def fit(f, data, **kwargs):
    return clone(f).fit(data.X, data.y, sensitive_features=data.sensitive, **kwargs)


@every_filter
def test_each_keeps_the_contract_that_users_can_check(f):
    assert check_filter(f, sklearn=False)


@every_filter
def test_pipeline_passes_the_sensitive_labels_on(f, plane):
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = Pipeline([("filter", clone(f)), ("analyst", LogisticRegression())])
        pipe.fit(plane.X, plane.y["colour"], sensitive_features=plane.sensitive)
        assert pipe.score(plane.X, plane.y["colour"]) > 0.5


def test_grid_search_with_metadata_routing(plane):
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = Pipeline([("filter", tacit.CodebookFilter(random_state=0)), ("analyst", LogisticRegression())])
        search = GridSearchCV(pipe, {"filter__n_codes": [2, 4]}, cv=2)
        search.fit(plane.X, plane.y["colour"].to_numpy(), sensitive_features=plane.sensitive["shape"].to_numpy())
        assert search.best_score_ > 0.9


BAD = {
    "NaN": (lambda X, y, s: (np.where(np.arange(X.size).reshape(X.shape) == 5, np.nan, X), y, s), "row 2, column 1"),
    "inf": (lambda X, y, s: (np.where(np.arange(X.size).reshape(X.shape) == 4, np.inf, X), y, s), "row 2, column 0"),
    "empty": (lambda X, y, s: (X[:0], y[:0], s[:0]), "0 sample"),
    "one row": (lambda X, y, s: (X[:1], y[:1], s[:1]), "1 sample"),
    "one class": (lambda X, y, s: (X, np.zeros(len(X)), s), "one class"),
    "one secret class": (lambda X, y, s: (X, y, np.ones(len(X))), "sensitive_features.*one class"),
    "lengths": (lambda X, y, s: (X, y[:-3], s), "y has 297 rows but X has 300"),
    "secret lengths": (lambda X, y, s: (X, y, s[:-1]), "sensitive_features has 299 rows but X has 300.*NaN"),
    "empty target": (lambda X, y, s: (X, pd.DataFrame(index=range(len(X))), s), "y has no column"),
    "two names": (
        lambda X, y, s: (X, pd.DataFrame({0: y, 1: y}).set_axis(["a", "a"], axis=1), s),
        "two columns called",
    ),
    "lists": (lambda X, y, s: (X, pd.Series([[1]] * len(X)), s), "holds lists"),
    "no target": (lambda X, y, s: (X, None, s), "y"),
    "text in numbers": (lambda X, y, s: (np.array([[{}, 1.0]] * len(X), dtype=object), y, s), "dict"),
}


@pytest.mark.parametrize("what", BAD)
@every_filter
def test_bad_input_is_a_tacit_error_that_says_where(f, what, plane):
    if what == "no target" and not f.needs_target:
        pytest.skip("works without a target")
    change, message = BAD[what]
    X, y, s = change(plane.X, plane.y["colour"].to_numpy(), plane.sensitive["shape"].to_numpy())
    with pytest.raises(tacit.TacitError, match=message):
        clone(f).fit(X, y, sensitive_features=s)


@every_filter
def test_a_number_is_taken_or_refused_with_the_names_of_those_that_take_it(f, plane):
    """As target and as sensitive attribute; classes of the other column stay classes."""
    number = plane.X.sum(axis=1) + np.random.default_rng(0).normal(size=len(plane))
    for labels in ({"y": number, "s": plane.sensitive}, {"y": plane.y, "s": pd.Series(number, name="age")}):
        g = clone(f)
        if f.takes_numbers:
            Z = np.asarray(g.fit(plane.X, labels["y"], sensitive_features=labels["s"]).transform(plane.X))
            assert len(Z) == len(plane)
            assert np.isfinite(Z.astype(float)).all()
        else:
            with pytest.raises(tacit.TacitError, match=r"is a number.*CodebookFilter, .*EIGAN.*bins="):
                g.fit(plane.X, labels["y"], sensitive_features=labels["s"])


@every_filter
def test_labels_by_position_are_refused_with_their_names(f, plane):
    with pytest.raises(tacit.TacitError, match="sensitive_features=s"):
        clone(f).fit(plane.X, plane.y, plane.sensitive)


@every_filter
def test_minus_one_is_an_ordinary_class(f, plane):
    y = np.where(plane.y["colour"] == "red", -1, 1)
    g = clone(f).fit(plane.X, y, sensitive_features=plane.sensitive)
    Z = np.asarray(g.transform(plane.X))
    assert LogisticRegression().fit(Z, y).score(Z, y) > 0.7


@every_filter
def test_bad_units_are_refused(f, plane):
    for units, message in (
        ([None] * 300, "units, row 0"),
        (np.zeros((300, 2)), "one label per record"),
        ([1, 2], "2 rows"),
    ):
        with pytest.raises(tacit.TacitError, match=message):
            fit(f, plane, units=units)


@every_filter
def test_a_sensitive_input_is_reported(f):
    data = people()
    X = data.X.assign(female=np.where(data.sensitive["sex"] == 1, "m", "f"))
    with pytest.warns(tacit.TacitWarning, match="'sex' is also among the inputs.*'female'"):
        clone(f).fit(X, data.y, sensitive_features=data.sensitive)


@every_filter
def test_a_target_that_is_a_function_of_the_secret_is_reported(f, digits):
    train = digits[0].take(np.arange(200))
    with pytest.warns(tacit.TacitWarning, match="'parity' is .nearly. a function of sensitive 'digit'.*100%"):
        fit(f, train)


@every_filter
def test_independent_labels_are_not_reported(f, plane, recwarn):
    fit(f, plane)
    assert not [w for w in recwarn if issubclass(w.category, tacit.TacitWarning)]


def test_several_targets_and_secrets():
    data = tacit.load_dataset("octants", n=200, allies=1)
    two = tacit.load_dataset("octants", n=200, allies=2)
    for f in (tacit.CodebookFilter(8, random_state=0, joint=True), tacit.EIGAN(3, epochs=3, random_state=0)):
        for d in (data, two):
            assert len(fit(f, d).transform(d.X)) == 200
    with pytest.raises(tacit.TacitError, match=r"closed.*one target.*y has 2"):
        fit(tacit.CodebookFilter(solver="closed"), two)


def test_wrong_parameters_say_what_is_allowed(plane):
    for f, message in (
        (tacit.EIGAN(alpha=1.5), "alpha must be a number between 0 and 1"),
        (tacit.EIGAN(alpha="a"), "alpha"),
        (tacit.EIGAN(noise=float("inf")), "noise"),
        (tacit.EIGAN(batch_size=0), "batch_size"),
        (tacit.EIGAN(n_bins=0), "n_bins"),
        (tacit.EIGAN(device="gpu"), "'auto', 'cpu' or 'cuda'"),
        (tacit.EIGAN(learning_rate=-1), "learning_rate"),
        (tacit.CodebookFilter(leakage_weight=float("inf")), "leakage_weight"),
        (tacit.CodebookFilter(features="raw", epochs=0), "epochs"),
        (tacit.EIGAN(noise=-1), "noise"),
        (tacit.EIGAN(n_components=0), "n_components"),
        (tacit.EIGAN(target_weights={"color": 1}), "colour"),
        (tacit.CodebookFilter(n_codes=1), "n_codes"),
        (tacit.CodebookFilter(features="magic"), "'posterior'"),
        (tacit.CodebookFilter(leakage_weight=-1), "leakage_weight"),
        (tacit.CodebookFilter(decode=True, output="code"), "decode"),
    ):
        with pytest.raises(tacit.TacitError, match=message):
            fit(f, plane)
