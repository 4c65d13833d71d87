"""`tacit.audit`: release fresh rows, train attackers on one part, measure them on another."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.auditing.attacks import run_attacks
from tacit.auditing.attacks.knowledge import known_sets
from tacit.auditing.breadth import measure_breadth
from tacit.auditing.budget import Budget
from tacit.auditing.certification import Certified, Terms, certify_few_columns, certify_trial, columns_to_certify
from tacit.auditing.changed_table import measure_change
from tacit.auditing.exposure import exposure, subgroups
from tacit.auditing.floor import NO_FLOOR, measure_floor
from tacit.auditing.forgotten_units import forgotten_units
from tacit.auditing.linkability import measure_linkability
from tacit.auditing.regressors import COUNTED
from tacit.auditing.released_values import changed_since, count_released
from tacit.auditing.resemblance import resemblance
from tacit.auditing.singling_out import measure_singling_out
from tacit.auditing.stats import smallest_detectable
from tacit.auditing.suite import HEADLINE, AttackSuite, Outcome
from tacit.auditing.trial import Asked, Trial, can_tell, has_noise
from tacit.callback import Callback, silent
from tacit.errors import InputError, TacitWarning, check_number
from tacit.filters.mechanism import sees_sensitive
from tacit.records.dataset import Dataset
from tacit.records.intake import encoded_once
from tacit.report.report import Report, Settings, provenance
from tacit.report.results import AnyResult, AttackResult, NumberResult, Resemblance


def audit(
    release: Any,
    attack: Dataset,
    test: Dataset,
    attackers: str | Sequence[Any] = "quick",
    alongside: Sequence[str] | None = None,
    *,
    train: Dataset | None = None,
    views: Sequence[Any] = (),
    pooled: Sequence[int] = (5, 20),
    scan: bool = False,
    groups: Sequence[str] = (),
    reconstruct: bool | None = None,
    embed: Callable[[np.ndarray], np.ndarray] | None = None,
    examples: int = 0,
    candidates: int = 1,
    confidence_level: float = 0.95,
    per: str = "unit",
    max_unit_size: int | None = None,
    floor: bool = True,
    limit: bool | None = None,
    breadth: bool | None = None,
    knows: Sequence[Any] | None = None,
    few_columns: int | None = None,
    linkability: bool | None = None,
    singling_out: bool | None = None,
    minutes: float | None = None,
    name: str | None = None,
    random_state: int = 0,
    callback: Callback = silent,
) -> Report:
    """Measure what a release keeps and what it gives away.

    Attackers learn from the released `attack` rows and are measured on the released `test` rows.
    Rows that the filter was fitted on are noticed, taken out, and reported apart as "in-sample".
    Where the release is finite (a code), a certificate bounds *any* attacker.

    Parameters
    ----------
    release : anything with ``transform``; a pair of released arrays (for `attack` and `test`);
        or None for the raw data
    attack, test : data sets with targets and sensitive attributes
    attackers : a preset ("quick", "strong") or a list of names and scikit-learn classifiers. A release of a few cells
        is counted, which no attacker can beat; "all" trains the strong ones on it too
    alongside : columns of X that travel with the release; attacked and certified together with it
    train : the rows the filter was fitted on, to see how much more they leak, and whether an attacker can
        tell that a record was among them
    views : other releases of the same records, read together with this one
    pooled : numbers of releases of one unit that an attacker reads together
    scan : also find which other columns of X the release gives away
    groups : columns of X by which leakage is also shown, beside the label columns
    reconstruct : regress the raw records on their releases (None: in the "strong" preset)
    embed : images -> (n, d) embeddings; then the similarity of releases to their originals is measured
    examples : how many windows or images the report shows beside their reconstructions. They are real records
        of `test`: 0, the default, keeps them out of the report
    candidates : how many releases, fixed beforehand, are certified on these rows to choose among; each
        gets its share of the error
    confidence_level : of the intervals and of the certificate
    per : whose average is meant where people have several records: "unit" counts everybody alike, "record" every
        record
    max_unit_size : how many records a unit can have at most, known beforehand: a certificate per record needs it
    floor : also show what the predicted label alone keeps and gives away
    limit : estimate the best any release could do (None: where that takes seconds)
    breadth : how much of every column of X, and of the targets, can still be told from the release (None: where that
        takes seconds, so not of windows or images)
    knows : sets of raw columns that an attacker knows of the person, such as ``[["age"], ["age", "race"], "all"]``:
        what each gives alone, what with the release, and the gain (None: the most telling ones, where the release
        looks at the sensitive columns; () for none)
    few_columns : certify whoever reads any so many released columns and no more, 2 or 3 (None: 2 where the release
        looks at the sensitive columns, whose columns are all finite; 0 for none)
    linkability : whether two releases can be recognised as one person's, whom the attacker has never seen (None: where
        that takes seconds and there is something to pair). Two records of one unit are paired; or, with `views`, two
        releases of one record
    singling_out : whether predicates found in the release pick out one person of the raw table (None: of tables)
    minutes : a time that is not to be passed by much. Attackers and certificates come first, then the rest in the
        order of what it tells; the report says what was left out. None: as long as it takes
    random_state : same seed, same attackers
    callback : called with (what, done, total) whenever an attacker starts, to show progress; `done` and `total` are
        None here. An interrupt (Ctrl-C) keeps the attackers that have finished, and the report says so

    Examples
    --------
    >>> import tacit
    >>> from sklearn.decomposition import PCA
    >>> train, attack, test = tacit.load_dataset("quadrants", n=900).split()
    >>> report = tacit.audit(PCA(1).fit(train.X), attack, test, attackers="logistic", floor=False)
    >>> 0 <= report.leakage["shape"].low <= report.leakage["shape"].value <= 1
    True
    """
    started = time.perf_counter()
    suite = AttackSuite(attackers, random_state, callback, budget=Budget(minutes))
    asked = Asked(
        confidence_level, random_state, per, tuple(alongside or ()), train, tuple(views), tuple(pooled), scan,
        tuple(groups), reconstruct, embed, examples, candidates, max_unit_size, floor, limit,
        strong=attackers in ("strong", "all"), breadth=breadth, knows=None if knows is None else tuple(knows),
        few_columns=few_columns, linkability=linkability, singling_out=singling_out,
    )  # fmt: skip
    _check(asked, attack)
    with encoded_once():
        whole = Trial.of(release, attack, test, asked)
        if doubt := forgotten_units(test):
            warnings.warn(doubt, TacitWarning, stacklevel=3)
        found, settled = _found(suite, whole, doubt)
    settings = Settings(
        attackers=tuple(suite.finished if suite.interrupted else suite.names),
        level=confidence_level,
        seed=random_state,
        data=test.name,
        alongside=tuple(asked.alongside),
        candidates=candidates,
        per=per,
        **settled,
        seconds=round(time.perf_counter() - started, 1),
        **provenance(),
    )
    return Report(name=name or _name_of(release), settings=settings, **found)


def _check(asked: Asked, attack: Dataset) -> None:
    """Refuse what cannot be asked before the work, not after it."""
    if not 0 < asked.level < 1:
        raise InputError(f"confidence_level must lie between 0 and 1, such as 0.95; found {asked.level!r}")
    check_number("few_columns", asked.few_columns, 0, whole=True, optional=True)
    known_sets(asked.knows or (), attack)


def _found(suite: AttackSuite, whole: Trial, doubt: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """All that a report tells, by its name there; and with which rows, at which look."""
    trial, asked = whole.unseen() if whole.fresh else whole, whole.asked
    notes = _before(whole, doubt)
    found = _measured(suite, trial)
    if suite.counts and all(set(r.attackers) <= COUNTED for r in found["leakage"].values()):
        notes.append(
            "the release has few values, so that counting which class had which is the best attack there is: no other "
            'attacker was trained on it (attackers="all" does)'
        )
    certified = _certified(whole)
    outcomes, budget = found.pop("outcomes"), suite.budget
    attacks = run_attacks(replace(trial, outcomes=outcomes), suite)
    certified = _without_order(certified, attacks)
    targets = trial.test.y.shape[1]
    found["detectable"] = {
        name: smallest_detectable(r.measure, trial.level)
        for name, r in found["leakage"].items()
        if not isinstance(r, NumberResult)
    }
    ground = NO_FLOOR
    if asked.floor and targets:
        ground = budget.run("the label alone and the limit", lambda: measure_floor(trial, suite), NO_FLOOR)
    in_sample: dict[str, AnyResult] = {}
    if whole.fresh:
        in_sample = budget.run("rows of the fit", lambda: _in_sample(suite, whole, notes), {})
    found["breadth"] = budget.run("breadth", lambda: measure_breadth(trial), None)
    found["singling_out"] = budget.run("singling out", lambda: measure_singling_out(trial), None)
    found["linkability"] = budget.run("linkability", lambda: measure_linkability(trial), None)
    whole_table = found["breadth"] is not None
    found["change"] = budget.run("the changed table", lambda: measure_change(trial, whole_table), None)
    alike = budget.run("likeness to the records", lambda: resemblance(trial), Resemblance())
    notes += [*_stopped(outcomes), *_numbers(found["leakage"]), *certified.notes]
    if ground.note and asked.limit is not False and targets == 1:
        notes.append(ground.note)
    if alike.examples:
        notes.append(f"this report shows {len(alike.examples)} records of `test` as they are (examples=)")
    if suite.interrupted:
        why = "the time is over" if budget.spent else "interrupted"
        notes.append(f"{why}: only these attackers finished: {', '.join(suite.finished)}")
    notes += [*budget.note(), *_drift(trial)]
    found |= {"certificate": certified.certificate, "bound": certified.bound, "in_sample": in_sample}
    found |= {"label_only": ground.label_only, "label_only_utility": ground.label_only_utility, "limit": ground.limit}
    found |= {"pairs": certified.pairs, "released": count_released(trial)}
    found |= {"resemblance": alike, "attacks": attacks, "fresh": whole.fresh}
    found["notes"] = (*notes, *getattr(whole.release, "notes_", []))
    return found, {"rows": {"attack": len(trial.attack), "test": len(trial.test)}, "look": certified.look}


def _drift(trial: Trial) -> list[str]:
    """Say where the values released of these rows differ from those of the audit that a bundle was saved with."""
    earlier = getattr(getattr(trial.release, "report", None), "released", None)
    try:
        changed = {} if earlier is None else changed_since(earlier, trial, trial.asked.level)
    except InputError:  # other columns were counted then
        return []
    if not changed:
        return []
    named = ", ".join(f"{name} (p {p:.2g})" for name, p in sorted(changed.items(), key=lambda item: item[1])[:5])
    more = f" and {len(changed) - 5} more columns" if len(changed) > 5 else ""
    return [
        f"drift: the released values differ from those of the audit inside the bundle: {named}{more}. The figures of "
        f"that audit may not hold for this population; save the bundle with this one"
    ]


def _numbers(leakage: Mapping[str, AnyResult]) -> list[str]:
    """What is not measured of numbers."""
    names = [name for name, r in leakage.items() if isinstance(r, NumberResult)]
    if not names:
        return []
    return [
        f"{', '.join(names)}: read as a number by regressors. Who is named for sure, the most exposed groups, "
        f"pooled releases, raw columns that somebody knows and the limit are for classes, and are left out for "
        f"it (bins= cuts it into classes)"
    ]


def _stopped(outcomes: Sequence[Outcome]) -> list[str]:
    """Which attackers were clearly behind another one, and had no part in the figures."""
    told = [f"{', '.join(o.stopped)} ({o.task.attribute})" for o in outcomes if o.stopped]
    return [f"clearly behind on validation rows, and stopped there: {'; '.join(told)}"] if told else []


def _before(whole: Trial, doubt: str | None) -> list[str]:
    """What the reader must know about the rows."""
    notes = []
    if whole.release is not None and not can_tell(whole.release):
        notes.append(
            "this release cannot tell which rows it was fitted on; the figures assume that it saw none of these"
        )
    if doubt:
        notes.append(doubt)
    if not whole.fresh:
        notes.append(
            "in-sample: (nearly) every row of `attack` or of `test` was used to fit the filter, or equals one that "
            "was; these figures say nothing about other people's rows. Split the data first and fit on another part; "
            "where records of different people are equal, say whose they are (units=)"
        )
    elif whole.n_seen:
        notes.append(f"{whole.n_seen:,} rows of `attack` and `test` equal rows of the fit; they are reported apart")
    return notes


def _measured(suite: AttackSuite, trial: Trial) -> dict[str, Any]:
    """What the attackers read of the release itself: utility, leakage, and who is exposed."""
    outcomes = {side: [suite.run(t, headline) for t in trial.tasks(side)] for side, headline in HEADLINE.items()}
    if suite.interrupted:  # both sides get the attackers that finished everywhere
        outcomes = {side: [o.only(suite.finished) for o in found] for side, found in outcomes.items()}
    level, per = trial.level, trial.asked.per
    utility: dict[str, AnyResult] = {
        o.task.attribute: suite.result(o, "accuracy", trial.asked.level, per) for o in outcomes["y"]
    }
    utility |= suite.measure_numbers(trial, "y", trial.asked.level)
    leakage: dict[str, AnyResult] = {}
    groups, exposed = {}, {}
    for o in outcomes["sensitive"]:
        name = o.task.attribute
        groups[name] = subgroups(o, trial.test, trial.asked.groups, level)
        exposed[name] = exposure(o, level, groups[name])
        leakage[name] = replace(suite.result(o, "balanced_accuracy", level, per), named=exposed[name].named)
    leakage |= suite.measure_numbers(trial, "sensitive", level)
    utility, leakage = (
        {c: told[c] for c in side.columns} for told, side in ((utility, trial.test.y), (leakage, trial.test.sensitive))
    )
    found = {"utility": utility, "leakage": leakage, "groups": groups, "exposure": exposed}
    return {**found, "outcomes": tuple(outcomes["sensitive"])}


def _certified(whole: Trial) -> Certified:
    """Certificates, where rows are fresh."""
    asked = whole.asked
    if not whole.fresh:
        names = whole.test.sensitive.columns
        return Certified(dict.fromkeys(names), dict.fromkeys(names), [])
    terms = Terms(asked.level, asked.candidates, asked.seed, asked.per, asked.max_unit_size)
    size = columns_to_certify(whole)
    if not size:
        return certify_trial(whole, terms)
    drawn = sees_sensitive(whole.release) and has_noise(whole.release)  # of which there is no certificate of the whole
    if not drawn or asked.alongside:  # both kinds may come of it: they share the error
        terms = replace(terms, level=1 - (1 - asked.level) / 2)
    certified, few = certify_trial(whole, terms), certify_few_columns(whole, terms, size)
    return replace(certified, notes=certified.notes + few.notes, look=certified.look or few.look, pairs=few.pairs)


def _without_order(certified: Certified, attacks: Sequence[AttackResult]) -> Certified:
    """Certificates of a release whose rows stand in no telling order: theirs says nothing of the file as it is."""
    kept, bound, notes = dict(certified.certificate), dict(certified.bound), list(certified.notes)
    pairs = dict(certified.pairs)
    order = next((a.results for a in attacks if a.kind == "row order"), {})
    for name, found in order.items():
        classes = [n for n in kept if n.startswith(f"{name} in ")] if isinstance(found, NumberResult) else []
        if classes and found.low > 0:
            kept |= dict.fromkeys(classes)
            bound |= dict.fromkeys(classes)
            notes.append(
                f"{name}: the order of the rows tells it (R² {found.value:.3f}), which no certificate of the columns "
                f"covers: not certified. Shuffle the rows before handing them over"
            )
        if name in pairs and found.low > pairs[name].bound:
            del pairs[name]
        upper = bound.get(name)
        if upper is not None and found.low > upper:
            kept[name] = bound[name] = None
            notes.append(
                f"{name}: the order of the rows tells it ({found.value:.3f}, guessing {found.guessing:.3f}), which no "
                f"certificate of the columns covers: not certified. Shuffle the rows before handing them over"
            )
    return replace(certified, certificate=kept, bound=bound, notes=notes, pairs=pairs)


def _in_sample(suite: AttackSuite, whole: Trial, notes: list[str]) -> dict[str, AnyResult]:
    """How much rows of the fit leak: attackers learn from one half of them and are tested on the other."""
    halves = whole.in_sample()
    try:
        return {} if halves is None else suite.measure(halves, "sensitive", whole.level)
    except InputError as error:
        notes.append(f"the leakage of rows of the fit could not be measured: {error}")
        return {}


def _name_of(release: Any) -> str:
    if release is None:
        return "raw data"
    return "released arrays" if isinstance(release, (tuple, list)) else type(release).__name__
