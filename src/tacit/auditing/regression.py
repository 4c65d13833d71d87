"""The attack on one number: every regressor learns it from releases, and validation rows say who is told.

R², the rank correlation and the mean error each have their own best attacker: whoever minimizes squares does not
minimize absolute errors of a number that is skewed. Guesses are drawn towards the mean (for the mean error, towards the
median) as far as validation rows say: whoever knows little is better off saying little.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.auditing.budget import Budget
from tacit.auditing.number_stats import mean_absolute_error, r_squared, rank_correlation
from tacit.auditing.regressors import COUNTING, Regressor
from tacit.auditing.trial import NumberTask
from tacit.callback import Callback
from tacit.records.dataset import allot
from tacit.report.results import NumberResult

FOLDS = 4  # a quarter of the attackers' own rows says which attacker is told
FEW_ROWS = 3000  # up to which every quarter takes its turn
MEASURES = ("r2", "rank_correlation", "mae")
SHARES = np.linspace(0, 1, 21)  # of the way from the middle to the guess
Pairs = Mapping[str, tuple[np.ndarray, np.ndarray]]  # by regressor, guesses of validation rows and of test rows


@dataclass(frozen=True)
class NumberOutcome:
    """Every regressor's guesses of the test rows, and which of them did best on validation rows.

    Attributes
    ----------
    guesses : by measure ("r2", "rank_correlation", "mae") and regressor
    chosen : by measure
    median : of the rows that were learned from
    """

    task: NumberTask
    guesses: Mapping[str, Mapping[str, np.ndarray]]
    chosen: Mapping[str, str]
    median: float
    interrupted: bool = False

    @property
    def best(self) -> np.ndarray:
        """The guesses with the best R²."""
        return self.told("r2")

    def told(self, measure: str) -> np.ndarray:
        """The guesses of who was chosen for a measure."""
        return self.guesses[measure][self.chosen[measure]]


def read_number(
    task: NumberTask,
    some: Any,
    regressors: Mapping[str, Regressor],
    few_cells: bool,
    seed: int,
    callback: Callback,
    budget: Budget,
) -> NumberOutcome:
    """Train every regressor, on `some` of the rows; cells are counted, and where they are few nothing else is done."""
    X, y, codes = task.Xa[some], task.ya[some], task.ca[some]
    units = None if task.ua is None else task.ua[some]
    makers = dict(COUNTING) if few_cells else dict(regressors) | (COUNTING if task.finite else {})
    fold = _folds(codes, units, seed)
    turns = [] if fold is None else list(range(FOLDS if len(y) <= FEW_ROWS and len(makers) > 1 else 1))
    held_rows = np.isin(fold, turns) if fold is not None else np.zeros(len(y), dtype=bool)
    guesses: dict[str, np.ndarray] = {}
    held: dict[str, np.ndarray] = {}
    interrupted = False
    for name, make in makers.items():
        callback(f"{task.attribute}: {name}", None, None)
        try:
            if guesses and budget.spent:
                raise KeyboardInterrupt
            own = np.full(len(y), np.nan)
            for turn in turns:
                inside = fold == turn
                own[inside] = _learned(make, X[~inside], y[~inside], seed)(X[inside])
            guesses[name] = _learned(make, X, y, seed)(task.Xt)
            held[name] = own[held_rows]
        except KeyboardInterrupt:
            if not guesses:
                raise
            guesses.pop(name, None)
            interrupted = True
            break
    truth, median = y[held_rows], float(np.median(y))
    both = {name: (held[name], guesses[name]) for name in guesses}
    if len(np.unique(truth)) < 2:  # nobody can be judged: the first one is told
        first = dict.fromkeys(MEASURES, next(iter(guesses)))
        return NumberOutcome(task, dict.fromkeys(MEASURES, guesses), first, median, interrupted)
    drawn = {"r2": _drawn(both, truth, float(y.mean()), _squares), "rank_correlation": both}
    drawn["mae"] = _drawn(both, truth, median, _distances)
    chosen = {m: max(pairs, key=lambda n: _score(m, truth, pairs[n][0])) for m, pairs in drawn.items()}
    told = {m: {n: guess for n, (_, guess) in pairs.items()} for m, pairs in drawn.items()}
    return NumberOutcome(task, told, chosen, median, interrupted)


def number_result(outcome: NumberOutcome, level: float, per: str = "unit") -> NumberResult:
    """The measures of those who were chosen, and every regressor's R² with its interval widened for showing all."""
    t, chosen = outcome.task, outcome.chosen
    every = outcome.guesses["r2"]
    wide = 1 - (1 - level) / len(every)
    return NumberResult(
        t.attribute,
        chosen["r2"],
        r2=r_squared(t.yt, outcome.best, t.ut, level, per),
        rank_correlation=rank_correlation(t.yt, outcome.told("rank_correlation"), t.ut, level, per),
        mae=mean_absolute_error(t.yt, outcome.told("mae"), outcome.median, t.ut, level, per),
        n=len(t.yt),
        n_units=len(t.yt) if t.ut is None else len(np.unique(t.ut)),
        by=dict(chosen),
        attackers={name: r_squared(t.yt, guess, t.ut, wide, per) for name, guess in every.items()},
    )


def _folds(codes: np.ndarray, units: np.ndarray | None, seed: int) -> np.ndarray | None:
    """Parts of the rows, no unit in two of them; None where there are too few."""
    n_units = len(codes) if units is None else len(np.unique(units))
    return allot(codes, np.ones(FOLDS), seed, units) if n_units >= 2 * FOLDS else None


def _learned(make: Regressor, X: np.ndarray, y: np.ndarray, seed: int) -> Any:
    """A function from released rows to guesses; whoever learned from equal values names them."""
    middle, spread = float(y.mean()), float(y.std())
    if spread <= 0:
        return lambda rows: np.full(len(rows), middle)
    low, high = float(y.min()), float(y.max())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # networks that stop early, and names that arrays do not have
        model = make((X.shape[0], X.shape[1]), seed).fit(X, (y - middle) / spread)

    def guess(rows: np.ndarray) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = np.asarray(model.predict(rows), dtype=float).ravel() * spread + middle
        return np.clip(found, low, high)  # no guess lies where no value ever lay

    return guess


def _drawn(pairs: Pairs, truth: np.ndarray, middle: float, loss: Callable[[np.ndarray], float]) -> Pairs:
    """The same guesses, drawn towards the middle by the share that loses least on validation rows."""
    out = {}
    for name, (own, other) in pairs.items():
        share = min(SHARES[::-1], key=lambda k: loss(truth - middle - k * (own - middle)))
        out[name] = middle + share * (own - middle), middle + share * (other - middle)
    return out


def _squares(off: np.ndarray) -> float:
    return float((off * off).mean())


def _distances(off: np.ndarray) -> float:
    return float(np.abs(off).mean())


def _score(measure: str, truth: np.ndarray, guess: np.ndarray) -> float:
    """What is compared on validation rows; larger is better."""
    if measure == "rank_correlation":
        return rank_correlation(truth, guess).value
    return -(_squares if measure == "r2" else _distances)(truth - guess)
