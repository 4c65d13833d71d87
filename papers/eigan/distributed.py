"""Fig. 7 to 9, 19 and 20: D-EIGAN, by papers/eigan/federated.py. Fig. 21 runs here."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.metrics import f1_score
from sklearn.neural_network import MLPClassifier

import tacit
from papers.common.run import Run, by_attacker, honest, together

from . import federated as deigan
from .synthetic import scatter

with suppress(ModuleNotFoundError):  # without cryptography there are no federations, and all other experiments
    from tacit.federated import DistributedEIGAN, Node


def fig7(run: Run) -> None:
    """K = 2 to 10 nodes of Gaussians, unlike (node k has k times the variance, Fig. 7) or alike (Fig. 19)."""
    found = {
        part: dict(sorted(federated(run, part).items(), key=lambda named: int(named[0].split()[1][2:])))
        for part in ("nodes", "iid")
    }
    drawn = Figure(figsize=(11, 3.2), layout="constrained")
    *panels, picture = drawn.subplots(1, 3)
    for axis, label in zip(panels, ("leaks shape", "keeps colour"), strict=True):
        for (part, runs), marker in zip(found.items(), "ox", strict=True):
            kind = "unlike" if part == "nodes" else "alike"
            for method, colour in (("EIGAN", "tab:red"), ("D-EIGAN", "tab:blue")):
                line = {int(n.split()[1][2:]): r[label] for n, r in runs.items() if n.split()[2] == method}
                axis.plot(list(line), list(line.values()), f"{marker}-", color=colour, label=f"{method}, {kind}")
            raw = {k: run.part(f"unencoded, {kind}, K={k}", unencoded, k, part) for k in line}
            axis.plot(
                list(raw), [r[label] for r in raw.values()], f"{marker}:", color="0.6", label=f"unencoded, {kind}"
            )
        axis.set(xlabel="nodes", ylabel=f"{label}, accuracy", ylim=(0.45, 1))
        axis.axhline(0.5, color="0.8", lw=0.8)
        axis.set_title("(a) adversary" if axis is panels[0] else "(b) ally", fontsize=9)
    panels[1].legend(frameon=False, fontsize=7)
    draw_third_node(picture)
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


def draw_third_node(axis: Any) -> None:
    """Panel (c): the ally's colours and the adversary's shapes at node k = 3, of variance .3."""
    third = tacit.load_dataset("gaussians", n=200, n_nodes=3, random_state=0).split("official")[2]
    colour, shape = (
        np.unique(f.to_numpy(), return_inverse=True)[1] for f in (third.y["colour"], third.sensitive["shape"])
    )
    scatter(axis, np.asarray(third.X), colour, shape)
    axis.set_title("(c) node 3; ally: colour, adversary: shape", fontsize=8)


def unencoded(k: int, part: str) -> dict[str, float]:
    """The benchmark's rows of k nodes as they are, to one attacker."""
    data = tacit.load_dataset("gaussians", n=400 + 8000 // k, n_nodes=k, iid=part == "iid", random_state=0)
    parts = [d.split((400, 4000 / k, 4000 / k), random_state=0)[1:] for d in data.split("official")]
    attack, test = (deigan.join([p[i] for p in parts]) for i in range(2))
    report = tacit.audit(
        None, attack, test, ["logistic"], measurements="no-baseline", options=tacit.AuditOptions(pooled=())
    )
    return {"leaks shape": report.leakage["shape"].value, "keeps colour": report.utility["colour"].value}


def fig8(run: Run) -> None:
    """All nodes hide sex and race, or each node hides one of them: 2 alike nodes (Fig. 20) and 10 unlike (Fig. 8)."""
    counts, s = counts_of(run), run.settings
    rows = federated(run, "objectives")
    for name, row in rows.items():
        what = name.removeprefix("objectives ")
        printed = {"EIGAN": None, "K=10 all": "on gender slightly better than one each"}.get(what, "as EIGAN's")
        told(run, what, row, "as with all" if what == "K=10 one each" else printed, counts)
    if not run.data:
        summarised(run, rows, counts)
    if s["longer"]:
        found = [run.part(f"longer seed {seed}", longer, seed, s["rows"], s["longer"]) for seed in run.seeds]
        mean = {k: float(np.mean([f[k] for f in found])) for k in found[0]} | {"seeds": len(found)}
        told(run, f"K=10 all, {s['longer']} epochs", mean, None, counts)
        found = [run.part(f"as printed seed {seed}", as_printed, seed, s["rows"], s["longer"]) for seed in run.seeds]
        mean = {k: float(np.mean([f[k] for f in found])) for k in found[0]} | {"seeds": len(found)}
        told(run, f"K=10 all as printed (Algorithm A1, zero-fill), {s['longer']} epochs", mean, None, counts)
    run.figure("fig8", draw_objectives(rows, guessed(counts)))


def summarised(run: Run, rows: Mapping[str, Mapping[str, float]], counts: Mapping[str, Sequence[int]]) -> None:
    """The lines of the summary of all papers, with the label-only release of the same rows."""
    floor = run.part("label-only", label_only, run.settings["rows"])
    for what, method in (("EIGAN", "EIGAN, l=8, noise .3"), ("K=10 all", "D-EIGAN, 10 nodes")):
        row = rows[f"objectives {what}"]
        bars = {k: around(row[f"leaks {k}"], counts[k]) for k in ("sex", "race")}
        leaks = {k: {"value": row[f"leaks {k}"], "low": b[0], "high": b[1], "guessing": 0.5, "by": "best of 3"}
                 for k, b in bars.items()}  # fmt: skip
        use = {"value": row["keeps income"], "guessing": guessed(counts)["keeps income"]}
        run.audited(method, "adult", {"utility": {"income": use}, "leakage": leaks, "certificate": {}}, floor=floor)


def longer(seed: int, rows: int, epochs: int) -> dict[str, float]:
    """Ten unlike nodes that hide both secrets, with as many steps of a node's encoder as EIGAN's takes."""
    train, attack, test = deigan.adult(rows)
    nodes = [Node(d.X, d.y, sensitive_features=d.sensitive) for d in deigan.silos(train, 10, False, seed)]
    settings = deigan.ADULT | {"epochs": epochs, "sync_every": 2, "share": 0.8}
    return deigan.view(DistributedEIGAN(**settings, random_state=seed, device="cpu").fit(nodes), attack, test, seed)


def as_printed(seed: int, rows: int, epochs: int) -> dict[str, float]:
    """Those ten nodes with the paper's game at each, what was not sent counted as 0."""
    train, attack, test = deigan.adult(rows)
    nodes = [Node(d.X, d.y, sensitive_features=d.sensitive) for d in deigan.silos(train, 10, False, seed)]
    f = DistributedEIGAN.as_printed(8, batch_size=64, epochs=epochs, sync_every=2, share=0.8,
                                    aggregation="paper", random_state=seed, device="cpu").fit(nodes)  # fmt: skip
    return deigan.view(f, attack, test, seed)


def draw_objectives(rows: Mapping[str, Mapping[str, float]], guessing: Mapping[str, float]) -> Figure:
    """Bars as in print: the ally's and both adversaries' accuracies by who hides what; dashed: EIGAN."""
    drawn = Figure(figsize=(9, 2.8), layout="constrained")
    central = rows["objectives EIGAN"]
    for axis, key in zip(drawn.subplots(1, len(guessing)), guessing, strict=True):
        verb, label = key.split()
        spread = {n.removeprefix("objectives "): r[key] for n, r in rows.items() if "K=" in n}
        heights = [v - guessing[key] for v in spread.values()]
        axis.bar(list(spread), heights, bottom=guessing[key], color=["tab:blue", "tab:cyan"] * 2)
        axis.axhline(central[key], color="tab:red", ls="--", lw=1, label="EIGAN")
        measure = "accuracy" if verb == "keeps" else "balanced"
        axis.set(title=f"{label}, {measure} (bars from guessing)", ylim=(guessing[key], guessing[key] + 0.12))
        axis.title.set_fontsize(9)
        axis.set_xticks(range(len(spread)), [n.replace(" ", "\n", 1) for n in spread], fontsize=7)
    drawn.axes[0].legend(frameon=False, fontsize=7)
    return drawn


def label_only(rows: int) -> dict[str, Any]:
    """What the predicted income alone keeps and leaks, on the benchmark's rows."""
    _, attack, test = deigan.adult(rows)
    return honest(
        tacit.audit(None, attack, test, ["logistic"], measurements="no-limit", options=tacit.AuditOptions(pooled=()))
    )


def fig9(run: Run) -> None:
    """Ten unlike nodes: epochs between exchanges (delta), share of weights exchanged (phi), two ways to average."""
    runs = federated(run, "sync")
    central = federated(run, "objectives")["objectives EIGAN"]
    counts = counts_of(run)
    guessing = guessed(counts)
    drawn = Figure(figsize=(10, 4.2), layout="constrained")
    for axis, knob, fixed in zip(drawn.subplots(1, 2), ("delta", "phi"), ("phi=0.8", "delta=2"), strict=True):
        for way, colour in (("unbiased", "tab:blue"), ("paper", "tab:red")):
            for label, style in zip(guessing, ("o-", "s--", "^:"), strict=True):
                points_ = sorted(
                    (float(n.partition(f"{knob}=")[2].split()[0]), r[label])
                    for n, r in runs.items()
                    if fixed in n.split() and n.endswith(way)
                )
                axis.plot(*zip(*points_, strict=True), style, color=colour, label=f"{way}: {label}")
        for label, style in zip(guessing, ("-", "--", ":"), strict=True):
            axis.axhline(central[label], ls=style, color="0.5", lw=1, label=f"EIGAN: {label}")
        ends = min(guessing.values()) - 0.05, max(0.9, *(v + 0.05 for v in guessing.values()))
        axis.set(xlabel=f"{knob} ({fixed})", ylabel="kept: accuracy; leaked: balanced", ylim=ends)
    drawn.legend(
        *drawn.axes[0].get_legend_handles_labels(), frameon=False, fontsize=7, ncols=3, loc="outside lower center"
    )
    run.figure("fig9", drawn)
    for name, row in runs.items():
        at = name.removeprefix("sync ")
        told(run, at, row, "worse than less" if "phi=1.0" in at else "robust", counts)


def fig21(run: Run) -> None:
    """Two alike nodes of Gaussians, one shape three times as common: epochs between exchanges, share of weights."""
    s = run.settings
    settings = [(delta, 1.0) for delta in s["deltas"]] + [(1, phi) for phi in s["phis"]]
    found = {
        at: [run.part(f"delta={at[0]} phi={at[1]} seed {seed}", two_nodes, *at, seed, s) for seed in run.seeds]
        for at in settings
    }
    for (delta, phi), audits in found.items():
        one = together(audits)
        kept, leak = one["utility"]["colour"], one["leakage"]["shape"]
        what = f"2 nodes, delta={delta}, phi={phi:g}"
        printed = "little effect", "worse when rarer" if phi == 1 else "no benefit of a part"
        run.row(what, "colour, accuracy", printed[0], float(np.mean([a["utility"]["colour"]["value"] for a in audits])),
                guessing=kept["guessing"])  # fmt: skip
        run.row(what, "shape, balanced accuracy", printed[1], guessing=leak["guessing"], **by_attacker(leak))
        for label, words in zip(("colour", "shape"), printed, strict=True):
            mean = {k: float(np.mean([a["f1"][label][k] for a in audits])) for k in ("value", "guessing")}
            run.row(what, f"{label}, F1 of the paper's network", words, mean["value"], guessing=mean["guessing"])
    drawn = Figure(figsize=(8, 2.8), layout="constrained")
    panels = {
        "delta (phi = 1)": {d: found[d, 1.0] for d in s["deltas"]},
        "phi (delta = 1)": {p: found[1, p] for p in s["phis"]},
    }
    for axis, (title, line) in zip(drawn.subplots(1, 2), panels.items(), strict=True):
        for side, label, fmt in (("utility", "colour", "o-"), ("leakage", "shape", "s--"), ("f1", "shape", "^:")):
            values = np.array([[a[side][label]["value"] for a in audits] for audits in line.values()])
            axis.errorbar(
                list(line),
                values.mean(1),
                values.std(1),
                fmt=fmt,
                capsize=2,
                label=f"{label}, " + {"utility": "kept", "leakage": "read (balanced)", "f1": "read (F1)"}[side],
            )
        axis.axhline(0.5, color="0.7", lw=0.8)
        axis.set(xlabel=title, ylabel="fresh attackers' accuracy, or F1", ylim=(0.0, 1.02))
    drawn.axes[0].legend(frameon=False, fontsize=7)
    run.figure("fig21", drawn)


def two_nodes(delta: int, phi: float, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    data = tacit.load_dataset("gaussians", n=s["n"], n_nodes=2, iid=True, random_state=seed)
    shape = data.sensitive["shape"].to_numpy()
    rare = (shape == np.unique(shape)[1]) & (np.random.default_rng((seed, 21)).random(len(shape)) > 1 / 3)
    nodes, attack, test = [], [], []
    for part in data.take(~rare).split("official"):
        own, a, t = part.split((0.4, 0.3, 0.3), random_state=seed)
        nodes.append(Node(own.X, own.y, sensitive_features=own.sensitive))
        attack.append(a)
        test.append(t)
    f = DistributedEIGAN(1, epochs=s["epochs"], batch_size=32, adversary_steps=3, sync_every=delta, share=phi,
                         random_state=seed, device="cpu").fit(nodes)  # fmt: skip
    attack, test = deigan.join(attack), deigan.join(test)
    released = f.transform(attack.X), f.transform(test.X)
    report = tacit.audit(
        released,
        attack,
        test,
        s["attackers"],
        measurements="no-baseline",
        random_state=seed,
        options=tacit.AuditOptions(pooled=()),
    )
    X, y, hidden = (np.concatenate([getattr(n, a) for n in nodes]) for a in ("X", "y", "sensitive_features"))
    labels = {"colour": (y, test.y["colour"]), "shape": (hidden, test.sensitive["shape"])}
    scores = {k: f1_in_print(f.transform(X), a.ravel(), released[1], b, seed) for k, (a, b) in labels.items()}
    return honest(report) | {"f1": scores}


def f1_in_print(Z: np.ndarray, y: np.ndarray, Zt: np.ndarray, yt: Any, seed: int) -> dict[str, float]:
    """F1 of the rarer class, as the paper compares unequal classes: a network that learns from the training rows.

    Guessing: who names the rarer class at random, as often as it is there.
    """
    values, counts = np.unique(y.astype(str), return_counts=True)
    rare = values[counts.argmin()]
    truth = np.asarray(yt).astype(str) == rare
    network = MLPClassifier((64,), learning_rate_init=2e-3, max_iter=30, random_state=seed).fit(
        Z, y.astype(str) == rare
    )
    return {"value": float(f1_score(truth, network.predict(Zt), zero_division=0)), "guessing": float(truth.mean())}


def federated(run: Run, part: str) -> dict[str, dict[str, float]]:
    """Means over seeds by run; full runs are those of `federated.py`, which take an hour, save on an owner's data."""
    if run.quick or run.data:
        parts = [run.part(f"{part} seed {seed}", federation, part, seed, run.settings, run.quick) for seed in run.seeds]
        runs = {name: row for found in parts for name, row in found.items()}
    else:
        runs = run.recorded(f"python -m papers.eigan.federated --only {part}", "2 CPU cores")["runs"]
    groups: dict[str, list[dict[str, float]]] = {}
    for name, row in runs.items():
        if name.split()[0] == part:
            groups.setdefault(name.rsplit(" seed=", 1)[0], []).append(row)
    return {
        name: {k: float(np.mean([r[k] for r in rows])) for k in rows[0]} | {"seeds": len(rows)}
        for name, rows in groups.items()
    }


def federation(part: str, seed: int, s: Mapping[str, Any], quick: bool) -> dict[str, Any]:
    """One seed of what `federated.py` runs."""
    size = deigan.Size(nodes=tuple(s["nodes"]), rows=s["rows"], data=s.get("data", "adult"))
    if quick:
        size = replace(size, game=deigan.GAME | {"epochs": 1}, adult=deigan.ADULT | {"epochs": 2},
                       attackers=["logistic"], sync=deigan.SYNC[1:2])  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        book = deigan.Book(Path(folder) / "runs.json", float("inf"), size)
        {"nodes": deigan.gaussians, "iid": deigan.gaussians, "objectives": deigan.objectives, "sync": deigan.sync}[
            part
        ](book, part, seed, "cpu")
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


def counts_of(run: Run) -> dict[str, list[int]]:
    """Test rows of each class: of the target first, then of what is hidden."""
    test = deigan.people(run.settings.get("data", "adult"), run.settings["rows"])[2]
    labels = pd.concat([test.y, test.sensitive], axis=1)
    return {label: labels[label].value_counts().tolist() for label in labels}


def guessed(counts: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """What somebody gets who sees no release: plain accuracy of the target, balanced of the others."""
    target, *secrets = counts
    kept = {f"keeps {target}": max(counts[target]) / sum(counts[target])}
    return kept | {f"leaks {k}": 1 / len(counts[k]) for k in secrets}
