"""Figures 7 to 9, 12 and 15: what needs a trained network."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.manifold import TSNE
from sklearn.metrics import f1_score
from torch import Tensor, nn

import tacit
from papers.common.run import Run, over_seeds
from papers.common.window_figures import spectrogram_figure, waveform_figure
from tacit.nets.windows import printed_classifier

from .protocol import GUESSED_F1, RATE, measured, network, read_by_cnns, some_windows, told

# -- Fig. 7 to 9 --------------------------------------------------------------------------------------


def fig7(run: Run) -> None:
    """Figures 7, 8 and 9: codes, waves and spectra of windows before and after an autoencoder that hides."""
    s = run.settings
    found = run.part("anonymise", anonymised, s)
    printed = {"raw": ("separate", "colour clusters"), "released": ("jogging apart", "masked")}
    for what in ("raw", "released"):
        of = found[what]
        for at, measure, key, words in (
            ("in the plane", "activity, 5 neighbors", "activity", printed[what][0]),
            ("in the plane", "jogging or not, 5 neighbors", "jogging", None),
            ("in the plane, jogging", "identity, 5 neighbors", "user", printed[what][1]),
            ("all of it", "activity, accuracy", "kept", None),
        ):
            run.row(f"{what}, {at}", measure, words, of[key][0], interval=of[key][1:3], guessing=of[key][3])
        leak = of["identity"]
        run.row(f"{what}, all of it", "identity, accuracy", None, None, leak["value"], (leak["low"], leak["high"]),
                leak["by"], leak["guessing"])  # fmt: skip
    run.figure("fig7", planes(found))
    raw, released = (np.array(found[what]["windows"]) for what in ("raw", "released"))
    run.figure("fig8", waveform_figure(raw, released, found["titles"], ["gyroscope", "accelerometer"]))
    spectrograms = spectrogram_figure(raw, released, found["titles"], ["gyroscope", "accelerometer"], RATE)
    for mesh in (c for axis in spectrograms.axes for c in axis.collections):
        mesh.set_rasterized(True)  # thousands of little squares would make a heavy file
    run.figure("fig9", spectrograms)


def anonymised(s: dict[str, Any]) -> dict[str, Any]:
    """Windows before and after an autoencoder (ours); codes of raw windows by one that only copies, in a plane."""
    train, test = some_windows(s, "trial")
    f = tacit.AnonymizingAutoencoder(epochs=s["epochs"], n_maps=s["maps"], random_state=0)
    f.fit(train.X, train.y, sensitive_features=train.sensitive, units=train.units_of("identity"))
    copying = tacit.AnonymizingAutoencoder(
        0.0, 0.0, 1.0, epochs=s["epochs"], n_maps=s["maps"], noise=None, random_state=0
    )
    copying.fit(train.X, train.y)  # beta_activity is 0: it learns to copy
    views = {"raw": (train.X, test.X), "released": (f.transform(train.X), f.transform(test.X))}
    activity, user = (np.concatenate([c(d) for d in (train, test)]) for c in (_activity, _user))
    unit = np.concatenate([train.units_of("identity"), test.units_of("identity")])
    rng = np.random.default_rng(0)
    # as many windows of each activity, from all recordings: a person's other recording is what neighbors are asked for
    shown = np.concatenate(
        [rng.permutation(np.flatnonzero(activity == a))[: s["shown"] // 4] for a in np.unique(activity)]
    )
    jogging = activity[shown] == "jogging"
    late, who = _activity(test), _user(test)
    one = who == who[late == "jogging"][0]
    typical = [int(np.flatnonzero((late == a) & one)[0]) for a in np.unique(late)]
    out: dict[str, Any] = {"activity": activity[shown], "user": user[shown], "titles": list(np.unique(late))}
    units = test.units_of("identity")
    for name, (a, b) in views.items():
        code = (copying if name == "raw" else f).latent(np.concatenate([train.X, test.X])[shown])
        # amplitudes of the code's spectrum: where a step falls within a window means nothing
        sizes = np.abs(np.fft.rfft(code)).reshape(len(code), -1)
        plane = TSNE(2, perplexity=30, init="pca", random_state=0).fit_transform(sizes)
        epochs = s["attack_epochs"]
        out[name] = {
            "plane": np.round(plane, 2),
            "windows": np.round(b[typical], 3),
            "activity": neighbors(plane, activity[shown], unit[shown]),
            "jogging": neighbors(plane, jogging, unit[shown]),
            "user": neighbors(plane[jogging], user[shown][jogging], unit[shown][jogging]),
            "identity": read_by_cnns(a, _user(train), b, who, units, epochs, 0),
            "kept": measured(late, network(a, _activity(train), epochs)(b), units),
        }
    return out


def _activity(data: Any) -> np.ndarray:
    return data.y["activity"].to_numpy()


def _user(data: Any) -> np.ndarray:
    return data.sensitive["identity"].to_numpy()


def neighbors(plane: np.ndarray, labels: np.ndarray, units: np.ndarray) -> list[float]:
    """What the five nearest points of *other* recordings say of each point."""
    apart = np.linalg.norm(plane[:, None] - plane, axis=2)
    apart[units[:, None] == units] = np.inf
    names, codes = np.unique(labels, return_inverse=True)
    near = codes[np.argsort(apart, axis=1)[:, :5]]
    votes = np.stack([(near == c).sum(axis=1) for c in range(len(names))], axis=1)
    return measured(labels, names[votes.argmax(axis=1)], units)


def planes(found: dict[str, Any]) -> Figure:
    """As printed: above raw, below released; left the activities, right jogging, one colour a person."""
    figure = Figure(figsize=(9, 8), layout="constrained")
    activity, user = np.array(found["activity"]), np.array(found["user"])
    for row, (what, words) in zip(
        figure.subplots(2, 2), (("raw", "raw windows"), ("released", "after the autoencoder")), strict=True
    ):
        plane = np.array(found[what]["plane"])
        for i, name in enumerate(np.unique(activity)):
            row[0].scatter(*plane[activity == name].T, s=6, color=f"C{i}", linewidths=0, label=name, rasterized=True)
        row[0].set_title(f"{words}: four activities", fontsize=9)
        row[0].legend(frameon=False, fontsize=7, markerscale=2)
        row[1].scatter(*plane[activity == "jogging"].T, s=9, c=user[activity == "jogging"], cmap="nipy_spectral",
                       linewidths=0, rasterized=True)  # fmt: skip
        row[1].set_title(f"{words}: jogging, one colour a person", fontsize=9)
        for axis in row:
            axis.tick_params(labelsize=6)
    figure.supxlabel("codes of 2 x 32 numbers: amplitudes of their spectra, by t-SNE", fontsize=8)
    return figure


def spectra(X: np.ndarray) -> np.ndarray:
    """Log power of every window: where its steps fall within the window does not matter."""
    power = np.abs(np.fft.rfft(X - X.mean(axis=-1, keepdims=True))) ** 2
    return np.log(power[..., 1:33] + 1e-3).reshape(len(X), -1)


# -- Fig. 12 -----------------------------------------------------------------------------------------


def fig12(run: Run) -> None:
    """Seven kinds of data: activity on other people, identity on other trials."""
    s = run.settings
    found = {g: [run.part(f"{g}, seed {seed}", by_group, g, seed, s) for seed in run.seeds] for g in s["groups"]}
    for group, of in found.items():
        for label, whose in (("activity", "activity F1, other people"), ("identity", "identity F1")):
            values = [o[f"{label}_f1"] for o in of]
            run.row(group, whose, SAID.get(group) if label == "identity" else None, float(np.mean(values)),
                    interval=(min(values), max(values)), guessing=GUESSED_F1[label])  # fmt: skip
        m = over_seeds([told(o["identity"], "Fig. 5's network") for o in of])
        run.row(group, "identity, accuracy", None, None, m["value"], (m["low"], m["high"]), m["by"], m["guessing"])
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    at = np.arange(len(found))
    for axis, key in zip(figure.subplots(2, 1, sharex=True), ("activity", "identity"), strict=True):
        values = np.array([[o[f"{key}_f1"] for o in of] for of in found.values()])
        spread = values.std(axis=1, ddof=1) if values.shape[1] > 1 else None
        axis.bar(at, values.mean(axis=1), 0.6, yerr=spread, capsize=3, color="C0" if key == "activity" else "C1")
        axis.set(ylabel=f"{key}, F1", ylim=(0, 1))
    axis.set_xticks(at, list(found), fontsize=8)
    figure.supxlabel(f"segments: standard deviation of {len(run.seeds)} runs", fontsize=8)
    run.figure("fig12", figure)


# what the paper's text says of the bars
SAID = {"MagBoth_2D": "above MagBoth_1D", "Both": "axes needed for identity"}


def by_group(group: str, seed: int, s: dict[str, Any]) -> dict[str, Any]:
    """Fig. 5's network on one kind of data: which sensor, magnitude or axes, sensors apart (1D) or together (2D)."""
    magnitude = group.startswith("Mag")
    width = 1 if magnitude else 3
    # magnitudes: gyroscope, accelerometer; axes: accelerometer, gyroscope
    places = {"Gyro": 0 if magnitude else 1, "Accl": 1 if magnitude else 0}
    sensor = group.removeprefix("Mag").partition("_")[0]
    at = slice(None) if sensor == "Both" else slice(places[sensor] * width, (places[sensor] + 1) * width)
    make = apart if group.endswith("1D") else printed_classifier
    out: dict[str, Any] = {}
    for label, split in (("activity", "subject"), ("identity", "trial")):
        train, test = some_windows(s, split, "magnitude" if magnitude else "axes")
        of = {d: d.y["activity"] if label == "activity" else d.sensitive["identity"] for d in (train, test)}
        guess = network(train.X[:, at], of[train], s["epochs"], make, seed)(test.X[:, at])
        out[label] = measured(of[test], guess, test.units_of("identity"))
        out[f"{label}_f1"] = float(f1_score(of[test], guess, average="macro"))
    return out


class apart(nn.Module):
    """Every channel read by convolutions of its own, which meet only in the answer (filters of one dimension)."""

    def __init__(self, shape: tuple[int, int], n_out: int) -> None:
        super().__init__()
        self.each = nn.ModuleList(printed_classifier((1, shape[1]), n_out) for _ in range(shape[0]))

    def forward(self, x: Tensor) -> Tensor:
        return sum(net(x[:, [i]]) for i, net in enumerate(self.each))  # type: ignore[return-value]


# -- Fig. 15 -----------------------------------------------------------------------------------------


def fig15(run: Run) -> None:
    """The attacker is trained on each release: in this figure the paper's own attacker is adaptive."""
    s = run.settings
    releases = {f"{r} Hz": ("rate", r) for r in s["rates"]} | {f"SSA 1..{c}": ("ssa", c) for c in s["components"]}
    printed = {"5 Hz": "over .60", "SSA 1..10": "over .80"}
    found: dict[str, Any] = {}
    parts = {
        name: [run.part(f"{name}, seed {seed}", by_release, kind, value, seed, s) for seed in run.seeds]
        for name, (kind, value) in releases.items()
    }
    for name, of in parts.items():
        found[name] = {k: over_seeds([told(o[k], "wide CNN") for o in of]) for k in ("activity", "identity")}
        a, i = found[name]["activity"], found[name]["identity"]
        run.row(name, "activity, accuracy", printed.get(name) if "SSA" in name else None, a["value"],
                interval=(a["low"], a["high"]), guessing=a["guessing"])  # fmt: skip
        run.row(name, "identity, accuracy", printed.get(name), None, i["value"], (i["low"], i["high"]), "wide CNN",
                i["guessing"])  # fmt: skip
    figure = Figure(figsize=(8, 3), layout="constrained")
    for axis, kind, label in zip(
        figure.subplots(1, 2, sharey=True), ("rate", "ssa"), ("Hz", "components kept"), strict=True
    ):
        at = [v for k, v in releases.values() if k == kind]
        of = [found[n] for n, (k, _) in releases.items() if k == kind]
        for j, key in enumerate(("activity", "identity")):
            low, mid, high = (np.array([o[key][i] for o in of]) for i in ("low", "value", "high"))
            axis.errorbar(at, mid, [mid - low, high - mid], fmt="o-", capsize=2, color=f"C{j}", label=key)
        axis.set(xlabel=label, ylim=(0, 1.02))
    figure.axes[0].set_ylabel("accuracy")
    figure.axes[0].legend(frameon=False)
    run.figure("fig15", figure)


def by_release(kind: str, value: int, seed: int, s: dict[str, Any]) -> dict[str, Any]:
    train, test = some_windows(s, "trial")
    make = tacit.baselines.Resample if kind == "rate" else tacit.baselines.SingularSpectrum
    release = make(value, RATE) if kind == "rate" else make(tuple(range(1, value + 1)))
    a, b = (release.fit(train.X).transform(d.X) for d in (train, test))
    out = {}
    for label, of in (("activity", [d.y["activity"] for d in (train, test)]),
                      ("identity", [d.sensitive["identity"] for d in (train, test)])):  # fmt: skip
        out[label] = measured(of[1], network(a, of[0], s["epochs"], seed=seed)(b), test.units_of("identity"))
    return out
