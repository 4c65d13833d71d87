"""Audited EIGAN points on Adult by the second, on a machine with a GPU.

    python benchmarks/gpu_frontier.py [--values 64] [--seeds 4]

Trains all points as one stack, releases and certifies them in all processes, attacks every one afresh (quick). Prints
seconds by stage; benchmarks/gpu_frontier.json has the runs that docs/costs.md quotes.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings

import tacit
from tacit.auditing.looks import new_project


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--values", type=int, default=64)
    arguments.add_argument("--seeds", type=int, default=4)
    chosen = arguments.parse_args()
    parts = tacit.load_dataset("adult").split((0.5, 0.2, 0.3), random_state=0)
    began: dict[str, float] = {}
    with new_project(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        front = tacit.frontier(
            tacit.EIGAN(4, noise=0.3), *parts, chosen.values, chosen.seeds,
            callback=lambda what, done, total: began.setdefault(what, time.perf_counter() - start),
        )  # fmt: skip
        seconds = time.perf_counter() - start
    told = {"points": len(front.traced), "seconds": round(seconds, 1), "cores": os.cpu_count()}
    print(json.dumps({**told, "stages begin at": {what: round(at, 1) for what, at in began.items()}}))


if __name__ == "__main__":
    main()
