"""Section 6 of Osia et al. (2018), "Deep private-feature extraction", on CMU faces, MotionSense, or your CelebA.

The filter, the attackers and the test have records of their own (half, three tenths, the rest of each person's
images). "Ours" is what the paper's own reader finds, a kernel density per person; beside it attackers of our own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from papers.common.run import Run, over_seeds
from tacit.report.profile_figure import profile_figure

from .models import LITERAL, MODELS, OURS, PRINTED, SIMPLE
from .study import costs, rebuilt, study, tuning, whole
from .telling import (
    NOISE,
    adaptive,
    at_ratio,
    audit_of,
    bounds,
    draw_ranks,
    draw_rebuilt,
    draw_tradeoff,
    gain,
    point_of,
    tell_gain,
    tell_point,
    together,
)

NAMES = {"faces": "CMU faces", "motionsense": "MotionSense", "celeba": "CelebA"}
SETS = {"faces": "cmu_faces"}
COMMAND = "python -m papers.dpfe.protocol --seeds 3 --device cuda --jobs 6"
WITHIN = "within .005 of the original"
WORK = ("network", "pretraining", "pretraining_rows", "network_epochs", "epochs", "ratios", "draws", "attackers",
        "device", "rows", "size", "limit", "many", "training")  # fmt: skip


def fig6(run: Run) -> None:
    """6.2, effect of DPFE fine-tuning and guaranteeing privacy (Fig. 9)."""
    s = run.settings
    for cut in s["cuts"]:
        seeds = studies(run, cut, [s["kept"]], (*MODELS, LITERAL))
        found = [of[" + ".join(s["kept"])] for of in seeds]
        more = f"-{cut}" if len(s["cuts"]) > 1 else ""
        tell_models(run, s["data"], NAMES[s["data"]] + more.replace("-", ", "), found, more)
    trained_on(run, seeds)


def motionsense(run: Run) -> None:
    """The same on MotionSense: what the long script wrote, or a small study now."""
    s = run.settings
    if s["recorded"]:
        found = run.recorded(COMMAND, "NVIDIA H200")["seeds"]
        run.note("The script has since learned the printed model and the kernels; this is what it wrote before.")
    else:
        seeds = studies(run, "", [["activity", "gender"]], MODELS)
        found = [of["activity + gender"] for of in seeds]
    tell_models(run, "motionsense", NAMES["motionsense"], found, "-motionsense")


def tell_models(run: Run, data: str, at: str, found: Sequence[Mapping[str, Any]], more: str) -> None:
    """Rows and figures of all models of one network, Simple first."""
    models = [m for m in (SIMPLE, PRINTED, LITERAL, OURS) if m in found[0]]
    against_simple(run, data, at, found, models)
    ranks(run, at, {m: [of[m] for of in found] for m in models})
    means = {m: together([of[m] for of in found]) for m in models}
    run.figure(f"fig6{more}", draw_tradeoff(means, at))
    run.figure(f"fig9{more}", draw_ranks(means))


def fig7(run: Run) -> None:
    """6.2, effects of higher layers and of more attributes (Fig. 8), Simple and DPFE as printed.

    Every cut with one set, and every set at the highest cut; with `grid` every set at every cut, as the paper trained.
    """
    s = run.settings
    sets, high = [" + ".join(kept) for kept in s["sets"]], s["cuts"][-1]
    at = sets[s["compared"]]
    by_cut = {
        cut: studies(run, cut, s["sets"] if s["grid"] or cut == high else [s["sets"][s["compared"]]], (SIMPLE, PRINTED))
        for cut in s["cuts"]
    }
    cuts = {cut: [of[at][PRINTED] for of in seeds] for cut, seeds in by_cut.items()}
    compare(run, PRINTED, "cut after", cuts, {high: "highest layer: most private"}, "fig7")
    for lower in s["cuts"][:-1]:
        first = "; log-rank .10 at accuracy .95 (gender)" if lower == s["cuts"][0] else ""
        tell_gain(run, high, lower, cuts, f"above 0{first}", f"{PRINTED}: ")
    kept = {name: [of[name][PRINTED] for of in by_cut[high]] for name in sets}
    compare(run, PRINTED, "keeps", kept, {}, "fig8")
    for more in sets[1:]:
        tell_gain(run, sets[0], more, kept, "above 0", f"{PRINTED}: ")
    for cut, seeds in by_cut.items():
        for name in [n for n in sets if n in seeds[0]]:
            found = gain([of[name][PRINTED] for of in seeds], [of[name][SIMPLE] for of in seeds], "log_rank")
            run.row(f"{cut}, keeps {name}: {PRINTED} over Simple at equal accuracy", "log-rank, mean gain",
                    "above 0: superior everywhere", None, *adaptive(found))  # fmt: skip
    for name in sets:
        of = over_seeds([found[name]["original"] for found in by_cut[high]])
        tell_original(run, f"keeps {name}, original network", of, kept[name])
    tell_whole(run, f"keeps {at}", s["sets"][s["compared"]], kept[at])
    trained_on(run, by_cut[high])


def tell_original(run: Run, what: str, of: Mapping[str, Any], curves: Sequence[Mapping[str, Any]]) -> None:
    """A network that was never cut, beside the models whose curves these are."""
    run.row(what, "attributes, accuracy", None, of["value"], interval=(of["low"], of["high"]),
            guessing=float(together(curves).iloc[0]["accuracy_guessing"]))  # fmt: skip


def tell_whole(run: Run, at: str, kept: Sequence[str], curves: Sequence[Mapping[str, Any]]) -> None:
    """What a model without noise is to be within .005 of: the network that was never cut, fine-tuned as long."""
    s = run.settings
    name = f"{s['data']}, whole, {' + '.join(kept)}"
    of = over_seeds([run.part(f"{name}, seed {i}", whole, s["data"], kept, i, chosen(s)) for i in run.seeds])
    tell_original(run, f"{at}, {WHOLE}", of, curves)


def beta(run: Run) -> None:
    """6.2: "we test different values on validation data and set a fixed value for beta"."""
    s = run.settings
    work = {**chosen(s), "kept": s["kept"], "cut": s["cut"]}
    seeds = [run.part(f"seed {seed}", tuning, s["data"], s["tried"], seed, work) for seed in run.seeds]
    for name in seeds[0]:
        curve = together([of[name] for of in seeds])
        at = f"weight and margin {name}" if name != SIMPLE else name
        tell_point(run, at, curve.iloc[0], {"accuracy": None})
        if name != SIMPLE:
            for measure, told in (("kernel_log_rank", "log-rank by kernels"), ("nn_error", "1-NN error")):
                found = gain([of[name] for of in seeds], [of[SIMPLE] for of in seeds], measure)
                run.row(at, f"{told}, mean gain over Simple", None, found and found["mean"],
                        interval=found and (found["low"], found["high"]))  # fmt: skip


def fig10(run: Run) -> None:
    """6.3: what a decoder network rebuilds of the images, from the layer itself and from the codes of ten numbers."""
    s = run.settings
    work = chosen(s) | {"decoder_epochs": s["decoder_epochs"]}
    found = {c: [run.part(f"cut {c}, seed {seed}", rebuilt, c, s["kept"], seed, work) for seed in run.seeds]
             for c in s["cuts"]}  # fmt: skip
    whats = [k for k in found[s["cuts"][0]][0] if k != "named"]
    raw = named([of["named"] for of in next(iter(found.values()))])
    run.row(
        "raw images",
        NAMED,
        None,
        None,
        raw["value"],
        (raw["low"], raw["high"]),
        "logistic on raw images",
        raw["guessing"],
    )
    for cut, seeds in found.items():
        for what in whats:
            printed = "recognisable" if what == "original layer" else "not recognisable"
            r2 = over_seeds(
                [dict(zip(("value", "low", "high"), of[what]["r2"], strict=True)) for of in seeds], lowest=-np.inf
            )
            ridge = float(np.mean([of[what]["ridge"][0] for of in seeds]))
            run.row(f"{cut}, {what}", "variance of the image rebuilt, R² (ours: by ridge)", printed, ridge, r2["value"],
                    (r2["low"], r2["high"]), "decoder network")  # fmt: skip
            who = named([of[what]["named"] for of in seeds])
            run.row(f"{cut}, {what}", NAMED, printed, None, who["value"], (who["low"], who["high"]),
                    "logistic on raw images", who["guessing"])  # fmt: skip
    run.figure("fig10", draw_rebuilt(run.rows, s["cuts"], whats))


def fig11(run: Run) -> None:
    """6.4: time, memory and operations of the client's half of the authors' network, an image at a time on one core."""
    s = run.settings
    tables = [pd.DataFrame(run.part(f"costs {i}", costs, s["repeats"], i)).set_index("cut") for i in run.seeds]
    first = tables[0]
    printed = {"conv5_1": (1.144, 1.083), "conv6_1": (1.440, 1.221), "conv7": (1.908, 1.351), "all": (2.218, 1.549)}
    for cut, (time, memory) in printed.items():
        at = f"up to {cut}, in terms of conv4_2"
        run.row(at, "multiply-adds (counted)", None, ratio(first, "multiply_adds", cut))
        took = [ratio(t, "milliseconds", cut) for t in tables]
        run.row(at, "time, one core of a server (theirs: of a Nexus 6P)", time, float(np.median(took)),
                interval=(min(took), max(took)))  # fmt: skip
        run.row(at, "memory: weights and the largest layer (theirs: as Android tells)", memory,
                ratio(first, "memory", cut))  # fmt: skip
    for cut in ("conv4_2", *printed):
        at = f"up to {cut}, one core of a server (theirs: one core of a Nexus 6P)"
        took = [float(t["milliseconds"][cut]) for t in tables]
        run.row(at, "milliseconds an image of 218x178", None, float(np.median(took)), interval=(min(took), max(took)))
        run.row(at, "millions of multiply-adds (counted)", None, float(first["multiply_adds"][cut] / 1e6))
        run.row(at, "megabytes", None, float(first["memory"][cut] / 1e6))
    run.row("code of ten numbers", "bytes sent", None, 40)
    run.row("image of 218x178, three bytes a pixel", "bytes sent", None, 3 * 218 * 178)
    run.note(
        "No telephone was measured: the times are of one core of the machine named below, by "
        "`tacit release profile`'s own function; medians, the cuts in turns. "
        "Brackets are the least and the most of three such runs. "
        "The machine was busy with other work: times are rough, operations are not."
    )
    layers = [c for c in first.index if str(c).startswith(("conv", "all"))]
    run.figure("fig11", profile_figure(first.loc[layers].reset_index()))


def ratio(table: pd.DataFrame, column: str, cut: str) -> float:
    return float(table[column][cut] / table[column]["conv4_2"])


EXPERIMENTS: dict[str, Callable[[Run], None]] = {
    "fig6": fig6, "fig6-motionsense": motionsense, "fig7": fig7, "beta": beta, "fig10": fig10, "fig11": fig11,
}  # fmt: skip


# -- what the figures share ------------------------------------------------------------------------------

WHOLE = "the network uncut, fine-tuned as long"
NAMED = "images rebuilt that are named, accuracy"


def studies(run: Run, cut: str, kept: Sequence[Sequence[str]], which: Sequence[str]) -> list[dict[str, Any]]:
    """One study a seed, of one cut and some attribute sets; of one model at a time where they share no network."""
    s = run.settings
    name = f"{s['data']}, {cut or 'default cut'}, {' + '.join(kept[0])}{' and more' if len(kept) > 1 else ''}"
    groups = [list(which)] if s["network"] == "darknet" else [[model] for model in which]
    # all are asked for before one is looked at, so that they can be worked out side by side
    alone = len(groups) == 1
    seeds = [
        [
            run.part(
                f"{name}, {'' if alone else models[0] + ', '}seed {seed}",
                study, s["data"], cut, kept, models, seed, chosen(s),
            )
            for models in groups
        ]
        for seed in run.seeds
    ]  # fmt: skip
    return [parts[0] if len(parts) == 1 else merged(parts) for parts in seeds]


def merged(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Studies of one model each as one of all: under every attribute set their models side by side."""
    return {k: v if isinstance(v, str | list) else {m: of for p in parts for m, of in p[k].items()}
            for k, v in parts[0].items()}  # fmt: skip


def chosen(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the work depends on: not titles and lists of cuts."""
    return {k: v for k, v in settings.items() if k in WORK}


def against_simple(run: Run, data: str, at: str, found: Sequence[Mapping[str, Any]], models: Sequence[str]) -> None:
    original = over_seeds([of["original"] for of in found])
    tell_original(run, f"{at}, original network", original, [of[SIMPLE] for of in found])
    for model in models:
        curve = together([of[model] for of in found])
        tell_point(run, f"{at}, {model}, no noise", curve.iloc[0], {"accuracy": WITHIN, "identified": None})
        point = at_ratio(curve, NOISE)
        noisy = f"{at}, {model}, r = {point['ratio']:g}"
        tell_point(run, noisy, point, {"accuracy": None, "log_rank": None, "nn_error": None})
        last = curve.iloc[-1]
        if "bits" in last:
            run.row(f"{at}, {model}, r = {last['ratio']:g}", "identity, bits told (ours: at most, U2)", None,
                last["bits_bound"], last["bits"], bounds(last, "bits"), last["attacker"])  # fmt: skip
        for ratio, told in ((0.0, "no noise"), (NOISE, f"r = {point['ratio']:g}")):
            audits = [audit_of(point_of(of[model], ratio), of["original"]) for of in found]
            run.audited(f"{model}{' (control)' if model == SIMPLE else ''}, {told}",
                        SETS.get(data, data), audits)  # fmt: skip
    curves = {m: [of[m] for of in found] for m in models}
    for model in models[1:]:
        tell_gain(run, model, SIMPLE, curves, "above 0: superior everywhere", f"{at}, ")


def ranks(run: Run, at: str, curves: Mapping[str, Sequence[Any]]) -> None:
    """Fig. 9: the rank's mean and deviation where accuracy is nearest .9, and with the most noise."""
    for model in [m for m in (PRINTED, OURS) if m in curves]:
        curve = together(curves[model])
        near = curve.iloc[(curve["accuracy"] - 0.9).abs().argmin()]
        for point, printed in ((near, (0.3, 0.25, "88 % above .1")), (curve.iloc[-1], ("to .5", "to .28", None))):
            what = f"{at}, {model} at accuracy {point['accuracy']:.3f} (r = {point['ratio']:g})"
            run.row(what, "rank, mean", printed[0], point.get("kernel_rank_mean"), point["rank_mean"],
                    bounds(point, "rank_mean"), point["attacker"])  # fmt: skip
            if "kernel_rank_sd" in point:
                run.row(what, "rank, deviation by kernels", printed[1], point["kernel_rank_sd"])
            run.row(what, "rank, deviation by our attackers", printed[1], point["rank_sd"])
            if printed[2]:
                if "kernel_above_tenth" in point:
                    run.row(what, "share of ranks above .1, by kernels", printed[2], point["kernel_above_tenth"])
                run.row(what, "nine in ten have at least rank", None, None, point["rank_of_90"],
                        bounds(point, "rank_of_90"), point["attacker"])  # fmt: skip


def compare(
    run: Run, model: str, words: str, curves: Mapping[str, Sequence[Any]], printed: Mapping[str, str], figure: str
) -> None:
    words = f"{model}, {words} "
    means = {name: together(c) for name, c in curves.items()}
    for name, c in means.items():
        tell_point(run, f"{words}{name}, no noise", c.iloc[0], {"accuracy": WITHIN, "log_rank": printed.get(name)})
        point = at_ratio(c, NOISE)
        tell_point(run, f"{words}{name}, r = {point['ratio']:g}", point,
                   {"accuracy": None, "log_rank": printed.get(name), "nn_error": None})  # fmt: skip
    run.figure(figure, draw_tradeoff(means, model))


def named(each: Sequence[Sequence[float]]) -> dict[str, Any]:
    return over_seeds([dict(zip(("value", "low", "high", "guessing"), of, strict=True)) for of in each])


def trained_on(run: Run, seeds: Sequence[Mapping[str, Any]]) -> None:
    sizes = " / ".join(f"{n:,}" for n in seeds[0]["records"])
    run.note(f"Records of filter / attackers / test: {sizes}. Trained on: {seeds[0]['device']}.")
