"""The bench: the same attackers, with the same budget, for every release."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

from tacit.audit.attackers import Counting, Maker
from tacit.audit.certificate import release_cells
from tacit.audit.columns import Columns, receiver_frame
from tacit.audit.likeness import nearest_neighbour
from tacit.audit.measures import advantage, bits_leaked, calibrate, log_rank, macro_f1, rank_statement, top_k
from tacit.audit.released import known_classes, plain
from tacit.audit.signals import QUICK_SHAPED, SHAPED
from tacit.audit.stats import Measure, accuracy, balanced_accuracy, macro_auc
from tacit.audit.weighing import clearly_better, stack
from tacit.errors import InputError
from tacit.labels import MISSING, encode_labels
from tacit.records.dataset import Dataset, allot
from tacit.records.encoding import make_encoder
from tacit.report.results import Result

FOLDS = 4  # a quarter of the attackers' own rows says which attacker is reported
FEW_ROWS = 3000
MOST_ROWS = {"quick": 12_000, "strong": 30_000}  # that an attacker learns from
OTHERWISE = 20_000
MOST_NEIGHBOURS = 2000  # released records among which each looks for its nearest


@dataclass(frozen=True)
class Contest:
    """One attribute to be read from one release: what attackers learn from, and what they are tested on."""

    attribute: str
    n_classes: int
    Xa: np.ndarray
    ya: np.ndarray
    ua: np.ndarray | None
    Xt: np.ndarray
    yt: np.ndarray
    ut: np.ndarray | None
    finite: bool
    shape: tuple[int, ...]  # of one released record: a row, a window or an image
    rows: np.ndarray  # of `test` whose label is known
    classes: tuple[str, ...]
    Ra: pd.DataFrame  # the released columns as a receiver holds them, bits and letters as they are
    Rt: pd.DataFrame


@dataclass(frozen=True)
class Outcome:
    """Every attacker's probabilities on the test rows, and the attacker chosen on validation rows."""

    contest: Contest
    chosen: str
    probabilities: Mapping[str, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray] | None  # the chosen one's probabilities there, and the truth
    scores: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # by which it was chosen
    held: Mapping[str, np.ndarray] = field(default_factory=dict)  # every attacker's probabilities there

    def only(self, names: Collection[str]) -> Outcome:
        """The same as if no other attackers had been there."""
        scores = {n: s for n, s in self.scores.items() if n in names}
        chosen = max(scores, key=lambda n: scores[n])
        validation = None if self.validation is None else (self.held[chosen], self.validation[1])
        probabilities = {n: p for n, p in self.probabilities.items() if n in scores}
        held = {n: p for n, p in self.held.items() if n in scores}
        return Outcome(self.contest, chosen, probabilities, validation, scores, held)

    @property
    def best(self) -> np.ndarray:
        return self.probabilities[self.chosen]

    @property
    def prior(self) -> np.ndarray:
        """How common each class is among the rows attackers learned from."""
        return class_shares(self.contest.ya, self.contest.n_classes)


class Bench:
    """Trains attackers on one part, chooses one on a validation part of the same rows, tests on another."""

    def __init__(
        self,
        makers: Mapping[str, Maker | None],
        level: float,
        seed: int,
        preset: str | None = None,
        tell: Callable[[str], None] | None = None,
        per: str = "unit",
    ) -> None:
        # attackers that need a record's shape are made when it is known; presets have them all
        self.makers = {name: make for name, make in makers.items() if make is not None}
        named = tuple(n for n in makers if n in SHAPED)
        self.shaped = {"quick": QUICK_SHAPED, "strong": tuple(SHAPED)}.get(preset or "", named)
        self.stacks = preset in MOST_ROWS  # a list of attackers is taken as it is
        self.level, self.seed, self.per = level, seed, per
        self.tell = tell or (lambda text: None)
        self._state = {"interrupted": False}
        self.most_rows = MOST_ROWS.get(preset or "", OTHERWISE)

    @property
    def interrupted(self) -> bool:
        """Whether somebody pressed Ctrl-C; `makers` are then the attackers that finished everywhere."""
        return self._state["interrupted"]

    def stop(self) -> None:
        """Nothing more is to be run: somebody pressed Ctrl-C."""
        self._state["interrupted"] = True

    def at_level(self, level: float) -> Bench:
        """The same attackers, whose results hold at another confidence; an interrupt of one stops both."""
        twin = copy.copy(self)
        twin.level = level
        return twin

    def run(self, Za: Any, attack: Dataset, Zt: Any, test: Dataset, side: str, headline: str) -> dict[str, Result]:
        """Attack every column of `y` or of `sensitive`."""
        contests = self.contests(Za, attack, Zt, test, side)
        return {c.attribute: self.result(self.fight(c, headline), headline) for c in contests}

    def contests(self, Za: Any, attack: Dataset, Zt: Any, test: Dataset, side: str) -> Iterator[Contest]:
        """One contest per label column; releases become standardised numbers, learned on the attackers' part."""
        encoder = make_encoder(plain(Za))
        Xa, Xt = (encoder.transform(plain(Z)).reshape(len(Z), -1) for Z in (Za, Zt))
        finite = release_cells(np.concatenate([Xa, Xt])) is not None
        Ra, Rt = receiver_frame(Za), receiver_frame(Zt)
        frames = getattr(attack, side), getattr(test, side)
        for column in frames[0].columns:
            classes = known_classes(frames, column)
            ya, yt = (encode_labels(f[[column]], column, len(f), classes).codes[:, 0] for f in frames)
            ka, kt = ya != MISSING, yt != MISSING
            if len(np.unique(ya[ka])) < 2 or kt.sum() < 2:
                raise InputError(
                    f"{column!r} has {len(np.unique(ya[ka]))} classes in `attack` and {kt.sum()} known labels "
                    f"in `test`; attackers need two classes and two rows: use larger parts"
                )
            ua, ut = (None if (u := d.units_of(column)) is None else u[k] for d, k in ((attack, ka), (test, kt)))
            yield Contest(
                column, len(classes[0]), Xa[ka], ya[ka], ua, Xt[kt], yt[kt], ut, finite, np.shape(Zt)[1:],
                np.flatnonzero(kt), tuple(map(str, classes[0])), Ra if ka.all() else Ra[ka], Rt if kt.all() else Rt[kt],
            )  # fmt: skip

    def fight(self, contest: Contest, headline: str) -> Outcome:
        """Train every attacker; the one that did best on validation rows is chosen, test rows unseen."""
        makers = dict(self.makers)
        if contest.finite:
            makers["counting"] = lambda shape, m, seed: Counting()
        for name in self.shaped:
            attacker, axes = SHAPED[name]
            if len(contest.shape) in axes:
                makers[name] = lambda shape, m, seed, a=attacker: a(contest.shape, seed)  # type: ignore[misc]
        if not makers:
            raise InputError(
                f"{', '.join(self.shaped)} attackers read windows (channels, length) or images (channels, height, "
                f"width), but a released record has shape {contest.shape}; choose others"
            )
        y, units = contest.ya, contest.ua
        X, Xt = Columns(contest.Xa, contest.Ra), Columns(contest.Xt, contest.Rt)
        if len(X) > self.most_rows:
            some = np.random.default_rng(self.seed).permutation(len(X))[: self.most_rows]
            X, y, units = X[some], y[some], None if units is None else units[some]
        n_units = len(X) if units is None else len(np.unique(units))
        fold = allot(y, np.ones(FOLDS), self.seed, units) if n_units >= FOLDS else np.full(len(y), -1)
        # few rows make a poor judge: then every fold takes its turn, else one is enough
        turns = range(FOLDS if len(y) <= FEW_ROWS and len(makers) > 1 else 1) if n_units >= FOLDS else ()
        held = np.isin(fold, list(turns))
        shares = class_shares(y, contest.n_classes)
        chosen, outcomes = "", {}
        best = (-1.0, -np.inf)
        validation = None
        held_p: dict[str, np.ndarray] = {}
        scores: dict[str, tuple[float, float]] = {}
        for name, make in makers.items():
            self.tell(f"{contest.attribute}: {name}")
            try:
                learned = self._learn(make, X, y, contest.n_classes)
                score, p = 0.0, np.tile(shares, (len(y), 1))
                # who has nothing to say of all rows is not asked again about parts of them
                for turn in turns if not learned.silent else ():
                    inside = fold == turn
                    p[inside] = self._learn(make, X[~inside], y[~inside], contest.n_classes)(X[inside])
                if held.any():
                    score = measures(y[held], p[held], shares, None, self.level)[headline].value
                outcomes[name] = learned(Xt)
            except KeyboardInterrupt:
                if not outcomes:
                    raise
                # what is finished is kept, and is all that the other attributes get: equal budgets
                finished = {n: m for n, m in makers.items() if n in outcomes}
                self.stop()
                self.makers.clear()
                self.makers.update(finished)
                break
            held_p[name] = p[held]
            scores[name] = judged = (score, -_log_loss(y[held], p[held]))
            if judged > best:  # the surer of two that are equally right
                chosen, best = name, judged
                validation = (p[held], y[held]) if held.any() else None
        if self.stacks and held.any() and len(outcomes) > 1 and not self.interrupted:
            p_held, outcomes["stack"] = stack(held_p, y[held], outcomes, shares, self.seed)
            balance = headline == "balanced_accuracy"
            new, old = ((q / shares if balance else q).argmax(1) for q in (p_held, held_p[chosen]))
            if clearly_better(y[held], new, old, balance):
                chosen, validation = "stack", (p_held, y[held])
        return Outcome(contest, chosen, outcomes, validation, scores, held_p)

    def result(self, outcome: Outcome, headline: str) -> Result:
        """The chosen attacker's measures, and every attacker's headline with its interval widened for showing all."""
        c = outcome.contest
        wide = 1 - (1 - self.level) / len(outcome.probabilities)
        shown = {
            n: measures(c.yt, p, outcome.prior, c.ut, wide, self.per)[headline]
            for n, p in outcome.probabilities.items()
        }
        return Result(
            c.attribute,
            headline,
            outcome.chosen,
            **measures(c.yt, outcome.best, outcome.prior, c.ut, self.level, self.per),
            n=len(c.yt),
            n_units=len(c.yt) if c.ut is None else len(np.unique(c.ut)),
            attackers=shown,
            more=self._more(outcome),
            classes=c.classes,
            confusion=_confusion(
                c.yt, _balanced(outcome) if headline == "balanced_accuracy" else outcome.best.argmax(1), c.n_classes
            ),
        )

    def _more(self, outcome: Outcome) -> dict[str, Measure]:
        """What else the chosen attacker's probabilities say: F1, bits, rank of the truth, top five."""
        c, p = outcome.contest, outcome.best
        balanced = _balanced(outcome)
        ranks = log_rank(c.yt, p, c.ut, self.level)
        right = balanced_accuracy(c.yt, balanced, c.n_classes, c.ut, self.level, per=self.per)
        more = {
            "advantage over guessing": advantage(right),
            "macro F1": macro_f1(c.yt, balanced, c.n_classes, c.ut, self.level),
            "log-rank privacy": ranks.log_rank,
            "rank mean": ranks.rank_mean,
            "rank deviation": ranks.rank_sd,
            "rank of all but 10 %": rank_statement(ranks.ranks, 0.1, c.n_classes, c.ut, self.level),
        }
        if (error := self._nearest_neighbour(c)) is not None:
            more["1-NN error"] = error
        if outcome.validation is not None and len(np.unique(outcome.validation[1])) == c.n_classes:
            calibrated = calibrate(*outcome.validation)(p)
            more["bits leaked"] = bits_leaked(c.yt, calibrated, outcome.prior, c.ut, self.level)
        if c.n_classes > 5:
            more["top 5"] = top_k(c.yt, p, 5, c.ut, self.level)
        return more

    def _nearest_neighbour(self, c: Contest) -> Measure | None:
        """Misclassification by the nearest released record of another unit; None where there is no other."""
        some = np.sort(np.random.default_rng(self.seed).permutation(len(c.yt))[:MOST_NEIGHBOURS])
        units = None if c.ut is None else c.ut[some]
        if len(some) < 2 or (units is not None and len(np.unique(units)) < 2):
            return None
        return nearest_neighbour(c.Xt[some], c.yt[some], units, self.level)

    def _learn(self, make: Maker, columns: Columns, y: np.ndarray, n_classes: int) -> _Learned:
        classes = np.unique(y)
        model: Any = None
        if len(classes) > 1:
            model = make(columns.shape, len(classes), self.seed)
            with _quiet():
                model.fit(_reads(model, columns), np.searchsorted(classes, y))
        return _Learned(model, classes, n_classes)


class _Learned:
    """A function from released rows to probabilities of all classes, also those the rows learned from did not have."""

    def __init__(self, model: Any, classes: np.ndarray, n_classes: int) -> None:
        self.model, self.classes, self.n_classes = model, classes, n_classes
        self.silent = bool(getattr(model, "silent", False))

    def __call__(self, rows: Columns) -> np.ndarray:
        p = np.zeros((len(rows), self.n_classes))
        with _quiet():
            p[:, self.classes] = 1.0 if self.model is None else self.model.predict_proba(_reads(self.model, rows))
        return p


def _reads(model: Any, columns: Columns) -> Any:
    """What an attacker is shown: the columns as they were handed over, or their encoding."""
    return columns if getattr(model, "reads_columns", False) else columns.X


def measures(
    truth: np.ndarray, p: np.ndarray, prior: np.ndarray, units: np.ndarray | None, level: float, per: str = "unit"
) -> dict[str, Measure]:
    """Accuracy, balanced accuracy and AUC of an attacker's probabilities."""
    return {
        "accuracy": accuracy(truth, p.argmax(1), units, level, per=per),
        # for balanced accuracy the best answer divides by how common a class is
        "balanced_accuracy": balanced_accuracy(truth, (p / prior).argmax(1), p.shape[1], units, level, per=per),
        "auc": macro_auc(truth, p, units, level, per=per),
    }


def _log_loss(truth: np.ndarray, p: np.ndarray) -> float:
    return float(-np.log(np.maximum(p[np.arange(len(truth)), truth], 1e-6)).mean()) if len(truth) else 0.0


def _balanced(outcome: Outcome) -> np.ndarray:
    """The answers that serve balanced accuracy: how common a class is, is divided out."""
    answers: np.ndarray = (outcome.best / outcome.prior).argmax(1)
    return answers


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
