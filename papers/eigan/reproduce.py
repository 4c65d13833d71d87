"""The experiments of "Can we Generalize and Distribute Private Representation Learning?" (EIGAN), in its order.

Every release is measured twice. `in_print`: as the paper does, one network per objective that learns from the encoded
*training* rows (plain accuracy, cross-entropy on logits). The audit: attackers of several families, trained afresh
on released rows that the filter never saw, the best chosen on validation rows (balanced accuracy with interval).
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from scipy.stats import mannwhitneyu
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import PCA
from sklearn.metrics import accuracy_score, log_loss
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import tacit
from tacit.reproduce import Run
from tacit.reproduce.papers import import_script
from tacit.reproduce.run import by_attacker, honest, middle
from tacit.tables import make_encoder

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
Parts = tuple[tacit.Dataset, tacit.Dataset, tacit.Dataset]  # for the filter, for attackers, to test on


# -- Table 1 -----------------------------------------------------------------------------------------


def table1(run: Run) -> None:
    """Adult as Sadeghi and Boddeti (2020) use it; alpha of EIGAN is set so that the adversary is at .67."""
    printed = {"raw data": (0.85, 0.85), "Linear-ARL": (0.84, 0.67), "Kernel-ARL": (0.84, 0.67)}
    printed |= {"Bertran": (0.82, 0.67), "EIGAN, linear, l=10": (0.84, 0.67)}
    found = each_release(run, ADULT_RELEASES, adult_release)
    table(run, found, "adult", {"income": 0, "sex": 1}, printed)


def adult_release(name: str, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    parts = adult_parts(s["rows"], seed)
    return measured(fitted(ADULT_RELEASES[name](seed, s["epochs"]), parts[0], seed), parts, seed, s)


def linear(n_in: Any, n_out: int) -> nn.Module:
    """The linear encoder that the paper uses on Adult."""
    return nn.Linear(n_in, n_out)


ADULT_RELEASES: dict[str, Callable[[int, int], Any]] = {
    "raw data": lambda seed, epochs: None,
    "Linear-ARL": lambda seed, epochs: tacit.baselines.LinearARL(),
    "Kernel-ARL": lambda seed, epochs: tacit.baselines.KernelARL(n_features=300, random_state=seed),
    "Bertran": lambda seed, epochs: tacit.baselines.VariationalObfuscator(
        0.01, epochs=epochs // 2, batch_size=256, random_state=seed
    ),
    "EIGAN, linear, l=10": lambda seed, epochs: tacit.EIGAN(10, encoder=linear, epochs=epochs, random_state=seed),
    "EIGAN, l=4, noise .3": lambda seed, epochs: tacit.EIGAN(4, 0.3, noise=0.3, epochs=epochs, random_state=seed),
}


def table1_faces(run: Run) -> None:
    """FaceScrub's column (identity kept, gender withheld) on 20 people's faces, with MLPs for U-Net and Xception."""
    printed = {"raw data": (0.98, 0.99), "Bertran": (0.56, 0.68), "EIGAN, l=32": (0.82, 0.68)}
    found = each_release(run, FACE_RELEASES, face_release)
    table(run, found, "cmu_faces", {"person": 0, "sunglasses": 1}, printed)


def face_release(name: str, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    data = tacit.load_dataset("cmu_faces", target="person", sensitive="sunglasses")
    # identities can only be kept of people who have been met: split by image, not by person, as in print
    data = tacit.Dataset(data.X.reshape(len(data), -1), data.y, data.sensitive, name="cmu_faces")
    parts = data.split((0.5, 0.25, 0.25), seed=seed)
    release = fitted(FACE_RELEASES[name](seed, s["epochs"]), parts[0], seed)
    return measured(release, parts, seed, s, floor=s["floor"] and release is None)


FACE_RELEASES: dict[str, Callable[[int, int], Any]] = {
    "raw data": lambda seed, epochs: None,
    "Bertran": lambda seed, epochs: tacit.baselines.VariationalObfuscator(0.01, epochs=epochs, random_state=seed),
    "EIGAN, l=32": lambda seed, epochs: tacit.EIGAN(32, epochs=epochs, random_state=seed),
    "EIGAN, l=32, noise .3": lambda seed, epochs: tacit.EIGAN(32, noise=0.3, epochs=epochs, random_state=seed),
}


# -- Table 2 -----------------------------------------------------------------------------------------


def table2(run: Run) -> None:
    """The code, drawn as an 8x8 image, read by other architectures than EIGAN was trained against."""
    found = each_release(run, ["raw data", "EIGAN"], mnist_release)
    for name, audits in found.items():
        best = middle([a["audit"] for a in audits], "digit")
        for family in FAMILIES:
            kept, read = (float(np.mean([a["families"][family][k] for a in audits])) for k in ("parity", "digit"))
            if name == "EIGAN":
                printed = {"residual": (0.85, 0.45), "plain": (0.77, 0.42), "wide": (0.85, 0.42)}.get(
                    family, (None, None)
                )
            else:
                printed = (0.99, 0.99) if family == "residual" else (None, None)
            run.row(f"{name}, read by {family}", "parity, accuracy", printed[0], kept)
            run.row(f"{name}, read by {family}", "digit, accuracy", printed[1], read)
        leak = best["leakage"]["digit"]
        run.row(f"{name}, best of all", "digit, balanced accuracy", **by_attacker(leak))
        run.audited(name if name == "raw data" else "EIGAN, l=64", "mnist", [a["audit"] for a in audits],
                    floor=found["raw data"][0]["audit"])  # fmt: skip


def mnist_release(name: str, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    data = tacit.load_dataset("mnist")
    parts = data.take(np.random.default_rng(seed).permutation(len(data))[: sum(s["rows"])]).split(s["rows"], seed=seed)
    if name == "EIGAN":
        release = fitted(tacit.EIGAN(64, s["alpha"], epochs=s["epochs"], random_state=seed), parts[0], seed)
        networks = [SmallNetwork(family, 8, s["evaluation"], seed) for family in FAMILIES]
    else:
        release, networks = None, [SmallNetwork(family, 28, s["evaluation"], seed) for family in FAMILIES]
    report = tacit.audit(release, parts[1], parts[2], [*s["attackers"], *networks], pooled=(),
                         floor=s["floor"] and release is None,
                         limit=False, seed=seed)  # fmt: skip
    names = ["SmallNetwork", *(f"SmallNetwork-{i}" for i in range(2, len(FAMILIES) + 1))]
    families = {
        family: {
            "parity": report.utility["parity"].attackers[n].value,
            "digit": report.leakage["digit"].attackers[n].value,
        }
        for family, n in zip(FAMILIES, names, strict=True)
    }
    return {"audit": honest(report), "families": families}


FAMILIES = ("residual", "grouped", "wide", "plain", "fully connected")


class SmallNetwork(ClassifierMixin, BaseEstimator):
    """One of five small families in the place of ResNet, ResNeXt, WideResNet, VGG and an FCN."""

    def __init__(self, family: str, side: int, epochs: int, seed: int) -> None:
        self.family, self.side, self.epochs, self.seed = family, side, epochs, seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> SmallNetwork:
        self.classes_ = np.unique(y)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.net_ = self._build(len(self.classes_))
            images = self._images(X)
            labels = torch.as_tensor(np.searchsorted(self.classes_, y))
            adam = torch.optim.Adam(self.net_.parameters(), lr=2e-3)
            self.net_.train()
            for _ in range(self.epochs):
                for rows in torch.randperm(len(images)).split(64):
                    loss = nn.functional.cross_entropy(self.net_(images[rows]), labels[rows])
                    adam.zero_grad()
                    loss.backward()
                    adam.step()
        self.net_.eval()
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return torch.softmax(self.net_(self._images(X)), 1).double().numpy()

    def _images(self, X: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(X.reshape(len(X), 1, self.side, self.side), dtype=torch.float32)

    def _build(self, n_classes: int) -> nn.Module:
        if self.family == "fully connected":
            return nn.Sequential(nn.Flatten(), nn.Linear(self.side**2, 128), nn.ReLU(), nn.Linear(128, n_classes))
        maps = 48 if self.family == "wide" else 24
        first = [nn.Conv2d(1, maps, 3, padding=1, stride=2), nn.BatchNorm2d(maps), nn.ReLU()]
        if self.family == "plain":
            body: list[nn.Module] = [
                nn.Conv2d(maps, maps, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(maps, maps, 3, padding=1),
                nn.ReLU(),
            ]
        else:
            body = [Residual(maps, 4 if self.family == "grouped" else 1) for _ in range(2)]
        return nn.Sequential(*first, *body, nn.AdaptiveMaxPool2d(3), nn.Flatten(), nn.Linear(9 * maps, n_classes))


class Residual(nn.Module):
    def __init__(self, maps: int, groups: int) -> None:
        super().__init__()
        self.change = nn.Sequential(
            nn.Conv2d(maps, maps, 3, padding=1, groups=groups), nn.BatchNorm2d(maps), nn.ReLU(),
            nn.Conv2d(maps, maps, 3, padding=1, groups=groups), nn.BatchNorm2d(maps),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.change(x))


# -- Table 3, Fig. 3, 14, 15: cross-entropies, at the end and over training ---------------------------


def table3(run: Run) -> None:
    """Titanic, true cross-entropies: the printed ones come from a sigmoid applied twice and have a floor of .313."""
    printed = {
        "autoencoder": (0.6333, 0.4918, 0.7351), "PCA": (0.6439, 0.5236, 0.7289),
        "DP": (0.6869, 0.5733, 0.7904), "EIGAN": (0.6396, 0.5444, 0.8011),
    }  # fmt: skip
    found = each_release(run, printed, titanic_release)
    for name, runs in found.items():
        for i, label in enumerate(("Survived", "Sex", "Pclass")):
            loss = float(np.mean([r["print"][label]["log_loss"] for r in runs]))
            run.row(name, f"{label}, cross-entropy", printed[name][i], loss)
            if i:
                leak = middle([r["audit"] for r in runs], label)["leakage"][label]
                run.row(name, f"{label}, balanced accuracy", **by_attacker(leak))
        run.audited(name, "titanic", [r["audit"] for r in runs], floor=found["autoencoder"][0]["audit"])


def titanic_release(name: str, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    parts = titanic_parts(seed)
    release = fitted(CURVES[name](seed, s["epochs"], 20.0), parts[0], seed)
    return measured(release, parts, seed, s, floor=name == "autoencoder")


# on Fig. 3 and 15 the paper tunes DP's noise to match EIGAN's adversaries; ours is a real mechanism: clip, then noise
CURVES: dict[str, Callable[[int, int, float], Any]] = {
    "autoencoder": lambda seed, epochs, eps: tacit.baselines.Autoencoder(8, epochs=epochs, random_state=seed),
    "PCA": lambda seed, epochs, eps: PCA(0.99),
    "DP": lambda seed, epochs, eps: tacit.baselines.LaplaceMechanism(eps),
    "EIGAN": lambda seed, epochs, eps: tacit.EIGAN(8, 0.3, noise=0.3, epochs=epochs, random_state=seed),
}


def fig3(run: Run) -> None:
    """Adult takes the place of MIMIC-III: income for survival, sex and race as there; the demo's 129 rows beside it."""
    for data, labels in (
        ("adult", ("income", "sex", "race")),
        ("mimic_demo", ("HOSPITAL_EXPIRE_FLAG", "GENDER", "ETHNICITY")),
    ):
        curves(run, data, labels, f"fig3-{data}")


def fig15(run: Run) -> None:
    curves(run, "titanic", ("Survived", "Sex", "Pclass"), "fig15")


def curves(run: Run, data: str, labels: Sequence[str], figure: str) -> None:
    """(a) adversaries' and (b) the ally's test loss over their training; (c) the game's own losses."""
    found = {name: run.part(f"{data} {name}", curve, data, name, 0, run.settings) for name in CURVES}
    for name, row in found.items():
        for label in labels:
            leak = row["audit"]["leakage"].get(label)
            run.row(f"{data}: {name}", f"{label}, cross-entropy after training", None, row["curve"][label][-1])
            if leak:
                run.row(f"{data}: {name}", f"{label}, balanced accuracy", **by_attacker(leak))
        if data != "mimic_demo":  # a test part of some thirty rows says nothing
            run.audited(
                {"DP": "Laplace mechanism"}.get(name, name), data, row["audit"], floor=found["autoencoder"]["audit"]
            )
    drawn = Figure(figsize=(11, 3.2), layout="constrained")
    adversaries, ally, game = drawn.subplots(1, 3)
    for colour, (name, row) in zip(("tab:blue", "tab:green", "tab:olive", "tab:red"), found.items(), strict=True):
        for style, label in zip(("-", "--"), labels[1:], strict=True):
            adversaries.plot(row["curve"][label], style, color=colour, label=f"{name}, {label}")
        ally.plot(row["curve"][labels[0]], color=colour, label=name)
    for key, values in found["EIGAN"]["game"].items():
        game.plot(values, label=key)
    adversaries.set(title="(a) adversaries", xlabel="epoch", ylabel="cross-entropy on test rows")
    ally.set(title="(b) ally", xlabel="epoch")
    game.set(title="(c) the game's own losses", xlabel="epoch")
    for axis in (adversaries, ally, game):
        axis.legend(frameon=False, fontsize=6)
    run.figure(figure, drawn)


def curve(data: str, name: str, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    parts = {"adult": lambda: adult_parts(s["rows"], seed, ["sex", "race"]), "titanic": lambda: titanic_parts(seed),
             "mimic_demo": lambda: mimic_parts(seed)}[data]()  # fmt: skip
    release = fitted(CURVES[name](seed, s["epochs"], s["epsilon"]), parts[0], seed)
    steps = in_print(release, parts, seed, s["evaluation"])
    return {
        "curve": {label: found["losses"] for label, found in steps.items()},
        "audit": honest(audit(release, parts, seed, s, floor=name == "autoencoder")),
        "game": history(release) if name == "EIGAN" else {},
    }


# -- Fig. 2, 10, 11, 12 ------------------------------------------------------------------------------


def synthetic(run: Run) -> None:
    """Groups of points before and after: the adversary's axis collapses, the ally's stays."""
    drawn = Figure(figsize=(10.5, 5.2), layout="constrained")
    axes = drawn.subplots(2, len(SHAPES))
    for i, (figure, (data, options)) in enumerate(SHAPES.items()):
        runs = [run.part(f"{figure} seed {seed}", points, data, options, seed, run.settings) for seed in run.seeds]
        for label in runs[0]["print"]:
            ours = float(np.mean([r["print"][label]["accuracy"] for r in runs]))
            leak = (
                middle([r["audit"] for r in runs], label)["leakage"][label]
                if label in runs[0]["audit"]["leakage"]
                else None
            )
            printed = "collapsed" if leak else "kept"
            run.row(f"{figure}, {data}", f"{label}, accuracy", printed, ours, **by_attacker(leak))
        for row, which in enumerate(("before", "after")):
            scatter(axes[row, i], np.array(runs[0][which]), runs[0]["colour"], runs[0]["marker"])
        axes[0, i].set_title(f"{figure}: {data}", fontsize=9)
        run.audited("EIGAN, l=2", f"{data}, {figure}",
                    [r["audit"] for r in runs])  # fmt: skip
    axes[0, 0].set_ylabel("before")
    axes[1, 0].set_ylabel("after")
    run.figure("synthetic", drawn)


SHAPES: dict[str, tuple[str, dict[str, int]]] = {
    "Fig. 2": ("octants", {"allies": 2}),
    "Fig. 10": ("quadrants", {}),
    "Fig. 11": ("circles", {}),
    "Fig. 12": ("octants", {"allies": 1}),
}


def points(data: str, options: Mapping[str, int], seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    parts = tacit.load_dataset(data, n=2 * s["n"], seed=seed, **options).split((0.5, 0.25, 0.25), seed=seed)
    release = fitted(tacit.EIGAN(2, epochs=s["epochs"], random_state=seed), parts[0], seed)
    shown = parts[2].take(np.arange(min(250, len(parts[2]))))
    axes = shown.X[:, [0, 2]] if shown.X.shape[1] == 3 else shown.X  # of three, an ally's and the adversary's
    return {
        **measured(release, parts, seed, s, floor=True),
        "before": axes.round(3),
        "after": release.transform(shown.X).round(3),
        "colour": pd.factorize(shown.y.astype(str).agg(" ".join, axis=1), sort=True)[0],
        "marker": pd.factorize(shown.sensitive.astype(str).agg(" ".join, axis=1), sort=True)[0],
    }


def scatter(axis: Any, where: np.ndarray, colours: Sequence[int], markers: Sequence[int]) -> None:
    """Colours are what the allies want to know, shapes what the adversaries do."""
    palette, shapes = ["tab:blue", "tab:red", "tab:cyan", "tab:orange"], "oxs*"
    for c in np.unique(colours):
        for m in np.unique(markers):
            inside = (np.array(colours) == c) & (np.array(markers) == m)
            axis.plot(*where[inside].T, shapes[m], color=palette[c], ms=3, alpha=0.6, rasterized=True)


# -- Fig. 4 ------------------------------------------------------------------------------------------


def fig4(run: Run) -> None:
    """How far the code moves when a column is permuted, and its mean absolute gradient: the paper says not which."""
    runs = [run.part(f"seed {seed}", importance, seed, run.settings) for seed in run.seeds]
    mean = {kind: pd.DataFrame([r[kind] for r in runs]).mean() for kind in ("permutation", "gradient")}
    leak = middle([r["audit"] for r in runs], "sex")["leakage"]["sex"]
    for kind, shares in mean.items():
        rank = int(shares.rank(ascending=False)["sex"])
        run.row(
            f"sex, importance by {kind}",
            f"share (rank {rank} of {len(shares)})",
            "very low",
            float(shares["sex"]),
            **by_attacker(leak),
        )
        for column in ("relationship", "marital-status", "occupation"):
            rank = int(shares.rank(ascending=False)[column])
            run.row(f"{column}, by {kind}", f"share (rank {rank})", "low, correlated with sex", float(shares[column]))
    drawn = Figure(figsize=(7, 3.4), layout="constrained")
    axis = drawn.subplots()
    order = mean["permutation"].sort_values().index
    for shift, (kind, shares) in zip((-0.2, 0.2), mean.items(), strict=True):
        axis.barh(np.arange(len(order)) + shift, shares[order], 0.4, label=kind)
    axis.set_yticks(np.arange(len(order)), order, fontsize=7)
    axis.set_xlabel("share of importance")
    axis.legend(frameon=False)
    run.figure("fig4", drawn)
    run.audited("EIGAN, l=4, noise .3, sex an input", "adult", [r["audit"] for r in runs])


def importance(seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    parts = adult_parts(s["rows"], seed, ["sex"], keep_sensitive=True)
    release = fitted(tacit.EIGAN(4, 0.3, noise=0.3, epochs=s["epochs"], random_state=seed), parts[0], seed)
    test = parts[2].X
    code = release.noiseless(test)
    rng = np.random.default_rng(seed)
    moved = {}
    for column in test.columns:
        mixed = test.copy()
        mixed[column] = rng.permutation(test[column].to_numpy())
        moved[column] = float(np.abs(release.noiseless(mixed) - code).mean())
    encoded = torch.from_numpy(release.encoder_.transform(test)).requires_grad_()
    torch.tanh(release.encoder_module_(encoded)).abs().sum().backward()
    slope, steep, at = (encoded.grad.abs() * encoded.detach().std(0)).mean(0).numpy(), {}, 0
    for column in release.encoder_.columns:
        steep[column.name] = float(slope[at : at + column.width].sum())
        at += column.width
    found = {"permutation": moved, "gradient": steep}
    shares = {kind: {k: v / sum(by.values()) for k, v in by.items()} for kind, by in found.items()}
    return {**shares, "audit": honest(audit(release, parts, seed, s, floor=True))}


# -- Fig. 5 and 13 -----------------------------------------------------------------------------------


def fig5(run: Run) -> None:
    """Four Gaussians at (1|2, 1|2); the spread of the ally's or the adversary's axis grows; box plots over repeats."""
    s = run.settings
    drawn = Figure(figsize=(11, 3), layout="constrained")
    panels = iter(drawn.subplots(1, 4))
    for side in ("ally", "adversary"):
        runs = {
            spread: [
                run.part(f"{side} spread {spread} seed {seed}", overlap, side, spread, seed, s) for seed in run.seeds
            ]
            for spread in s["spreads"]
        }
        for label, better in (("shape", "less"), ("colour", "greater")):
            axis = next(panels)
            for i, name in enumerate(GAUSSIAN_RELEASES):
                boxes = [[r[name][label] for r in found] for found in runs.values()]
                drawn_boxes = axis.boxplot(
                    boxes,
                    positions=np.arange(len(boxes)) + 0.25 * (i - 1),
                    widths=0.2,
                    patch_artist=True,
                    manage_ticks=False,
                )
                for box in drawn_boxes["boxes"]:
                    box.set_facecolor(("0.8", "tab:olive", "tab:red")[i])
                axis.plot([], [], "s", color=("0.8", "tab:olive", "tab:red")[i], label=name)
            axis.set_xticks(range(len(runs)), [f"{v:g}" for v in runs])
            axis.set(title=f"{'adversary' if label == 'shape' else 'ally'}", xlabel=f"deviation of the {side}'s axis")
            for spread, found in runs.items():
                values = {name: [r[name][label] for r in found] for name in GAUSSIAN_RELEASES}
                p = float(mannwhitneyu(values["EIGAN"], values["Bertran"], alternative=better).pvalue)
                what = f"deviation {spread:g} ({side}): EIGAN against Bertran"
                run.row(
                    what, f"{label}, p-value that EIGAN is {'lower' if better == 'less' else 'higher'}", "< .002", p
                )
                for name in ("EIGAN", "Bertran", "raw data"):
                    middle_one = sorted(found, key=lambda r: r[name][label])[len(found) // 2][name]
                    if label == "shape":
                        run.row(f"{name}, deviation {spread:g} ({side})", "shape, balanced accuracy", None, None,
                                middle_one["shape"], middle_one["shape_interval"], middle_one["by"])  # fmt: skip
                    else:
                        run.row(
                            f"{name}, deviation {spread:g} ({side})",
                            "colour, accuracy",
                            None,
                            float(np.median(values[name])),
                        )
    drawn.axes[0].set_ylabel("fresh attackers' accuracy")
    drawn.axes[0].legend(frameon=False, fontsize=7)
    run.figure("fig5", drawn)


GAUSSIAN_RELEASES = ("raw data", "Bertran", "EIGAN")


def overlap(side: str, spread: float, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    """Attackers trained afresh on each of the three releases of one draw of the data."""
    both = {"ally": (spread, 0.2), "adversary": (0.2, spread)}[side]
    parts = tacit.load_dataset("gaussians", n=2 * s["n"], variance=both, deviation=True, seed=seed).split(
        (0.5, 0.25, 0.25), seed=seed
    )
    releases = {
        "raw data": None,
        "Bertran": tacit.baselines.VariationalObfuscator(s["budget"], epochs=s["epochs"], random_state=seed),
        "EIGAN": tacit.EIGAN(1, epochs=s["epochs"], random_state=seed),
    }
    out = {}
    for name, release in releases.items():
        found = honest(audit(fitted(release, parts[0], seed), parts, seed, s))
        leak = found["leakage"]["shape"]
        out[name] = {"colour": found["utility"]["colour"]["value"], "shape": leak["value"],
                     "shape_interval": [leak["low"], leak["high"]], "by": leak["by"]}  # fmt: skip
    return out


# -- Fig. 6 ------------------------------------------------------------------------------------------


def fig6(run: Run) -> None:
    """Objectives are attributes of Adult: (a) 1 to 4 adversaries and one ally, (b) 1 to 4 allies and one adversary."""
    s = run.settings
    drawn = Figure(figsize=(8, 3), layout="constrained")
    for axis, kind in zip(drawn.subplots(1, 2), ("adversaries", "allies"), strict=True):
        counts = list(range(1, s["most"] + 1))
        found = [run.part(f"{n} {kind}", objectives, kind, n, 0, s) for n in counts]
        for n, row in zip(counts, found, strict=True):
            leak = row["audit"]["leakage"]["sex"]
            run.row(f"{n} {kind}", "income, cross-entropy", "constant", row["print"]["income"]["log_loss"])
            run.row(
                f"{n} {kind}",
                "sex, cross-entropy; adaptive: balanced accuracy",
                "constant",
                row["print"]["sex"]["log_loss"],
                **by_attacker(leak),
            )
        for label in ("income", "sex"):
            axis.plot(counts, [row["print"][label]["log_loss"] for row in found], "o-", label=label)
        axis.set(xlabel=f"number of {kind}", xticks=counts, ylabel="cross-entropy on test rows", ylim=(0, None))
        axis.legend(frameon=False)
    run.figure("fig6", drawn)


ADVERSARIES = ["sex", "race", "relationship", "native-country"]
ALLIES = ["income", "education", "workclass", "occupation"]


def objectives(kind: str, n: int, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    hide, keep = (ADVERSARIES[:n], ["income"]) if kind == "adversaries" else (["sex"], ALLIES[:n])
    data = tacit.load_dataset("adult", sensitive=hide)
    X = data.X.drop(columns=[c for c in (*ADVERSARIES, *ALLIES, "education-num") if c in data.X])
    y = pd.DataFrame({c: data.y[c] if c in data.y else data.X[c] for c in keep})
    data = tacit.Dataset(X, y, data.sensitive, name="adult")
    data = data.take(np.random.default_rng(seed).permutation(len(data))[: sum(s["rows"])])
    parts = data.split(s["rows"], seed=seed)
    release = fitted(tacit.EIGAN(8, noise=0.3, epochs=s["epochs"], random_state=seed), parts[0], seed)
    first = tuple(tacit.Dataset(p.X, p.y[["income"]], p.sensitive[["sex"]], name="adult") for p in parts)
    return measured(release, first, seed, s)


# -- Fig. 16 -----------------------------------------------------------------------------------------


def fig16(run: Run) -> None:
    """The adversary's wish is a function of the ally's: by Prop. 2 the game cannot settle; our warning says so too."""
    found = {name: run.part(name, interests, name, 0, run.settings) for name in ("PCA", "EIGAN")}
    for name, row in found.items():
        leak = row["audit"]["leakage"]["parity"]
        run.row(name, "digit, accuracy", None, row["print"]["digit"]["accuracy"])
        run.row(
            name,
            "parity, accuracy",
            "no separation from PCA" if name == "EIGAN" else None,
            row["print"]["parity"]["accuracy"],
            **by_attacker(leak),
        )
        run.audited(
            name if name == "PCA" else "EIGAN, l=16", "mnist, digit kept", row["audit"], floor=found["PCA"]["audit"]
        )
    encoder = np.array(found["EIGAN"]["game"]["encoder"])
    half = encoder[len(encoder) // 2 :]
    run.row(
        "EIGAN", "encoder loss, range over the last half of training", "does not settle", float(half.max() - half.min())
    )
    run.note(f'Warning given by `EIGAN.fit`: "{found["EIGAN"]["warning"]}"')
    drawn = Figure(figsize=(5, 3), layout="constrained")
    axis = drawn.subplots()
    for key, values in found["EIGAN"]["game"].items():
        axis.plot(values, label=key)
    axis.set(xlabel="epoch", ylabel="the game's own losses")
    axis.legend(frameon=False)
    run.figure("fig16", drawn)


def interests(name: str, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    data = tacit.load_dataset("mnist", target="digit", sensitive="parity")
    parts = data.take(np.random.default_rng(seed).permutation(len(data))[: sum(s["rows"])]).split(s["rows"], seed=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release = fitted(PCA(16, random_state=seed) if name == "PCA" else
                         tacit.EIGAN(16, epochs=s["epochs"], random_state=seed), parts[0], seed)  # fmt: skip
    told = [str(w.message) for w in caught if issubclass(w.category, tacit.TacitWarning)]
    game = history(release) if name == "EIGAN" else {}
    return {
        **measured(release, parts, seed, s, floor=name == "PCA"),
        "game": game,
        "warning": told[0] if told else "none",
    }


# -- Fig. 17 and 18 ----------------------------------------------------------------------------------


def fig17(run: Run) -> None:
    """Epochs until the encoder's loss stays within 1 % of its end, and the loss on test rows, by size of the code."""
    sizes = run.settings["sizes"]
    drawn = Figure(figsize=(9, 3), layout="constrained")
    for axis, data in zip(drawn.subplots(1, 2), ("adult", "titanic"), strict=True):
        found = [run.part(f"{data} l={size}", dimension, data, size, 0, run.settings) for size in sizes]
        for size, row in zip(sizes, found, strict=True):
            secret, leak = next(iter(row["audit"]["leakage"].items()))
            run.row(f"{data}, l={size}", "encoder loss on test rows", "falls with l", row["loss"])
            run.row(f"{data}, l={size}", "epochs to within 1 %", "falls with l", row["settled"])
            run.row(f"{data}, l={size}", f"{secret}, balanced accuracy", **by_attacker(leak))
        axis.plot(sizes, [r["settled"] for r in found], "o-", color="tab:blue")
        axis.set(xscale="log", xlabel="size of the code", ylabel="epochs (blue)", title=data)
        twin = axis.twinx()
        twin.plot(sizes, [r["loss"] for r in found], "s-", color="tab:red")
        twin.set_ylabel("encoder loss on test rows (red)")
    run.figure("fig17", drawn)


def dimension(data: str, size: int, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    parts = adult_parts(s["rows"], seed) if data == "adult" else titanic_parts(seed, ["Sex"])
    release = fitted(tacit.EIGAN(size, noise=0.3, epochs=s["epochs"], random_state=seed), parts[0], seed)
    losses = in_print(release, parts, seed, s["evaluation"])
    (target,), (secret,) = parts[0].y.columns, parts[0].sensitive.columns
    path = np.array(history(release)["encoder"])
    near = np.abs(path - path[-1]) <= 0.01 * max(abs(path[0] - path[-1]), 1e-9)
    settled = len(path) - int(np.argmin(near[::-1])) if not near.all() else 1
    # eq. 3 with heads trained afresh on the code
    loss = 0.5 * losses[target]["log_loss"] - 0.5 * losses[secret]["log_loss"]
    return {"loss": loss, "settled": settled, "audit": honest(audit(release, parts, seed, s))}


# -- Fig. 7-9 and 19-21: D-EIGAN, by benchmarks/federated.py -------------------------------------------


def fig7(run: Run) -> None:
    """K = 2, 5, 10 nodes of Gaussians, unlike (node k has k times the variance, Fig. 7) or alike (Fig. 19)."""
    found = {part: federated(run, part) for part in ("nodes", "iid")}
    drawn = Figure(figsize=(8, 3), layout="constrained")
    for axis, label in zip(drawn.subplots(1, 2), ("leaks shape", "keeps colour"), strict=True):
        for (part, runs), style in zip(found.items(), ("-", "--"), strict=True):
            for method, colour in (("EIGAN", "tab:red"), ("D-EIGAN", "tab:blue")):
                line = {int(n.split()[1][2:]): r[label] for n, r in runs.items() if n.split()[2] == method}
                title = f"{method}, {'unlike' if part == 'nodes' else 'alike'}"
                axis.plot(list(line), list(line.values()), f"o{style}", color=colour, label=title)
        axis.set(xlabel="nodes", ylabel=f"{label}, fresh attackers")
    drawn.axes[0].set_ylim(0.45, 0.7)
    drawn.axes[0].legend(frameon=False, fontsize=7)
    run.figure("fig7", drawn)
    for part, runs in found.items():
        for name, row in runs.items():
            _, k, method = name.split()
            what = f"{method}, {k}, {'unlike' if part == 'nodes' else 'alike'}"
            told(run, what, row, "as EIGAN's" if method == "D-EIGAN" else None, {"shape": (2000, 2000)})


def fig8(run: Run) -> None:
    """All nodes hide sex and race, or each node hides one of them: 2 alike nodes (Fig. 20) and 10 unlike (Fig. 8)."""
    counts = adult_counts(run)
    for name, row in federated(run, "objectives").items():
        what = name.removeprefix("objectives ")
        told(run, what, row, None if what == "EIGAN" else "as EIGAN's", counts)
        if what in ("EIGAN", "K=10 all"):
            bars = {k: around(row[f"leaks {k}"], n) for k, n in counts.items()}
            leaks = {k: {"value": row[f"leaks {k}"], "low": b[0], "high": b[1], "guessing": 0.5, "by": "best of 3"}
                     for k, b in bars.items()}  # fmt: skip
            line = {"utility": {"income": {"value": row["keeps income"]}}, "leakage": leaks, "certificate": {}}
            method = "EIGAN, l=8, noise .3" if what == "EIGAN" else "D-EIGAN, 10 nodes"
            run.audited(method, "adult", {**line, "label_only": {}, "label_only_utility": {}})


def fig9(run: Run) -> None:
    """Ten unlike nodes: epochs between exchanges (delta), share of weights exchanged (phi), two ways to average."""
    runs = federated(run, "sync")
    drawn = Figure(figsize=(9, 3), layout="constrained")
    for axis, knob, fixed in zip(drawn.subplots(1, 2), ("delta", "phi"), ("phi=0.8", "delta=2"), strict=True):
        for way, colour in (("unbiased", "tab:blue"), ("paper", "tab:red")):
            for label, style in (("keeps income", "o-"), ("leaks sex", "s--"), ("leaks race", "^:")):
                points_ = sorted(
                    (float(n.partition(f"{knob}=")[2].split()[0]), r[label])
                    for n, r in runs.items()
                    if fixed in n.split() and n.endswith(way)
                )
                axis.plot(*zip(*points_, strict=True), style, color=colour, label=f"{way}: {label}")
        axis.set(xlabel=f"{knob} ({fixed})", ylabel="fresh attackers")
    drawn.axes[0].legend(frameon=False, fontsize=6)
    run.figure("fig9", drawn)
    counts = adult_counts(run)
    for name, row in runs.items():
        told(run, name.removeprefix("sync "), row, None, counts)


def federated(run: Run, part: str) -> dict[str, dict[str, float]]:
    """Means over seeds by run; full runs are the benchmark's, which takes an hour."""
    s = run.settings
    if run.quick:
        runs = run.part(part, small_federation, part, s["nodes"], s["rows"])
    else:
        runs = run.recorded("federated", f"python benchmarks/federated.py --only {part}", "2 CPU cores")["runs"]
    groups: dict[str, list[dict[str, float]]] = {}
    for name, row in runs.items():
        if name.split()[0] == part:
            groups.setdefault(name.rsplit(" seed=", 1)[0], []).append(row)
    return {
        name: {k: float(np.mean([r[k] for r in rows])) for k in rows[0]} | {"seeds": len(rows)}
        for name, rows in groups.items()
    }


def small_federation(part: str, nodes: Sequence[int], rows: int) -> dict[str, Any]:
    bench = import_script(BENCHMARKS / "federated.py", "benchmarks_federated")
    bench.NODES, bench.ATTACKERS, bench.SYNC = tuple(nodes), ["logistic"], bench.SYNC[1:2]
    bench.GAME, bench.ADULT = bench.GAME | {"epochs": 1}, bench.ADULT | {"epochs": 2}
    with tempfile.TemporaryDirectory() as folder:
        book = bench.Book(Path(folder) / "runs.json", float("inf"), rows)
        {"nodes": bench.gaussians, "iid": bench.gaussians, "objectives": bench.objectives, "sync": bench.sync}[part](
            book, part, 0, "cpu"
        )
        return book.runs


def told(
    run: Run, what: str, row: Mapping[str, float], printed: str | None, counts: Mapping[str, Sequence[int]]
) -> None:
    what = f"{what} ({row['seeds']} seed{'s' if row['seeds'] > 1 else ''})"
    for key, value in row.items():
        verb, _, label = key.partition(" ")
        if verb == "keeps":
            run.row(what, f"{label}, accuracy", printed, value)
        elif verb == "leaks":
            run.row(what, f"{label}, balanced accuracy", printed, None, value, around(value, counts[label]))


def around(value: float, counts: Sequence[int]) -> tuple[float, float]:
    """95 % interval of a balanced accuracy by McDiarmid, from the classes' numbers of test rows."""
    slack = np.sqrt(sum(1 / n for n in counts) * np.log(2 / 0.05) / 2) / len(counts)
    return max(0.0, value - slack), min(1.0, value + slack)


def adult_counts(run: Run) -> dict[str, list[int]]:
    test = import_script(BENCHMARKS / "federated.py", "benchmarks_federated").adult(run.settings["rows"])[2]
    return {label: test.sensitive[label].value_counts().tolist() for label in ("sex", "race")}


# -- what the experiments share ----------------------------------------------------------------------


def each_release(run: Run, names: Any, work: Callable[..., Any]) -> dict[str, list[dict[str, Any]]]:
    return {
        name: [run.part(f"{name} seed {seed}", work, name, seed, run.settings) for seed in run.seeds] for name in names
    }


def table(
    run: Run, found: dict[str, list[dict]], data: str, labels: Mapping[str, int], printed: Mapping[str, Any]
) -> None:
    """Rows of Table 1: means over seeds in the paper's measure, and the seed with the middle leak under attack."""
    for name, runs in found.items():
        for label, i in labels.items():
            ours = float(np.mean([r["print"][label]["accuracy"] for r in runs]))
            leak = middle([r["audit"] for r in runs], label)["leakage"][label] if i else None
            run.row(
                name, f"{label}, accuracy", printed[name][i] if name in printed else None, ours, **by_attacker(leak)
            )
        run.audited(name, data, [r["audit"] for r in runs], floor=found["raw data"][0]["audit"])


def measured(release: Any, parts: Parts, seed: int, s: Mapping[str, Any], floor: bool | None = None) -> dict[str, Any]:
    """Both measurements of one release; with the raw data also the label-only floor."""
    return {
        "print": in_print(release, parts, seed, s["evaluation"]),
        "audit": honest(audit(release, parts, seed, s, release is None if floor is None else floor)),
    }


def audit(release: Any, parts: Parts, seed: int, s: Mapping[str, Any], floor: bool = False) -> Any:
    return tacit.audit(release, parts[1], parts[2], s["attackers"], pooled=(), floor=floor, limit=False, seed=seed)


def in_print(release: Any, parts: Parts, seed: int, epochs: int) -> dict[str, dict[str, Any]]:
    """The paper's evaluation: per objective a network that learns from the encoded training rows; losses by epoch."""
    train, _, test = parts
    Z, Zt = (np.asarray(p.X if release is None else release.transform(p.X)) for p in (train, test))
    if release is None and isinstance(train.X, pd.DataFrame):
        encoder = make_encoder(train.X)
        Z, Zt = encoder.transform(train.X), encoder.transform(test.X)
    scale = StandardScaler().fit(Z)
    Z, Zt = scale.transform(Z), scale.transform(Zt)
    out = {}
    for side in ("y", "sensitive"):
        for label in getattr(train, side).columns:
            y, yt = (getattr(p, side)[label].astype(str).to_numpy() for p in (train, test))
            classes = np.unique(y)
            known = np.isin(yt, classes)
            network = MLPClassifier((64,), learning_rate_init=2e-3, batch_size=min(64, len(Z)), random_state=seed)
            losses = []
            for _ in range(epochs):
                network.partial_fit(Z, y, classes=classes)
                losses.append(float(log_loss(yt[known], network.predict_proba(Zt[known]), labels=classes)))
            accuracy = float(accuracy_score(yt, network.predict(Zt)))
            out[label] = {"accuracy": accuracy, "log_loss": losses[-1], "losses": [round(v, 4) for v in losses]}
    return out


def fitted(release: Any, train: tacit.Dataset, seed: int) -> Any:
    if release is None:
        return None
    if isinstance(release, PCA):
        if isinstance(train.X, pd.DataFrame):
            return Encoded(release).fit(train.X)
        return make_pipeline(StandardScaler(), release).fit(train.X)
    return release.fit(train.X, train.y, sensitive_features=train.sensitive)


class Encoded:
    """PCA of a table: of its standardised numbers and one-hot categories."""

    def __init__(self, pca: PCA) -> None:
        self.pca = pca

    def fit(self, X: pd.DataFrame) -> Encoded:
        self.encoder = make_encoder(X)
        self.pca.fit(self.encoder.transform(X))
        return self

    def transform(self, X: pd.DataFrame) -> np.ndarray:
        return self.pca.transform(self.encoder.transform(X))


def history(release: tacit.EIGAN) -> dict[str, list[float]]:
    return {k: [round(h[k], 4) for h in release.history_] for k in release.history_[0] if k != "epoch"}


def adult_parts(
    rows: Sequence[int], seed: int, sensitive: Sequence[str] = ("sex",), keep_sensitive: bool = False
) -> Parts:
    """A draw of the official training rows for the filter, of the official test rows for attackers and test."""
    train, test = tacit.load_dataset("adult", sensitive=list(sensitive), keep_sensitive=keep_sensitive).split(
        "official"
    )
    rng = np.random.default_rng(seed)
    train = train.take(rng.permutation(len(train))[: rows[0]])
    attack, test = test.take(rng.permutation(len(test))[: rows[1] + rows[2]]).split(rows[1:], seed=seed)
    return train, attack, test


def titanic_parts(seed: int, sensitive: Sequence[str] = ("Sex", "Pclass")) -> Parts:
    return tacit.load_dataset("titanic", sensitive=list(sensitive)).split((0.5, 0.25, 0.25), seed=seed)


def mimic_parts(seed: int) -> Parts:
    data = tacit.load_dataset("mimic_demo", sensitive=["GENDER", "ETHNICITY"])
    race = data.sensitive["ETHNICITY"].astype(str).str.upper().str.startswith("WHITE")
    secrets = data.sensitive.assign(ETHNICITY=np.where(race, "white", "other"))
    data = tacit.Dataset(data.X, data.y, secrets, units=data.units, name="mimic_demo")
    return data.split((0.5, 0.25, 0.25), seed=seed)


EXPERIMENTS: dict[str, Callable[[Run], None]] = {
    "table1": table1,
    "table1_faces": table1_faces,
    "table2": table2,
    "table3": table3,
    "synthetic": synthetic,
    "fig3": fig3,
    "fig4": fig4,
    "fig5": fig5,
    "fig6": fig6,
    "fig15": fig15,
    "fig16": fig16,
    "fig17": fig17,
    "fig7": fig7,
    "fig8": fig8,
    "fig9": fig9,
}
