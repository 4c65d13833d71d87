"""The accuracy-privacy curve of a filter over its noise (DPFE, procedure 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.neighbors import KNeighborsClassifier

from papers.common.information_bounds import distance_bound
from papers.common.kernel_ranks import kernel_log_rank
from tacit.auditing.attackers import resolve
from tacit.auditing.measures import bits_leaked, calibrate, log_rank, mean_measure, rank_statement
from tacit.auditing.stats import Measure, accuracy, balanced_accuracy
from tacit.auditing.suite import AttackSuite, Outcome
from tacit.auditing.trial import Task, Trial
from tacit.errors import InputError, check_number
from tacit.labels import MISSING, encode_labels
from tacit.records.dataset import Dataset

ATTACKERS = ("logistic", "mlp", "forest", "neighbors")
OWN_KERNELS = 15  # records of each person from which a covariance of ten numbers can be told
HEDGE = 0.01  # a class that an attacker rules out wrongly would cost calibration everything


def noise_curve(
    f: Any,
    attack: Dataset,
    test: Dataset,
    ratios: Sequence[float] | None = None,
    *,
    attackers: str | Sequence[Any] = ATTACKERS,
    draws: int = 1,
    level: float = 0.95,
    seed: int = 0,
    tell: Callable[[str], None] | None = None,
) -> pd.DataFrame:
    """Accuracy of the cloud half and privacy of the secret at every noise ratio of one fitted filter.

    The noise is added before the attackers learn *and* when they are tested. The log-rank is that of the attacker
    chosen on validation rows, with calibrated probabilities (where they rank better); the 1-NN knows the released
    attack rows. Validation rows are other *units* of the attack part, so the units there must be to each other what
    the attack part is to the test: where each person has one recording, pieces of it.

    Parameters
    ----------
    f : a fitted filter with ``noise_ratio``, ``answer`` and one sensitive column in the data (`tacit.DPFE`)
    attack, test : records the filter has not seen, of the same people
    ratios : None takes the filter's own grid
    draws : independent noises of every record, for small data. An attacker who has raw records and the (public)
        filter can draw as many; records stay the units of the intervals

    Returns
    -------
    One row per ratio: ``ratio``, ``attacker``, and for each of ``accuracy`` (mean over the targets), ``log_rank``,
    ``rank_mean``, ``rank_of_90`` (nine in ten have at least this rank), ``nn_error``, ``identified`` (the chosen
    attacker's accuracy), ``identified_balanced`` (the mean of its recalls) and ``bits`` (at least so many are told) a
    value, ``_low``, ``_high`` and ``_guessing``; every target's own accuracy; ``bits_bound``, at most so many (U2); and
    with ``kernel_`` before it, what the authors' own reader finds, a kernel density per person (``kernels``: which).
    """
    check_number("draws", draws, 1, whole=True)
    if test.sensitive.shape[1] != 1:
        raise InputError(f"a curve is of one secret; the data has {list(test.sensitive.columns)}: keep one column")
    suite = AttackSuite(resolve(attackers), seed)
    rows = []
    for ratio in f.knob.values if ratios is None else ratios:
        at = f.with_noise(float(ratio))
        copies = [at if i == 0 else at.redraw() for i in range(draws if ratio else 1)]
        Za, Zt = (np.concatenate([c.transform(d.X) for c in copies]) for d in (attack, test))
        many_attack, many_test = (_repeat(d, len(copies)) for d in (attack, test))
        (task,) = Trial((many_attack, many_test), (Za, Zt)).tasks("sensitive")
        row: dict[str, Any] = {"ratio": float(ratio)}
        row |= _kept(at, Zt, many_test, level)
        row |= _hidden(suite, task, level)
        row |= _as_the_authors_read(task, _kernels(attack), level)
        row["bits_bound"] = _most_bits(at, test, float(ratio))
        rows.append(row)
        if tell is not None:
            tell(", ".join(f"{k} {row[k]:.3f}" for k in ("ratio", "accuracy", "log_rank", "nn_error", "identified")))
    return pd.DataFrame(rows)


def _repeat(data: Dataset, times: int) -> Dataset:
    """The same records several times over; each keeps its unit, or becomes one."""
    rows = np.tile(np.arange(len(data)), times)
    again = data.take(rows)
    if data.units is not None or times == 1:
        return again
    return Dataset(again.X, again.y, again.sensitive, units=rows, name=data.name)


def _kept(f: Any, Z: np.ndarray, test: Dataset, level: float) -> dict[str, Any]:
    """Procedure 2's a_r: the cloud half answers from the noisy code."""
    answers = f.answer(Z)
    right, row = [], dict[str, Any]()
    for name, classes in zip(answers.columns, f.classes_, strict=True):
        truth = encode_labels(test.y[[name]], name, len(test), [classes]).codes[:, 0]
        guess = encode_labels(answers[[name]], name, len(test), [classes]).codes[:, 0]
        known = truth != MISSING
        right.append(np.where(known, truth == guess, np.nan))
        units = test.units_of(name)
        of = accuracy(truth[known], guess[known], None if units is None else units[known], level)
        row |= _named(f"accuracy of {name}", of)
    together = np.nanmean(right, axis=0)
    known = ~np.isnan(together)
    guessing = float(np.mean([row[f"accuracy of {name}_guessing"] for name in answers.columns]))
    units = test.units_of()
    of = mean_measure(together[known], guessing, None if units is None else units[known], level)
    return {**_named("accuracy", of), **row}


def _hidden(suite: AttackSuite, task: Task, level: float) -> dict[str, Any]:
    """Procedure 2's p_r: log-rank privacy of the best attacker, and the nearest neighbour's error."""
    outcome = suite.run(task, "accuracy")
    p = _calibrated(outcome)
    ranks = log_rank(task.yt, p, task.ut, level)
    nearest = KNeighborsClassifier(1).fit(task.Xa, task.ya).predict(task.Xt)
    found = accuracy(task.yt, nearest, task.ut, level)
    error = Measure(1 - found.value, 1 - found.high, 1 - found.low, 1 - found.guessing)
    return {
        "attacker": outcome.chosen,
        **_named("log_rank", ranks.log_rank),
        **_named("rank_mean", ranks.rank_mean),
        "rank_sd": ranks.rank_sd.value,
        **_named("bits", bits_leaked(task.yt, p, units=task.ut, level=level)),
        **_named("rank_of_90", rank_statement(ranks.ranks, 0.1, ranks.n_classes, task.ut, level)),
        **_named("nn_error", error),
        **_named("identified", accuracy(task.yt, p.argmax(axis=1), task.ut, level)),
        # the answer that serves the mean of recalls divides by how common a class is
        **_named(
            "identified_balanced",
            balanced_accuracy(task.yt, (p / outcome.prior).argmax(axis=1), task.n_classes, task.ut, level),
        ),
    }


def _as_the_authors_read(task: Task, shape: str, level: float) -> dict[str, Any]:
    """The same measures by the paper's own attacker, a kernel density per person."""
    ranks = kernel_log_rank(task.Xa, task.ya, task.Xt, task.yt, task.n_classes, shape, task.ut, level)
    return {
        "kernels": shape,
        **_named("kernel_log_rank", ranks.log_rank),
        **_named("kernel_rank_mean", ranks.rank_mean),
        "kernel_rank_sd": ranks.rank_sd.value,
        "kernel_above_tenth": float((ranks.ranks > 0.1).mean()),
    }


def _kernels(attack: Dataset) -> str:
    """The authors' script takes a person's own covariance, which few records do not have: then the text's."""
    return "own" if attack.sensitive.iloc[:, 0].value_counts().min() > OWN_KERNELS else "common"


def _most_bits(f: Any, test: Dataset, ratio: float) -> float | None:
    """U2 in bits (eq. 5), of the test records with this noise; there is none without noise."""
    if not ratio:
        return None
    values, vectors = np.linalg.eigh(f.covariance_)
    code = f.noiseless(test.X) @ (vectors / np.sqrt(np.maximum(values, 1e-12)))  # where the noise is r I
    return distance_bound(code, test.sensitive.iloc[:, 0].to_numpy(), ratio) / np.log(2)


def _calibrated(outcome: Outcome) -> np.ndarray:
    """The chosen attacker's probabilities, calibrated unless that made its ranks on validation rows worse."""
    p = outcome.best
    if outcome.validation is None:
        return p
    held, truth = outcome.validation
    hedged = [(1 - HEDGE) * q + HEDGE / q.shape[1] for q in (held, p)]
    calibrated = calibrate(hedged[0], truth)
    worse = log_rank(truth, calibrated(hedged[0])).log_rank.value > log_rank(truth, held).log_rank.value
    return p if worse else calibrated(hedged[1])


def _named(name: str, m: Measure) -> dict[str, float]:
    return {name: m.value, f"{name}_low": m.low, f"{name}_high": m.high, f"{name}_guessing": m.guessing}
