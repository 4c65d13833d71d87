"""An attacker who knows raw columns of a person: what they give alone, and what the release adds to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tacit.auditing.measurements import Context, measurement
from tacit.auditing.received import plain, plain_frame, received_pair
from tacit.auditing.stats import balanced_accuracy, paired_gain
from tacit.auditing.suite import AttackSuite, Outcome
from tacit.auditing.trial import Trial
from tacit.errors import InputError
from tacit.filters.coupling import association
from tacit.filters.mechanism import sees_sensitive
from tacit.records.dataset import Dataset
from tacit.records.finite import learn_values
from tacit.records.people import Crowd
from tacit.report.findings import Finding
from tacit.report.results import ALL, ALONE, GAIN, KNOWS, AnyResult, Measure

CLASSES = 16  # that a column is cut into, to see how telling it is
MAX_ROWS = 20_000  # that say how telling it is
UNASKED = ("trees", "logistic")  # attackers that are quick, where nobody asked
TELLING = 3  # columns of the middle one of the sets that are taken where none is named

Known = tuple[str, tuple[str, ...]]  # what is known in words, and which columns that is


def _of_interest(trial: Trial) -> bool:
    """Whether knowledge was named, or the release depends on the sensitive columns."""
    return trial.settings.attacker_knows is not None or sees_sensitive(trial.release)


@measurement("attacker_knowledge", needs="a release", auto=_of_interest, place=25)
def attacker_knowledge(trial: Trial, context: Context) -> Iterable[Finding]:
    """Measure what raw columns of a person give an attacker, and how much the release adds to them.

    Without ``attacker_knows=`` the most telling columns are taken.
    """
    names = list(trial.attack.sensitive.columns)
    if trial.settings.attacker_knows is not None:
        sets = known_sets(trial.settings.attacker_knows, trial.attack)
        plan = [(known, names, len(sets)) for known in sets]
    else:
        classes = [i for i in range(len(names)) if trial.labels["sensitive"].number(i) is None]
        plan = [(known, [names[i]], len(sets)) for i in classes for sets in [telling_sets(trial, i)] for known in sets]
    for (called, columns), attributes, n_sets in plan:
        raw = "the whole raw record" if called == ALL else f"the raw {called}"
        results = _gains(trial, context.suite, list(columns), attributes, n_sets)
        context.attacked(f"{KNOWS}{called}", f"{raw} of the person, and the release", results)
    return []


def _gains(
    trial: Trial, suite: AttackSuite, columns: list[str], attributes: Sequence[str], n_sets: int
) -> dict[str, AnyResult]:
    """Attack with these raw columns next to the release, and with the columns alone."""
    raw = received_pair(*(raw_table(d)[columns] for d in trial.data))
    alone = trial.showing(raw)
    together = trial.showing([_beside(r, Z) for r, Z in zip(raw, trial.frames, strict=True)])
    suite = AttackSuite(UNASKED, suite.seed, suite.callback) if trial.settings.attacker_knows is None else suite
    level, per = 1 - (1 - trial.level) / n_sets, trial.settings.per  # the worst set is the headline's
    results: dict[str, AnyResult] = {}
    for i, name in enumerate(trial.attack.sensitive.columns):
        if name not in attributes or trial.labels["sensitive"].number(i) is not None:
            continue
        before, after = (suite.run(shown.task("sensitive", i)) for shown in (alone, together))
        if _on_validation(before) >= _on_validation(after):
            after = before  # whoever has the release may leave it aside
        t, answers = after.task, (after.balanced, before.balanced)
        known = balanced_accuracy(t.yt, before.balanced, t.n_classes, t.ut, level, per)
        gain = paired_gain(t.yt, *answers, t.ut, level, per)
        found = suite.result(after, "balanced_accuracy", level, per)
        results[name] = replace(found, more={**found.more, ALONE: known, GAIN: gain})
    return results


def known_sets(knows: Sequence[Any], data: Dataset) -> list[Known]:
    """Sets of raw columns by what they are called; an error for columns that are not there.

    Examples
    --------
    >>> people = Dataset(pd.DataFrame({"age": [30, 40], "job": ["a", "b"]}), None, pd.Series(["f", "m"], name="sex"))
    >>> known_sets([["age"], "all"], people)
    [('age', ('age',)), ('all', ('age', 'job'))]
    """
    names = list(raw_table(data).columns) if knows else []
    every = tuple(c for c in names if c not in data.y)
    sets = []
    for columns in knows:
        chosen = every if isinstance(columns, str) and columns == ALL else columns
        chosen = (chosen,) if isinstance(chosen, str) else tuple(map(str, chosen))
        wrong = [repr(c) for c in chosen if c not in names] or ([] if chosen else ["no column"])
        if wrong:
            raise InputError(f"attacker_knows names {wrong[0]}; the raw columns are {', '.join(names)}")
        sets.append((ALL if chosen == every else ", ".join(chosen), chosen))
    return sets


def telling_sets(trial: Trial, column: int) -> list[Known]:
    """The raw column that tells most of a sensitive one, the three that do, and all: by the attackers' rows alone."""
    rows = np.random.default_rng(trial.settings.seed).permutation(len(trial.attack))[:MAX_ROWS]
    table = raw_table(trial.attack).iloc[rows].reset_index(drop=True)
    s = trial.codes("sensitive", column)[0][rows]
    names = [str(c) for c in table if c not in trial.attack.y]
    told = {}
    for name in names:
        values = learn_values(name, table[name], CLASSES, Crowd(len(table)))
        told[name] = 0.0 if isinstance(values, str) else association(values.codes(table[name]), s, int(s.max()) + 1)
    ranked = sorted(names, key=lambda name: -told[name])
    sizes = [k for k in (1, TELLING) if k < len(names)]
    return known_sets([*(ranked[:k] for k in sizes), ALL], trial.attack)


def raw_table(data: Dataset) -> pd.DataFrame:
    """What somebody may know of a person: the columns of X and the targets, but no sensitive one."""
    if len(np.shape(data.X)) != 2:
        raise InputError(f"attacker_knows names columns of a table, but a record of X has shape {np.shape(data.X)[1:]}")
    table = plain_frame(data.X)
    if not isinstance(data.X, pd.DataFrame):
        table = table.set_axis([f"x{i}" for i in range(table.shape[1])], axis=1)
    more = {c: data.y[c].to_numpy() for c in data.y if c not in table}
    table = table.assign(**more)
    return table.set_axis([str(c) for c in table], axis=1).drop(columns=[c for c in data.sensitive if c in table])


def _beside(raw: pd.DataFrame, released: pd.DataFrame) -> pd.DataFrame:
    """What is known and what was released, side by side, and where a column stands in both, how they differ."""
    known, seen = plain(raw), plain(released)
    out = pd.concat([known.add_prefix("known "), seen], axis=1)
    more = {}
    for c in known:
        if c in seen:
            one, two = known[c], seen[c]
            if all(pd.api.types.is_numeric_dtype(x) and not pd.api.types.is_bool_dtype(x) for x in (one, two)):
                more[f"change of {c}"] = one.to_numpy(float, na_value=np.nan) - two.to_numpy(float, na_value=np.nan)
            else:
                more[f"{c} is as it was"] = (one.astype(str) == two.astype(str)).to_numpy(float)
    return out.assign(**more)


def _on_validation(outcome: Outcome) -> float:
    """How well the chosen attacker did on the rows it was chosen on."""
    if outcome.validation is None:
        return 0.0
    p, truth = outcome.validation
    return Measure(*balanced_accuracy(truth, (p / outcome.prior).argmax(1), p.shape[1])).value
