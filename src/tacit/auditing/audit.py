"""`tacit.audit`: release fresh rows, train attackers on one part, measure them on another."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from tacit.auditing.budget import Budget
from tacit.auditing.certification import Certified, Terms, certify_few_columns, certify_trial, columns_to_certify
from tacit.auditing.exposure import exposure, subgroups
from tacit.auditing.forgotten_units import forgotten_units
from tacit.auditing.measurements import Context, check_names, load_measurements, run_measurements
from tacit.auditing.measurements.attacker_knowledge import known_sets
from tacit.auditing.regressors import COUNTED
from tacit.auditing.released_values import changed_since, count_released
from tacit.auditing.stats import smallest_detectable
from tacit.auditing.suite import HEADLINE, AttackSuite, Outcome
from tacit.auditing.trial import Trial, TrialSettings, can_tell, has_noise
from tacit.errors import InputError, TacitWarning, check_number
from tacit.filters.mechanism import sees_sensitive
from tacit.options import AuditOptions
from tacit.records.dataset import Dataset
from tacit.records.intake import encoded_once
from tacit.report.report import Report, Settings, provenance
from tacit.report.results import AnyResult, AttackResult, NumberResult


def audit(
    release: Any,
    attack: Dataset,
    test: Dataset,
    attackers: str | Sequence[Any] = "quick",
    measurements: str | Sequence[str] = "auto",
    *,
    attacker_knows: Sequence[Any] | None = None,
    views: Sequence[Any] = (),
    alongside: Sequence[str] = (),
    confidence_level: float = 0.95,
    minutes: float | None = None,
    random_state: int = 0,
    options: AuditOptions | None = None,
) -> Report:
    """Measure how useful a release is and how much it leaks.

    Attackers are trained on the released `attack` rows and measured on the released `test` rows. Rows that the filter
    was fitted on are recognised, taken out, and reported apart as "in-sample". Where the release is finite (a code), a
    certificate bounds *any* attacker. Utility, leakage and certificates are always reported; `measurements` chooses
    what else is.

    Parameters
    ----------
    release : object with ``transform``, pair of arrays or tables, or None
        A filter or a bundle; or the released rows of `attack` and of `test`; or None for the raw data
    attack, test : Dataset
        Parts with targets and sensitive attributes
    attackers : str or list
        A preset ("quick", "strong"), or names and scikit-learn classifiers. A release of a few cells is counted, which
        no attacker can beat; "all" trains the strong ones on it too
    measurements : str or list of str
        "auto" (what applies and takes seconds), "all" (what applies), or names as of ``tacit audit --help``. They may
        be mixed, and "no-" leaves one out: ``["auto", "other_columns", "no-baseline"]``. ``()``: none
    attacker_knows : list, optional
        Sets of raw columns that an attacker knows of the person, such as ``[["age"], ["age", "race"], "all"]``. None:
        the most telling ones, where the release depends on the sensitive columns; ``()``: none
    views : list
        Other releases of the same records, read together with this one
    alongside : list of str
        Columns of X that travel with the release; attacked and certified together with it
    confidence_level : float
        Of the intervals and of the certificate
    minutes : float, optional
        A time budget. Attackers and certificates come first; the report names the measurements that were left out
    random_state : int
        Same seed, same attackers
    options : AuditOptions, optional
        Settings that are rarely changed, such as ``AuditOptions(candidates=20)``

    Returns
    -------
    Report
        After an interrupt (Ctrl-C) with the attackers that have finished

    Raises
    ------
    InputError
        If the parts do not fit together, or a named measurement is unknown or impossible for this release

    Examples
    --------
    >>> import tacit
    >>> from sklearn.decomposition import PCA
    >>> train, attack, test = tacit.load_dataset("quadrants", n=900).split()
    >>> report = tacit.audit(PCA(1).fit(train.X), attack, test, attackers="logistic", measurements=())
    >>> 0 <= report.leakage["shape"].low <= report.leakage["shape"].value <= 1
    True
    """
    started = time.perf_counter()
    options = options or AuditOptions()
    suite = AttackSuite(attackers, random_state, options.callback, budget=Budget(minutes))
    plan = TrialSettings(
        **{f.name: getattr(options, f.name) for f in fields(AuditOptions)},
        level=confidence_level,
        seed=random_state,
        measurements=check_names(measurements),
        attacker_knows=None if attacker_knows is None else tuple(attacker_knows),
        alongside=tuple(alongside),
        views=tuple(views),
        strong=attackers in ("strong", "all"),
    )
    _check(plan, attack)
    with encoded_once():
        whole = Trial.of(release, attack, test, plan)
        for m in load_measurements():
            m.check(whole)  # before the work
        if doubt := forgotten_units(test):
            warnings.warn(doubt, TacitWarning, stacklevel=2)
        found, settled = _found(suite, whole, doubt)
    settings = Settings(
        attackers=tuple(suite.finished if suite.interrupted else suite.names),
        level=confidence_level,
        seed=random_state,
        data=test.name,
        alongside=tuple(plan.alongside),
        candidates=plan.candidates,
        per=plan.per,
        **settled,
        seconds=round(time.perf_counter() - started, 1),
        **provenance(),
    )
    return Report(name=plan.name or _name_of(release), settings=settings, **found)


def _check(plan: TrialSettings, attack: Dataset) -> None:
    """Refuse what cannot be asked before the work, not after it."""
    if not 0 < plan.level < 1:
        raise InputError(f"confidence_level must lie between 0 and 1, such as 0.95; found {plan.level!r}")
    check_number("few_columns", plan.few_columns, 1, whole=True)
    known_sets(plan.attacker_knows or (), attack)


def _found(suite: AttackSuite, whole: Trial, doubt: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """All that a report tells, by its name there; and with which rows, at which look."""
    trial, budget = whole.unseen() if whole.fresh else whole, suite.budget
    notes = _before(whole, doubt)
    found = _measured(suite, trial)
    if suite.counts and all(set(r.attackers) <= COUNTED for r in found["leakage"].values()):
        notes.append(
            "the release has few values, so that counting which class had which is the best attack there is: no other "
            'attacker was trained on it (attackers="all" does)'
        )
    certified = _certified(whole)
    outcomes = found.pop("outcomes")
    context = Context(suite, whole)
    found["findings"] = tuple(run_measurements(replace(trial, outcomes=outcomes), context))
    certified = _without_order(certified, context.attacks)
    found["detectable"] = {
        name: smallest_detectable(r.measure, trial.level)
        for name, r in found["leakage"].items()
        if not isinstance(r, NumberResult)
    }
    in_sample: dict[str, AnyResult] = {}
    if whole.fresh:
        in_sample = budget.run("rows of the fit", lambda: _in_sample(suite, whole, notes), {})
    notes += [*_stopped(outcomes), *_numbers(found["leakage"]), *certified.notes, *context.report.pop("notes", [])]
    if examples := context.report.get("examples"):
        notes.append(f"this report shows {len(examples)} records of `test` as they are (examples=)")
    if suite.interrupted:
        why = "the time is over" if budget.spent else "interrupted"
        notes.append(f"{why}: only these attackers finished: {', '.join(suite.finished)}")
    notes += [*budget.note(), *_drift(trial)]
    found |= {"certificate": certified.certificate, "bound": certified.bound, "in_sample": in_sample}
    found |= {"label_only": {}, "pairs": certified.pairs, "released": count_released(trial)}
    found |= {"attacks": tuple(context.attacks), "fresh": whole.fresh} | context.report
    found["notes"] = (*notes, *getattr(whole.release, "notes_", []))
    return found, {"rows": {"attack": len(trial.attack), "test": len(trial.test)}, "look": certified.look}


def _drift(trial: Trial) -> list[str]:
    """Say where the values released of these rows differ from those of the audit that a bundle was saved with."""
    earlier = getattr(getattr(trial.release, "report", None), "released", None)
    try:
        changed = {} if earlier is None else changed_since(earlier, trial, trial.settings.level)
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
    level, per = trial.level, trial.settings.per
    utility: dict[str, AnyResult] = {
        o.task.attribute: suite.result(o, "accuracy", trial.settings.level, per) for o in outcomes["y"]
    }
    utility |= suite.measure_numbers(trial, "y", trial.settings.level)
    leakage: dict[str, AnyResult] = {}
    groups, exposed = {}, {}
    for o in outcomes["sensitive"]:
        name = o.task.attribute
        groups[name] = subgroups(o, trial.test, trial.settings.groups, level)
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
    plan = whole.settings
    if not whole.fresh:
        names = whole.test.sensitive.columns
        return Certified(dict.fromkeys(names), dict.fromkeys(names), [])
    terms = Terms(plan.level, plan.candidates, plan.seed, plan.per, plan.max_unit_size)
    size = columns_to_certify(whole)
    if not size:
        return certify_trial(whole, terms)
    drawn = sees_sensitive(whole.release) and has_noise(whole.release)  # of which there is no certificate of the whole
    if not drawn or plan.alongside:  # both kinds may come of it: they share the error
        terms = replace(terms, level=1 - (1 - plan.level) / 2)
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
