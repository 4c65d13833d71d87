"""Closed forms from summed statistics equal the fit on all records together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.baselines import LinearARL, LinearEraser
from tacit.errors import InputError, InputTypeError
from tacit.federated import Node, fit_closed_form
from tacit.federated.closed_form import sums


def table(n, seed):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["m", "f"], n)
    X = pd.DataFrame(
        {
            "age": rng.normal(40 + 5 * (sex == "m"), 9, n),
            "gain": np.where(rng.random(n) < 0.02, rng.normal(1e4, 1e3, n), 0.0),
            "job": rng.choice(["nurse", "cook", "clerk"], n, p=[0.5, 0.49, 0.01]),
            "fixed": 1.0,
        }
    )
    X.loc[rng.random(n) < 0.05, "age"] = np.nan
    y = pd.DataFrame({"sick": np.where(X["age"].fillna(40) + rng.normal(0, 5, n) > 42, "yes", "no")})
    y.loc[::9, "sick"] = None
    return X, y, pd.DataFrame({"sex": sex, "race": rng.choice(list("abc"), n)})


PARTS = [table(n, seed) for seed, n in enumerate((300, 150, 500))]
NODES = [Node(X, y, sensitive_features=s, name=f"n{i}") for i, (X, y, s) in enumerate(PARTS)]
X, Y, S = (pd.concat(part, ignore_index=True) for part in zip(*PARTS, strict=True))


@pytest.mark.parametrize(
    "estimator",
    [LinearARL(), LinearARL(lam=0.2), LinearEraser(), LinearEraser(min_frequency=0.03), LinearEraser(min_frequency=0)],
    ids=str,
)
def test_equals_the_pooled_fit(estimator, tmp_path, monkeypatch):
    # nodes agree on exact means, by which gaps are filled; a pooled fit rounds them to what its people support
    monkeypatch.setattr("tacit.records.intake.make_encoder", lambda X, crowd: tacit.records.encoding.make_encoder(X))
    f = fit_closed_form(estimator, NODES)
    target = {} if isinstance(estimator, LinearEraser) else {"y": Y}
    pooled = type(estimator)(**estimator.get_params()).fit(X, **target, sensitive_features=S)
    assert np.allclose(f.transform(X), pooled.transform(X), atol=1e-8 * np.abs(pooled.transform(X)).max())
    alone = type(estimator)(**estimator.get_params()).fit(
        PARTS[0][0], **({"y": PARTS[0][1]} if target else {}), sensitive_features=PARTS[0][2]
    )
    assert not np.allclose(alone.transform(X), pooled.transform(X), atol=1e-3)  # the control
    assert f.seen(X).all()
    release = tacit.load(tacit.save(f, tmp_path / "f.tacit"))
    assert np.allclose(release.transform(X), f.transform(X), atol=1e-3)
    assert all(line["bytes_up"] > 0 for line in f.rounds_)


def test_windows_too():
    rng = np.random.default_rng(0)
    parts = [(rng.normal(i, 1, (60, 2, 4)), rng.integers(2, size=60), rng.integers(3, size=60)) for i in range(3)]
    nodes = [Node(a, b, sensitive_features=c) for a, b, c in parts]
    A, B, C = (np.concatenate(part) for part in zip(*parts, strict=True))
    f = fit_closed_form(LinearEraser(), nodes)
    assert np.allclose(f.transform(A), LinearEraser().fit(A, sensitive_features=C).transform(A), atol=1e-8)
    f = fit_closed_form(LinearARL(1), nodes)
    assert np.allclose(f.transform(A), LinearARL(1).fit(A, B, sensitive_features=C).transform(A), atol=1e-8)


def test_no_record_travels():
    node = NODES[0]
    marked = node.X.copy()
    marked.loc[7, ["age", "gain"]] = [41.123456, 7777.7]
    told = sums(Node(marked, node.y, sensitive_features=node.sensitive_features, name="a"),
                tacit.records.encoding.make_encoder(marked).transform(marked))  # fmt: skip
    encoded = tacit.records.encoding.make_encoder(marked).transform(marked)[7, [0, 2]]
    assert not np.isin(np.concatenate([a.ravel() for a in told.arrays.values()]), encoded).any()


def test_bad_input():
    with pytest.raises(InputTypeError, match="LinearARL and LinearEraser; found a EIGAN"):
        fit_closed_form(tacit.EIGAN(), NODES)
    few = NODES[0].sensitive_features.copy()
    few.loc[3, "race"] = "rare"
    with pytest.raises(InputError, match="node 'x': class 'rare' of 'race' has fewer than 5 records"):
        fit_closed_form(LinearEraser(), [*NODES, Node(NODES[0].X, sensitive_features=few, name="x")])
    with pytest.raises(InputError, match="node 'x'"):
        fit_closed_form(LinearEraser(), [NODES[0], Node(X, Y, sensitive_features=S[["sex"]], name="x")])
    with pytest.raises(InputError, match="needs a target"):
        fit_closed_form(LinearARL(), [Node(X, sensitive_features=S)])
    with pytest.raises(InputError, match="node 'x' has no column 'age'"):
        fit_closed_form(LinearEraser(), [*NODES, Node(X.drop(columns="age"), sensitive_features=S, name="x")])
    for estimator in (LinearEraser(), LinearARL()):
        with pytest.raises(InputError, match="training rows"):
            fit_closed_form(estimator, NODES).release_training_rows()
