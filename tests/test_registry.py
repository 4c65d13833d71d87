"""A filter is one file: registered, it goes through audit, frontier, save, load and the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tacit
from tacit.cli import app
from tacit.filters import registry
from tacit.filters.base import Filter, Knob, Problem, release_by_folds
from tacit.filters.mechanism import Mechanism
from tacit.noise.keyed import Finite


@dataclass(frozen=True, eq=False)
class Sides:
    """On which side of a plane a record lies."""

    plane: np.ndarray

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return (X @ self.plane > 0).astype(float)

    def graph(self, g: Any, x: str) -> str:
        side = g.op("MatMul", x, g.constant("plane", self.plane))
        zero = g.op("Mul", side, g.number(0.0))
        return g.op("Where", g.op("Greater", side, g.number(0.0)), g.op("Add", zero, g.number(1.0)), zero)


class Toy(Filter):
    """Which side of the plane between the first target's class means."""

    knob = Knob("tilt", utility_rises=False, values=(0.0, 0.5))

    def __init__(self, tilt: float = 0.0, *, random_state: Any = None) -> None:
        self.tilt = tilt
        self.random_state = random_state

    def _learn(self, problem: Problem) -> Mechanism:
        return Mechanism(self._sides(problem), width=1, support=Finite())

    def _sides(self, problem: Problem) -> Sides:
        y = problem.targets.codes[:, 0]
        plane = problem.X[y == 1].mean(axis=0) - problem.X[y == 0].mean(axis=0)
        return Sides(((1 - self.tilt) * plane + self.tilt * plane[::-1])[:, None])

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        return release_by_folds(problem, self._sides)


@pytest.fixture
def toy(monkeypatch):
    registry.registered_filters()  # all of Tacit's own first
    monkeypatch.setattr(registry, "_FILTERS", dict(registry._FILTERS))
    return registry.register_filter("toy", examples=[{"tilt": 0.2}])(Toy)


@pytest.fixture(scope="module")
def parts():
    rng = np.random.default_rng(0)
    y, s = rng.integers(2, size=(2, 900))
    X = pd.DataFrame({"a": y + 0.5 * rng.standard_normal(900), "b": s + 0.5 * rng.standard_normal(900)})
    return tacit.Dataset(X, pd.DataFrame({"y": y}), pd.DataFrame({"s": s})).split((0.5, 0.2, 0.3), random_state=0)


def test_a_toy_filter_goes_everywhere(toy, parts, tmp_path):
    train, attack, test = parts
    quick = {"attackers": "logistic", "measurements": "no-baseline"}
    assert registry.registered_filters()["toy"].example_filters()[0].tilt == 0.2
    f = toy(random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)
    report = tacit.audit(f, attack, test, **quick)
    assert report.status("s") == "certified"
    assert report.utility["y"].value > 0.75
    assert f.release_training_rows().shape == (len(train), 1)
    release = tacit.load(tacit.save(f, tmp_path / "toy.tacit", report))
    assert (release.transform(test.X) == f.transform(test.X)).all()
    front = tacit.frontier(toy(random_state=0), *parts, values=2, seeds=1, n_jobs=1, attackers="logistic", limit=False)
    assert len(front.table()) == 2


@pytest.mark.usefixtures("quickly")
def test_a_toy_filter_is_known_to_the_command_line(toy, parts, tmp_path):
    data = pd.concat([part.X.assign(y=part.y["y"], s=part.sensitive["s"]) for part in parts])
    data.to_csv(tmp_path / "t.csv", index=False)
    asked = ["fit", str(tmp_path / "t.csv"), "--target", "y", "--sensitive", "s", "--out", str(tmp_path / "o")]
    done = CliRunner().invoke(app, [*asked, "--filter", "toy"])
    assert done.exit_code == 0, done.output
    assert set(pd.read_parquet(tmp_path / "o" / "release.parquet").iloc[:, 0]) == {0.0, 1.0}
    unknown = CliRunner().invoke(app, [*asked, "--filter", "toi"])
    assert unknown.exit_code != 0


def test_every_public_filter_is_registered():
    made = {r.make for r in registry.registered_filters().values()}
    public = [getattr(tacit, n) for n in tacit.__all__] + [getattr(tacit.baselines, n) for n in tacit.baselines.__all__]
    missing = [c for c in public if isinstance(c, type) and issubclass(c, Filter) and c not in made]
    assert not missing
