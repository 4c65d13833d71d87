"""`tacit demo`: the whole idea on digits."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from joblib import Parallel, delayed
from sklearn.decomposition import PCA

import tacit
from tacit.auditing.looks import new_project
from tacit.cli.console import Console, print_comparison, working
from tacit.errors import installed
from tacit.files import write_whole
from tacit.report import figure, write_page

INTRODUCTION = (
    "Handwritten digits. The task needs to know whether a digit is odd or even; which digit it is shall stay private. "
    "Parity is a function of the digit, so even the bare predicted label lets an attacker name the digit with "
    "probability .20, where guessing gives .10: no release that keeps the parity can do better."
)


def _attacked(name: str, release: Any, train: Any, attack: Any, test: Any) -> tuple[Any, Any]:
    """Fit a release and audit it. All are fixed beforehand: each certificate holds by itself."""
    with warnings.catch_warnings(), new_project():
        warnings.simplefilter("ignore")  # the one warning, that parity is a function of the digit, is said above
        if isinstance(release, PCA):
            release.fit(train.X)
        elif release is not None:
            release.fit(train.X, train.y, sensitive_features=train.sensitive)
        return tacit.audit(
            release,
            attack,
            test,
            measurements="auto" if release is None else "no-baseline",
            options=tacit.AuditOptions(name=name),
        ), release


def _eigan(seed: int) -> Any:
    if not installed("torch"):
        return None
    return tacit.EIGAN(n_components=8, alpha=0.7, noise=0.3, epochs=40, random_state=seed)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("tacit-demo"),
    seed: Annotated[int, typer.Option(help="Same seed, same split and filters.")] = 0,
) -> None:
    """Run filters, baselines and attackers on handwritten digits, in under a minute. No network.

    Example: tacit demo
    """
    console = Console()
    data = tacit.load_dataset("digits")
    train, attack, test = data.split((0.5, 0.2, 0.3), random_state=seed)
    releases: dict[str, Any] = {
        "raw data": None,
        "label-only": tacit.baselines.LabelOnly(random_state=seed),
        "PCA, 8 components": PCA(8, random_state=seed),
        "EIGAN": _eigan(seed),
        "CodebookFilter": tacit.CodebookFilter(n_codes=16, leakage_weight=0.3, random_state=seed),
    }
    console.print(f"{INTRODUCTION}\n", highlight=False)
    if releases["EIGAN"] is None:
        del releases["EIGAN"]
        console.print("EIGAN is left out: it is learned with torch (pip install 'tacit[train]')", markup=False)
    # what learns longest begins first
    work = [delayed(_attacked)(name, release, train, attack, test) for name, release in reversed(releases.items())]
    made = []
    with working(console) as doing:
        for found in Parallel(n_jobs=min(len(work), os.cpu_count() or 1), return_as="generator")(work):
            made.append(found)
            doing(f"fitting and attacking {len(work)} releases", len(made), len(work))
    reports, fitted = [report for report, _ in reversed(made)], made[0][1]
    print_comparison(console, reports)
    if installed("matplotlib"):
        write_whole(out / "figure.svg", figure(reports, "digit"))
    page = write_page(reports, out / "report.html", "Tacit demo: digits", INTRODUCTION)
    reports[-1].to_json(out / "audit.json")
    tacit.save(fitted, out / "filter.tacit", reports[-1])
    console.print(
        f"\nAttackers (logistic regression, boosted trees, MLP, k-NN) learned from {len(attack)} released rows that no "
        f"filter had seen and were tested on {len(test)} others; the one shown was chosen on validation rows. "
        f"'certified' bounds any attacker; 'audited only' is what these attackers found.\n"
        f"Report with figure: [bold]{page}[/bold]\nTo file the last release: tacit evidence {out}",
        highlight=False,
    )
