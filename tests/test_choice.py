"""Who of several attackers is told: chosen on the attackers' own rows, by as many of them as it takes."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit.auditing.suite import AttackSuite
from tacit.auditing.trial import Trial
from tacit.auditing.weighing import stack


class Reads:
    """Says what one column of the release says; there is nothing to learn."""

    def __init__(self, column: int) -> None:
        self.column = column

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        p = np.where(X[:, self.column] > 0, 0.6, 0.4)
        return np.column_stack([1 - p, p])


def readers(columns):
    return {str(c): lambda shape, m, seed, c=c: Reads(c) for c in range(columns)}


def trial_of(right, seed, n=20_000, columns=20):
    """Column 0 is right so often about a secret, the others as often as a coin; 4,000 rows to attack with."""
    rng = np.random.default_rng(seed)
    secret = rng.integers(2, size=n)
    X = rng.choice([-1.0, 1.0], size=(n, columns))
    X[:, 0] = np.where(rng.random(n) < right, 2 * secret - 1, 1 - 2 * secret)
    data = tacit.Dataset(X, rng.integers(2, size=n), secret)
    _, attack, test = data.split(random_state=0)
    [task] = Trial.of(None, attack, test).tasks("sensitive")
    return task


def test_of_weak_readers_the_one_who_reads_is_chosen():
    """A reader right in .535 of cases beside 19 who guess: one fold of four chose it in 21 of these 30 cases.

    All four choose it in .98 of cases, so that fewer than 26 of 30 come about in 1 of 4,000 runs of fresh seeds.
    """
    chosen = [AttackSuite(readers(20)).run(trial_of(0.535, seed)).chosen for seed in range(30)]
    assert chosen.count("0") >= 26


@pytest.mark.parametrize(("right", "folds"), [(0.52, 4), (0.8, 1)])
def test_more_rows_judge_only_where_nobody_is_surely_above_guessing(right, folds):
    task = trial_of(right, 1)
    outcome = AttackSuite(readers(3)).run(task)
    p, truth = outcome.validation
    assert len(truth) == len(p) == pytest.approx(len(task.ya) * folds / 4, abs=2)
    assert all(len(held) == len(truth) for held in outcome.held.values())
    best = outcome.held[outcome.chosen].argmax(1)
    share = np.mean([np.mean(best[truth == c] == c) for c in (0, 1)])
    assert outcome.scores[outcome.chosen][0] == pytest.approx(share)


def test_people_with_many_records_are_counted_once():
    """A trait of 24 people, 200 records each: one fold has six people, so that luck with them is no proof."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(48), 200)
    trait = rng.permutation(np.arange(48) % 2)[person]
    X = rng.choice([-1.0, 1.0], size=(48, 20))[person]
    X[:, 0] = (2 * trait - 1) * np.where(rng.random(48) < 0.8, 1, -1)[person]
    data = tacit.Dataset(X, rng.integers(2, size=len(X)), trait, units=person)
    attack, test = data.split((0.5, 0.5), random_state=0)
    [task] = Trial.of(None, attack, test).tasks("sensitive")
    outcome = AttackSuite(readers(20)).run(task)
    assert len(outcome.validation[1]) == len(task.ya) > 4000
    assert outcome.chosen == "0"


@pytest.mark.parametrize("how", ["Ctrl-C", "no time"])
def test_who_stops_the_second_hearing_keeps_the_first(how):
    """All attackers are judged by the same rows: by one fold, if the others cannot be finished."""
    heard = []

    def tell(what, done, total):
        if "once more" in what:
            heard.append(what)
            if how == "Ctrl-C" and len(heard) == 2:
                raise KeyboardInterrupt
            suite.budget.minutes = 0 if how == "no time" else None

    suite = AttackSuite(readers(3), callback=tell)
    task = trial_of(0.5, 0)
    outcome = suite.run(task)
    assert len(heard) == (2 if how == "Ctrl-C" else 1)
    assert list(outcome.probabilities) == ["0", "1", "2"]
    assert {len(p) for p in outcome.held.values()} == {len(outcome.validation[1])}
    assert len(outcome.validation[1]) == pytest.approx(len(task.ya) / 4, abs=2)
    assert suite.interrupted == (how == "Ctrl-C")


def test_a_sorted_table_gives_the_mixture_the_same_weights():
    rng = np.random.default_rng(0)
    truth = np.sort(rng.integers(2, size=10_000))
    logit = np.where(truth == 1, 0.7, -0.7) + rng.normal(size=10_000)
    held = {"reads": 1 / (1 + np.exp(-logit)), "says 0": np.full(10_000, 0.1)}
    held = {name: np.column_stack([1 - p, p]) for name, p in held.items()}
    mixed = rng.permutation(10_000)
    shares = np.array([0.5, 0.5])
    fresh = {name: p[:500] for name, p in held.items()}
    _, of_sorted = stack(held, truth, fresh, shares, 0)
    _, of_mixed = stack({name: p[mixed] for name, p in held.items()}, truth[mixed], fresh, shares, 0)
    assert np.abs(of_sorted - of_mixed).max() < 0.05


def test_one_attacker_is_not_judged_twice():
    asked = []

    class Counted(Reads):
        def fit(self, X, y):
            asked.append(len(X))
            return self

    task = trial_of(0.5, 0)
    AttackSuite({"it": lambda shape, m, seed: Counted(0)}).run(task)
    assert len(asked) == 2  # on three folds, and on all rows
