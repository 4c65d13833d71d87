"""Table 2: activity kept, identity withheld; the full runs are those of `motionsense.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics import f1_score

import tacit
from papers.common.run import Run, over_seeds
from tacit.auditing.stats import binomial_interval

from .protocol import GUESSED_F1, RATE, SEEN, measured, network, some_windows

MACHINE = "NVIDIA H200"
ROWS = {
    "raw": "raw", "resample10": "resample 10 Hz", "resample5": "resample 5 Hz", "ssa12": "SSA (1, 2)",
    "ssa1": "SSA (1)", "rep_printed": "REP, as printed", "rep": "REP, ours", "aae_printed": "AAE, as printed",
    "aae": "AAE, ours", "code": "16 waveforms (ours)",
}  # fmt: skip
# Table 2: activity F1, identity accuracy, mean rank by DTW
PRINTED: dict[str, tuple[float, float, float]] = {
    "raw": (0.9251, 0.9620, 0), "resample10": (0.9111, 0.3108, 7.2), "resample5": (0.8802, 0.1353, 9.3),
    "ssa12": (0.8859, 0.3413, 6.8), "ssa1": (0.8741, 0.1607, 9.5), "rep_printed": (0.9147, 0.1592, 10.7),
    "aae_printed": (0.9291, 0.0698, 6.6),
}  # fmt: skip


COMMAND = (
    "python -m papers.anonymizing-autoencoder.motionsense --device cuda --repeats 5 "
    "(and --rows aae,rep,code --splits strict --repeats 3; "
    "--rows aae_printed,rep_printed --printed-stride 40 --repeats 2)"
)
NETWORKS = {"adaptive": "wide CNN", "adaptive_deep": "deep CNN"}
LEARNED = (
    "rep_printed",
    "rep",
    "aae_printed",
    "aae",
    "code",
)  # the others fit nothing: there are no rows they have seen


def table2(run: Run) -> None:
    """Activity on the Subject split, identity on the Trial split: by an attacker of raw data, and by one re-trained."""
    if not run.settings["recorded"]:
        small_table(run)
        return
    found = run.recorded(COMMAND, MACHINE)
    parts = run.part("test recordings", recordings_of_the_test)
    floor = label_only(of(found, "raw", "trial"))
    for row, name in ROWS.items():
        trial, subject, unseen = (of(found, row, split) for split in ("trial", "subject", "strict"))
        if not trial:
            continue
        printed = PRINTED.get(row, (None, None, None))
        told = f"{name} ({len(trial)} runs)"
        activity(run, told, "other people", subject, printed[0])
        activity(run, told, "same people", trial)
        identity(run, told, trial, parts, printed[1], mean(trial, "transfer"))
        after = float(np.mean([t["pooled_20"]["accuracy"] for t in trial]))
        run.row(told, "identity after 20 windows", None, None, after,
                binomial_interval(after, trial[0]["pooled_20"]["recordings"], 0.95), "wide CNN", 1 / 24)  # fmt: skip
        run.row(told, "rank by DTW", printed[2], mean(trial, "dtw_rank"), guessing=11.5)
        run.row(told, "squared distance to raw, of variance", None, mean(trial, "mse"))
        if "at most" in trial[0]["certificate"]:
            loosest = max(t["certificate"] for t in trial)  # they differ in the bound alone
            run.note(f"{told}: certificate for {loosest} (the loosest run); for continuous releases none exists.")
        seen = SEEN if row in LEARNED else ""
        run.audited(told + seen, "motionsense", [summary([t], parts["worth"], floor) for t in trial])
        if unseen:
            fewer = f"{name}, fitted on three fifths ({len(unseen)} runs)"
            activity(run, fewer, "same people", unseen)
            identity(run, fewer, unseen, parts)
            run.audited(fewer, "motionsense", [summary([t], parts["worth"], floor) for t in unseen])
    gravity = of(found, "gravity, raw", "subject")
    activity(run, f"raw, gravity added (on a CPU, {len(gravity)} runs, --gravity)", "other people", gravity)
    run.note(
        f"Intervals count the 96 test recordings as {parts['worth']:.0f} single windows (their effective number): "
        f'cautious; what the runs differ by is added. "Fitted on three fifths": the filter learns from 60 % of the '
        f"training recordings and the attackers from the other 40 %, which it never saw. Of F1 the interval is from "
        f"the least to the most of the runs."
    )
    strides = {r["printed_stride"] for r in found.values() if r.get("printed_stride")}
    for stride in strides:
        run.note(f"Rows as printed are fitted on windows of stride {stride} (printed: 10) and measured on stride 10.")


def of(found: dict[str, Any], row: str, split: str) -> list[dict[str, Any]]:
    return [v for k, v in found.items() if k.startswith(f"{row}/{split}/")]


def activity(run: Run, name: str, whose: str, runs: Sequence[dict[str, Any]], printed: float | None = None) -> None:
    if not runs:
        return
    values = [r["activity_f1"] for r in runs]
    run.row(name, f"activity F1, {whose}", printed, float(np.mean(values)), interval=(min(values), max(values)),
            guessing=GUESSED_F1["activity"])  # fmt: skip


def identity(run: Run, name: str, runs: Any, parts: Any, printed: Any = None, transfer: Any = None) -> None:
    """Who it is, by the better of two networks: each has half of the error."""
    family = max(NETWORKS, key=lambda k: mean(runs, k))
    each = [(r[family], *binomial_interval(r[family], parts["worth"], 0.975)) for r in runs]
    leak = over_seeds([dict(zip(("value", "low", "high"), m, strict=True)) for m in each])
    run.row(name, "identity, accuracy", printed, transfer, leak["value"], (leak["low"], leak["high"]),
            NETWORKS[family], parts["commonest"])  # fmt: skip


def recordings_of_the_test() -> dict[str, float]:
    """What its windows are worth if a recording's windows all say the same, and the commonest person's share."""
    _, test = tacit.load_dataset("motionsense", sensitive="identity").split("official")
    size = np.unique(test.units_of(), return_counts=True)[1]
    commonest = test.sensitive["identity"].value_counts(normalize=True).max()
    return {"worth": float(size.sum() ** 2 / (size**2).sum()), "commonest": float(commonest)}


def label_only(raw: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the raw network's answers keep and leak when nothing else is released: the run with the middle leak."""
    leaks = sorted((r["label_only"]["identity"] for r in raw), key=lambda v: v[0])
    leak = dict(zip(("value", "low", "high", "guessing"), leaks[len(leaks) // 2], strict=True))
    return {
        "label_only": {"identity": leak},
        "label_only_utility": {"activity (F1)": {"value": mean(raw, "activity_f1")}},
    }


def mean(runs: Sequence[dict[str, Any]], key: str) -> Any:
    values = [r[key] for r in runs if key in r]
    return float(np.mean(values)) if values else None


def summary(runs: Sequence[dict[str, Any]], worth: float, floor: dict[str, Any]) -> dict[str, Any]:
    """The honest columns of a run, as an audit gives them: the better of two networks, balanced."""
    leak = max(mean(runs, f"{family}_balanced") for family in NETWORKS)
    low, high = binomial_interval(leak, worth, 0.975)
    bound = [
        float(r["certificate"].split("at most ")[1].split()[0]) for r in runs if "at most" in r.get("certificate", "")
    ]
    return {
        "utility": {"activity (F1)": {"value": mean(runs, "activity_f1"), "guessing": GUESSED_F1["activity"]}},
        "leakage": {"identity": {"value": leak, "low": low, "high": high, "guessing": 1 / 24, "by": "CNN"}},
        "certificate": {"identity": max(bound) if bound else None},
        **floor,
    }


def small_table(run: Run) -> None:
    """The same two attackers at small size, on raw and on resampled windows."""
    s = run.settings
    for name, filtered in (("raw", None), ("resample 5 Hz", 5)):
        of = run.part(name, small_row, filtered, s)
        run.row(name, "activity F1, same people", None, of["activity_f1"], guessing=GUESSED_F1["activity"])
        run.row(name, "identity, accuracy", None, of["transfer"], of["adaptive"][0], of["adaptive"][1:3], "CNN",
                of["adaptive"][3])  # fmt: skip


def small_row(rate: int | None, s: dict[str, Any]) -> dict[str, Any]:
    train, test = some_windows(s, "trial")
    release = (lambda X: X) if rate is None else tacit.baselines.Resample(rate, RATE).fit(train.X).transform
    a, b = release(train.X), release(test.X)
    who = train.sensitive["identity"], test.sensitive["identity"]
    raw, fresh = network(train.X, who[0], s["epochs"]), network(a, who[0], s["epochs"])
    guess = network(a, train.y["activity"], s["epochs"])(b)
    return {
        "activity_f1": f1_score(test.y["activity"], guess, average="macro"),
        "transfer": float(np.mean(raw(b) == who[1])),
        "adaptive": measured(who[1], fresh(b), test.units_of("identity")),
    }
