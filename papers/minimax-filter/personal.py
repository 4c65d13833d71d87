"""Personal minimax filters on HAR, domain 2 (Fig. 5 of the paper), and what a fresh attacker sees of them.

    python -m papers.minimax-filter.personal [--trials 3] [--rounds 20] [--only sequential parallel statistics]

Each trial draws 15 of the 30 people as the public domain 1: the common filter (d=20) is learned from half of their
rows. The other 15 are the contributors: half of each one's rows train, the other half test. The paper's protocol: the
evaluators (logistic regression) learn from the contributors' training rows, which the filters have seen, and read their
test rows, a random half of overlapping windows. "binary" is the mean over people of the balanced accuracy of
telling that person's samples from all others'. "audit" is the view of attackers trained afresh on released rows: who of
the 15 it is, by bouts that no filter has seen (split by bout, so that overlapping windows never cross).
Prints a line per trial and writes papers/minimax-filter/personal.json as it goes. `fig5` is the paper's figure: the
same trials with a common filter as printed, and with ours.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

import tacit
from papers.common.run import Run, by_attacker, together
from papers.common.shown import shown
from tacit.federated import Node, PersonalMinimax
from tacit.federated.node import named
from tacit.federated.personal import Contributor

from .later import floor_of
from .personal_asynchronous import AsynchronousMinimax
from .personal_batch import PersonalGame

OUT = Path(__file__).with_suffix(".json")
SETTINGS = {
    "sequential": {},
    "parallel": {"order": "parallel"},
    "statistics": {"exchange": "statistics"},
    "squared statistics": {"exchange": "statistics", "loss": "squared"},
}
NEEDED = {"target": 0.935, "binary": 0.56}
SHOWN = (0, 1, 2, 5, 10, 15, 20)
ATTACKERS = ["logistic", "mlp", "rbf"]


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--trials", type=int, default=3)
    arguments.add_argument("--rounds", type=int, default=20)
    arguments.add_argument("--only", nargs="*", default=["sequential"])
    arguments.add_argument("--rho", type=float, default=1.0)
    arguments.add_argument("--audit", action="store_true")
    arguments.add_argument("--out", type=Path, default=OUT)
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    data = arrays_of(tacit.load_dataset("uci_har"))
    results = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    for name in chosen.only:
        runs = []
        for trial in range(chosen.trials):
            runs.append(one_trial(data, trial, chosen.rounds, SETTINGS[name] | {"rho": chosen.rho}, chosen.audit))
            print(f"{name}, trial {trial}: {told(runs[-1])}", flush=True)
            results[name] = {"rho": chosen.rho, "runs": runs, "mean": mean_of(runs)}
            chosen.out.write_text(json.dumps(results, indent=1))
        end = results[name]["mean"]["curve"][-1]
        met = end["target"] >= NEEDED["target"] and end["binary"] <= NEEDED["binary"]
        print(f"{name}, mean of {len(runs)}: {told(results[name]['mean'])}: {'met' if met else 'NOT MET'}", flush=True)


def arrays_of(data: tacit.Dataset) -> tacit.Dataset:
    """Records as arrays, which a filter as printed takes unchanged."""
    return tacit.Dataset(np.asarray(data.X, dtype=np.float64), data.y, data.sensitive, data.units)


def people_of(data: tacit.Dataset, trial: int, printed: bool) -> tuple[tacit.MinimaxFilter, list, list, list]:
    """The common filter of 15 people, and the other 15: their nodes, all their rows, and which of them train."""
    rng = np.random.default_rng(trial)
    subject = data.sensitive["subject"].to_numpy()
    people = rng.permutation(np.unique(subject))
    half = rng.random(len(data)) < 0.5
    public = data.take(np.isin(subject, people[:15]) & half)
    make = tacit.MinimaxFilter.as_printed if printed else tacit.MinimaxFilter
    start = make(20, max_iter=60, random_state=trial)
    start.fit(public.X, public.y, sensitive_features=public.sensitive)
    members = [data.take(subject == p) for p in people[15:]]
    halves = [half[subject == p] for p in people[15:]]
    nodes = named([Node(m.X[h], m.y[h].reset_index(drop=True), name=f"person {p}")
                   for m, h, p in zip(members, halves, people[15:], strict=True)])  # fmt: skip
    return start, nodes, members, halves


def one_trial(data, trial: int, rounds: int, settings: dict, audit: bool, printed: bool = False) -> dict:
    began = time.perf_counter()
    start, nodes, members, halves = people_of(data, trial, printed)
    f = PersonalMinimax(start, rounds=rounds, **settings)
    workers = {n.name: f.worker(n) for n in nodes}
    server = f.coordinator(list(workers))
    curve = []
    while True:
        due = server.turn == 0 and server.round in (*SHOWN, rounds)
        if due and (not curve or curve[-1]["round"] != server.round):
            filters = {name: w.filter() for name, w in workers.items()}
            curve.append({"round": server.round, **paper_view(filters, nodes, members, halves)})
        if server.finished:
            break
        server.receive([workers[m.node].work(m) for m in server.requests()])
    f.conclude(server, list(workers.values()))
    found = {"curve": curve, "bytes": f.bytes_["sent"], "bytes_samples": f.bytes_["samples"]}
    if audit:
        found["audit"] = {
            "before": fresh_view(lambda name, X: start.transform(X), nodes, members, halves, trial),
            "after": fresh_view(lambda name, X: f.transform(X, name), nodes, members, halves, trial),
        }
    return found | {"seconds": time.perf_counter() - began}


def paper_view(filters, nodes, members, halves) -> dict[str, float]:
    """Logistic evaluators: target over all contributors, and each contributor against the rest."""
    parts = {True: [], False: []}
    for node, m, h in zip(nodes, members, halves, strict=True):
        Z = filters[node.name].transform(m.X)
        for train in (True, False):
            rows = h == train
            parts[train].append((Z[rows], m.y["activity"].to_numpy()[rows]))
    Z, y, who = {}, {}, {}
    for train, found in parts.items():
        Z[train], y[train] = (np.concatenate(x) for x in zip(*found, strict=True))
        who[train] = np.repeat(np.arange(len(found)), [len(z) for z, _ in found])
    target = LogisticRegression(C=1e4, max_iter=300).fit(Z[True], y[True]).score(Z[False], y[False])
    binary = []
    for i in range(len(nodes)):
        reader = LogisticRegression(C=1e4, class_weight="balanced", max_iter=300).fit(Z[True], who[True] == i)
        binary.append(balanced_accuracy_score(who[False] == i, reader.predict(Z[False])))
    return {"target": float(target), "binary": float(np.mean(binary)), "worst": float(np.max(binary))}


def fresh_view(release, nodes, members, halves, seed) -> dict[str, float]:
    """Attackers trained afresh on released rows that no filter has seen, split by bout."""
    parts = []
    for node, m, h in zip(nodes, members, halves, strict=True):
        rows = ~h
        Z = release(node.name, m.X[rows])
        labels = pd.DataFrame({"subject": [node.name] * len(Z)})
        parts.append((Z, m.y[rows].reset_index(drop=True), labels, m.units_of()[rows]))
    Z, y, s, bouts = (list(x) for x in zip(*parts, strict=True))
    fresh = tacit.Dataset(np.concatenate(Z), pd.concat(y), pd.concat(s), units=np.concatenate(bouts))
    attack, test = fresh.split((0.5, 0.5), random_state=seed)
    report = tacit.audit(
        (attack.X, test.X), attack, test, ATTACKERS, measurements="no-baseline", options=tacit.AuditOptions(pooled=())
    )
    leak = report.leakage["subject"]
    return {"activity": report.utility["activity"].value, "subject": leak.value, "low": leak.low, "high": leak.high,
            "guessing": leak.guessing, "attacker": leak.attacker}  # fmt: skip


# -- Fig. 5 ------------------------------------------------------------------------------------------


def fig5(run: Run) -> None:
    """5.4, Algorithm 3: 15 other people each learn a filter of their own, starting from that of domain 1 (d=20)."""
    s = run.settings
    printed = {"before": (".936 ± .013", ".674 ± .011"), "after": (".946 ± .010", ".538 ± .017")}
    found = {
        row: [
            run.part(
                f"{row}, trial {i}", of_the_paper, i, s["rounds"], s["every"], i < s["audited"], row == "as printed"
            )
            for i in run.seeds
        ]
        for row in ("as printed", "ours")
    }
    commonest = float(tacit.load_dataset("uci_har").y["activity"].value_counts(normalize=True).max())
    drawn = {}
    for row, trials in found.items():
        rounds = [c["round"] for c in trials[0]["curve"]]
        curves = {k: np.array([[c[k] for c in t["curve"]] for t in trials]) for k in ("target", "binary")}
        drawn[row] = rounds, curves
        for when, at in (("before", 0), ("after", -1)):
            name = f"{row}, {when} ({rounds[at]} rounds)"
            kept, told = (spread_of(curves[k][:, at]) for k in ("target", "binary"))
            words = printed[when] if row == "as printed" else (None, None)
            run.row(name, f"activity, accuracy ({kept[1]}; guessing {shown(commonest)})", words[0], kept[0])
            audits = [as_honest(t["audit"][when], commonest) for t in trials if "audit" in t]
            leak = together(audits)["leakage"]["subject"] if audits else None
            more = f"; attacker: which of the 15, balanced, .067, {leak['seeds']} seeds" if leak else ""
            run.row(name, f"this person or another ({told[1]}; guessing .500{more})", words[1], told[0],
                    **by_attacker(leak))  # fmt: skip
            if audits:
                kind = "of other people" if when == "before" else "personal"
                run.audited(f"minimax d=20 {kind}, {row}", "uci_har", audits, floor=floor_of(run, "fig4"))
    run.figure("fig5", curves_of(drawn))


def spread_of(values: np.ndarray) -> tuple[float, str]:
    """The mean, and the deviation over trials in words."""
    deviation = shown(float(values.std(ddof=min(1, len(values) - 1))))
    return float(values.mean()), f"± {deviation}, {len(values)} trials"


def as_honest(told: dict, commonest: float) -> dict:
    """A trial's audit as `Run.audited` takes it."""
    leak = {k: told[k] for k in ("low", "high", "guessing")} | {"value": told["subject"], "by": told["attacker"]}
    use = {"value": told["activity"], "guessing": commonest}
    return {"utility": {"activity": use}, "leakage": {"subject": leak}, "certificate": {}, "label_only": {},
            "label_only_utility": {}}  # fmt: skip


def orders(run: Run) -> None:
    """The same game in other orders, and solved in batch, which needs everybody's records."""
    s = run.settings
    found = [run.part(f"trial {i}", in_other_orders, i, s["rounds"], s["every"], s["batch"]) for i in run.seeds]
    commonest = float(tacit.load_dataset("uci_har").y["activity"].value_counts(normalize=True).max())
    for order in found[0]:
        for measure, guessing in (("objective of eq. 16", None), ("activity, accuracy", commonest),
                                  ("this person or another", 0.5)):  # fmt: skip
            value, words = spread_of(np.array([f[order][measure] for f in found]))
            run.row(order, f"{measure} ({words})", None, value, guessing=guessing)


def of_the_paper(trial: int, rounds: int, every: int, audit: bool, printed: bool) -> dict:
    """One trial on every n-th window."""
    data = tacit.load_dataset("uci_har")
    data = arrays_of(data.take(np.arange(0, len(data), every)))
    found = one_trial(data, trial, rounds, {"rho": 1.0}, audit, printed)
    return {k: found[k] for k in ("curve", "audit", "seconds") if k in found}


def in_other_orders(trial: int, rounds: int, every: int, batch: int) -> dict:
    """The end of Algorithm 3 in turn, at once and in everybody's own time, and of the batch solution of eq. 16."""
    data = tacit.load_dataset("uci_har")
    start, nodes, members, halves = people_of(arrays_of(data.take(np.arange(0, len(data), every))), trial, False)
    game = PersonalGame(start, nodes)
    ends = {"common filter": {n: start for n in game.names}}
    for order in ("sequential", "parallel"):
        ends[order] = PersonalMinimax(start, rounds=rounds, order=order).fit(nodes).filters_
    own = AsynchronousMinimax(start, rounds=rounds)
    own.random_state = trial
    ends["asynchronous"] = own.fit(nodes).filters_
    ends["batch"] = {}
    for node, matrix in zip(nodes, game.solve(batch)[0].values(), strict=True):
        own = Contributor(PersonalMinimax(start), node)
        own.u = matrix.ravel()
        ends["batch"][node.name] = own.filter()
    out = {}
    for order, filters in ends.items():
        view = paper_view(filters, nodes, members, halves)
        out[order] = {"objective of eq. 16": game.objective(filters), "activity, accuracy": view["target"],
                      "this person or another": view["binary"]}  # fmt: skip
    return out


def curves_of(drawn: dict) -> Figure:
    """Accuracies over rounds, with one deviation over trials."""
    figure = Figure(figsize=(7.6, 3), layout="constrained")
    for axis, (key, label, guess, ends) in zip(
        figure.subplots(1, 2),
        (("target", "activity", None, (0.936, 0.946)), ("binary", "this person or another", 0.5, (0.674, 0.538))),
        strict=True,
    ):
        for (row, (rounds, curves)), colour in zip(drawn.items(), ("tab:blue", "tab:red"), strict=False):
            value, spread = curves[key].mean(axis=0), curves[key].std(axis=0, ddof=min(1, len(curves[key]) - 1))
            axis.errorbar(rounds, value, spread, fmt="o-", color=colour, ms=4, capsize=2, lw=1,
                          label=f"{row}, {len(curves[key])} trials")  # fmt: skip
        axis.plot([0, 20], ends, "k*", ms=8, label="printed, before and after")
        if guess:
            axis.axhline(guess, color="0.6", ls=":", lw=1, label="guessing")
        axis.set(xlabel="iteration of Algorithm 3", ylabel=f"{label}, accuracy")
        axis.legend(frameon=False, fontsize=8)
    return figure


# -- the script ----------------------------------------------------------------------------------------


def mean_of(runs: list[dict]) -> dict:
    keys = [line["round"] for line in runs[0]["curve"]]
    curve = [
        {k: float(np.mean([r["curve"][i][k] for r in runs])) for k in ("round", "target", "binary", "worst")}
        for i in range(len(keys))
    ]
    out = {"curve": curve, "bytes": float(np.mean([r["bytes"] for r in runs]))}
    out["bytes_samples"] = float(np.mean([r["bytes_samples"] for r in runs]))
    if "audit" in runs[0]:
        out["audit"] = {
            when: {k: float(np.mean([r["audit"][when][k] for r in runs])) for k in ("activity", "subject", "guessing")}
            for when in ("before", "after")
        }
    return out


def told(run: dict) -> str:
    text = "; ".join(
        f"round {int(c['round'])}: target {c['target']:.3f}, binary {c['binary']:.3f}" for c in run["curve"]
    )
    text += f"; {run['bytes'] / 2**20:.1f} MB sent (samples: {run['bytes_samples'] / 2**20:.1f} MB)"
    for when, a in run.get("audit", {}).items():
        text += (
            f"; audit {when}: activity {a['activity']:.3f}, subject {a['subject']:.3f} (guessing {a['guessing']:.3f})"
        )
    return text + (f"; {run['seconds']:.0f} s" if "seconds" in run else "")


if __name__ == "__main__":
    main()
