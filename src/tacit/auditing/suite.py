"""The suite: the same attackers, with the same budget, for every release."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from tacit.auditing.attackers import Attacker, Counting, resolve
from tacit.auditing.budget import Budget
from tacit.auditing.likeness import nearest_neighbour
from tacit.auditing.measures import advantage, bits_leaked, calibrate, log_rank, macro_f1, rank_statement, top_k
from tacit.auditing.perceptrons import Perceptron, fit_together
from tacit.auditing.received import Columns
from tacit.auditing.regression import NumberOutcome, number_result, read_number
from tacit.auditing.regressors import only_classifiers, regressors_for
from tacit.auditing.shaped_attackers import QUICK_SHAPED, SHAPED
from tacit.auditing.stats import Measure, accuracy, balanced_accuracy, macro_auc
from tacit.auditing.trial import NumberTask, Task, Trial
from tacit.auditing.weighing import clearly_better, stack
from tacit.callback import Callback, silent
from tacit.errors import InputError
from tacit.records.dataset import allot
from tacit.report.results import AnyResult, NumberResult, Result

FOLDS = 4  # a quarter of the attackers' own rows says which attacker is reported
FEW_ROWS = 3000
MAX_ROWS = {"quick": 12_000, "strong": 30_000, "all": 30_000}  # that an attacker learns from
ENOUGH = 20  # rows for each class of each distinct release, from which on counting is all that an attacker can do
OTHERWISE = 20_000
BEHIND = 2.0  # standard errors by which an attacker is clearly behind the best
SURE = 4.0  # standard errors above guessing from which on a quarter of the rows judges well enough
NAMING = ("trees", "forest")  # the attackers that find rare combinations best: who is exposed is asked of them
MAX_NEIGHBORS = 2000  # released records among which each looks for its nearest
HEADLINE = {"y": "accuracy", "sensitive": "balanced_accuracy"}


@dataclass(frozen=True)
class Outcome:
    """Every attacker's probabilities on the test rows, and the attacker chosen on validation rows."""

    task: Task
    chosen: str
    probabilities: Mapping[str, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray] | None  # the chosen one's probabilities there, and the truth
    scores: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # by which it was chosen
    held: Mapping[str, np.ndarray] = field(default_factory=dict)  # every attacker's probabilities there
    stopped: tuple[str, ...] = ()  # attackers that were clearly behind there, and were not trained to the end

    def only(self, names: Collection[str]) -> Outcome:
        """The same as if no other attackers had been there."""
        scores = {n: s for n, s in self.scores.items() if n in names} or dict(self.scores)
        chosen = max(scores, key=lambda n: scores[n])
        validation = None if self.validation is None else (self.held[chosen], self.validation[1])
        probabilities = {n: p for n, p in self.probabilities.items() if n in scores}
        held = {n: p for n, p in self.held.items() if n in scores}
        return Outcome(self.task, chosen, probabilities, validation, scores, held, self.stopped)

    @property
    def best(self) -> np.ndarray:
        return self.probabilities[self.chosen]

    @property
    def prior(self) -> np.ndarray:
        """How common each class is among the rows attackers learned from."""
        return class_shares(self.task.ya, self.task.n_classes)

    @property
    def balanced(self) -> np.ndarray:
        """The answers that serve balanced accuracy: how common a class is, is divided out."""
        answers: np.ndarray = (self.best / self.prior).argmax(1)
        return answers


class AttackSuite:
    """Trains attackers on one part, chooses one on a validation part of the same rows, tests on another.

    Parameters
    ----------
    attackers : a preset's name, a list of names and classifiers (and regressors, which read numbers), or a mapping from
        names to attackers
    seed : same seed, same attackers
    callback : called with (what, None, None) whenever an attacker starts
    max_rows : rows that an attacker learns from; None: as many as the preset gives
    budget : when it is spent, no further attacker starts
    device : where `run_many` trains its networks

    Examples
    --------
    >>> import tacit
    >>> _, attack, test = tacit.load_dataset("quadrants", n=900).split()
    >>> found = AttackSuite("logistic").measure(Trial.of(None, attack, test), "sensitive", level=0.95)
    >>> found["shape"].value > 0.5
    True
    """

    def __init__(
        self,
        attackers: str | Sequence[Any] | Mapping[str, Attacker | None],
        seed: int = 0,
        callback: Callback = silent,
        max_rows: int | None = None,
        budget: Budget | None = None,
        device: str = "cpu",
    ) -> None:
        self.regressors = regressors_for(attackers)  # who reads numbers
        named = dict(attackers) if isinstance(attackers, Mapping) else resolve(only_classifiers(attackers))
        preset = attackers if isinstance(attackers, str) and attackers in MAX_ROWS else ""
        # attackers that need a record's shape are made when it is known; presets have them all
        self.attackers: dict[str, Attacker] = {name: make for name, make in named.items() if make is not None}
        own = tuple(n for n in named if n in SHAPED)
        self.shaped = {"quick": QUICK_SHAPED, "strong": tuple(SHAPED), "all": tuple(SHAPED)}.get(preset, own)
        self.names = list(named)
        self.stacks = bool(preset)  # a list of attackers is taken as it is
        self.counts = preset in ("quick", "strong")  # a few cells are counted, and nobody else is trained on them
        self.races = preset in ("quick", "strong")  # who is clearly behind on validation rows is stopped
        self.seed, self.max_rows = seed, max_rows or MAX_ROWS.get(preset, OTHERWISE)
        self.device = device
        self.callback, self.budget = callback, budget or Budget()
        self.interrupted = False  # by Ctrl-C, or because the time is over
        self.finished = list(self.attackers)  # everywhere, where it was

    def measure(
        self, trial: Trial, side: str, level: float | None = None, headline: str | None = None
    ) -> dict[str, AnyResult]:
        """Attack every column of `y` or of `sensitive`; each statement at this level, or at the trial's."""
        level, headline = level or trial.level, headline or HEADLINE[side]
        outcomes = (self.run(task, headline) for task in trial.tasks(side))
        found: dict[str, AnyResult] = {
            o.task.attribute: self.result(o, headline, level, trial.settings.per) for o in outcomes
        }
        return found | self.measure_numbers(trial, side, level)

    def measure_numbers(self, trial: Trial, side: str, level: float) -> dict[str, NumberResult]:
        """Attack every column of numbers."""
        return {
            t.attribute: number_result(self.run_number(t), level, trial.settings.per) for t in trial.number_tasks(side)
        }

    def measure_one(self, trial: Trial, side: str, column: int) -> AnyResult:
        """The same for one column."""
        if trial.labels[side].number(column) is not None:
            task = trial.number_task(side, column)
            return number_result(self.run_number(task), trial.level, trial.settings.per)
        outcome = self.run(trial.task(side, column), HEADLINE[side])
        return self.result(outcome, HEADLINE[side], trial.level, trial.settings.per)

    def run(self, task: Task, headline: str = "balanced_accuracy") -> Outcome:
        """Train every attacker; the one that did best on validation rows is chosen, test rows unseen."""
        [outcome] = self.run_many([(task, headline)])
        return outcome

    def run_many(self, tasks: Sequence[tuple[Task, str]]) -> Iterator[Outcome]:
        """The same for tasks of one or several releases, with their headlines; on a GPU all networks are one stack."""
        judged = [(task, *self._judged(task, headline)) for task, headline in tasks]
        if self.device != "cpu":  # a processor gains nothing by a stack, and would train who is stopped later
            learn_stacked([(attackers, judge) for _, attackers, judge in judged], self.device)
        return (self._decide(*given) for given in judged)

    def run_number(self, task: NumberTask) -> NumberOutcome:
        """Train every regressor on a number; which of them is told is chosen on validation rows."""
        some = slice(None)
        if len(task.Xa) > self.max_rows:
            some = np.random.default_rng(self.seed).permutation(len(task.Xa))[: self.max_rows]  # type: ignore[assignment]
        few_cells = self.counts and task.finite and len(task.Xa) >= ENOUGH * len(np.unique(task.Xa, axis=0))
        outcome = read_number(task, some, self.regressors, few_cells, self.seed, self.callback, self.budget)
        self.interrupted = self.interrupted or outcome.interrupted
        return outcome

    def _judged(self, task: Task, headline: str) -> tuple[dict[str, Attacker], _Judge]:
        """Who attacks, and who judges them."""
        attackers = self._suited(task)
        return attackers, _Judge(*self._rows(task), task.n_classes, headline, self.seed, len(attackers) > 1)

    def _decide(self, task: Task, attackers: Mapping[str, Attacker], judge: _Judge) -> Outcome:
        tested: dict[str, np.ndarray] = {}
        for name, make in attackers.items():
            self.callback(f"{task.attribute}: {name}", None, None)
            try:
                if tested and self.budget.spent:
                    raise KeyboardInterrupt
                if not judge.hear(name, make) and self.races and not task.finite:
                    continue
                tested[name] = judge.learn(name, make)(Columns(task.Xt, task.Rt))
            except KeyboardInterrupt:
                if not tested:
                    raise
                # what is finished is kept, and is all that the other attributes get: equal budgets
                self.interrupted, self.finished = True, list(tested)
                self.attackers = {n: m for n, m in self.attackers.items() if n in tested}
                self.shaped = tuple(n for n in self.shaped if n in tested)
                break
        if len(tested) > 1 and not self.interrupted and judge.unsure:
            self._hear_again(task, {n: attackers[n] for n in tested}, judge)
        held = {n: judge.held[n] for n in tested}
        scores = {n: judge.scores[n] for n in tested}
        chosen = max(scores, key=lambda n: scores[n])  # the surer of two that are equally right
        truth = judge.truth
        validation = (held[chosen], truth) if len(truth) else None
        if self.stacks and len(truth) and len(tested) > 1 and not self.interrupted:
            mixed, tested["stack"] = stack(held, truth, tested, judge.shares, self.seed)
            if judge.clearly_better(mixed, held[chosen]):
                chosen, validation = "stack", (mixed, truth)
        stopped = tuple(n for n in judge.scores if n not in {*tested, *judge.silent} and not self.interrupted)
        return Outcome(task, chosen, tested, validation, scores, held, stopped)

    def _hear_again(self, task: Task, attackers: Mapping[str, Attacker], judge: _Judge) -> None:
        """The folds that have not judged do so too: all attackers by all of them, or none."""
        rest: dict[str, np.ndarray] = {}
        try:
            for name, make in attackers.items():
                if self.budget.spent:
                    return
                self.callback(f"{task.attribute}: {name}, once more", None, None)
                rest[name] = judge.answer(name, make, judge.others)
        except KeyboardInterrupt:  # every attacker has been tested: the first fold's choice stands
            self.interrupted, self.finished = True, list(attackers)
            return
        judge.hear_all(rest)

    def _suited(self, task: Task) -> dict[str, Attacker]:
        """The attackers that can read this release."""
        if self.counts and task.finite and len(task.Xa) >= ENOUGH * task.n_classes * len(np.unique(task.Xa, axis=0)):
            return {"counting": lambda shape, m, seed: Counting()}
        attackers = dict(self.attackers)
        if self.budget.minutes is not None:  # who reads most comes first
            attackers = {n: attackers[n] for n in sorted(attackers, key=lambda n: n not in NAMING)}
        if task.finite:
            attackers["counting"] = lambda shape, m, seed: Counting()
        for name in self.shaped:
            attacker, axes = SHAPED[name]
            if len(task.shape) in axes:
                attackers[name] = lambda shape, m, seed, a=attacker: a(task.shape, seed)  # type: ignore[misc]
        if not attackers:
            raise InputError(
                f"{', '.join(self.shaped)} attackers read windows (channels, length) or images (channels, height, "
                f"width), but a released record has shape {task.shape}; choose others"
            )
        return attackers

    def _rows(self, task: Task) -> tuple[Columns, np.ndarray, np.ndarray | None]:
        """What attackers learn from, no more rows than `max_rows`."""
        X, y, units = Columns(task.Xa, task.Ra), task.ya, task.ua
        if len(X) > self.max_rows:
            some = np.random.default_rng(self.seed).permutation(len(X))[: self.max_rows]
            X, y, units = X[some], y[some], None if units is None else units[some]
        return X, y, units

    def result(self, outcome: Outcome, headline: str, level: float, per: str = "unit") -> Result:
        """The chosen attacker's measures, and every attacker's headline with its interval widened for showing all."""
        t = outcome.task
        wide = 1 - (1 - level) / len(outcome.probabilities)
        shown = {
            n: measure_of(headline, t.yt, p, outcome.prior, t.ut, wide, per) for n, p in outcome.probabilities.items()
        }
        answers = outcome.balanced if headline == "balanced_accuracy" else outcome.best.argmax(1)
        return Result(
            t.attribute,
            headline,
            outcome.chosen,
            **measures(t.yt, outcome.best, outcome.prior, t.ut, level, per),
            n=len(t.yt),
            n_units=len(t.yt) if t.ut is None else len(np.unique(t.ut)),
            attackers=shown,
            more=self._more(outcome, level, per),
            classes=t.classes,
            confusion=_confusion(t.yt, answers, t.n_classes),
        )

    def _more(self, outcome: Outcome, level: float, per: str) -> dict[str, Measure]:
        """What else the chosen attacker's probabilities say: F1, bits, rank of the truth, top five."""
        t, p, balanced = outcome.task, outcome.best, outcome.balanced
        ranks = log_rank(t.yt, p, t.ut, level)
        right = balanced_accuracy(t.yt, balanced, t.n_classes, t.ut, level, per=per)
        more = {
            "advantage over guessing": advantage(right),
            "macro F1": macro_f1(t.yt, balanced, t.n_classes, t.ut, level),
            "log-rank privacy": ranks.log_rank,
            "rank mean": ranks.rank_mean,
            "rank deviation": ranks.rank_sd,
            "rank of all but 10 %": rank_statement(ranks.ranks, 0.1, t.n_classes, t.ut, level),
        }
        if (error := self._nearest_neighbour(t, level)) is not None:
            more["1-NN error"] = error
        if outcome.validation is not None and len(np.unique(outcome.validation[1])) == t.n_classes:
            calibrated = calibrate(*outcome.validation)(p)
            more["bits leaked"] = bits_leaked(t.yt, calibrated, outcome.prior, t.ut, level)
        if t.n_classes > 5:
            more["top 5"] = top_k(t.yt, p, 5, t.ut, level)
        return more

    def _nearest_neighbour(self, t: Task, level: float) -> Measure | None:
        """Misclassification by the nearest released record of another unit; None where there is no other."""
        some = np.sort(np.random.default_rng(self.seed).permutation(len(t.yt))[:MAX_NEIGHBORS])
        units = None if t.ut is None else t.ut[some]
        if len(some) < 2 or (units is not None and len(np.unique(units)) < 2):
            return None
        return nearest_neighbour(t.Xt[some], t.yt[some], units, level)


class _Judge:
    """What decides between attackers: rows that they learn from, each answered by who did not learn from it."""

    def __init__(
        self,
        X: Columns,
        y: np.ndarray,
        units: np.ndarray | None,
        n_classes: int,
        headline: str,
        seed: int,
        choice: bool,
    ) -> None:
        self.X, self.y, self.n_classes, self.headline, self.seed = X, y, n_classes, headline, seed
        self.units = None if units is None else np.unique(units, return_inverse=True)[1]
        n_units = len(X) if self.units is None else int(self.units.max()) + 1
        self.fold = allot(y, np.ones(FOLDS), seed, units) if n_units >= FOLDS else np.full(len(y), -1)
        # few rows make a poor judge: then every fold takes its turn, else one is enough
        self.turns = range(FOLDS if len(y) <= FEW_ROWS and choice else 1) if n_units >= FOLDS else range(0)
        self.rows = np.isin(self.fold, list(self.turns))
        self.truth, self.shares = y[self.rows], class_shares(y, n_classes)
        self.balance = headline == "balanced_accuracy"
        self.held: dict[str, np.ndarray] = {}  # each attacker's answers to the rows that judge
        self.scores: dict[str, tuple[float, float]] = {}
        self.silent: set[str] = set()
        self.known: dict[tuple[str, int | None], Learned] = {}  # learned beforehand, in a stack

    def hear(self, name: str, make: Attacker) -> bool:
        """Judge an attacker; False: another one is clearly better, so that this one will not be chosen."""
        best = self.best
        self._judged(name, self.answer(name, make, self.turns)[self.rows])
        if best is None or name == NAMING[0] or not len(self.truth):
            return True
        return not self.clearly_better(self.held[best], self.held[name], BEHIND)

    @property
    def best(self) -> str | None:
        """Who is ahead so far."""
        return max(self.scores, key=lambda n: self.scores[n], default=None)

    @property
    def others(self) -> list[int]:
        """The folds that have not judged."""
        return [turn for turn in range(FOLDS) if turn not in self.turns] if len(self.truth) else []

    @property
    def unsure(self) -> bool:
        """Whether nobody is surely above guessing on the rows that judged, while others could judge too.

        By luck of one fold the worst may be chosen: a release of 8,140 people of which five attackers read .53 was told
        as .50, by a sixth.
        """
        if not self.others or self.best is None:
            return False
        blind = np.tile(self.shares, (len(self.truth), 1))
        return not self.clearly_better(self.held[self.best], blind, SURE)

    def hear_all(self, rest: Mapping[str, np.ndarray]) -> None:
        """Judge these attackers by all rows; `rest` are their answers to the folds that had not judged."""
        judged, self.rows, self.truth = self.rows, np.ones(len(self.y), bool), self.y
        for name, p in rest.items():
            p[judged] = self.held[name]
            self._judged(name, p)

    def answer(self, name: str, make: Attacker, turns: Iterable[int]) -> np.ndarray:
        """Answers to the rows of these folds by the attacker that learned from the others; elsewhere shares."""
        p = np.tile(self.shares, (len(self.y), 1))
        for turn in turns:
            if name in self.silent:
                break
            learned = self.known.pop((name, turn), None) or self.learned(make, turn)
            if learned.silent:  # who has nothing to say of most rows is not asked again
                self.silent.add(name)
                break
            inside = self.fold == turn
            p[inside] = learned(self.X[inside])
        return p

    def _judged(self, name: str, p: np.ndarray) -> None:
        self.held[name] = p
        score = measure_of(self.headline, self.truth, p, self.shares).value if len(self.truth) else 0.0
        self.scores[name] = score, -_log_loss(self.truth, p)

    def clearly_better(self, new: np.ndarray, old: np.ndarray, errors: float = 0.5) -> bool:
        """Whether one's answers to the rows that judge are better than another's, by more than chance of units."""
        units = None if self.units is None else self.units[self.rows]
        return clearly_better(self.truth, self.answers(new), self.answers(old), self.balance, errors, units)

    def learn(self, name: str, make: Attacker) -> Learned:
        """The attacker, from all rows."""
        if name in self.silent:
            return Learned(_Shares(self.shares), np.arange(self.n_classes), self.n_classes)
        return self.known.pop((name, None), None) or self.learned(make, None)

    def part(self, turn: int | None) -> tuple[Columns, np.ndarray]:
        """What is learned from: all rows, or those of the other folds."""
        rows = slice(None) if turn is None else self.fold != turn
        return self.X[rows], self.y[rows]

    def learned(self, make: Attacker, turn: int | None) -> Learned:
        return learn(make, *self.part(turn), self.n_classes, self.seed)

    def answers(self, p: np.ndarray) -> np.ndarray:
        """The answers that serve the headline."""
        answers: np.ndarray = (p / self.shares if self.balance else p).argmax(1)
        return answers


def learn_stacked(pairs: Sequence[tuple[Mapping[str, Attacker], _Judge]], device: str) -> None:
    """Train all networks of several tasks as one stack; each judge knows its own afterwards."""
    places, models, parts = [], [], []
    for attackers, judge in pairs:
        for name, make in attackers.items():
            for turn in (*judge.turns, None):
                X, y = judge.part(turn)
                classes = np.unique(y)
                model = make(X.shape, len(classes), judge.seed) if len(classes) > 1 else None
                if not isinstance(model, Perceptron):
                    break
                places.append((judge, name, turn, classes))
                models.append(model)
                parts.append((X.X, np.searchsorted(classes, y)))
    if models:
        fit_together(models, [X for X, _ in parts], [y for _, y in parts], device)
    for (judge, name, turn, classes), model in zip(places, models, strict=True):
        judge.known[name, turn] = Learned(model, classes, judge.n_classes)


class _Shares:
    """Answers how common each class is."""

    def __init__(self, shares: np.ndarray) -> None:
        self.shares = shares

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.tile(self.shares, (len(X), 1))


def counting(seed: int) -> AttackSuite:
    """The suite that counts which class each distinct release had; for a code nothing beats it."""
    return AttackSuite({"counting": lambda shape, m, s: Counting()}, seed)


class Learned:
    """A function from released rows to probabilities of all classes, also those the rows learned from did not have."""

    def __init__(self, model: Any, classes: np.ndarray, n_classes: int) -> None:
        self.model, self.classes, self.n_classes = model, classes, n_classes
        self.silent = bool(getattr(model, "silent", False))

    def __call__(self, rows: Columns | np.ndarray) -> np.ndarray:
        p = np.zeros((len(rows), self.n_classes))
        with _quiet():
            p[:, self.classes] = 1.0 if self.model is None else self.model.predict_proba(_reads(self.model, rows))
        return p


def learn(make: Attacker, X: Columns | np.ndarray, y: np.ndarray, n_classes: int, seed: int) -> Learned:
    """An attacker that learned from these rows."""
    classes = np.unique(y)
    model: Any = None
    if len(classes) > 1:
        model = make(X.shape, len(classes), seed)
        with _quiet():
            model.fit(_reads(model, X), np.searchsorted(classes, y))
    return Learned(model, classes, n_classes)


def _reads(model: Any, rows: Columns | np.ndarray) -> Any:
    """What an attacker is shown: the columns as they were handed over, or their encoding."""
    return rows.X if isinstance(rows, Columns) and not getattr(model, "reads_columns", False) else rows


def measure_of(
    headline: str, truth: np.ndarray, p: np.ndarray, prior: np.ndarray, units: np.ndarray | None = None,
    level: float = 0.95, per: str = "unit",
) -> Measure:  # fmt: skip
    """Accuracy, balanced accuracy or AUC of an attacker's probabilities."""
    if headline == "accuracy":
        return accuracy(truth, p.argmax(1), units, level, per=per)
    if headline == "balanced_accuracy":  # the best answer divides by how common a class is
        return balanced_accuracy(truth, (p / prior).argmax(1), p.shape[1], units, level, per=per)
    return macro_auc(truth, p, units, level, per=per)


def measures(
    truth: np.ndarray, p: np.ndarray, prior: np.ndarray, units: np.ndarray | None, level: float, per: str = "unit"
) -> dict[str, Measure]:
    """All three."""
    return {h: measure_of(h, truth, p, prior, units, level, per) for h in ("accuracy", "balanced_accuracy", "auc")}


def _log_loss(truth: np.ndarray, p: np.ndarray) -> float:
    return float(-np.log(np.maximum(p[np.arange(len(truth)), truth], 1e-6)).mean()) if len(truth) else 0.0


def _confusion(truth: np.ndarray, guess: np.ndarray, n_classes: int) -> tuple[tuple[int, ...], ...]:
    """How often each true class (row) was called each class (column)."""
    table = np.bincount(truth * n_classes + guess, minlength=n_classes**2).reshape(n_classes, n_classes)
    return tuple(tuple(map(int, row)) for row in table)


def class_shares(codes: np.ndarray, n_classes: int) -> np.ndarray:
    return np.maximum(np.bincount(codes, minlength=n_classes), 1) / len(codes)


class _quiet(warnings.catch_warnings):
    """Without the warnings of attackers that stop early, or that ask for names arrays do not have."""

    def __enter__(self) -> Any:
        log = super().__enter__()
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        return log
