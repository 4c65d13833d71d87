"""One report of a release that left in two parts: of every figure the worse part's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tacit.report.report import Report
from tacit.report.results import AttackResult, percent

BY_ATTRIBUTE = ("leakage", "in_sample", "label_only", "groups", "exposure", "detectable")


def worse_part(first: Report, second: Report, name: str) -> Report:
    """What holds of both parts of a release, each audited on its own.

    All that is told of a sensitive attribute is told of the part in which more of it may be found: the one with the
    larger bound where both are certified, else the one whose interval reaches higher, and then nothing is certified.
    Of a target it is the part that keeps less. Both parts' statements hold together where both errors are added.
    """
    parts = (first, second)
    certificate = {s: _larger(c, second.certificate.get(s)) for s, c in first.certificate.items()}
    proved = {s for s, c in certificate.items() if c is not None}
    chosen = {s: max(parts, key=lambda r: _reach(r, s, s in proved)) for s in first.leakage}
    lead = next(iter(chosen.values()), first)
    found: dict[str, Any] = {
        what: {s: told[s] for s, r in chosen.items() if s in (told := getattr(r, what))} for what in BY_ATTRIBUTE
    }
    found["certificate"] = certificate | {s: r.certificate[s] for s, r in chosen.items() if s in proved}
    found["bound"] = {s: r.bound[s] if s in proved else None for s, r in chosen.items()}
    together = 1 - sum(1 - r.settings.level for r in parts)
    note = (
        f"released in two parts, each by a filter that was fitted on the other; every figure is the worse part's. Each "
        f"statement holds at {lead.level}, those of both parts together at {percent(together)}. Not measured: who puts "
        f"releases of one person from both parts together"
    )
    return replace(
        lead,
        name=name,
        utility={t: min((r.utility[t] for r in parts), key=lambda u: u.value) for t in first.utility},
        attacks=_worse_attacks(first.attacks, second.attacks),
        fresh=first.fresh and second.fresh,
        notes=(note, *dict.fromkeys((*first.notes, *second.notes))),
        released=None,  # counts of one part would be compared with the whole
        **found,
    )


def _reach(report: Report, attribute: str, proved: bool) -> float:
    bound = report.bound[attribute]
    return bound if proved and bound is not None else report.leakage[attribute].high


def _larger(first: Any, second: Any) -> Any:
    """The certificate that promises less; none where one part has none."""
    return None if first is None or second is None else max(first, second, key=lambda c: c.bound)


def _worse_attacks(first: tuple[AttackResult, ...], second: tuple[AttackResult, ...]) -> tuple[AttackResult, ...]:
    also = {a.kind: a for a in second}
    both = [replace(a, results=_higher(a.results, also[a.kind].results)) if a.kind in also else a for a in first]
    return (*both, *(a for kind, a in also.items() if kind not in {a.kind for a in first}))


def _higher(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    names = dict.fromkeys((*first, *second))
    return {s: max((r[s] for r in (first, second) if s in r), key=lambda found: found.high) for s in names}
