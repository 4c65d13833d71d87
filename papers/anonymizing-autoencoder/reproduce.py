"""Sections 3.6 and 4 of Malekzadeh et al. (2019), "Mobile sensor data anonymization", on the paper's own data.

Table 2 tells the full runs of `benchmarks/motionsense.py` (its protocols are described there); the figures run here,
those that need a trained network at reduced size on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.signal import find_peaks
from scipy.stats import spearmanr
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import f1_score
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor, nn

import tacit
from tacit.audit.stats import Measure, accuracy, binomial_interval
from tacit.dataset import Dataset
from tacit.datasets.motion import PEOPLE, SOURCE
from tacit.datasets.store import require
from tacit.nets.classifier import NetworkClassifier
from tacit.nets.windows import wide_classifier
from tacit.report.figures import latent_figure, spectrogram_figure, waveform_figure
from tacit.reproduce import Run

MACHINE = "NVIDIA H200"
RATE = 50  # samples a second
ROWS = {
    "raw": "raw", "resample10": "resample 10 Hz", "resample5": "resample 5 Hz", "ssa12": "SSA (1, 2)",
    "ssa1": "SSA (1)", "rep": "REP", "aae": "AAE", "code": "16 waveforms (ours)",
}  # fmt: skip
# Table 2: activity F1, identity accuracy, mean rank by DTW
PRINTED: dict[str, tuple[float, float, float]] = {
    "raw": (0.9251, 0.9620, 0), "resample10": (0.9111, 0.3108, 7.2), "resample5": (0.8802, 0.1353, 9.3),
    "ssa12": (0.8859, 0.3413, 6.8), "ssa1": (0.8741, 0.1607, 9.5), "rep": (0.9147, 0.1592, 10.7),
    "aae": (0.9291, 0.0698, 6.6),
}  # fmt: skip


def table2(run: Run) -> None:
    """Activity on the Subject split, identity on the Trial split: by an attacker of raw data, and by one re-trained."""
    if not run.settings["recorded"]:
        small_table(run)
        return
    found = run.recorded("motionsense", "python benchmarks/motionsense.py --device cuda --rows ROW", MACHINE)
    recordings = run.part("test recordings", effective_recordings)
    for row, name in ROWS.items():
        trial, subject = ([v for k, v in found.items() if k.startswith(f"{row}/{s}/")] for s in ("trial", "subject"))
        printed = PRINTED.get(row, (None, None, None))
        n = len(trial)
        name = f"{name} ({n} run{'s' if n > 1 else ''})" if n else f"{name} (not run)"
        run.row(name, "activity F1, other people", printed[0], mean(subject, "activity_f1"))
        if not trial:
            run.row(name, "identity, accuracy", printed[1])
            continue
        family = max(("adaptive", "adaptive_deep"), key=lambda k: mean(trial, k) or 0)
        leak, by = mean(trial, family), {"adaptive": "wide CNN", "adaptive_deep": "deep CNN"}[family]
        run.row(name, "activity F1, same people", None, mean(trial, "activity_f1"))
        # the better of two attackers: each has half of the error
        run.row(name, "identity, accuracy", printed[1], mean(trial, "transfer"), leak,
                binomial_interval(leak, recordings, 0.975), by)  # fmt: skip
        pooled = [{"pooled": t["pooled_20"]["accuracy"]} for t in trial]
        n_pooled = trial[0]["pooled_20"]["recordings"]
        after = mean(pooled, "pooled")
        run.row(
            name, "identity after 20 windows", None, None, after, binomial_interval(after, n_pooled, 0.95), "wide CNN"
        )
        run.row(name, "rank by DTW", printed[2], mean(trial, "dtw_rank"))
        run.row(name, "squared distance to raw, of variance", None, mean(trial, "mse"))
        if "at most" in trial[0]["certificate"]:
            run.note(f"{name}: certificate for {trial[0]['certificate']}; for continuous releases none exists.")
        run.audited(f"{name}, attackers learn from rows the filter saw", "motionsense", summary(trial, recordings))
    run.note(
        f"Intervals count the 96 test recordings as {recordings:.0f} single windows (their effective number): cautious."
    )


def fig7(run: Run) -> None:
    """Figures 7, 8 and 9: a small autoencoder, and what it does to windows of the test trials."""
    s = run.settings
    found = run.part("anonymise", anonymised, s)
    printed = {"raw": ("separate", "colour clusters"), "released": ("jogging apart", "masked")}
    for what in ("raw", "released"):
        of = found[what]
        run.row(
            f"{what}, in the plane",
            "activity, 5 neighbours",
            printed[what][0],
            of["activity"][0],
            interval=of["activity"][1:3],
        )
        run.row(
            f"{what}, in the plane, jogging",
            "identity, 5 neighbours",
            printed[what][1],
            of["user"][0],
            interval=of["user"][1:3],
        )
        run.row(
            f"{what}, all of it",
            "identity, accuracy",
            None,
            None,
            of["identity"][0],
            of["identity"][1:3],
            "wide CNN",
            of["identity"][3],
        )
        run.row(f"{what}, all of it", "activity, accuracy", None, of["kept"][0], interval=of["kept"][1:3],
                guessing=of["kept"][3])  # fmt: skip
        for label, rows in (("activity", slice(None)), ("user", np.array(found["activity"]) == "jogging")):
            plane = np.array(of["plane"])[rows]
            title = "activity" if label == "activity" else "user (jogging)"
            run.figure(f"fig7-{what}-{label}", latent_figure(plane, [(title, np.array(found[label])[rows])]))
    raw, released = (np.array(found[what]["windows"]) for what in ("raw", "released"))
    run.figure("fig8", waveform_figure(raw, released, found["titles"], ["gyroscope", "accelerometer"]))
    spectrograms = spectrogram_figure(raw, released, found["titles"], ["gyroscope", "accelerometer"], RATE)
    for mesh in (c for axis in spectrograms.axes for c in axis.collections):
        mesh.set_rasterized(True)  # thousands of little squares would make a heavy file
    run.figure("fig9", spectrograms)


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
        figure.subplots(2, 1, sharex=True), (of["accl"], of["gyro"]), ("xyz", "xyz"),
        ("acceleration (g)", "rotation rate (rad/s)"), strict=True,
    ):  # fmt: skip
        seconds = np.arange(len(values)) / RATE
        for i, name in enumerate(names):
            axis.plot(seconds, np.array(values)[:, i], lw=0.6, label=name)
        axis.plot(seconds, np.linalg.norm(values, axis=1), "k", lw=1, label="magnitude")
        axis.set_ylabel(title, fontsize=8)
        axis.legend(frameon=False, fontsize=7, ncols=4, loc="upper right")
    figure.axes[-1].set_xlabel("seconds of walking, person 1")
    run.figure("fig10", figure)


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
        for row in range(2):
            axes[row, column].plot(np.arange(len(window[row])) / RATE, window[row], lw=0.7)
            axes[row, column].tick_params(labelsize=6)
    axes[0, 0].set_ylabel("gyroscope", fontsize=8)
    axes[1, 0].set_ylabel("accelerometer", fontsize=8)
    figure.supxlabel("seconds, person 1", fontsize=8)
    run.figure("fig11", figure)


def fig12(run: Run) -> None:
    """Seven kinds of data: activity on other people, identity on other trials."""
    s = run.settings
    for group in s["groups"]:
        of = run.part(group, by_group, group, s)
        run.row(group, "activity F1, other people", None, of["activity_f1"])
        run.row(group, "identity F1", None, of["identity_f1"])
        m = of["identity"]
        run.row(group, "identity, accuracy", None, None, m[0], m[1:3], "CNN", m[3])
    found = {g: run.part(g, by_group, g, s) for g in s["groups"]}
    figure = Figure(figsize=(7, 3), layout="constrained")
    axis = figure.subplots()
    at = np.arange(len(found))
    for i, key in enumerate(("activity", "identity")):
        axis.bar(at + 0.4 * i - 0.2, [f[f"{key}_f1"] for f in found.values()], 0.38, label=key)
    axis.set_xticks(at, list(found), fontsize=8)
    axis.set(ylabel="F1", ylim=(0, 1))
    axis.legend(frameon=False, loc="lower right", fontsize=8)
    run.figure("fig12", figure)


def fig13(run: Run) -> None:
    """Walking has the highest correlation, then jogging, upstairs, downstairs; under the interval after 5 s."""
    of = run.part("by activity", autocorrelation_by_activity)
    order = {"walking": "highest", "jogging": "2nd", "upstairs": "3rd", "downstairs": "lowest"}
    for activity, printed in order.items():
        curve = of["curves"][activity]
        lag, height = first_peak(curve)
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


def fig15(run: Run) -> None:
    """The attacker is trained on each release: in this figure the paper's own attacker is adaptive."""
    s = run.settings
    releases = {f"{r} Hz": ("rate", r) for r in s["rates"]} | {f"SSA 1..{c}": ("ssa", c) for c in s["components"]}
    printed = {"5 Hz": "over .60", "SSA 1..10": "over .80"}
    found = {name: run.part(name, by_release, kind, value, s) for name, (kind, value) in releases.items()}
    for name, of in found.items():
        a, i = of["activity"], of["identity"]
        run.row(name, "activity, accuracy", printed.get(name) if "SSA" in name else None, a[0], interval=a[1:3],
                guessing=a[3])  # fmt: skip
        run.row(name, "identity, accuracy", printed.get(name), None, i[0], i[1:3], "CNN", i[3])
    figure = Figure(figsize=(8, 3), layout="constrained")
    for axis, kind, label in zip(
        figure.subplots(1, 2, sharey=True), ("rate", "ssa"), ("Hz", "components kept"), strict=True
    ):
        at = [v for k, v in releases.values() if k == kind]
        of = [found[n] for n, (k, _) in releases.items() if k == kind]
        for j, key in enumerate(("activity", "identity")):
            low, mid, high = (np.array([o[key][i] for o in of]) for i in (1, 0, 2))
            axis.errorbar(at, mid, [mid - low, high - mid], fmt="o-", capsize=2, color=f"C{j}", label=key)
        axis.set(xlabel=label, ylim=(0, 1.02))
    figure.axes[0].set_ylabel("accuracy")
    figure.axes[0].legend(frameon=False)
    run.figure("fig15", figure)


EXPERIMENTS: dict[str, Callable[[Run], None]] = {
    "table2": table2, "fig7": fig7, "fig10": fig10, "fig11": fig11, "fig12": fig12, "fig13": fig13, "fig14": fig14,
    "fig15": fig15,
}  # fmt: skip


# -- Table 2 -------------------------------------------------------------------------------------------


def effective_recordings() -> float:
    """What the windows of the test trials are worth if a recording's windows all say the same."""
    _, test = tacit.load_dataset("motionsense", sensitive="identity").split("official")
    size = np.unique(test.units_of(), return_counts=True)[1]
    return float(size.sum() ** 2 / (size**2).sum())


def mean(runs: Sequence[dict[str, Any]], key: str) -> Any:
    values = [r[key] for r in runs if key in r]
    return float(np.mean(values)) if values else None


def summary(trial: Sequence[dict[str, Any]], recordings: float) -> dict[str, Any]:
    """The honest columns, as an audit gives them: the better of two networks, balanced; the certificate is in words."""
    family = max(("adaptive_balanced", "adaptive_deep_balanced"), key=lambda k: mean(trial, k))
    leak, kept = mean(trial, family), mean(trial, "activity_f1")
    low, high = binomial_interval(leak, recordings, 0.975)
    bound = [float(t["certificate"].split("at most ")[1].split()[0]) for t in trial if "at most" in t["certificate"]]
    result = {"value": leak, "low": low, "high": high, "guessing": 1 / 24, "by": "CNN"}
    return {
        "utility": {"activity (F1)": {"value": kept}},
        "leakage": {"identity": result},
        "certificate": {"identity": max(bound) if bound else None},
        "label_only": {},
        "label_only_utility": {},
    }


def small_table(run: Run) -> None:
    """The same two attackers at small size, on raw and on resampled windows."""
    s = run.settings
    for name, filtered in (("raw", None), ("resample 5 Hz", 5)):
        of = run.part(name, small_row, filtered, s)
        run.row(name, "activity F1, same people", None, of["activity_f1"])
        run.row(name, "identity, accuracy", None, of["transfer"], of["adaptive"][0], of["adaptive"][1:3], "CNN")


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


# -- figures 7 to 9, 12 and 15: networks at reduced size -----------------------------------------------


def some_windows(s: dict[str, Any], split: str, signals: str = "magnitude") -> tuple[Dataset, Dataset]:
    """At most `windows` of the training part and half as many of the test part, at random."""
    data = tacit.load_dataset("motionsense", split=split, signals=signals, sensitive="identity", stride=s["stride"])
    rng = np.random.default_rng(0)
    train, test = data.split("official")
    return tuple(
        d.take(np.sort(rng.permutation(len(d))[:n])) for d, n in ((train, s["windows"]), (test, s["windows"] // 2))
    )  # type: ignore[return-value]


def network(X: np.ndarray, labels: Any, epochs: int, make: Any = wide_classifier) -> Callable[[np.ndarray], np.ndarray]:
    """A fresh, class-balanced network as a function from windows to answers."""
    classes, codes = np.unique(np.asarray(labels), return_inverse=True)
    net = NetworkClassifier(make, epochs, 128, 3e-3, seed=0).fit(X, codes, len(classes))
    return lambda Z: classes[net.predict_proba(Z).argmax(1)]


def measured(truth: Any, guess: Any, units: Any) -> list[float]:
    """Accuracy with its interval, by recording."""
    names = np.unique(np.concatenate([np.asarray(truth), np.asarray(guess)]), return_inverse=True)[1]
    found: Measure = accuracy(names[: len(truth)], names[len(truth) :], np.unique(units, return_inverse=True)[1])
    return [float(v) for v in found]


def anonymised(s: dict[str, Any]) -> dict[str, Any]:
    """Windows of the test trials before and after a small autoencoder; spectra in the plane of the raw ones."""
    train, test = some_windows(s, "trial")
    f = tacit.AnonymizingAutoencoder(
        epochs=s["epochs"], n_maps=s["maps"], regularisers=tuple(s["regularisers"]), batch_size=128, random_state=0,
        device="cpu",
    )  # fmt: skip
    f.fit(train.X, train.y, sensitive_features=train.sensitive, units=train.units_of("identity"))
    views = {"raw": (train.X, test.X), "released": (f.transform(train.X), f.transform(test.X))}
    activity, user = test.y["activity"].to_numpy(), test.sensitive["identity"].to_numpy()
    plane = PCA(2, random_state=0).fit(spectra(train.X))
    shown = np.random.default_rng(0).permutation(len(test))[:600]
    jogging = train.y["activity"].to_numpy() == "jogging", activity == "jogging"
    typical = [int(np.flatnonzero((activity == a) & (user == user[activity == a][0]))[0]) for a in np.unique(activity)]
    out: dict[str, Any] = {"activity": activity[shown], "user": user[shown], "titles": list(np.unique(activity))}
    units = test.units_of("identity")
    for name, (a, b) in views.items():
        pa, pb = plane.transform(spectra(a)), plane.transform(spectra(b))
        near = KNeighborsClassifier(5).fit(pa, train.y["activity"])
        who = KNeighborsClassifier(5).fit(pa[jogging[0]], train.sensitive["identity"][jogging[0]])
        out[name] = {
            "plane": np.round(pb[shown], 2),
            "windows": np.round(b[typical], 3),
            "activity": measured(activity, near.predict(pb), units),
            "user": measured(user[jogging[1]], who.predict(pb[jogging[1]]), units[jogging[1]]),
            "identity": measured(user, network(a, train.sensitive["identity"], s["epochs"])(b), units),
            "kept": measured(activity, network(a, train.y["activity"], s["epochs"])(b), units),
        }
    return out


def spectra(X: np.ndarray) -> np.ndarray:
    """Log power of every window: where its steps fall within the window does not matter."""
    power = np.abs(np.fft.rfft(X - X.mean(axis=-1, keepdims=True))) ** 2
    return np.log(power[..., 1:33] + 1e-3).reshape(len(X), -1)


def by_group(group: str, s: dict[str, Any]) -> dict[str, Any]:
    """A CNN on one kind of data: which sensor, magnitude or axes, sensors apart (1D) or together (2D)."""
    magnitude = group.startswith("Mag")
    width = 1 if magnitude else 3
    # magnitudes: gyroscope, accelerometer; axes: accelerometer, gyroscope
    places = {"Gyro": 0 if magnitude else 1, "Accl": 1 if magnitude else 0}
    sensor = group.removeprefix("Mag").partition("_")[0]
    at = slice(None) if sensor == "Both" else slice(places[sensor] * width, (places[sensor] + 1) * width)
    make = apart if group.endswith("1D") else wide_classifier
    out: dict[str, Any] = {}
    for label, split in (("activity", "subject"), ("identity", "trial")):
        train, test = some_windows(s, split, "magnitude" if magnitude else "axes")
        of = {d: d.y["activity"] if label == "activity" else d.sensitive["identity"] for d in (train, test)}
        guess = network(train.X[:, at], of[train], s["epochs"], make)(test.X[:, at])
        out[label] = measured(of[test], guess, test.units_of("identity"))
        out[f"{label}_f1"] = float(f1_score(of[test], guess, average="macro"))
    return out


class apart(nn.Module):
    """Every channel read by convolutions of its own, which meet only in the answer (filters of one dimension)."""

    def __init__(self, shape: tuple[int, int], n_out: int) -> None:
        super().__init__()
        self.each = nn.ModuleList(wide_classifier((1, shape[1]), n_out) for _ in range(shape[0]))

    def forward(self, x: Tensor) -> Tensor:
        return sum(net(x[:, [i]]) for i, net in enumerate(self.each))  # type: ignore[return-value]


def by_release(kind: str, value: int, s: dict[str, Any]) -> dict[str, Any]:
    train, test = some_windows(s, "trial")
    make = tacit.baselines.Resample if kind == "rate" else tacit.baselines.SingularSpectrum
    release = make(value, RATE) if kind == "rate" else make(tuple(range(1, value + 1)))
    a, b = (release.fit(train.X).transform(d.X) for d in (train, test))
    out = {}
    for label, of in (("activity", [d.y["activity"] for d in (train, test)]),
                      ("identity", [d.sensitive["identity"] for d in (train, test)])):  # fmt: skip
        out[label] = measured(of[1], network(a, of[0], s["epochs"])(b), test.units_of("identity"))
    return out


# -- figures 10, 11, 13 and 14: the signals themselves -------------------------------------------------


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


def autocorrelation_by_activity() -> dict[str, Any]:
    """Of the acceleration's magnitude, up to 45 s of each recording, averaged over people."""
    data = recordings(("downstairs", "upstairs", "walking", "jogging"))
    curves = {}
    for activity in np.unique(data.y["activity"]):
        of = (data.y["activity"] == activity).to_numpy()
        curves[activity] = np.round(np.mean([autocorrelation(x) for x in data.X[of, 1]], axis=0), 4)
    return {"curves": curves, "limit": 1.96 / np.sqrt(data.X.shape[2])}


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


def recordings(activities: Sequence[str]) -> Dataset:
    """The first 20 s of every recording: stairs are short, so 45 s (the paper's) would leave most people out."""
    data = tacit.load_dataset("motionsense", activities=activities, sensitive="identity", length=1000, stride=100_000)
    return data


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
    figure.axes[-1].set_xlabel("lag, seconds (dotted: 95 % interval of no correlation)")
    return figure
