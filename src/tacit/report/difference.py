"""What changed between two audits, figure by figure, each change with its interval.

Audits keep no answer row by row: whoever has the release knows an attacker's answer, and with it "right" or "wrong"
*is* the sensitive value. So from two stored audits a change is only known as far as both intervals allow: with
confidence 1 - 2 delta it lies between (new low - old high) and (new high - old low), whatever the two have in common.
`tacit.auditing.paired_change` attacks both releases anew on the same rows, and its interval is narrower.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tacit.errors import RequirementNotMet
from tacit.report.report import Report
from tacit.report.results import percent, shown

BOTH, PAIRED = "both intervals", "paired"
LEAKAGE, BOUND, ODDS = "leakage", "certified bound", "worst odds"
MEASURED = ("linkability", "singling_out")  # of which less is better
RISKS = (LEAKAGE, BOUND, *MEASURED)  # in shares of people, so that one limit fits them


@dataclass(frozen=True)
class Change:
    """One figure before and after.

    Attributes
    ----------
    figure : "leakage", "certified bound", "worst odds", "linkability", "singling_out", "utility" or "breadth"
    name : the attribute it is of; "" for figures of the whole release
    old, new : None where one of the audits does not have it
    low, high : ends of new less old; None for figures without an interval (a bound is an upper end already)
    """

    figure: str
    name: str
    old: float | None
    new: float | None
    low: float | None = None
    high: float | None = None

    @property
    def value(self) -> float | None:
        return None if self.old is None or self.new is None else self.new - self.old

    @property
    def told(self) -> str:
        """ "leakage of sex"."""
        return f"{self.figure} of {self.name}" if self.name else self.figure

    @property
    def sentence(self) -> str:
        """ "leakage of sex: .571 to .585, +.014 (-.010 to +.038)"."""
        before, after = ("none" if x is None else shown(x) for x in (self.old, self.new))
        text = f"{self.told}: {before} to {after}"
        if self.value is not None:
            text += f", {_signed(self.value)}"
        if self.low is not None and self.high is not None:
            text += f" ({_signed(self.low)} to {_signed(self.high)})"
        return text


@dataclass(frozen=True)
class Difference:
    """All changes from one audit to another.

    Attributes
    ----------
    changes : figure by figure
    level : the confidence of every interval
    how : "both intervals", or "paired" where both releases were attacked on the same rows
    notes : what cannot be compared
    """

    changes: tuple[Change, ...]
    level: float
    how: str = BOTH
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        told = [c.sentence for c in self.changes]
        how = "from the same rows, paired" if self.how == PAIRED else "from both audits' intervals, not paired"
        return "\n".join([*told, *self.notes, f"Changes in brackets: {percent(self.level)}, {how}."])

    def to_dict(self) -> dict[str, Any]:
        changes = [{**vars(c), "value": c.value} for c in self.changes]
        return {"changes": changes, "level": self.level, "how": self.how, "notes": list(self.notes)}

    def require(self, most: float | None = None) -> Difference:
        """Raise where a risk has risen, or may have risen by more than `most`.

        Parameters
        ----------
        most : the largest rise of leakage, of a certified bound, of linkability or of singling out that may be, by the
            *upper* end of its interval. Two audits of one release have an upper end above 0, so without it only what is
            shown counts: a lower end above 0. What was measured or certified and no longer is never passes
        """
        problems = []
        for c in self.changes:
            upper = c.value if c.high is None else c.high
            if c.figure in (*RISKS, ODDS) and c.old is not None and c.new is None:
                problems.append(f"{c.sentence}: it was told before, and must be told again")
            elif c.figure in RISKS and c.low is not None and c.low > 0:
                problems.append(f"{c.sentence}: it has risen")
            elif c.figure in RISKS and most is not None and upper is not None and upper > most:
                may = "rose by" if c.high is None else "may have risen by up to"
                problems.append(f"{c.told} {may} {upper:.3f}, allowed {most:.3f}{self._remedy}")
        if problems:
            raise RequirementNotMet("; ".join(problems))
        return self

    @property
    def _remedy(self) -> str:
        if self.how == PAIRED:
            return "; bring more rows, or release less"
        return "; a paired interval is narrower: tacit diff OLD NEW --data TABLE --target ... --sensitive ..."


def difference(old: Report, new: Report) -> Difference:
    """What changed from one audit to another.

    Parameters
    ----------
    old, new : as `Report.from_json` reads them

    Examples
    --------
    >>> import tacit
    >>> _, attack, test = tacit.load_dataset("quadrants", n=900).split()
    >>> one = tacit.audit(None, attack, test, attackers="logistic", measurements=["no-baseline", "no-breadth"])
    >>> change = difference(one, one).changes[0]
    >>> change.figure, change.value, change.low < 0 < change.high
    ('leakage', 0.0, True)
    """
    changes = [
        _change(LEAKAGE, name, *(_of(r.leakage, name) for r in (old, new))) for name in _names(old.leakage, new.leakage)
    ]
    for name in _names(old.certificate, new.certificate):
        certificates = [r.certificate.get(name) for r in (old, new)]
        if any(c is not None for c in certificates):
            changes.append(Change(BOUND, name, *(None if c is None else c.bound for c in certificates)))
        odds = [_odds(c) for c in certificates]
        if any(x is not None for x in odds):
            changes.append(Change(ODDS, name, *odds))
    for figure in MEASURED:
        ends = [r.headline(figure) for r in (old, new)]
        if any(m is not None for m in ends):
            changes.append(_change(figure, "", *ends))
    changes += [
        _change("utility", name, *(_of(r.utility, name) for r in (old, new)))
        for name in _names(old.utility, new.utility)
    ]
    if any(ends := [r.headline("breadth") for r in (old, new)]):
        changes.append(_change("breadth", "", *ends))
    level = max(0.0, old.settings.level + new.settings.level - 1)
    return Difference(tuple(changes), level, notes=tuple(_notes(old, new)))


def _change(figure: str, name: str, old: Any, new: Any) -> Change:
    before, after = (None if m is None else float(m.value) for m in (old, new))
    if old is None or new is None:
        return Change(figure, name, before, after)
    return Change(figure, name, before, after, float(new.low - old.high), float(new.high - old.low))


def _notes(old: Report, new: Report) -> list[str]:
    """Why the figures of two audits may be of different things."""
    notes = []
    for name in _names(old.leakage, new.leakage):
        before, after = (_of(r.leakage, name) for r in (old, new))
        if before is not None and after is not None and before.guessing != after.guessing:
            notes.append(
                f"note: {name} has other classes (guessing {shown(before.guessing)}, then {shown(after.guessing)}); "
                f"its figures are not of one question"
            )
    if set(old.settings.attackers) != set(new.settings.attackers):
        notes.append(
            f"note: other attackers ({', '.join(old.settings.attackers)}; then {', '.join(new.settings.attackers)}): a "
            f"change may be theirs"
        )
    if not (old.fresh and new.fresh):
        notes.append("note: figures of rows that a filter was fitted on say nothing about new rows")
    return notes


def _names(old: Mapping[str, Any], new: Mapping[str, Any]) -> Sequence[str]:
    return list(dict.fromkeys([*old, *new]))


def _of(results: Mapping[str, Any], name: str) -> Any:
    return results[name].measure if name in results else None


def _odds(certificate: Any) -> float | None:
    odds = None if certificate is None else certificate.odds
    return None if odds is None or not math.isfinite(odds.bound) else float(odds.bound)


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("0.", ".", 1)
