"""`tacit evidence`: one zip file to keep about a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.console import KeyFolder
from tacit.ledger.evidence import write_evidence


def evidence(
    folder: Annotated[Path, typer.Argument(help="The folder that tacit fit --out wrote.")],
    out: Annotated[Path, typer.Option(help="The zip file to write.")] = Path("evidence.zip"),
    ledger: Annotated[Path | None, typer.Option(help="Copy this ledger's lines about the release.")] = None,
    policy: Annotated[Path | None, typer.Option(help="The policy, tacit.toml.")] = None,
    keys: KeyFolder = None,
) -> None:
    """Write one zip file about a release: report, audit, policy, ledger lines and SHA-256 sums.

    Example: tacit evidence handover --out evidence.zip
    """
    print(f"Evidence: {write_evidence(folder, out, ledger, policy, keys)}")
