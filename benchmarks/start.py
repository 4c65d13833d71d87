"""How quickly Tacit starts, and what fitting on Adult needs.

    python benchmarks/start.py

Prints the median time of ``import tacit`` over ten fresh processes (beside that of an empty process), and
the peak memory of a process that loads Adult and fits each filter on the official training rows.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

FIT = """
import resource, warnings, tacit
warnings.simplefilter("ignore")
train, _ = tacit.load_dataset("adult").split("official")
f = {make}
f.fit(train.X, train.y, sensitive_features=train.sensitive)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""
FILTERS = (
    "tacit.CodebookFilter(random_state=0)",
    "tacit.CodebookFilter(features='raw', random_state=0)",
    "tacit.EIGAN(random_state=0)",
)


def main() -> None:
    empty, ours = (statistics.median(seconds(code) for _ in range(10)) for code in ("pass", "import tacit"))
    print(f"import tacit: {ours - empty:.3f} s above an empty process ({empty:.3f} s); needed < 0.5 s")
    results: dict[str, float] = {"import_seconds": ours - empty}
    for make in FILTERS:
        done = subprocess.run([sys.executable, "-c", FIT.format(make=make)], capture_output=True, text=True, check=True)
        results[make] = float(done.stdout)
        print(f"{make}: peak memory {results[make]:.2f} GB; needed < 1.5 GB", flush=True)
    Path(__file__).with_suffix(".json").write_text(json.dumps(results, indent=1))


def seconds(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
