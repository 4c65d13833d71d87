"""What officers decided about releases: notes that they signed, each bound to the place where it stands.

A note is signed together with the hash of the line before it. Otherwise whoever has the ledger's key could append an
old acceptance again, after the officer has rejected the release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tacit.errors import InputError
from tacit.ledger.chain import Ledger, Line, check_note, sign_note

VERDICTS, MOST = ("accept", "reject"), 2000  # characters of a comment


def decide(ledger: Ledger, of: str, verdict: str, comment: str, key: str | Path) -> Line:
    """Sign a decision about a release and write it down; the last one about it counts.

    Parameters
    ----------
    of : the hash of the release's line
    verdict : "accept" or "reject"
    comment : why; it stays in the ledger
    key : the officer's secret key
    """
    if verdict not in VERDICTS or len(comment) > MOST:
        raise InputError(f"a decision is accept or reject, with a comment of at most {MOST:,} characters")

    def admit(lines: list[Line]) -> dict[str, Any]:
        if not any(x.kind == "release" and x.hash == of for x in lines):
            raise InputError(f"{ledger.path.name} has no release with the hash {of[:16]}...; choose one that is listed")
        told = {"kind": "decision", "of": of, "verdict": verdict, "comment": comment, "after": lines[-1].hash}
        return sign_note(told, key)

    return ledger.append({"kind": "decision"}, admit)


def allow(
    ledger: Ledger, release: Mapping[str, str], reason: str, key: str | Path, officers: Sequence[str | Path] = ()
) -> Line:
    """Sign for one release that the policy forbids.

    Parameters
    ----------
    release : to, bundle and mechanism of it; and "table", the mechanism of the table that its fit writes
    reason : why; it stays in the ledger
    key : the officer's secret key
    officers : public keys of those who may
    """

    def admit(lines: list[Line]) -> dict[str, Any]:
        note = sign_note({**release, "kind": "override", "reason": reason, "after": lines[-1].hash}, key)
        if not check_note(note, officers):
            raise InputError(f"{key} is not the key of an officer; the policy names them in [ledger] officers")
        return note

    return ledger.append({"kind": "override"}, admit)


def overrides(lines: Sequence[Line], officers: Sequence[str | Path] = ()) -> list[Line]:
    """The notes that count and that no release has used yet; each counts for one."""
    used = {x.body.get("override") for x in lines}
    return [x for x in _signed(lines, "override", officers) if x.number not in used]


def decisions(lines: Sequence[Line], officers: Sequence[str | Path] = ()) -> list[Line]:
    """The decisions that count: signed by one of the officers, where any are named, for where they stand."""
    return _signed(lines, "decision", officers)


def _signed(lines: Sequence[Line], kind: str, officers: Sequence[str | Path]) -> list[Line]:
    found = (x for x in lines if x.kind == kind and x.body.get("after") == x.previous)
    return [x for x in found if check_note(x.body, officers)]


def releases_of(lines: Sequence[Line], officers: Sequence[str | Path] = ()) -> list[tuple[Line, tuple[Line, ...]]]:
    """Every release with the decisions about it, in the ledger's order."""
    signed = decisions(lines, officers)
    return [(x, tuple(d for d in signed if d.body["of"] == x.hash)) for x in lines if x.kind == "release"]
