"""Section 6 of Osia et al. (2018), "Deep private-feature extraction", on CMU faces and MotionSense.

Figures 6 and 9 are drawn from the full runs of `protocol.py`; 7, 8, 10 and 11 run here. The filter, the
attackers and the test have records of their own (half, three tenths, the rest of each person's images).
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

import tacit
from papers.common.feature_figures import draw_curves, draw_reconstructions
from papers.common.noise_curve import noise_curve
from papers.common.pictures import packed, unpacked
from papers.common.run import Run
from tacit.audit.likeness import reconstruction
from tacit.audit.superiority import superiority
from tacit.nets.backbone import backbone
from tacit.nets.cut import cost_of_cuts, cut_network
from tacit.nets.forward import forward
from tacit.records.dataset import Dataset, allot
from tacit.report.profile_figure import profile_figure

from . import protocol

COMMANDS = {
    "python -m papers.dpfe.protocol --only faces --seeds 5 --device cpu": "2 CPU cores",
    "python -m papers.dpfe.protocol --only motionsense --seeds 3 --device cuda --jobs 6": "NVIDIA H200",
}
NAMES = {"faces": "CMU faces", "motionsense": "MotionSense"}
SETTINGS = {"beta": 0.05, "margin": 5.0, "batch_size": 64, "device": "cpu"}


def fig6(run: Run) -> None:
    """6.2, effect of DPFE fine-tuning: privacy over accuracy of both models, by log-rank and by 1-NN."""
    for data, seeds in studies(run).items():
        means = {m: averaged([s[m]["curve"] for s in seeds]) for m in ("Simple", "DPFE")}
        if "original" in seeds[0]:
            kept = [np.mean([s["original"][f"accuracy{end}"] for s in seeds]) for end in ("", "_low", "_high")]
            run.row(f"{NAMES[data]}, original network", "attributes, accuracy", None, kept[0], interval=kept[1:],
                    guessing=float(means["DPFE"]["accuracy_guessing"].iloc[0]))  # fmt: skip
        for model, curve in means.items():
            point = curve.iloc[0]
            printed = "within .005 of the original"
            tell(run, f"{NAMES[data]}, {model}, no noise", point, {"accuracy": printed, "identified": None})
            run.audited(f"{model} (DPFE's control), no noise" if model == "Simple" else "DPFE, no noise",
                        data_name(data), summary(point, seeds))  # fmt: skip
            point = curve.iloc[(curve["ratio"] - 0.3).abs().argmin()]
            at = f"{NAMES[data]}, {model}, r = {point['ratio']:g}"
            tell(run, at, point, {"accuracy": None, "log_rank": None, "nn_error": None})
            run.audited(f"{model}{' (control)' if model == 'Simple' else ''}, r = {point['ratio']:g}",
                        data_name(data), summary(point, seeds))  # fmt: skip
        for measure, told in (("log_rank", "log-rank"), ("nn_error", "1-NN error")):
            found = superiority(*(means[m][["accuracy", measure]].to_numpy() for m in ("DPFE", "Simple")))
            at = f"{NAMES[data]}, DPFE over Simple at equal accuracy"
            run.row(at, f"{told}, mean gain", "above 0", found.mean)
            run.row(at, f"{told}, smallest gain", "above 0: superior everywhere", found.smallest)
            run.figure(f"fig6-{data}-{measure.replace('_', '-')}", draw_curves(means, measure))
            run.note(f"{NAMES[data]}, {told}: DPFE is {found}.")


def fig7(run: Run) -> None:
    """6.2, effect of higher layers: the same curve for several cuts of one kind of network."""
    s = run.settings
    curves = {c: curve_of(run, f"cut {c}", {"cut": c}, ("sunglasses", "pose")) for c in s["cuts"]}
    compare(run, curves, "cut after {}", {s["cuts"][-1]: "highest layer: most private"})
    low, high = s["cuts"][0], s["cuts"][-1]
    gain(run, curves, high, low, ".10 at accuracy .95 (gender)")


def fig8(run: Run) -> None:
    """6.2, effect of attribute set extension: the more is kept, the harder is privacy."""
    curves = {}
    for targets in run.settings["targets"]:
        name = " + ".join(targets)
        curves[name] = curve_of(run, name, {}, tuple(targets))
    compare(run, curves, "keeps {}", {})
    for more in list(curves)[1:]:
        gain(run, curves, next(iter(curves)), more, "above 0")


def fig9(run: Run) -> None:
    """6.2, guaranteeing privacy: the rank's mean and deviation go to those of the uniform law, .5 and .28."""
    for data, seeds in studies(run).items():
        means = {m: averaged([s[m]["curve"] for s in seeds]) for m in ("Simple", "DPFE")}
        point = means["DPFE"].iloc[(means["DPFE"]["accuracy"] - 0.9).abs().argmin()]
        at = f"{NAMES[data]}, DPFE at accuracy {point['accuracy']:.3f} (r = {point['ratio']:g})"
        run.row(at, "rank, mean", 0.3, None, point["rank_mean"], bounds(point, "rank_mean"), point["attacker"])
        run.row(at, "rank, deviation", 0.25, point["rank_sd"])
        run.row(at, "nine in ten have at least rank", "88 % above .1", None, point["rank_of_90"],
                bounds(point, "rank_of_90"), point["attacker"])  # fmt: skip
        last = means["DPFE"].iloc[-1]
        at = f"{NAMES[data]}, DPFE at r = {last['ratio']:g}"
        run.row(at, "rank, mean", "to .5", None, last["rank_mean"], bounds(last, "rank_mean"), last["attacker"])
        run.row(at, "rank, deviation", "to .28", last["rank_sd"])
        run.figure(f"fig9-{data}", draw_ranks(means))


def fig10(run: Run) -> None:
    """6.3: what a linear attacker rebuilds of the images, from the layer itself and from DPFE's code of ten numbers."""
    found = {c: run.part(f"cut {c}", rebuilt, c, run.settings["epochs"]) for c in run.settings["cuts"]}
    for cut, of in found.items():
        for what, printed in (("original layer", "recognisable"), ("DPFE code", "not recognisable")):
            r2 = of[what]["r2"]
            run.row(f"{cut}, {what}", "variance of the image rebuilt, R²", printed, None, r2[0], r2[1:3], "ridge")
    shown = {f"{what}\n{cut}": unpacked(of[what]["shown"]) for what in ("original layer", "DPFE code")
             for cut, of in found.items()}  # fmt: skip
    run.figure("fig10", draw_reconstructions(unpacked(next(iter(found.values()))["raw"]), shown))


def fig11(run: Run) -> None:
    """6.4: time and memory of the client's half, one record at a time on one thread."""
    costs = pd.DataFrame(run.part("costs", costs_of, run.settings["repeats"]))
    kept = costs[costs["cut"].isin(["pool1", "pool2", "pool3", "relu", "all"])].set_index("cut")
    printed = {"pool2": ("conv5-1", 1.144, 1.083), "pool3": ("conv6-1", 1.440, 1.221), "relu": ("conv7", 1.908, 1.351),
               "all": ("all", 2.218, 1.549)}  # fmt: skip
    for cut, (theirs, time, memory) in printed.items():
        at = f"after {cut}, in terms of pool1 (theirs: {theirs} of conv4-2)"
        run.row(at, "time", time, kept["milliseconds"][cut] / kept["milliseconds"]["pool1"])
        run.row(at, "memory", memory, kept["memory"][cut] / kept["memory"]["pool1"])
        run.row(at, "multiply-adds", None, kept["multiply_adds"][cut] / kept["multiply_adds"]["pool1"])
    run.row("code of ten numbers", "bytes sent, of an image's", None, 40 / (4 * 30 * 32))
    run.figure("fig11", profile_figure(costs))


EXPERIMENTS: dict[str, Callable[[Run], None]] = {
    "fig6": fig6, "fig7": fig7, "fig8": fig8, "fig9": fig9, "fig10": fig10, "fig11": fig11,
}  # fmt: skip


# -- the work ------------------------------------------------------------------------------------------


def studies(run: Run) -> dict[str, list[dict[str, Any]]]:
    """Per data set, per seed, the curves of Simple and DPFE: recorded in full, or small ones now."""
    if run.settings["recorded"]:
        for command, machine in COMMANDS.items():  # each wrote its data set into the same file
            found = run.recorded(command, machine)
        return {data: found[data]["seeds"] for data in NAMES}
    return {"faces": [run.part("faces, small", small_study, run.settings)]}


def small_study(settings: dict[str, Any]) -> dict[str, Any]:
    train, attack, test = protocol.faces(0, None)
    chosen = Namespace(epochs=settings["epochs"], device="cpu")
    found = {}
    for model in ("Simple", "DPFE"):
        f = protocol.fitted("faces", 0, train, chosen, simple=model == "Simple")
        curve = noise_curve(f, attack, test, settings["ratios"], draws=settings["draws"], attackers=["logistic"])
        found[model] = {"curve": curve.to_dict("records")}
    return found


def curve_of(run: Run, key: str, how: dict[str, Any], targets: tuple[str, ...]) -> pd.DataFrame:
    s = run.settings
    attackers = ["logistic"] if run.quick else ["logistic", "mlp", "forest", "neighbors"]
    return averaged(
        [run.part(f"{key}, seed {seed}", curve, how, targets, s["epochs"], s["ratios"], s["draws"], attackers, seed)
         for seed in run.seeds]
    )  # fmt: skip


def curve(
    how: dict[str, Any], targets: tuple[str, ...], epochs: int, ratios: Sequence[float], draws: int,
    attackers: list[str], seed: int,
) -> list[dict[str, Any]]:  # fmt: skip
    train, attack, test = faces(targets, seed)
    f = fitted(train, epochs, seed, **how)
    return noise_curve(f, attack, test, ratios, attackers=attackers, draws=draws, seed=seed).to_dict("records")


def faces(targets: tuple[str, ...], seed: int) -> tuple[Dataset, ...]:
    data = tacit.load_dataset("cmu_faces", target=targets)
    part = allot(pd.factorize(data.sensitive["person"])[0], np.array([0.5, 0.3, 0.2]), seed)
    return tuple(data.take(part == i) for i in range(3))


def fitted(train: Dataset, epochs: int, seed: int, **how: Any) -> tacit.DPFE:
    f = tacit.DPFE(epochs=epochs, backbone_epochs=max(1, epochs // 2), random_state=seed, **SETTINGS, **how)
    return f.fit(train.X, train.y, sensitive_features=train.sensitive, units=train.units_of())


def rebuilt(cut: str, epochs: int) -> dict[str, Any]:
    """Images from the chosen layer of the network as it was, and from DPFE's code at the same layer."""
    train, attack, test = faces(("sunglasses", "pose"), 0)
    f = fitted(train, epochs, 0, cut=cut)
    layer = cut_network(f.network_, cut).client
    inputs = [f.encoder_.transform(np.asarray(d.X, dtype=float)) for d in (attack, test)]
    releases = {
        "original layer": [forward(layer, x).reshape(len(x), -1) for x in inputs],
        "DPFE code": [f.transform(d.X) for d in (attack, test)],
    }
    some = np.linspace(0, len(test) - 1, 8).astype(int)[:5]
    out: dict[str, Any] = {"raw": packed(test.X[some])}
    for name, (za, zt) in releases.items():
        found = reconstruction(za, attack.X, zt, test.X)
        out[name] = {"r2": list(found.r2), "shown": packed(found.guess[some])}
    return out


def costs_of(repeats: int) -> list[dict[str, Any]]:
    return cost_of_cuts(backbone((1, 30, 32), 6).eval(), torch.zeros(1, 1, 30, 32), repeats).to_dict("records")


# -- telling it ---------------------------------------------------------------------------------------


def averaged(curves: list[Any]) -> pd.DataFrame:
    """The mean over seeds of every number; the ends of intervals too (no narrower than one seed's: cautious)."""
    tables = [pd.DataFrame(c).assign(rank_sd=[p["rank_sd"][0] for p in c]) for c in curves]
    mean = sum(t.select_dtypes("number") for t in tables) / len(tables)
    by = zip(*(t["attacker"] for t in tables), strict=True)
    return mean.assign(attacker=[", ".join(sorted(set(names))) for names in by])


def tell(run: Run, at: str, point: pd.Series, printed: dict[str, str | None]) -> None:
    """Accuracy and 1-NN are the paper's own measures; rank and naming are by attackers trained afresh."""
    told = {"accuracy": "attributes, accuracy", "log_rank": "identity, log-rank privacy",
            "nn_error": "identity, 1-NN error", "identified": "identity, accuracy"}  # fmt: skip
    for key, text in printed.items():
        guessing = float(point[f"{key}_guessing"])
        if key in ("accuracy", "nn_error"):
            run.row(at, told[key], text, point[key], interval=bounds(point, key), guessing=guessing)
        else:
            run.row(at, told[key], text, None, point[key], bounds(point, key), point["attacker"], guessing)


def compare(run: Run, curves: dict[str, pd.DataFrame], words: str, printed: dict[str, str]) -> None:
    for name, c in curves.items():
        for i, ratio in enumerate(c["ratio"]):
            if ratio in (0, 0.3):
                tell(run, f"{words.format(name)}, r = {ratio:g}", c.iloc[i],
                     {"accuracy": None, "log_rank": printed.get(name), "nn_error": None})  # fmt: skip
    for measure in ("log_rank", "nn_error"):
        run.figure(f"{run.experiment}-{measure.replace('_', '-')}", draw_curves(curves, measure))


def gain(run: Run, curves: dict[str, pd.DataFrame], one: str, other: str, printed: float | str) -> None:
    """Definition 11 between two curves, by the log-rank; they may have no accuracy in common."""
    at = f"{one} over {other} at equal accuracy"
    try:
        found = superiority(*(curves[c][["accuracy", "log_rank"]].to_numpy() for c in (one, other)))
    except tacit.errors.InputError as error:
        run.row(at, "log-rank, mean gain", printed)
        run.note(f"{one} and {other}: {error}")
        return
    run.row(at, "log-rank, mean gain", printed, found.mean)
    run.note(f"{one} over {other}: {found}.")


def bounds(point: pd.Series, key: str) -> tuple[float, float]:
    return float(point[f"{key}_low"]), float(point[f"{key}_high"])


def data_name(data: str) -> str:
    return {"faces": "cmu_faces", "motionsense": "motionsense"}[data]


def summary(point: pd.Series, seeds: list[dict[str, Any]]) -> dict[str, Any]:
    """The honest columns at one noise, as an audit gives them."""
    floors = [s["original"]["label_only"] for s in seeds if "original" in s]
    floor = {k: {"value": float(np.mean([f[k][0] for f in floors]))} for k in (floors[0] if floors else ())}

    def result(key: str) -> dict[str, Any]:
        low, high = bounds(point, key)
        return {"value": float(point[key]), "low": low, "high": high, "guessing": float(point[f"{key}_guessing"])}

    targets = [k.removeprefix("accuracy of ") for k in point.index if k.startswith("accuracy of ") and "_" not in k]
    return {
        "utility": {t: result(f"accuracy of {t}") for t in targets},
        "leakage": {"person": {**result("identified_balanced"), "by": point["attacker"]}},
        "certificate": {},
        "label_only": {"person": floor.get("person", floor.get("identity"))},
        "label_only_utility": {t: floor.get(t) for t in targets},
    }


def draw_ranks(means: dict[str, pd.DataFrame]) -> Figure:
    """Mean and deviation of the rank over accuracy; dotted: those of the uniform law."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True)
    for i, (name, c) in enumerate(means.items()):
        left.fill_between(c["accuracy"], c["rank_mean_low"], c["rank_mean_high"], color=f"C{i}", alpha=0.2, lw=0)
        left.plot(c["accuracy"], c["rank_mean"], "o-", ms=3, color=f"C{i}", label=name)
        right.plot(c["accuracy"], c["rank_sd"], "o-", ms=3, color=f"C{i}", label=name)
    for axis, level, title in ((left, 0.5, "mean of the rank (95 %)"), (right, 0.2887, "deviation of the rank")):
        axis.axhline(level, color="0.6", ls=":")
        axis.set(xlabel="accuracy of the attributes", title=title)
    left.legend(frameon=False)
    return figure
