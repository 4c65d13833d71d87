"""What officers decided about releases: notes that they signed, each bound to the place where it stands.

A note is signed together with the hash of the line before it. Otherwise whoever has the ledger's key could append an
old acceptance again, after the officer has rejected the release.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def decisions(lines: Sequence[Line], officers: Sequence[str | Path] = ()) -> list[Line]:
    """The decisions that count: signed by one of the officers, where any are named, for where they stand."""
    return [
        x
        for x in lines
        if x.kind == "decision" and check_note(x.body, officers) and x.body.get("after") == x.previous
    ]  # fmt: skip


def releases_of(lines: Sequence[Line], officers: Sequence[str | Path] = ()) -> list[tuple[Line, tuple[Line, ...]]]:
    """Every release with the decisions about it, in the ledger's order."""
    signed = decisions(lines, officers)
    return [(x, tuple(d for d in signed if d.body["of"] == x.hash)) for x in lines if x.kind == "release"]
