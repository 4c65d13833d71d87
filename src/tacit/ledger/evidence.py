"""One zip file to keep about a release: report, audit, policy, ledger lines, and SHA-256 sums.

    report.html    the report
    audit.json     the same as data
    audit-in-bundle.json   the audit that the bundle was saved with, where it is an earlier one
    policy.toml    the policy, where one is given
    ledger.jsonl   the lines about this release, as they stand in the ledger, where one is given
    SHA256SUMS     sums of these files, of the released table and of the bundle, as `sha256sum --check` reads them

The audit is that of the folder: the one that `tacit fit` made, or a later one of the same bundle. The released table,
the bundle and the keys are not in the zip. The report names classes and groups; it goes to readers who may see them.
"""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from tacit.errors import InputError
from tacit.files import replacing
from tacit.ledger.composition import mechanism_ids
from tacit.ledger.ledger import Ledger
from tacit.ledger.policy import read_policy
from tacit.release.bundle import read_bundle
from tacit.release.keys import key_folder, key_path, read_key
from tacit.report.page import page_text
from tacit.report.report import Report

SUMS = "SHA256SUMS"
RELEASED = ("release.csv", "release.parquet", "release.npz", "filter.tacit")


def write_evidence(
    folder: str | Path,
    out: str | Path,
    ledger: str | Path | None = None,
    policy: str | Path | None = None,
    keys: str | Path | None = None,
) -> Path:
    """Write the zip file of a release.

    Parameters
    ----------
    folder : what `tacit fit --out` wrote
    out : the file to write; it must not exist
    ledger : ledger.jsonl, whose lines about this release are copied after the ledger was verified
    policy : tacit.toml
    keys : the folder of the release's keys, where `tacit fit --keys` named one; nothing of it is copied

    Raises
    ------
    InputError : there is no audit, or the audit is of another bundle than the folder's
    """
    folder, out = Path(folder), Path(out)
    if out.exists():
        raise InputError(f"{out} exists; evidence is never overwritten. Name another file")
    audit = folder / "audit.json"
    if not audit.exists():
        raise InputError(f"{folder} has no audit.json; pass the folder that tacit fit --out wrote")
    report, place = Report.from_json(audit.read_bytes()), folder / "filter.tacit"
    files = {audit.name: audit.read_bytes(), "report.html": page_text([report], f"Audit of {report.name}").encode()}
    bundle = read_bundle(place, trust=True) if place.exists() else None  # nothing of it is run
    if bundle is not None and bundle.members[audit.name].strip() != b"null":
        inside = Report.from_json(bundle.members[audit.name])
        if set(inside.leakage) != set(report.leakage) or set(inside.utility) != set(report.utility):
            raise InputError(
                f"audit.json is of {', '.join([*report.utility, *report.leakage])}, and {place.name} was audited for "
                f"{', '.join([*inside.utility, *inside.leakage])}: one of the two belongs to another release"
            )
        if inside.to_dict() != report.to_dict():
            files["audit-in-bundle.json"] = bundle.members[audit.name]
    if policy is not None:
        files["policy.toml"] = read_policy(policy).text.encode()
    if ledger is not None:
        if bundle is None:
            raise InputError(f"{folder} has no {place.name}, by which a ledger knows a release; leave --ledger out")
        secret = key_path(key_folder(folder, None if keys is None else Path(keys)), bundle.manifest, "noise")
        known = {None, read_key(secret) if secret.exists() else None}
        files["ledger.jsonl"] = _lines(Path(ledger), {m for k in known for m in mechanism_ids(bundle.manifest, k)})
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    for name in RELEASED:
        if (folder / name).exists():
            with (folder / name).open("rb") as file:
                sums[name] = hashlib.file_digest(file, "sha256").hexdigest()
    files[SUMS] = "".join(f"{digest}  {name}\n" for name, digest in sums.items()).encode()
    with replacing(out) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out


def _lines(path: Path, mechanisms: set[str]) -> bytes:
    """The ledger's first line and those about these mechanisms, as they stand in the file."""
    chosen = {0}
    for line in Ledger(path).verify():
        named = {line.body.get("mechanism"), *(m for names in line.body.get("sets", ()) for m in names)}
        if named & mechanisms:
            chosen.add(line.number)
    raw = path.read_bytes().splitlines(keepends=True)
    return b"".join(raw[number] for number in sorted(chosen))
