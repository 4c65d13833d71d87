"""One folder that a privacy officer can file: what was released to whom, the figures in words, all of it signed.

    summary.html    two printed pages: who gets what, the figures in words, conditions, limits, signatures
    report.html     the full report, and audit.json the same as data, both without any value of any column
    mapping.md      which figure answers which question of WP29 05/2014, ISO/IEC 27559 and NIST SP 800-188
    policy.toml     the policy, where there is one
    ledger.jsonl    the ledger's lines about this release, as they stand there; ledger.json what verifying it gave
    versions.json   versions, and the hash of every file, of the released table and of the bundle
    statement.json  an in-toto statement of all these hashes, signed

The table, the bundle and the keys stay where they are: of the first two there are hashes here, of the keys nothing.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tacit import __version__
from tacit.errors import InputError
from tacit.files import strict_json, write_whole
from tacit.ledger.account import mechanism_ids, officers
from tacit.ledger.chain import Ledger, Line
from tacit.ledger.checking import Case, check_report
from tacit.ledger.decisions import releases_of
from tacit.ledger.policy import Policy, read_policy
from tacit.ledger.statement import EvidenceError, make_statement, read_statement
from tacit.records.dataset import read_file
from tacit.release.bundle import Bundle, read_bundle
from tacit.release.key_folder import key_folder, key_path
from tacit.release.runtime import read_key
from tacit.release.signing import raw_bytes, read_secret_key
from tacit.report.page import render, write_page
from tacit.report.plain_words import leak_in_words, use_in_words
from tacit.report.report import Report
from tacit.report.without_values import without_values

STATEMENT = "statement.json"
RELEASED = "released/"  # before the names of files that stay where they are
EMBEDDED = re.compile(rb'<script type="application/json" id="audit">(.*?)</script>', re.S)


@dataclass(frozen=True)
class Handover:
    """The folder that `tacit fit --out` wrote, read once, and that of its keys (`tacit fit --keys`)."""

    folder: Path
    keys: Path | None = None

    @cached_property
    def report(self) -> Report:
        path = self.folder / "audit.json"
        if not path.exists():
            raise InputError(f"{self.folder} has no audit.json; pass the folder that tacit fit --out wrote")
        told = path.read_bytes()
        if self.bundle is not None and strict_json(told) != strict_json(self.bundle.members["audit.json"]):
            raise InputError(f"audit.json is not the audit inside {self.bundle.name}: one of the two was exchanged")
        return Report.from_json(told)

    @cached_property
    def bundle(self) -> Bundle | None:
        path = self.folder / "filter.tacit"
        return read_bundle(path) if path.exists() else None

    @cached_property
    def table(self) -> Path | None:
        return next((p for s in (".csv", ".parquet") if (p := self.folder / f"release{s}").exists()), None)

    @cached_property
    def reports(self) -> list[Report]:
        """What the report's page compares: the release, and what it is measured against; without any value."""
        page, own = self.folder / "report.html", without_values(self.report)
        found = EMBEDDED.search(page.read_bytes()) if page.exists() else None
        told = strict_json(found[1])["reports"] if found else []
        others = [Report.from_dict(t) for t in told if t != self.report.to_dict()]
        return [*map(without_values, others), own] if len(others) < len(told) else [own]

    def mechanisms(self) -> set[str]:
        """By what a ledger's lines know this release."""
        if self.bundle is None:
            return set()
        secret = key_path(key_folder(self.folder, self.keys), self.bundle, "noise")
        keys = [None, read_key(secret)] if secret.exists() else [None]
        return {m for key in keys for m in mechanism_ids(self.bundle.manifest, key)}

    def digests(self) -> dict[str, str]:
        """Hashes of what stays where it is."""
        paths = (self.table, *(self.folder / name for name in ("filter.tacit", "audit.json", "report.html")))
        return {f"{RELEASED}{p.name}": _digest(p) for p in paths if p is not None and p.exists()}


def write_evidence(
    folder: str | Path,
    out: str | Path,
    ledger: str | Path | None = None,
    policy: str | Path | None = None,
    key: str | Path | None = None,
    keys: str | Path | None = None,
) -> Path:
    """Make the folder of evidence for a release.

    Parameters
    ----------
    folder : what `tacit fit --out` wrote
    out : a folder that is not there yet, or empty
    ledger : ledger.jsonl, whose lines about this release are taken; it is verified first
    policy : tacit.toml
    key : the secret key that signs (`tacit release keys`)
    keys : the folder of the release's keys, where `tacit fit --keys` named one; nothing of it is filed
    """
    handover, out = Handover(Path(folder), None if keys is None else Path(keys)), Path(out)
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out} is not empty; evidence is never written over. Name another folder")
    if handover.table is None and handover.bundle is None:
        raise InputError(f"{folder} has neither release.csv, release.parquet nor filter.tacit: nothing to tell of")
    rules = None if policy is None else read_policy(policy)
    book = None if ledger is None else Book.read(Path(ledger), handover, rules)
    signer = None if key is None else raw_bytes(read_secret_key(key).public_key()).hex()
    report = handover.reports[-1]
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes")
    told = {"report": report, "handover": handover, "book": book, "policy": rules, "signer": signer, "now": now,
            "leaks": {n: leak_in_words(report, n) for n in report.leakage},
            "uses": {n: use_in_words(report, n) for n in report.utility},
            "odds": _odds(report),
            "questions": report.questions, "cases": None if rules is None else _cases(report, rules),
            "rows": None if handover.table is None else len(read_file(handover.table)),
            "digests": handover.digests(), "version": __version__}  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    report.to_json(out / "audit.json")
    write_page(handover.reports, out / "report.html", f"Audit of {report.name}")
    if rules is not None:
        write_whole(out / "policy.toml", rules.text)
    if book is not None:
        write_whole(out / "ledger.jsonl", b"".join(book.raw))
        write_whole(out / "ledger.json", json.dumps(book.told, indent=1))
    write_whole(out / "mapping.md", render("mapping.md.j2", None, **told))
    write_whole(out / "summary.html", render("evidence.html.j2", None, **told))
    _sign(out, handover, book, key, now)
    return out


def verify_evidence(
    folder: str | Path, trusted_key: str | Path | bytes, release: str | Path | None = None
) -> dict[str, Any]:
    """The signed statement, after the signature and every file were checked; else raises `EvidenceError`.

    Parameters
    ----------
    folder : that `write_evidence` made
    trusted_key : the public key that must have signed it
    release : the folder of the release, to check that it is the one that was signed for
    """
    folder = Path(folder)
    if not (folder / STATEMENT).exists():
        raise InputError(f"{folder} has no {STATEMENT}; it is not a folder of evidence")
    statement = read_statement((folder / STATEMENT).read_bytes(), trusted_key)
    own = {n: d for n, d in statement["digests"].items() if not n.startswith(RELEASED)}
    there = {p.name for p in folder.iterdir()} - {STATEMENT}
    for name in sorted(there | own.keys()):
        if name not in own:
            raise EvidenceError(f"{name} is not part of the signed evidence; it was added later")
        if name not in there:
            raise EvidenceError(f"{name} is gone from {folder.name}")
        if _digest(folder / name) != own[name]:
            raise EvidenceError(f"{name} was edited after the evidence was signed")
    for name, digest in statement["digests"].items() if release is not None else ():
        path = Path(str(release)) / name.removeprefix(RELEASED)
        if name.startswith(RELEASED) and (not path.exists() or _digest(path) != digest):
            raise EvidenceError(f"{path.name} of {Path(str(release)).name} is not the file that was signed for")
    return statement


def _cases(report: Report, policy: Policy) -> list[Case]:
    """Each limit of the policy, held against the audit."""
    limits = policy.limits
    for named, found in (({*limits.leakage, *limits.odds}, report.leakage), (set(limits.utility), report.utility)):
        if missing := sorted(named - set(found)):
            raise InputError(
                f"the policy limits {missing[0]}, and the audit has {', '.join(found)}: is it this release's?"
            )
    return check_report(report, policy)


def _odds(report: Report) -> dict[str, str]:
    """How far the worst release moves anyone's belief, where that is certified."""
    found = {n: c.odds for n, c in report.certificate.items() if c is not None and c.odds is not None}
    return {n: odds.sentence(report.level) for n, odds in found.items()}


@dataclass(frozen=True)
class Book:
    """What a ledger tells of one release.

    Attributes
    ----------
    told : what verifying it gave
    raw : the lines as they stand in the file: the first, and those about this release
    releases : for each release its line, and what officers decided about it
    """

    told: Mapping[str, Any]
    raw: tuple[bytes, ...]
    releases: tuple[tuple[Line, tuple[Line, ...]], ...]

    @classmethod
    def read(cls, path: Path, handover: Handover, policy: Policy | None) -> Book:
        lines = Ledger(path).verify()
        known = handover.mechanisms()
        releases = [(x, d) for x, d in releases_of(lines, officers(policy)) if x.body["mechanism"] in known]
        about = [y for x, signed in releases for y in (x, *signed)]
        about += [x for x in lines if x.kind == "override" and x.body["mechanism"] in known]
        about += [x for x in lines if x.kind == "together" and known & {m for names in x.body["sets"] for m in names}]
        chosen = sorted({0, *(x.number for x in about)})
        raw = path.read_bytes().splitlines(keepends=True)
        owner = lines[0].body["public_key"]
        told = {"verified": True, "lines": len(lines), "head": lines[-1].hash, "public_key": owner, "extract": chosen}
        return cls(told, tuple(raw[i] for i in chosen), tuple(releases))


def _sign(out: Path, handover: Handover, book: Book | None, key: str | Path | None, now: str) -> None:
    report = handover.report
    digests = {p.name: _digest(p) for p in out.iterdir()} | handover.digests()
    versions = {
        "made": now,
        "tacit": __version__,
        "python": platform.python_version(),
        "audit": {"when": report.settings.when, **report.settings.versions},
        "bundle": None if handover.bundle is None else handover.bundle.manifest["versions"],
    }
    write_whole(out / "versions.json", json.dumps({**versions, "sha256": digests}, indent=1))
    digests["versions.json"] = _digest(out / "versions.json")
    figures = {
        n: {"status": report.status(n), "value": r.value, "low": r.low, "high": r.high, "guessing": r.guessing,
            "bound": report.bound.get(n)}
        for n, r in report.leakage.items()
    }  # fmt: skip
    predicate = {**versions, "leakage": figures, "level": report.settings.level, "ledger": book and dict(book.told)}
    write_whole(out / STATEMENT, json.dumps(make_statement(digests, predicate, key), indent=1))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
