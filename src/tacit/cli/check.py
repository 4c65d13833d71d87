"""`tacit check`: fit or load what the policy names, audit it, and pass or fail: the gate of a pull request."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

import tacit
from tacit.cli.console import Console, SignedName, Trust, Trusted, numeric_columns, rows_as_people, working
from tacit.errors import InputError, RequirementNotMet
from tacit.files import write_whole
from tacit.filters.registry import make_filter
from tacit.ledger.policy import Case, Policy, check_report, junit, read_policy
from tacit.report.report import Report

BEGIN = """[data]
file = "people.csv"
targets = ["income"]
sensitive = ["sex"]

[limits]
leakage = {{ sex = 0.60 }}
"""


def check(
    policy: Annotated[Path, typer.Argument(help="The policy, tacit.toml, or its folder.")] = Path("tacit.toml"),
    bundle: Annotated[Path | None, typer.Option(help="Check this bundle instead of the one in the policy.")] = None,
    junit_file: Annotated[Path | None, typer.Option("--junit", help="Write the limits as a JUnit file.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for report.html and audit.json.")] = None,
    trusted_key: Trusted = None,
    signed_name: SignedName = None,
    trust: Trust = False,
) -> None:
    """Fit or load what a policy names, audit it, and exit 3 unless every limit is kept. For version control.

    Example: tacit check tacit.toml --junit limits.xml
    """
    console, opening = Console(), {"trusted_key": trusted_key, "name": signed_name, "trust": trust}
    started = time.perf_counter()
    asked = read_policy(policy)
    if asked.data is None:
        raise InputError(f"{policy} says nothing of the data; it begins like this:\n{BEGIN}")
    for place in (junit_file, out):
        if place is not None:
            (place if place is out else place.parent).mkdir(parents=True, exist_ok=True)  # before the work
    with working(console) as doing:
        report, release = _audited(console, asked, bundle, doing, opening)
    cases = check_report(report, asked) + _receivers(asked, release)
    if not cases:
        raise InputError(
            f"{policy} sets no limit, so nothing can fail; add [limits], such as leakage = {{ sex = 0.60 }}"
        )
    for case in cases:
        mark = "[green]kept[/green]    " if case.good else "[red]not kept[/red]"
        console.print(f"{mark} {escape(case.sentence)}", highlight=False)
    if junit_file is not None:
        write_whole(junit_file, junit(cases, time.perf_counter() - started))
    if out is not None:
        report.to_json(out / "audit.json")
        console.print(f"Report: {report.to_html(out / 'report.html')}", highlight=False, markup=False)
    if bad := [c for c in cases if not c.good]:
        raise RequirementNotMet(f"{len(bad)} of {len(cases)} limits: {', '.join(c.name for c in bad)}")
    console.print(f"[green]all {len(cases)} limits are kept[/green]")


def _audited(
    console: Console, policy: Policy, bundle: Path | None, doing: Callable[..., None], opening: dict[str, Any]
) -> tuple[Report, Any]:
    """The audit of what the policy names, and the bundle, opened as by `tacit.load`, where there is one."""
    d, f = policy.data, policy.filter
    assert d is not None
    said, columns = numeric_columns(d.numeric), (list(d.targets), list(d.sensitive), d.unit, list(d.drop), d.bins)
    rows = tacit.read_table(policy.place(d.file), *columns, numeric=said)
    data = rows_as_people(console, rows)
    place = bundle or (policy.place(f.bundle) if f.bundle else None)
    limits = policy.limits
    # what no limit asks for is not measured
    measured = ["breadth"] if (limits.least_breadth, limits.most_breadth) != (None, None) else []
    measured += ["linkability"] if limits.linkability is not None else []

    def shown(name: str) -> tacit.AuditOptions:
        return tacit.AuditOptions(name, callback=lambda what, *_: doing(f"attacking {what}"))

    options: dict[str, Any] = {
        "attackers": limits.attackers,
        "alongside": list(d.alongside),
        "random_state": f.seed,
        "measurements": measured,
    }
    if place is not None:
        keys: dict[str, Any] = {
            n: name and policy.place(name) for n, name in (("owner_key", f.owner_key), ("noise_key", f.noise_key))
        }
        release = tacit.load(place, **keys, **opening)
        attack, test = data.split((0.5, 0.5), random_state=f.seed)
        return tacit.audit(release, attack, test, **options, options=shown(place.name)), release
    train, attack, test = data.split((0.5, 0.2, 0.3), random_state=f.seed)
    chosen = make_filter(f.name, f.weight, f.settings, random_state=f.seed)
    doing(f"fitting {f.name} on {len(train):,} rows")
    chosen.fit(train.X, train.y, sensitive_features=train.sensitive, units=train.units_of())
    return tacit.audit(chosen, attack, test, **options, options=shown(f.name)), None


def _receivers(policy: Policy, release: Any) -> list[Case]:
    """For a bundle and a ledger: what each receiver would hold after one release more, of everybody."""
    if release is None or policy.ledger is None or not policy.place(policy.ledger.file).exists():
        return []
    from tacit.ledger.composition import what_if  # only where there is a ledger
    from tacit.ledger.ledger import Ledger
    from tacit.ledger.recording import entry

    ledger = Ledger(policy.place(policy.ledger.file))
    lines, cases = ledger.verify(), []
    for name in policy.receivers:
        verdicts = what_if(lines, ledger.folder, entry(release, "check", release.name, name, None), None, policy)
        problems = [text for v in verdicts for text in v.problems]
        kept = "; ".join(f"{v.attribute}: {v.composed.sentence}" for v in verdicts) or "no limit"
        cases.append(Case(f"receivers.{name}", not problems, "; ".join(problems) or kept))
    return cases
