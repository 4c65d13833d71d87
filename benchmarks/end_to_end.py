"""What a user waits for, old against new in one run: frontiers of audited points on Adult, and one audit.

    git worktree add ../old COMMIT && python benchmarks/end_to_end.py --old ../old/src [--values 16] [--only ...]

Each job runs in a process of its own: on two cores of its own where there are twelve, all at the same time; one after
the other where there are fewer. Prints seconds, their ratio, and how far utility, leakage and
certificates of the same points lie apart. Writes benchmarks/end_to_end.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

JOBS = ("codebook frontier", "EIGAN frontier", "codebook audit", "strong audit")
WORK = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
import tacit
from tacit.auditing.looks import new_project

def strong():
    rng, n = np.random.default_rng(0), 90_000
    X = rng.normal(size=(n, 8))
    hidden = X[:, 0] * X[:, 1] + 0.7 * np.sin(2 * X[:, 2]) + 0.5 * X[:, 3] + 1.5 * rng.normal(size=n) > 0
    data = tacit.Dataset(X, X[:, 4] + rng.normal(size=n) > 0, hidden)
    attack, test = (data.take(np.arange(at, at + 45_000)) for at in (0, 45_000))
    began = time.perf_counter()
    report = tacit.audit((attack.X, test.X), attack, test, "strong", floor=False)
    leakage = [r.value for r in report.leakage.values()]
    print(json.dumps({"seconds": time.perf_counter() - began, "points": [leakage]}))

if __name__ == "__main__":
    job, values, seeds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if job == "strong audit":
        sys.exit(strong())
    train, attack, test = tacit.load_dataset("adult").split((0.5, 0.2, 0.3), random_state=0)
    f = tacit.EIGAN(4, noise=0.3) if "EIGAN" in job else tacit.CodebookFilter(16)
    points = []
    with new_project():
        if "audit" in job:
            f.set_params(random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)
        began = time.perf_counter()
        if "audit" in job:
            reports = [tacit.audit(f, attack, test)]
        else:
            reports = tacit.frontier(f, train, attack, test, values, seeds, n_jobs=2, device="cpu").traced
        seconds = time.perf_counter() - began
    for r in reports:
        points.append([r.utility["income"].value, r.leakage["sex"].value, r.bound["sex"]])
    print(json.dumps({"seconds": seconds, "points": points}))
"""


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--old", required=True, help="the src folder of the old code")
    arguments.add_argument("--values", type=int, default=16)
    arguments.add_argument("--seeds", type=int, default=1)
    arguments.add_argument("--only", nargs="*", choices=JOBS, default=JOBS, help="the others' figures are kept")
    chosen = arguments.parse_args()
    jobs = [(job, name) for job in chosen.only for name in ("old", "new")]
    folders = {"old": chosen.old, "new": str(Path(__file__).parent.parent / "src")}
    apart = (os.cpu_count() or 1) >= 2 * len(jobs)
    path = Path(__file__).with_suffix(".json")
    results = json.loads(path.read_text()) if len(chosen.only) < len(JOBS) and path.exists() else {}
    results["settings"] = {"values": chosen.values, "seeds": chosen.seeds, "at the same time": apart}
    running = {}
    for i, (job, name) in enumerate(jobs):
        running[job, name] = start(folders[name], job, chosen, (2 * i, 2 * i + 1) if apart else None)
        if not apart:
            running[job, name].wait()
    for job in chosen.only:
        found = {name: json.loads(running[job, name].communicate()[0].splitlines()[-1]) for name in folders}
        pairs = zip(found["old"]["points"], found["new"]["points"], strict=True)
        far = [[abs(a - b) for a, b in zip(old, new, strict=True) if None not in (a, b)] for old, new in pairs]
        old, new = (found[name]["seconds"] for name in folders)
        mean = [sum(column) / len(far) for column in zip(*far, strict=True)]
        results[job] = {**found, "ratio": old / new, "apart on average": mean}
        print(
            f"{job:18s} old {old:6.1f} s, new {new:6.1f} s: {old / new:.1f} times faster; utility, leakage, bound of "
            f"a point (strong: leakage) apart by {', '.join(f'{x:.4f}' for x in mean)} on average",
            flush=True,
        )
        path.write_text(json.dumps(results, indent=1))


def start(folder: str, job: str, chosen: argparse.Namespace, cores: tuple[int, int] | None) -> subprocess.Popen[str]:
    pin = ["taskset", "-c", ",".join(map(str, cores))] if cores else []
    path = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
    words = [*pin, sys.executable, "-c", WORK, job, str(chosen.values), str(chosen.seeds)]
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)


if __name__ == "__main__":
    main()
