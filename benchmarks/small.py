"""What `--small` costs: time, what is kept and what leaks, for recordings and for images, one seed.

    TACIT_DATA=... python benchmarks/small.py [--people 6] [--only sensors images] [--seed 0]

Runs the commands themselves, `tacit fit --sensors` and `tacit fit --images`, with and without `--small`, each in a
process of its own on one core. Recordings are MotionSense's (24 people; the first so many are taken, so that it ends
in minutes), written as its publisher has them; images are the CMU faces (624, of 30 x 32 pixels, enlarged to 120 x 128
so that the two sizes differ as they do for photos). Prints processor seconds, the time that was told at the start and
the time that it took, accuracy of the target, the best attacker's balanced accuracy with its interval, and guessing.
Writes benchmarks/small.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

import tacit
from tacit.datasets.motion import SIGNALS
from tacit.datasets.store import packed
from tacit.report.report import Report

WAYS = {"as it is": [], "--small": ["--small"]}
ENLARGED = 4  # times: the faces are already smaller than what --small scales to


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--people", type=int, default=6, help="of MotionSense's 24")
    arguments.add_argument("--only", nargs="*", choices=("sensors", "images"), default=("sensors", "images"))
    arguments.add_argument("--seed", type=int, default=0)
    chosen = arguments.parse_args()
    path = Path(__file__).with_suffix(".json")
    results = json.loads(path.read_text()) if path.exists() else {}
    results["settings"] = {"people": chosen.people, "seed": chosen.seed, "seeds": 1, "cores": 1}
    for kind in chosen.only:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            asked = recordings(place, chosen.people) if kind == "sensors" else photos(place)
            results[kind] = {}
            for way, options in WAYS.items():
                found = results[kind][way] = fit([*asked, *options, "--seed", str(chosen.seed)], place / "out")
                print(f"{kind}, {way}: {said(found)}", flush=True)
        path.write_text(json.dumps(results, indent=1) + "\n")


def recordings(place: Path, people: int) -> list[str]:
    """MotionSense as its publisher has it: a folder for an activity and trial, a file for a person."""
    with np.load(packed(SIGNALS, "motionsense")) as z:
        signals = z["signals_i16"] * z["scale"]
        names, activities = list(z["channel_names"]), list(z["activity_names"])
        parts = list(zip(*(z[f"trial_{n}"] for n in ("start", "length", "subject", "activity", "number")), strict=True))
    for start, length, person, activity, number in parts:
        if person <= people:
            folder = place / "recordings" / f"{activities[activity]}_{number}"
            folder.mkdir(parents=True, exist_ok=True)
            table = pd.DataFrame(signals[start : start + length], columns=names)
            table.to_csv(folder / f"sub_{person}.csv", index=False, float_format="%.5g")
    roles = ["--target", "activity", "--sensitive", "person", "--rate", "50"]
    return [str(place / "recordings"), "--sensors", *roles]


def photos(place: Path) -> list[str]:
    """The CMU faces as files, with a table of labels."""
    data = tacit.load_dataset("cmu_faces")
    (place / "photos").mkdir()
    for i, image in enumerate(np.rint(255 * data.X[:, 0] / data.X.max()).astype(np.uint8)):
        large = Image.fromarray(image).resize((ENLARGED * image.shape[1], ENLARGED * image.shape[0]))
        large.save(place / "photos" / f"{i}.png")
    table = pd.concat([data.y, data.sensitive], axis=1).assign(photo=[f"{i}.png" for i in range(len(data))])
    table.to_csv(place / "labels.csv", index=False)
    roles = ["--target", "sunglasses", "--sensitive", "person", "--labels", str(place / "labels.csv")]
    return [str(place / "photos"), "--images", *roles]


def fit(asked: list[str], out: Path) -> dict[str, Any]:
    """Run the command; what it took, what it said it would take, and what its audit found."""
    alone = {n: "1" for n in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    command = [sys.executable, "-P", "-m", "tacit", "fit", *asked, "--out", str(out)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env={**os.environ, **alone, "COLUMNS": "300"}, capture_output=True, text=True)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    report = Report.from_json((out / "audit.json").read_text())
    (target, kept), (hidden, leaks) = (next(iter(r.items())) for r in (report.utility, report.leakage))
    told = re.search(r"about ([\d,]+ (?:seconds|minutes))", done.stdout)
    bound = report.bound[hidden]
    return {
        "processor seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime),
        "seconds": round(took),
        "told": told[1] if told else None,
        "rows": dict(report.settings.rows),
        target: {"accuracy": kept.value, "low": kept.low, "high": kept.high, "guessing": kept.guessing},
        hidden: {"balanced accuracy": leaks.value, "low": leaks.low, "high": leaks.high, "guessing": leaks.guessing,
                 "any attacker": bound},
    }  # fmt: skip


def said(found: dict[str, Any]) -> str:
    words = [f"{found['processor seconds']} processor seconds (told: {found['told']}, took {found['seconds']} s)"]
    for name, r in found.items():
        if isinstance(r, dict) and "guessing" in r:
            value = next(iter(r.values()))
            words.append(f"{name} {value:.3f} ({r['low']:.3f} to {r['high']:.3f}), guessing {r['guessing']:.3f}")
    return "; ".join(words)


if __name__ == "__main__":
    main()
