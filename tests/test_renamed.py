"""Old names of public parameters work in this version, with a warning that says the new one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA

import tacit
from tacit.audit.membership import whitebox_membership
from tacit.baselines import LinearEraser, VariationalObfuscator
from tacit.federated import DistributedEIGAN, Node, audit_nodes, fit_closed_form
from tacit.federated.flower.config import algorithm_of

pytestmark = pytest.mark.usefixtures("few_steps")  # any code will do

CONSTRUCTORS = [
    (tacit.EIGAN, "pieces", "n_bins", 4),
    (tacit.EIGAN, "head_speed", "head_lr_factor", 2.0),
    (DistributedEIGAN, "head_speed", "head_lr_factor", 2.0),
    (VariationalObfuscator, "head_speed", "head_lr_factor", 2.0),
    (LinearEraser, "rare", "min_frequency", 0.1),
    (tacit.AnonymizingAutoencoder, "regularise_output", "regularize_output", False),
    (tacit.AnonymizingAutoencoder, "regularisers", "regularizers", ("deep",)),
    (tacit.AnonymizingAutoencoder, "regulariser_steps", "regularizer_steps", 1),
]


@pytest.mark.parametrize(("kind", "old", "new", "value"), CONSTRUCTORS, ids=lambda v: getattr(v, "__name__", str(v)))
def test_a_filter_takes_the_old_name(kind, old, new, value):
    with pytest.warns(DeprecationWarning, match=f"{old} is now called {new}"):
        f = kind(**{old: value})
    assert getattr(f, new) == value
    assert new in f.get_params()
    assert old not in f.get_params()
    assert getattr(clone(f), new) == value  # without a warning
    other = kind()
    with pytest.warns(DeprecationWarning, match=f"{old} is now called {new}"):
        other.set_params(**{old: value})
    with pytest.warns(DeprecationWarning, match=f"{old} is now called {new}"):
        assert getattr(other, old) == value
    with pytest.raises(TypeError, match=f"{old} and {new}, which are one parameter"):
        kind(**{old: value, new: value})


def test_what_was_never_a_name_is_refused():
    with pytest.raises(TypeError, match="unexpected keyword"):
        tacit.EIGAN(piece=4)
    with pytest.raises(AttributeError, match="piece"):
        _ = tacit.EIGAN().piece
    with pytest.raises(ValueError, match="Invalid parameter 'piece'"):
        tacit.EIGAN().set_params(piece=4)
    with pytest.raises(ValueError, match="not fitted"):  # not "no attribute": properties keep their own errors
        _ = tacit.EIGAN().noise_key


@pytest.fixture(scope="module")
def parts():
    return tacit.load_dataset("quadrants", n=300).split((0.5, 0.25, 0.25))


def same(one, two):
    return np.array_equal(one.X, two.X)


def test_data_take_the_old_name(parts):
    with pytest.warns(DeprecationWarning, match="seed is now called random_state"):
        data = tacit.load_dataset("quadrants", n=300, seed=3)
    assert same(data, tacit.load_dataset("quadrants", n=300, random_state=3))
    assert not same(data, tacit.load_dataset("quadrants", n=300))
    with pytest.warns(DeprecationWarning, match=r"Dataset\.split: seed is now called random_state"):
        part, _ = data.split((0.5, 0.5), seed=3)
    assert same(part, data.split((0.5, 0.5), random_state=3)[0])
    with pytest.warns(DeprecationWarning, match="seed is now called random_state"):
        rows, _ = data.split_rows((0.5, 0.5), seed=3)
    assert np.array_equal(rows, data.split_rows((0.5, 0.5), random_state=3)[0])


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [("seed", "random_state", 2), ("level", "confidence_level", 0.8), ("tell", "callback", None)],
)
def test_an_audit_takes_the_old_name(parts, old, new, value):
    told = []
    quick = {"attackers": "logistic", "floor": False, "power": False}
    with pytest.warns(DeprecationWarning, match=f"audit: {old} is now called {new}"):
        report = tacit.audit(None, *parts[1:], **quick, **{old: value or told.append})
    assert report.settings.seed == (2 if old == "seed" else 0)
    assert report.settings.level == (0.8 if old == "level" else 0.95)
    assert ("shape: logistic" in told) == (old == "tell")


def test_attackers_take_the_old_spelling(parts):
    for given in ("neighbours", ["neighbours"]):
        with pytest.warns(DeprecationWarning, match="neighbours is now called neighbors"):
            report = tacit.audit(None, *parts[1:], given, floor=False, power=False)
        assert report.leakage["shape"].attacker == "neighbors"


def test_a_frontier_takes_the_old_names(parts):
    told = []
    with pytest.warns(DeprecationWarning, match="frontier: ") as caught:
        front = tacit.frontier(
            tacit.baselines.LinearARL(1), *parts, values=[0.5], seeds=1, attackers="logistic", limit=False,
            jobs=1, level=0.8, tell=lambda what, done, total: told.append((what, done, total)),
        )  # fmt: skip
    said = {str(w.message).split(";")[0].split(": ")[1] for w in caught if w.category is DeprecationWarning}
    new = {"jobs": "n_jobs", "level": "confidence_level", "tell": "callback"}
    assert said == {f"{o} is now called {n}" for o, n in new.items()}
    assert front.level == 0.8
    assert ("training", 1, 1) in told
    with pytest.warns(DeprecationWarning, match="Frontier: secrets is now called sensitive"):
        assert front.secrets == front.sensitive == ["shape"]
    with pytest.warns(DeprecationWarning, match=r"Frontier\.superiority: secret is now called sensitive"):
        front.superiority(front, secret="shape")


@pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning")
def test_a_bulk_release_takes_the_old_names(parts, tmp_path):
    train = parts[0]
    f = tacit.CodebookFilter(2, random_state=0).fit(
        pd.DataFrame(train.X, columns=["a", "b"]), train.y, sensitive_features=train.sensitive
    )
    tacit.save(f, tmp_path / "f.tacit")
    pd.DataFrame(train.X, columns=["a", "b"]).to_csv(tmp_path / "in.csv", index=False)
    told = []
    with pytest.warns(DeprecationWarning, match="apply: "):
        tacit.release.apply(
            tmp_path / "f.tacit", tmp_path / "in.csv", tmp_path / "out.csv", jobs=1, tell=lambda n, of: told.append(n)
        )
    assert told[-1] == len(train)
    with pytest.warns(DeprecationWarning, match="whitebox_membership: "):
        found = whitebox_membership(f, train, parts[2], seed=0, level=0.9)
    assert found.guessing == 0.5


def test_a_federation_takes_the_old_names(parts):
    nodes = [Node(p.X, p.y, sensitive_features=p.sensitive, name=n) for n, p in zip("ab", parts[:2], strict=True)]
    with pytest.warns(DeprecationWarning, match="fit_closed_form: fewest is now called min_count"):
        f = fit_closed_form(LinearEraser(), nodes, fewest=3)
    assert f.transform(parts[2].X).shape == parts[2].X.shape
    halves = {"a": parts[1].split((0.5, 0.5))}
    with pytest.warns(DeprecationWarning, match="audit_nodes: fewest is now called min_rows"):
        report = audit_nodes(PCA(1).fit(parts[0].X), halves, attackers="logistic", fewest=1000)
    assert "at least 1000 are needed" in report.failed["a"]


def test_settings_of_a_federation_are_read_under_both_names():
    assert algorithm_of({"algorithm": "LinearEraser", "rare": 0.1, "fewest": 3}).min_count == 3
    assert algorithm_of({"algorithm": "LinearEraser", "min_frequency": 0.1}).estimator.min_frequency == 0.1
