"""What changed from one release to another, measured on the same rows: attackers of both, answer by answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.auditing.number_stats import r_squared_gain
from tacit.auditing.regression import number_result
from tacit.auditing.stats import paired_gain
from tacit.auditing.suite import HEADLINE, AttackSuite, Outcome
from tacit.auditing.trial import Trial
from tacit.callback import Callback, silent
from tacit.errors import InputError
from tacit.records.dataset import Dataset
from tacit.report.difference import LEAKAGE, PAIRED, Change, Difference
from tacit.report.results import Measure


def paired_change(
    old: Any,
    new: Any,
    attack: Dataset,
    test: Dataset,
    attackers: Any = "quick",
    level: float = 0.95,
    random_state: int = 0,
    callback: Callback = silent,
) -> Difference:
    """Attack two releases of the same records alike, and compare the answers row by row.

    Parameters
    ----------
    old, new : anything with ``transform``, or pairs of released arrays of `attack` and `test`
    attack, test : rows that neither was fitted on; rows that one of them knows from its fit are left out of both
    attackers, level, random_state, callback : as of `tacit.audit`; every interval holds at this level together with
        the other intervals of its side

    Examples
    --------
    >>> import tacit
    >>> _, attack, test = tacit.load_dataset("quadrants", n=900).split()
    >>> raw = (attack.X, test.X)
    >>> [c.sentence for c in paired_change(raw, raw, attack, test, "logistic").changes if c.figure == "leakage"]
    ['leakage of shape: 1.000 to 1.000, +.000 (+.000 to +.000)']
    """
    trials = [Trial.of(release, attack, test) for release in (old, new)]
    unseen = [~(a | b) for a, b in zip(trials[0].seen, trials[1].seen, strict=True)]
    if not all(u.all() for u in unseen):
        if min(u.sum() for u in unseen) < 2:
            raise InputError("every row was used to fit one of the two releases; compare them on rows of their own")
        trials = [t.take(*unseen) for t in trials]
    suite = AttackSuite(attackers, random_state, callback)
    changes = []
    for side, figure in (("sensitive", LEAKAGE), ("y", "utility")):
        tasks = [t.tasks(side) for t in trials]
        share = 1 - (1 - level) / max(1, getattr(test, side).shape[1])
        for pair in zip(*tasks, strict=True):
            outcomes = [suite.run(task, HEADLINE[side]) for task in pair]
            before, after = (suite.result(o, HEADLINE[side], share).value for o in outcomes)
            m = _gain(outcomes[1], outcomes[0], side, share)
            changes.append(Change(figure, pair[0].attribute, before, after, m.low, m.high))
        for numbers in zip(*(t.number_tasks(side) for t in trials), strict=True):
            old_read, new_read = (suite.run_number(task) for task in numbers)
            before, after = (number_result(o, share).value for o in (old_read, new_read))
            t = numbers[1]
            m = r_squared_gain(t.yt, new_read.best, old_read.best, t.ut, share)
            changes.append(Change(figure, t.attribute, before, after, m.low, m.high))
    return Difference(tuple(changes), level, PAIRED)


def _gain(new: Outcome, old: Outcome, side: str, level: float) -> Measure:
    """How much more often the new answers are right than the old ones, on the same rows."""
    truth, units = new.task.yt, new.task.ut
    if side == "sensitive":
        return paired_gain(truth, new.balanced, old.balanced, units, level)
    right = [(o.best.argmax(1) == truth).astype(int) for o in (new, old)]
    return paired_gain(np.ones(len(truth), dtype=int), right[0], right[1], units, level)  # one class: plain accuracy
