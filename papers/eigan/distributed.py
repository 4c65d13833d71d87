"""Fig. 7 to 9 and 19 to 21: D-EIGAN, by benchmarks/federated.py."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import tacit
from tacit.reproduce import Run
from tacit.reproduce.papers import import_script
from tacit.reproduce.run import honest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def fig7(run: Run) -> None:
    """K = 2 to 10 nodes of Gaussians, unlike (node k has k times the variance, Fig. 7) or alike (Fig. 19)."""
    found = {
        part: dict(sorted(federated(run, part).items(), key=lambda named: int(named[0].split()[1][2:])))
        for part in ("nodes", "iid")
    }
    drawn = Figure(figsize=(8, 3), layout="constrained")
    for axis, label in zip(drawn.subplots(1, 2), ("leaks shape", "keeps colour"), strict=True):
        for (part, runs), style in zip(found.items(), ("-", "--"), strict=True):
            for method, colour in (("EIGAN", "tab:red"), ("D-EIGAN", "tab:blue")):
                line = {int(n.split()[1][2:]): r[label] for n, r in runs.items() if n.split()[2] == method}
                title = f"{method}, {'unlike' if part == 'nodes' else 'alike'}"
                axis.plot(list(line), list(line.values()), f"o{style}", color=colour, label=title)
        axis.set(xlabel="nodes", ylabel=f"{label}, fresh attackers")
    drawn.axes[0].set_ylim(0.45, 0.7)
    drawn.axes[0].legend(frameon=False, fontsize=7)
    run.figure("fig7", drawn)
    for part, runs in found.items():
        for name, row in runs.items():
            _, k, method = name.split()
            what = f"{method}, {k}, {'unlike' if part == 'nodes' else 'alike'}"
            told(
                run,
                what,
                row,
                "as EIGAN's" if method == "D-EIGAN" else None,
                {"colour": (2000, 2000), "shape": (2000, 2000)},
            )


def fig8(run: Run) -> None:
    """All nodes hide sex and race, or each node hides one of them: 2 alike nodes (Fig. 20) and 10 unlike (Fig. 8)."""
    counts = adult_counts(run)
    floor = run.part("label-only", label_only, run.settings["rows"])
    for name, row in federated(run, "objectives").items():
        what = name.removeprefix("objectives ")
        told(run, what, row, None if what == "EIGAN" else "as EIGAN's", counts)
        if what in ("EIGAN", "K=10 all"):
            bars = {k: around(row[f"leaks {k}"], counts[k]) for k in ("sex", "race")}
            leaks = {k: {"value": row[f"leaks {k}"], "low": b[0], "high": b[1], "guessing": 0.5, "by": "best of 3"}
                     for k, b in bars.items()}  # fmt: skip
            use = {"value": row["keeps income"], "guessing": max(counts["income"]) / sum(counts["income"])}
            line = {"utility": {"income": use}, "leakage": leaks, "certificate": {}}
            method = "EIGAN, l=8, noise .3" if what == "EIGAN" else "D-EIGAN, 10 nodes"
            run.audited(method, "adult", line, floor=floor)


def label_only(rows: int) -> dict[str, Any]:
    """What the predicted income alone keeps and leaks, on the benchmark's rows."""
    _, attack, test = import_script(BENCHMARKS / "federated.py", "benchmarks_federated").adult(rows)
    return honest(tacit.audit(None, attack, test, ["logistic"], pooled=(), limit=False))


def fig9(run: Run) -> None:
    """Ten unlike nodes: epochs between exchanges (delta), share of weights exchanged (phi), two ways to average."""
    runs = federated(run, "sync")
    drawn = Figure(figsize=(9, 3), layout="constrained")
    for axis, knob, fixed in zip(drawn.subplots(1, 2), ("delta", "phi"), ("phi=0.8", "delta=2"), strict=True):
        for way, colour in (("unbiased", "tab:blue"), ("paper", "tab:red")):
            for label, style in (("keeps income", "o-"), ("leaks sex", "s--"), ("leaks race", "^:")):
                points_ = sorted(
                    (float(n.partition(f"{knob}=")[2].split()[0]), r[label])
                    for n, r in runs.items()
                    if fixed in n.split() and n.endswith(way)
                )
                axis.plot(*zip(*points_, strict=True), style, color=colour, label=f"{way}: {label}")
        axis.set(xlabel=f"{knob} ({fixed})", ylabel="fresh attackers")
    drawn.axes[0].legend(frameon=False, fontsize=6)
    run.figure("fig9", drawn)
    counts = adult_counts(run)
    for name, row in runs.items():
        told(run, name.removeprefix("sync "), row, None, counts)


def federated(run: Run, part: str) -> dict[str, dict[str, float]]:
    """Means over seeds by run; full runs are the benchmark's, which takes an hour."""
    s = run.settings
    if run.quick:
        runs = run.part(part, small_federation, part, s["nodes"], s["rows"])
    else:
        runs = run.recorded("federated", f"python benchmarks/federated.py --only {part}", "2 CPU cores")["runs"]
    groups: dict[str, list[dict[str, float]]] = {}
    for name, row in runs.items():
        if name.split()[0] == part:
            groups.setdefault(name.rsplit(" seed=", 1)[0], []).append(row)
    return {
        name: {k: float(np.mean([r[k] for r in rows])) for k in rows[0]} | {"seeds": len(rows)}
        for name, rows in groups.items()
    }


def small_federation(part: str, nodes: Sequence[int], rows: int) -> dict[str, Any]:
    bench = import_script(BENCHMARKS / "federated.py", "benchmarks_federated")
    bench.NODES, bench.ATTACKERS, bench.SYNC = tuple(nodes), ["logistic"], bench.SYNC[1:2]
    bench.GAME, bench.ADULT = bench.GAME | {"epochs": 1}, bench.ADULT | {"epochs": 2}
    with tempfile.TemporaryDirectory() as folder:
        book = bench.Book(Path(folder) / "runs.json", float("inf"), rows)
        {"nodes": bench.gaussians, "iid": bench.gaussians, "objectives": bench.objectives, "sync": bench.sync}[part](
            book, part, 0, "cpu"
        )
        return book.runs


def told(
    run: Run, what: str, row: Mapping[str, float], printed: str | None, counts: Mapping[str, Sequence[int]]
) -> None:
    what = f"{what} ({row['seeds']} seed{'s' if row['seeds'] > 1 else ''})"
    for key, value in row.items():
        verb, _, label = key.partition(" ")
        if verb == "keeps":
            guessing = max(counts[label]) / sum(counts[label])
            run.row(what, f"{label}, accuracy", printed, value, guessing=guessing)
        elif verb == "leaks":
            bar = around(value, counts[label])
            run.row(what, f"{label}, balanced accuracy", printed, None, value, bar, guessing=1 / len(counts[label]))


def around(value: float, counts: Sequence[int]) -> tuple[float, float]:
    """95 % interval of a balanced accuracy by McDiarmid, from the classes' numbers of test rows."""
    slack = np.sqrt(sum(1 / n for n in counts) * np.log(2 / 0.05) / 2) / len(counts)
    return max(0.0, value - slack), min(1.0, value + slack)


def adult_counts(run: Run) -> dict[str, list[int]]:
    test = import_script(BENCHMARKS / "federated.py", "benchmarks_federated").adult(run.settings["rows"])[2]
    labels = pd.concat([test.y, test.sensitive], axis=1)
    return {label: labels[label].value_counts().tolist() for label in ("income", "sex", "race")}
