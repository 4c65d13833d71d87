"""`tacit.audit`: release fresh rows, train attackers on one part, measure them on another."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tacit.audit import attacks
from tacit.audit.attackers import resolve
from tacit.audit.bench import Bench
from tacit.audit.certification import Certified, Terms, certify_release
from tacit.audit.exposure import exposure
from tacit.audit.floor import NO_FLOOR, measure_floor
from tacit.audit.forgotten_units import forgotten_units
from tacit.audit.power import measure_power
from tacit.audit.released import (
    can_tell,
    check_pair,
    join_parts,
    name_of,
    released,
    seen,
    stack_rows,
    take_rows,
    with_side_columns,
)
from tacit.audit.released import (
    crossing as units_in_both,
)
from tacit.audit.resemblance import resemblance
from tacit.audit.subgroups import subgroups
from tacit.errors import InputError, TacitWarning
from tacit.records.dataset import Dataset
from tacit.report.report import Report, Settings, provenance
from tacit.report.results import AttackResult, Result

FEWEST_FRESH = 20  # rows of a part that were not seen before, to audit with
FEWEST_IN_SAMPLE = 60  # seen rows needed to say anything about them


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
    level: float = 0.95,
    per: str = "unit",
    max_unit_size: int | None = None,
    floor: bool = True,
    limit: bool | None = None,
    power: bool | None = None,
    name: str | None = None,
    seed: int = 0,
    tell: Callable[[str], None] | None = None,
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
    attackers : a preset ("quick") or a list of names and scikit-learn classifiers
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
    level : confidence of the intervals and of the certificate
    per : whose average is meant where people have several records: "unit" counts everybody alike, "record" every
        record
    max_unit_size : how many records a unit can have at most, known beforehand: a certificate per record needs it
    floor : also show what the predicted label alone keeps and gives away
    limit : estimate the best any release could do (None: where that takes seconds)
    power : plant leaks in this release to say how large one must be to be found (None: few plantings, more in the
        "strong" preset; True: more; False: none)
    tell : called with a line of text whenever an attacker starts, to show progress. An interrupt (Ctrl-C)
        keeps the attackers that have finished, and the report says so

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
    makers = resolve(attackers)
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, such as 0.95; found {level!r}")
    check_pair(attack, test)
    preset = attackers if isinstance(attackers, str) else None
    bench = Bench(makers, level, seed, preset, tell, per)
    # statements about several sensitive attributes hold together: each spends its share of the error
    strict = bench.at_level(1 - (1 - level) / max(1, len(test.sensitive.columns)))
    Za, Zt = released(release, attack, test, alongside)
    seen_a, seen_t = seen(release, attack), seen(release, test)
    notes: list[str] = []
    in_sample: dict[str, Result] = {}
    if release is not None and not can_tell(release):
        notes.append(
            "this release cannot tell which rows it was fitted on; the figures assume that it saw none of these"
        )
    if doubt := forgotten_units(test):
        notes.append(doubt)
        warnings.warn(doubt, TacitWarning, stacklevel=2)
    fresh = _enough(attack, ~seen_a) and _enough(test, ~seen_t)
    if fresh:
        fresh_a, fresh_t = ~seen_a, ~seen_t
        if count := int(seen_a.sum() + seen_t.sum()):
            notes.append(f"{count:,} rows of `attack` and `test` equal rows of the fit; they are reported apart")
    else:
        fresh_a, fresh_t = np.ones(len(attack), dtype=bool), np.ones(len(test), dtype=bool)
        notes.append(
            "in-sample: (nearly) every row of `attack` or of `test` was used to fit the filter, or equals one that "
            "was; these figures say nothing about other people's rows. Split the data first and fit on another part; "
            "where records of different people are equal, say whose they are (units=)"
        )
    part_a, part_t = attack.take(fresh_a), test.take(fresh_t)
    Za_fresh, Zt_fresh = take_rows(Za, fresh_a), take_rows(Zt, fresh_t)

    headline = "balanced_accuracy"
    fresh_parts = Za_fresh, part_a, Zt_fresh, part_t
    useful = [bench.fight(c, "accuracy") for c in bench.contests(*fresh_parts, "y")]
    outcomes = [strict.fight(c, headline) for c in strict.contests(*fresh_parts, "sensitive")]
    if bench.interrupted:  # both sides get the attackers that finished everywhere
        useful, outcomes = ([o.only(bench.makers) for o in side] for side in (useful, outcomes))
    utility = {o.contest.attribute: bench.result(o, "accuracy") for o in useful}
    within = {o.contest.attribute: subgroups(o, part_t, groups, strict.level) for o in outcomes}
    exposed = {o.contest.attribute: exposure(o, strict.level, within[o.contest.attribute], strict) for o in outcomes}
    leakage = {
        o.contest.attribute: replace(strict.result(o, headline), named=exposed[o.contest.attribute].named)
        for o in outcomes
    }
    powers = measure_power(strict, [o.contest for o in outcomes], power, preset)
    parts = attacks.Parts(*fresh_parts)
    handed_in = isinstance(release, tuple | list)  # its order is somebody's choice; ours tells nothing
    others = [
        attacks.row_order(strict, parts) if handed_in else None,
        attacks.joined(strict, parts),
        attacks.transfer(strict, parts) if release is not None else None,
        *attacks.pooled(strict, outcomes, pooled),
        attacks.averaging(strict, release, parts),
        attacks.several_views(strict, views, parts),
        attacks.mask_only(strict, release, parts),
        attacks.membership(strict, release, train, parts),
        attacks.bundle_membership(strict, release, train, parts),
        attacks.scan(Bench(resolve("trees"), level, seed), parts, alongside or []) if scan else None,
    ]
    if alongside:
        bare = released(release, part_a, part_t, None)
        without = strict.run(bare[0], part_a, bare[1], part_t, "sensitive", headline)
        others.insert(
            0, AttackResult("without side information", f"the release but not {', '.join(alongside)}", without)
        )
    if fresh:
        in_sample = _in_sample(strict, release, [(Za, attack, seen_a), (Zt, test, seen_t)], train, alongside, notes)
    crossing = units_in_both(part_a, part_t)
    if crossing:
        notes.append(
            f"{crossing} units are in both `attack` and `test`, so attackers have met the people they are tested on "
            f"and nothing can be certified; split by unit (Dataset.split does)"
        )
    certified = Certified(dict.fromkeys(leakage), dict.fromkeys(leakage), [])
    if fresh and not crossing:
        # rows equal to rows of the fit may be other people's: the larger bound holds whichever they are
        versions = [(Za_fresh, part_a, Zt_fresh, part_t)]
        if seen_a.any() or seen_t.any():
            versions.append((Za, attack, Zt, test))
        # columns beside the release carry no noise: then only counting can certify
        terms = Terms(level, candidates, seed, per, max_unit_size)
        certified = certify_release(None if alongside else release, versions, terms)
    order = next((a for a in others if a is not None and a.kind == "row order"), None)
    certified = _without_order(certified, order)
    notes += certified.notes
    ground = measure_floor(strict, part_a, part_t, limit) if floor and len(part_a.y.columns) else NO_FLOOR
    if ground.note:
        notes.append(ground.note)
    strong = preset == "strong"
    alike = resemblance(
        Za_fresh,
        part_a,
        Zt_fresh,
        part_t,
        reconstruct=strong if reconstruct is None else reconstruct,
        embed=embed,
        dtw_windows=0 if release is None else 40 if strong else 10,
        examples=examples,
        level=level,
        seed=seed,
    )
    if alike.examples:
        notes.append(f"this report shows {len(alike.examples)} records of `test` as they are (examples=)")
    if bench.interrupted:
        notes.append(f"interrupted: only these attackers finished: {', '.join(bench.makers)}")
    notes += getattr(release, "notes_", [])
    settings = Settings(
        attackers=tuple(bench.makers if bench.interrupted else makers),
        level=level,
        seed=seed,
        data=test.name,
        rows={"attack": len(part_a), "test": len(part_t)},
        alongside=tuple(alongside or ()),
        candidates=candidates,
        per=per,
        look=certified.look,
        seconds=round(time.perf_counter() - started, 1),
        **provenance(),
    )
    return Report(
        name=name or name_of(release),
        utility=utility,
        leakage=leakage,
        certificate=certified.certificate,
        bound=certified.bound,
        in_sample=in_sample,
        label_only=ground.leakage,
        label_only_utility=ground.utility,
        limit=ground.limit,
        groups=within,
        exposure=exposed,
        power=powers,
        resemblance=alike,
        attacks=tuple(a for a in others if a is not None),
        fresh=fresh,
        notes=tuple(notes),
        settings=settings,
    )


def _without_order(certified: Certified, order: AttackResult | None) -> Certified:
    """Certificates of a release whose rows stand in no telling order: theirs says nothing of the file as it is."""
    kept, bound, notes = dict(certified.certificate), dict(certified.bound), list(certified.notes)
    for name, found in ({} if order is None else order.results).items():
        upper = bound.get(name)
        if upper is not None and found.low > upper:
            kept[name] = bound[name] = None
            notes.append(
                f"{name}: the order of the rows tells it ({found.value:.3f}, guessing {found.guessing:.3f}), which no "
                f"certificate of the columns covers: not certified. Shuffle the rows before handing them over"
            )
    return replace(certified, certificate=kept, bound=bound, notes=notes)


def _enough(data: Dataset, fresh: np.ndarray) -> bool:
    """Whether attackers can learn from the fresh rows: all of them, or some with two classes of every label."""
    if fresh.all():
        return True
    labels = pd.concat([data.y, data.sensitive], axis=1)[fresh]
    return fresh.sum() >= FEWEST_FRESH and all(labels[c].nunique() > 1 for c in labels)


def _in_sample(
    bench: Bench,
    release: Any,
    parts: list[tuple[Any, Dataset, np.ndarray]],
    train: Dataset | None,
    alongside: Sequence[str] | None,
    notes: list[str],
) -> dict[str, Result]:
    """How much rows of the fit leak: attackers learn from one half of them and are tested on the other."""
    if train is not None:
        if not hasattr(release, "transform"):
            raise InputError("train= needs a filter to release the rows; a pair of released arrays has none")
        Z: Any = with_side_columns(release.transform(train.X), train, alongside)
        data: Dataset | None = replace(train, rows=None)
    else:
        Z = stack_rows([take_rows(Z, seen) for Z, _, seen in parts])
        data = join_parts([d.take(seen) for _, d, seen in parts if seen.any()])
    if data is None or len(data) < FEWEST_IN_SAMPLE:
        return {}
    one, two = data.split((0.5, 0.5), seed=bench.seed)
    at = [np.searchsorted(data.rows, part.rows) for part in (one, two)]
    try:
        return bench.run(take_rows(Z, at[0]), one, take_rows(Z, at[1]), two, "sensitive", "balanced_accuracy")
    except InputError as error:
        notes.append(f"the leakage of rows of the fit could not be measured: {error}")
        return {}
