"""`tacit evidence`: what is filed about a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.errors import InputError


def evidence(
    folder: Annotated[Path, typer.Argument(help="What tacit fit --out wrote; with --verify, a folder of evidence.")],
    out: Annotated[Path, typer.Option(help="Folder to make.")] = Path("evidence"),
    ledger: Annotated[Path | None, typer.Option(help="Take what it tells of this release; it is verified.")] = None,
    policy: Annotated[Path | None, typer.Option(help="The policy, tacit.toml.")] = None,
    key: Annotated[Path | None, typer.Option(help="Sign with this secret key (tacit release keys).")] = None,
    keys: Annotated[Path | None, typer.Option(help="Folder of the release's keys, as of tacit fit --keys.")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check a folder of evidence instead of making one.")] = False,
    trusted_key: Annotated[Path | None, typer.Option(help="With --verify: who must have signed it.")] = None,
    release: Annotated[
        Path | None, typer.Option(help="With --verify: the folder of the release, to check its files too.")
    ] = None,
) -> None:
    """Make one folder to file about a release: a summary to print, the report, policy, ledger, versions, all signed.

    It holds no record and no value of any column.
    """
    from tacit.ledger.evidence import RELEASED, verify_evidence, write_evidence  # every command starts quickly

    if not verify:
        if trusted_key is not None or release is not None:
            raise InputError("--trusted-key and --release go with --verify")
        made = write_evidence(folder, out, ledger, policy, key, keys)
        print(f"Evidence: {made}/ (print summary.html: two pages)")
        if key is None:
            print("It is not signed: nobody can verify it. Make a key with: tacit release keys FILE")
        return
    if trusted_key is None:
        raise InputError("--verify needs --trusted-key KEY.pub: whose signature do you trust?")
    digests = verify_evidence(folder, trusted_key, release)["digests"]
    own = sum(not name.startswith(RELEASED) for name in digests)
    rest = "" if release is None else f", and so are the {len(digests) - own} files of {release}"
    print(f"{folder}: signed by {trusted_key.name}; its {own} files are as they were signed{rest}")
