"""A frontier of 16 knob values x 3 seeds on Adult, traced, attacked and certified; and a choice from it.

    python benchmarks/frontier.py [--only eigan] [--jobs 2] [--checkpoint FOLDER] [--device cuda]
    python benchmarks/frontier.py --tune       (which EIGAN; the test rows are not looked at)
    python benchmarks/frontier.py --speed --values 64 --seeds 4      (seconds of each stage; with a GPU)

Official split, sex not an input; the test rows are cut in two, one half for attackers and analysts to learn
from, one to measure them; certificates count both. Every row is another person's, as `tacit frontier` takes it: EIGAN's
noise is then each person's own (where nobody says so, records that repeat leave it without certificates). Nothing is
chosen before: certificates and intervals are simultaneous over the 48 points, and each curve is the first look at its
rows. Prints the time, what can be chosen at sex <= .56 certified, and the distance to the estimated limit; writes
benchmarks/frontier.json. With --checkpoint the printed time is of this run alone. With --speed EIGAN's points are
trained as one stack, released, certified and attacked in all processes; only the seconds are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from dataclasses import replace
from pathlib import Path

import checkout  # noqa: F401

import tacit
from tacit.auditing.looks import new_project

CURVES = {
    "codebook": tacit.CodebookFilter(16),
    # the two-cell rule, whose curve is the estimated limit itself
    "closed": tacit.CodebookFilter(solver="closed"),
    "eigan": tacit.EIGAN(4, noise=0.3, n_bins=12),
}
# EIGAN's settings are chosen among these by --tune, on training rows alone
TRIED = {
    f"noise {noise}, {pieces or 'no'} pieces": tacit.EIGAN(4, noise=noise, n_bins=pieces)
    for noise in (0.3, 0.1)
    for pieces in (None, 12)
}
SLOPES = [0.0, 0.02, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.11, 0.12, 0.13, 0.15, 0.17, 0.2, 0.3]
WISH = {"sex": 0.56}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--only", default="")
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--values", type=int, default=16)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--device", default="auto")
    arguments.add_argument("--checkpoint", default=None)
    arguments.add_argument("--tune", action="store_true")
    arguments.add_argument("--speed", action="store_true")
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    if chosen.speed:
        speed(chosen.values, chosen.seeds)
        return
    train, test = replace(tacit.load_dataset("adult"), units="rows").split("official")
    if chosen.tune:
        tune(*train.split((0.6, 0.2, 0.2), random_state=0), chosen.jobs)
        return
    attack, test = test.split((0.5, 0.5), random_state=0)
    out = Path(__file__).with_suffix(".json")
    results = json.loads(out.read_text()) if out.exists() else {}
    for name, template in CURVES.items():
        if chosen.only not in name:
            continue
        with new_project():  # each curve by itself: all are fixed beforehand
            results[name] = one_curve(name, template, (train, attack, test), chosen)
        out.write_text(json.dumps(results, indent=1))


def one_curve(name, template, parts, chosen) -> dict:
    began = time.perf_counter()
    front = tacit.frontier(
        {name: template},
        *parts,
        values=SLOPES if name == "closed" else chosen.values,
        seeds=chosen.seeds,
        n_jobs=chosen.jobs,
        device=chosen.device,
        checkpoint=None if chosen.checkpoint is None else f"{chosen.checkpoint}/{name}",
        callback=lambda what, done, total, began=began: print(
            f"   {what} {done}/{total}, {time.perf_counter() - began:.0f} s", flush=True
        ),
    )
    seconds, used = time.perf_counter() - began, cpu_seconds()
    print(front)
    far, area = front.distance_to_limit(), front.hypervolume()
    found = {
        "points": front.candidates,
        "seconds": seconds,
        "cpu_seconds_of_all_processes": used,
        "load": os.getloadavg()[1],
        "hypervolume": area,
        "distance": {"median": far["distance"].median(), "largest": far["distance"].max(), "points": len(far)},
        "table": front.table().to_dict("records"),
    }
    for word, certified in (("certified", True), ("audited", False)):
        found[word] = choice(front, word, certified)
    print(
        f"{name}: {front.candidates} points in {seconds / 60:.1f} minutes ({used / 60:.1f} of processors so far); "
        f"hypervolume {area.value:.3f} "
        f"[{area.low:.3f}, {area.high:.3f}]; at most {far['distance'].max():.4f} (median "
        f"{far['distance'].median():.4f}) in accuracy from the estimated limit at equal certificate",
        flush=True,
    )
    return found


def tune(train, attack, test, jobs) -> None:
    """Means over three seeds at two values of the knob, for each kind of EIGAN."""
    front = tacit.frontier(TRIED, train, attack, test, values=[0.15, 0.25], seeds=3, n_jobs=jobs)
    table = front.table()
    shown = [c for c in ("income", "sex", "sex certified") if c in table]
    print(table.groupby(["filter", "value"], sort=False)[shown].mean().round(4).to_string())


def speed(values: int, seeds: int) -> None:
    """Print the seconds of a frontier of EIGAN, and when each of its stages began."""
    parts = tacit.load_dataset("adult").split((0.5, 0.2, 0.3), random_state=0)
    began: dict[str, float] = {}
    start = time.perf_counter()
    with new_project():
        front = tacit.frontier(
            tacit.EIGAN(4, noise=0.3), *parts, values, seeds,
            callback=lambda what, done, total: began.setdefault(what, time.perf_counter() - start),
        )  # fmt: skip
    seconds = round(time.perf_counter() - start, 1)
    stages = {what: round(at, 1) for what, at in began.items()}
    print(json.dumps({"points": len(front.traced), "seconds": seconds, "cores": os.cpu_count(), "began": stages}))


def cpu_seconds() -> float:
    """Of this process and its workers: on a busy machine the clock says more about others."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has ended meanwhile
        if int(fields[1]) == os.getpid() or stat.parent.name == str(os.getpid()):
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def choice(front, word, certified) -> dict | str:
    try:
        best = front.choose(max_leakage=WISH, certified=certified)
    except tacit.TacitError as error:
        print(f"   {word}: {error}")
        return str(error)
    income, report = best.report_.utility["income"], best.report_
    found = {
        "point": report.name,
        "income": [income.value, income.low, income.high],
        "auc": income.auc.value,
        "sex": report.leakage["sex"].value,
        "bound": None if report.certificate["sex"] is None else report.certificate["sex"].bound,
    }
    print(f"   {word}, sex <= {WISH['sex']}: {found}")
    return found


if __name__ == "__main__":
    main()
