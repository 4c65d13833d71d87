"""Figures 7 to 9, 12 and 15: networks at reduced size on a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.decomposition import PCA
from sklearn.metrics import f1_score
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor, nn

import tacit
from papers.common.run import Run
from papers.common.window_figures import latent_figure, spectrogram_figure, waveform_figure
from tacit.nets.window_nets import wide_classifier

from .protocol import GUESSED_F1, RATE, measured, network, some_windows

# -- Fig. 7 to 9 --------------------------------------------------------------------------------------


def fig7(run: Run) -> None:
    """Figures 7, 8 and 9: a small autoencoder, and what it does to windows of the test trials."""
    s = run.settings
    found = run.part("anonymise", anonymised, s)
    printed = {"raw": ("separate", "colour clusters"), "released": ("jogging apart", "masked")}
    for what in ("raw", "released"):
        of = found[what]
        for at, measure, key, words in (
            ("in the plane", "activity, 5 neighbours", "activity", printed[what][0]),
            ("in the plane, jogging", "identity, 5 neighbours", "user", printed[what][1]),
            ("all of it", "activity, accuracy", "kept", None),
        ):
            run.row(f"{what}, {at}", measure, words, of[key][0], interval=of[key][1:3], guessing=of[key][3])
        value, low, high, commonest = of["identity"]
        run.row(f"{what}, all of it", "identity, accuracy", None, None, value, (low, high), "wide CNN", commonest)
        for label, rows in (("activity", slice(None)), ("user", np.array(found["activity"]) == "jogging")):
            plane = np.array(of["plane"])[rows]
            title = f"{what}: {'activity' if label == 'activity' else 'user, one colour each (jogging)'}"
            run.figure(f"fig7-{what}-{label}", latent_figure(plane, [(title, np.array(found[label])[rows])]))
    raw, released = (np.array(found[what]["windows"]) for what in ("raw", "released"))
    run.figure("fig8", waveform_figure(raw, released, found["titles"], ["gyroscope", "accelerometer"]))
    spectrograms = spectrogram_figure(raw, released, found["titles"], ["gyroscope", "accelerometer"], RATE)
    for mesh in (c for axis in spectrograms.axes for c in axis.collections):
        mesh.set_rasterized(True)  # thousands of little squares would make a heavy file
    run.figure("fig9", spectrograms)


def anonymised(s: dict[str, Any]) -> dict[str, Any]:
    """Windows of the test trials before and after a small autoencoder; spectra in the plane of the raw ones."""
    train, test = some_windows(s, "trial")
    f = tacit.AnonymizingAutoencoder(
        epochs=s["epochs"], n_maps=s["maps"], regularizers=tuple(s["regularisers"]), batch_size=128, random_state=0,
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


# -- Fig. 12 -----------------------------------------------------------------------------------------


def fig12(run: Run) -> None:
    """Seven kinds of data: activity on other people, identity on other trials."""
    s = run.settings
    for group in s["groups"]:
        of = run.part(group, by_group, group, s)
        run.row(group, "activity F1, other people", None, of["activity_f1"], guessing=GUESSED_F1["activity"])
        run.row(group, "identity F1", SAID.get(group), of["identity_f1"], guessing=GUESSED_F1["identity"])
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
    figure.legend(frameon=False, loc="outside right upper", fontsize=8)
    run.figure("fig12", figure)


# what the paper's text says of the bars
SAID = {"MagBoth_2D": "above MagBoth_1D", "Both": "axes needed for identity"}


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


# -- Fig. 15 -----------------------------------------------------------------------------------------


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
