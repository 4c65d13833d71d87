"""Figures 10, 11, 13 and 14: the signals themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.signal import find_peaks
from scipy.stats import spearmanr
from sklearn.ensemble import RandomForestClassifier

import tacit
from papers.common.run import Run
from papers.data import require
from papers.data.signals import MOTION as SOURCE
from papers.data.signals import PEOPLE
from tacit.records.dataset import Dataset

from .protocol import RATE, measured

G, TURN = 9.80665, 2 * np.pi  # the files have g and rad/s, the paper's figures m/s² and revolutions per second

# -- Fig. 10 and 11 -----------------------------------------------------------------------------------


def fig10(run: Run) -> None:
    """The paper: magnitudes of the two sensors follow each other, axes less obviously."""
    of = run.part("correlations", correlations)
    told = {"magnitudes": ("magnitudes of the two sensors", "follow each other"),
            "axes": ("axes of the two sensors", "less obvious")}  # fmt: skip
    for key, (what, printed) in told.items():
        for when, measure in (
            ("lagged", "correlation at the best lag up to half a second"),
            ("now", "at the same instant"),
        ):
            m = of[f"{key}, {when}"]
            run.row(what, f"{measure}, mean over people", printed if when == "lagged" else None, m[0], interval=m[1:])
    figure = Figure(figsize=(8, 4), layout="constrained")
    for axis, values, names, title in zip(
        figure.subplots(2, 1, sharex=True), (np.array(of["accl"]) * G, np.array(of["gyro"]) / TURN), ("xyz", "xyz"),
        ("acceleration (m/s²)", "rotation rate (revolutions/s)"), strict=True,
    ):  # fmt: skip
        seconds = np.arange(len(values)) / RATE
        for i, name in enumerate(names):
            axis.plot(seconds, np.array(values)[:, i], lw=0.6, label=name)
        axis.plot(seconds, np.linalg.norm(values, axis=1), "k", lw=1, label="magnitude")
        axis.set_ylabel(title, fontsize=8)
        axis.legend(frameon=False, fontsize=7, ncols=4, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)
    figure.axes[-1].set_xlabel("seconds of walking, person 1")
    run.figure("fig10", figure)


def correlations() -> dict[str, Any]:
    """Of each person's walks: magnitudes with each other, and every axis of one sensor with each of the other."""
    data = tacit.load_dataset("motionsense", signals="axes", activities=["walking"], sensitive="identity", stride=128)
    who = data.sensitive["identity"].to_numpy()
    found: dict[str, list[float]] = {f"{k}, {w}": [] for k in ("magnitudes", "axes") for w in ("now", "lagged")}
    for person in np.unique(who):
        signal = np.concatenate(list(data.X[who == person]), axis=1)  # accelerometer, gyroscope
        sizes = [np.linalg.norm(signal[i : i + 3], axis=0) for i in (0, 3)]
        pairs = {"magnitudes": [tuple(sizes)], "axes": [(a, b) for a in signal[:3] for b in signal[3:]]}
        for key, of in pairs.items():
            lagged = np.array([[abs(correlation(a, b, lag)) for lag in range(-25, 26)] for a, b in of])
            found[f"{key}, now"].append(float(lagged[:, 25].mean()))
            found[f"{key}, lagged"].append(float(lagged.max(axis=1).mean()))
    first = np.concatenate(list(data.X[who == 1][:4]), axis=1).T
    shown = {"accl": np.round(first[:, :3], 3), "gyro": np.round(first[:, 3:], 3)}
    return {**{k: around(v) for k, v in found.items()}, **shown}


def correlation(a: np.ndarray, b: np.ndarray, lag: int) -> float:
    """Of a with what b is `lag` samples later."""
    a, b = (a[: len(a) - lag], b[lag:]) if lag >= 0 else (a[-lag:], b[:lag])
    return float(np.corrcoef(a, b)[0, 1])


def around(values: Sequence[float]) -> list[float]:
    """Mean and interval over people."""
    mid, error = float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))
    return [mid, mid - 2.07 * error, mid + 2.07 * error]  # Student, 23 degrees


def fig11(run: Run) -> None:
    """Sitting and standing are not told apart by magnitudes, but by gravity."""
    of = run.part("six activities", six_activities)
    told = {"magnitudes": "difficult", "gravity": "informative"}
    for kind, printed in told.items():
        m = of[kind]
        run.row(f"sitting or standing, by {kind}", "accuracy on other people", printed, m[0], interval=m[1:3],
                guessing=m[3])  # fmt: skip
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(2, 6, sharex=True, sharey="row")
    for column, (activity, window) in enumerate(of["shown"].items()):
        axes[0, column].set_title(activity, fontsize=9)
        for row, unit in enumerate((1 / TURN, G)):
            axes[row, column].plot(np.arange(len(window[row])) / RATE, np.array(window[row]) * unit, lw=0.7)
            axes[row, column].tick_params(labelsize=6)
    axes[0, 0].set_ylabel("gyroscope\nrevolutions/s", fontsize=8)
    axes[1, 0].set_ylabel("accelerometer\nm/s²", fontsize=8)
    figure.supxlabel("seconds, person 1", fontsize=8)
    run.figure("fig11", figure)


def six_activities() -> dict[str, Any]:
    every = ("downstairs", "upstairs", "walking", "jogging", "sitting", "standing")
    data = tacit.load_dataset("motionsense", activities=every, sensitive="identity", stride=128)
    one = data.sensitive["identity"].to_numpy() == 1
    at = {a: np.flatnonzero(one & (data.y["activity"].to_numpy() == a))[2] for a in every}
    out: dict[str, Any] = {"shown": {a: np.round(data.X[i], 3) for a, i in at.items()}}
    for kind, options in (("magnitudes", {}), ("gravity", {"signals": "axes", "gravity": True})):
        train, test = tacit.load_dataset(
            "motionsense",
            split="subject",
            activities=["sitting", "standing"],
            sensitive="identity",
            stride=128,
            **options,
        ).split("official")
        a, b = (np.concatenate([d.X.mean(-1), d.X.std(-1)], axis=1) for d in (train, test))
        guess = RandomForestClassifier(100, random_state=0).fit(a, train.y["activity"]).predict(b)
        out[kind] = measured(test.y["activity"], guess, test.sensitive["identity"])
    return out


# -- Fig. 13 and 14 -----------------------------------------------------------------------------------


def fig13(run: Run) -> None:
    """Walking has the highest correlation, then jogging, upstairs, downstairs; under the interval after 5 s."""
    of = run.part("by activity", autocorrelation_by_activity)
    order = {"walking": "highest", "jogging": "2nd", "upstairs": "3rd", "downstairs": "lowest"}
    for activity, printed in order.items():
        curve = of["curves"][activity]
        lag, height = first_peak(curve)
        run.row(activity, "people with a recording of 45 s", "all 24", of["people"][activity])
        run.row(activity, "height of the first peak after half a second", printed, height)
        run.row(activity, "its lag, seconds", None, lag)
        run.row(activity, "last lag outside the interval, seconds", "about 5", last_significant(curve, of["limit"]))
    run.figure("fig13", draw_autocorrelation(of["curves"], of["limit"]))


def fig14(run: Run) -> None:
    """The heavier the person, the longer the interval between two peaks."""
    of = run.part("by person", autocorrelation_by_person)
    for person in ("1", "13", "19"):
        lag, _ = first_peak(of["curves"][person])
        run.row(
            f"person {person}, {of['weight'][person]:g} kg",
            "stride, seconds",
            "1 is the heaviest" if person == "1" else None,
            lag,
        )
    run.row(
        "all 24 people",
        "rank correlation of weight and stride",
        "heavier, longer",
        of["weight_rho"][0],
        interval=of["weight_rho"][1:],
    )
    run.row(
        "all 24 people",
        "rank correlation of height and stride",
        None,
        of["height_rho"][0],
        interval=of["height_rho"][1:],
    )
    run.figure("fig14", draw_autocorrelation({f"person {p}": of["curves"][p] for p in ("1", "13", "19")}, of["limit"]))


def autocorrelation_by_activity() -> dict[str, Any]:
    """Of the acceleration's magnitude: 45 s of every recording that lasts as long, averaged over people."""
    data = recordings(("downstairs", "upstairs", "walking", "jogging"), seconds=45)
    who, what = data.sensitive["identity"].to_numpy(), data.y["activity"].to_numpy()
    curves, people = {}, {}
    for activity in np.unique(what):
        each = [
            np.mean([autocorrelation(x) for x in data.X[(what == activity) & (who == p), 1]], axis=0)
            for p in np.unique(who[what == activity])
        ]
        curves[activity], people[activity] = np.round(np.mean(each, axis=0), 4), len(each)
    return {"curves": curves, "people": people, "limit": 1.96 / np.sqrt(data.X.shape[2])}


def autocorrelation_by_person() -> dict[str, Any]:
    """Walking; with the stride (lag of the first peak) against weight and height over all people."""
    data = recordings(("walking",))
    who = data.sensitive["identity"].to_numpy()
    curves = {
        str(p): np.round(np.mean([autocorrelation(x) for x in data.X[who == p, 1]], axis=0), 4) for p in np.unique(who)
    }
    people = pd.read_csv(str(require(PEOPLE, SOURCE))).set_index("code")
    stride = [first_peak(c)[0] for c in curves.values()]
    shown = ("1", "13", "19")
    out: dict[str, Any] = {"curves": {p: curves[p] for p in shown}, "limit": 1.96 / np.sqrt(data.X.shape[2])}
    out["weight"] = {p: float(people["weight"][int(p)]) for p in shown}
    for column in ("weight", "height"):
        rho = float(spearmanr([people[column][int(p)] for p in curves], stride)[0])
        half = 1.96 * np.sqrt((1 + rho**2 / 2) / (len(curves) - 3))  # of Fisher's z (Bonett and Wright)
        out[f"{column}_rho"] = [rho, *np.tanh([np.arctanh(rho) - half, np.arctanh(rho) + half])]
    return out


def recordings(activities: Sequence[str], seconds: int = 20) -> Dataset:
    """The first seconds of every recording that lasts as long."""
    return tacit.load_dataset(
        "motionsense", activities=activities, sensitive="identity", length=seconds * RATE, stride=100_000
    )


def autocorrelation(x: np.ndarray, most: int = 500) -> np.ndarray:
    x = x - x.mean()
    return np.array([1.0] + [float(x[k:] @ x[:-k] / (x @ x)) for k in range(1, most)])


def first_peak(curve: Any) -> tuple[float, float]:
    """Lag in seconds and height of the highest peak between half a second and two seconds: a stride."""
    c = np.asarray(curve)
    peaks = [p for p in find_peaks(c)[0] if 0.5 * RATE <= p <= 2 * RATE]
    best = max(peaks, key=lambda p: c[p]) if peaks else int(0.5 * RATE)
    return best / RATE, float(c[best])


def last_significant(curve: Any, limit: float) -> float:
    outside = np.flatnonzero(np.abs(curve) > limit)
    return float(outside.max()) / RATE


def draw_autocorrelation(curves: dict[str, Any], limit: float) -> Figure:
    figure = Figure(figsize=(7, 1.3 * len(curves) + 0.5), layout="constrained")
    for axis, (name, curve) in zip(
        figure.subplots(len(curves), 1, sharex=True, sharey=True), curves.items(), strict=True
    ):
        axis.plot(np.arange(len(curve)) / RATE, curve, lw=0.9)
        for sign in (-1, 1):
            axis.axhline(sign * limit, color="0.6", ls=":", lw=0.8)
        axis.set_ylabel(name, fontsize=8)
    figure.supylabel("autocorrelation", fontsize=8)
    figure.axes[-1].set_xlabel("lag, seconds (dotted: 95 % interval of no correlation)")
    return figure
