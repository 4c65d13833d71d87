"""What leaves (sections A, B, C): noise that people share, parameters set after the fit, and what a receiver can tell
apart. Claims come of `certify_trial`, which `tacit.audit` calls; the truth is what an attacker gets who looks."""

from __future__ import annotations

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
from claim_world import World
from scipy import sparse

import tacit
from tacit.auditing.certificate import certify
from tacit.auditing.certification import Terms, certify_trial
from tacit.auditing.gaussian import certify_gaussian
from tacit.auditing.local_privacy_certificate import local_dp_bound
from tacit.auditing.received import received_pair
from tacit.auditing.trial import Trial

N = 400  # records of each part


def _parts(rng, X, s, units):
    y = rng.integers(2, size=len(s))
    data = tacit.Dataset(X, y, pd.DataFrame({"s": s}), units, classes={"s": [0, 1]})
    return data.take(np.arange(N)), data.take(np.arange(N, 2 * N))


def _claimed(release, attack, test):
    """The bound that an audit would print; 1 where it certifies nothing. Each is the first look at its rows."""
    if isinstance(release, tuple):
        Za, Zt = release
    else:
        Za, Zt = release.transform(attack.X, attack.units_of()), release.transform(test.X, test.units_of())
    Za, Zt = received_pair(Za, Zt)
    found = certify_trial(Trial((attack, test), (Za, Zt), release), Terms(0.95, look=1)).certificate["s"]
    return (1.0 if found is None else found.bound), Za, Zt


def _lookup(Za, sa, Zt, st):
    """Balanced accuracy of whoever finds an equal release of somebody else and repeats their class."""
    known = {}
    for row, label in zip(np.asarray(Za), sa, strict=True):
        known.setdefault(row.tobytes(), []).append(label)
    votes = np.array([np.mean(known.get(row.tobytes(), [0.5])) for row in np.asarray(Zt)])
    right = np.where(votes == 0.5, 0.5, (votes > 0.5) == (st == 1))
    return np.mean([right[st == c].mean() for c in (0, 1)])


# -- A: records repeat, under noise -----------------------------------------------------------------


def _people(rng, kinds):
    """Records of so many kinds; most of a kind have one class. The kind says nothing along the code."""
    kind = rng.integers(kinds, size=2 * N)
    s = (rng.random(2 * N) < np.where(kind % 2 == 0, 0.1, 0.9)).astype(int)
    return np.column_stack([kind // 2, kind % 2]).astype(float), s


def _laplace(kinds, epsilon, units):
    """The truth: epsilon's own limit bounds a release with noise of its own; a look-up may do better."""

    def run(rng):
        X, s = _people(rng, kinds)
        attack, test = _parts(rng, X, s, units)
        f = tacit.baselines.LaplaceMechanism(epsilon, random_state=0).fit(X)
        bound, Za, Zt = _claimed(f, attack, test)
        return bound, _lookup(Za, s[:N], Zt, s[N:])

    return run


def _gaussian(kinds, noise, units):
    def run(rng):
        X, s = _people(rng, kinds)
        attack, test = _parts(rng, X, s, units)
        f = tacit.MinimaxFilter(1, noise=noise, max_iter=1, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f.fit(X, rng.integers(2, size=2 * N), sensitive_features=s)
        bound, Za, Zt = _claimed(f, attack, test)
        return bound, _lookup(Za, s[:N], Zt, s[N:])

    return run


def _by_the_record_alone(kinds):
    """The old way: noise named by the record, and a certificate that believes it is everybody's own."""

    def run(rng):
        X, s = _people(rng, kinds)
        of_kind = rng.standard_normal((kinds, 1))
        code = np.clip(X[:, 1:], 0, 0)
        Z = code + 2 * of_kind[(2 * X[:, 0] + X[:, 1]).astype(int)]
        bound = certify_gaussian(code, s, 2, 2.0, draws=1200, seed=int(rng.integers(2**31))).bound
        return bound, _lookup(Z[:N], s[:N], Z[N:], s[N:])

    return run


# -- B: a parameter set after the fit ---------------------------------------------------------------


def _set_after_fit(change, claim=None):
    """A code of two places under little noise; then the parameter is turned up. The truth is that of the real noise."""

    def run(rng):
        s = rng.integers(2, size=2 * N)
        X = np.where(s == 1, 1.0, -1.0)[:, None] + 1e-3 * rng.standard_normal((2 * N, 1))
        attack, test = _parts(rng, X, s, "rows")
        f = tacit.baselines.LaplaceMechanism(4.0, random_state=0).fit(X)
        real = f.mechanism_.noise.scale
        change(f)
        gap = abs(float(np.diff(f.noiseless(np.array([[-1.0], [1.0]])).ravel())[0]))
        truth = 1 - 0.5 * np.exp(-gap / (2 * real))  # of the midpoint between two Laplace laws
        return (_claimed(f, attack, test)[0] if claim is None else claim(f)), truth

    return run


# -- C: what counts as equal ------------------------------------------------------------------------


def _told_apart(make, read=0.9):
    """A release that is one value to a careless reader and two to a receiver; it names the class so often."""

    def run(rng):
        s = rng.integers(2, size=2 * N)
        shown = np.where(rng.random(2 * N) < read, s, 1 - s).astype(bool)
        attack, test = _parts(rng, np.zeros((2 * N, 1)), s, None)
        return _claimed((make(shown[:N]), make(shown[N:])), attack, test)[0], read

    return run


def _objects(yes, no):
    return lambda shown: pd.DataFrame({"a": pd.Series([yes if v else no for v in shown], dtype=object)})


def _stored_zeros(shown):
    matrix = sparse.csr_matrix(np.where(shown, 5.0, 0.0)[:, None] + np.array([[0.0, 1.0]]))
    matrix.data[matrix.data == 5.0] = 0.0
    return matrix


SPELLINGS = {
    "float32 zeros": lambda shown: np.where(shown, -0.0, 0.0).astype(np.float32)[:, None],
    "float64 zeros": lambda shown: np.where(shown, -0.0, 0.0)[:, None],
    "nullable zeros": lambda shown: pd.DataFrame({"a": pd.array(np.where(shown, -0.0, 0.0), dtype="Float64")}),
    "booleans and ones": _objects(True, 1),
    "whole numbers and floats": _objects(1, 1.0),
    "two kinds of gap": _objects(None, np.nan),
    "decimals": _objects(Decimal("1.0"), Decimal("1.00")),
    "an index": lambda shown: pd.DataFrame({"a": np.zeros(len(shown))}, index=shown.astype(int)),
    "stored zeros": _stored_zeros,
    "a mask": lambda shown: np.ma.array(np.zeros((len(shown), 1)), mask=shown[:, None]),
}


def _careless(rng):
    """Zeros compared by value: all are one cell."""
    s = rng.integers(2, size=N)
    return certify(np.zeros(N, dtype=int), s, 2).bound, 0.9


WORLDS = [
    World("Laplace, records repeat, units", "A", _laplace(20, 0.5, "rows"), runs=30),
    World("Laplace, records repeat, nobody says whose", "A", _laplace(20, 0.5, None), runs=30),
    World("Laplace, few kinds, units", "A", _laplace(4, 1.0, "rows"), runs=30),
    World("Gaussian, records repeat, units", "A", _gaussian(20, 2.0, "rows"), runs=10),
    World("Gaussian, records repeat, nobody says whose", "A", _gaussian(20, 2.0, None), runs=10),
    World("epsilon lowered after the fit", "B", _set_after_fit(lambda f: f.set_params(epsilon=0.1)), runs=30),
    World("clip lowered after the fit", "B", _set_after_fit(lambda f: f.set_params(clip=0.01)), runs=30),
    *(World(f"told apart by {name}", "C", _told_apart(make), runs=40) for name, make in SPELLINGS.items()),
]
CONTROLS = [
    World("noise named by the record alone", "A", _by_the_record_alone(20), runs=60),
    World(
        "a claim read from the parameter", "B",
        _set_after_fit(lambda f: f.set_params(epsilon=0.1), lambda f: local_dp_bound(f.epsilon, 2)), runs=60,
    ),
    World("zeros counted by value", "C", _careless, runs=60),
]  # fmt: skip
