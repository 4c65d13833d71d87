"""Whether quicker audits read as much: the leakage of the same releases by old code and by new.

    git worktree add ../old COMMIT && python benchmarks/same_releases.py --old ../old/src

Eight EIGAN releases of Adult are made once; each code attacks them (quick, at most 10,000 rows) under two seeds.
Writes benchmarks/same_releases.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import tacit

WEIGHTS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
WORK = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, tacit
from tacit.auditing.suite import AttackSuite
from tacit.auditing.trial import Trial
_, attack, test = tacit.load_dataset("adult").split((0.5, 0.2, 0.3), random_state=0)
found = []
for path in sys.argv[1:]:
    Z = np.load(path)
    [task] = Trial.of((Z["attack"], Z["test"]), attack, test).tasks("sensitive")
    for seed in (0, 1):
        suite = AttackSuite("quick", seed, max_rows=10_000)
        found.append(suite.result(suite.run(task), "balanced_accuracy", 0.95).value)
print(json.dumps(found))
"""


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--old", required=True, help="the src folder of the old code")
    old = arguments.parse_args().old
    warnings.simplefilter("ignore")
    train, attack, test = tacit.load_dataset("adult").split((0.5, 0.2, 0.3), random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for i, alpha in enumerate(WEIGHTS):
            f = tacit.EIGAN(4, alpha=alpha, noise=0.3, epochs=6, random_state=i)
            f.fit(train.X, train.y, sensitive_features=train.sensitive)
            paths.append(str(Path(folder) / f"{i}.npz"))
            np.savez(paths[-1], attack=f.transform(attack.X), test=f.transform(test.X))
        found = {name: read(src, paths) for name, src in (("old", old), ("new", str(Path(tacit.__file__).parents[1])))}
    apart = np.subtract(found["new"], found["old"])
    found |= {"mean": float(apart.mean()), "largest": float(np.abs(apart).max())}
    Path(__file__).with_suffix(".json").write_text(json.dumps(found, indent=1))
    print(
        f"{len(apart)} leakages: new less old {apart.mean():+.4f} on average, at most {np.abs(apart).max():.4f} apart"
    )


def read(src: str, paths: list[str]) -> list[float]:
    words = [sys.executable, "-c", WORK, *paths]
    ran = subprocess.run(words, env={**os.environ, "PYTHONPATH": src}, capture_output=True, text=True, check=True)
    values: list[float] = json.loads(ran.stdout.splitlines()[-1])
    return values


if __name__ == "__main__":
    main()
