"""Personal minimax filters on HAR, domain 2 (Fig. 5 of the paper), and what a fresh attacker sees of them.

    python -m papers.minimax-filter.personal [--trials 3] [--rounds 20] [--only sequential parallel statistics]

Each trial draws 15 of the 30 people as the public domain 1: the common filter (d=20) is learned from half of their
rows. The other 15 are the contributors: half of each one's rows train, the other half test. The paper's protocol: the
evaluators (logistic regression) learn from the contributors' training rows, which the filters have seen, and read their
test rows, a random half of overlapping windows. "binary" is the mean over people of the balanced accuracy of
telling that person's samples from all others'. "audit" is the view of attackers trained afresh on released rows: who of
the 15 it is, by bouts that no filter has seen (split by bout, so that overlapping windows never cross).
Prints a line per trial and writes papers/minimax-filter/personal.json as it goes.
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
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

import tacit
from tacit.federated import Node, PersonalMinimax
from tacit.federated.node import named

OUT = Path(__file__).with_suffix(".json")
SETTINGS = {
    "sequential": {},
    "parallel": {"order": "parallel"},
    "statistics": {"exchange": "statistics"},
    "squared statistics": {"exchange": "statistics", "loss": "squared"},
}
NEEDED = {"target": 0.935, "binary": 0.56}
SHOWN = (0, 1, 2, 5, 10, 20)


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
    data = tacit.load_dataset("uci_har")
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


def one_trial(data, trial: int, rounds: int, settings: dict, audit: bool) -> dict:
    began = time.perf_counter()
    rng = np.random.default_rng(trial)
    subject = data.sensitive["subject"].to_numpy()
    people = rng.permutation(np.unique(subject))
    half = rng.random(len(data)) < 0.5
    public = data.take(np.isin(subject, people[:15]) & half)
    start = tacit.MinimaxFilter(20, max_iter=60, random_state=trial)
    start.fit(public.X, public.y, sensitive_features=public.sensitive)
    members = [data.take(subject == p) for p in people[15:]]
    halves = [half[subject == p] for p in people[15:]]
    nodes = named([Node(m.X[h].reset_index(drop=True), m.y[h].reset_index(drop=True), name=f"person {p}")
                   for m, h, p in zip(members, halves, people[15:], strict=True)])  # fmt: skip
    f = PersonalMinimax(start, rounds=rounds, **settings)
    workers = {n.name: f.worker(n) for n in nodes}
    server = f.coordinator(list(workers))
    curve = []
    while True:
        due = server.turn == 0 and server.phase != "recruiting" and server.round in (*SHOWN, rounds)
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
    report = tacit.audit((attack.X, test.X), attack, test, floor=False, limit=False, pooled=())
    leak = report.leakage["subject"]
    return {"activity": report.utility["activity"].value, "subject": leak.value, "low": leak.low, "high": leak.high,
            "guessing": leak.guessing, "attacker": leak.attacker}  # fmt: skip


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
