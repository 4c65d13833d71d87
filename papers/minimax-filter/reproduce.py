"""Section 5 of Hamm (2015), "Preserving privacy of continuous high-dimensional data with minimax filters".

The paper's protocol is in `in_print` (and `protocol.py`): filter and evaluator, a logistic regression, learn
from the same training rows. `adaptive` is ours: the filter learns from some rows, attackers of several
families from others, and both are measured on a third part; windows of one bout never stand in two parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tacit
from papers.common.run import Run, by_attacker, honest, together
from papers.common.shown import shown

from . import protocol
from .personal import one_trial

COLOURS = {
    "random": "0.6",
    "PCA": "tab:orange",
    "PPLS": "tab:green",
    "DDD": "tab:brown",
    "minimax": "tab:red",
    "minimax nonlinear": "tab:purple",
}
SHOWN = tuple(COLOURS)
Words = tuple[str | None, str | None]  # what the paper's text says of a method's target and secret


def fig2(run: Run) -> None:
    """5.1: 1740 faces of 16x16 pixels to learn from, 200 to test (the paper's text says 100)."""
    printed = {"minimax": ("highest", "almost chance, .5"), "PPLS": (None, "not very successful")}
    printed |= dict.fromkeys(("random", "PCA"), (None, "not reduced"))
    nonlinear = ("highest, slightly above the linear", "almost chance, slightly above the linear")

    def said(method: str, d: int) -> Words:
        if method == "minimax nonlinear":
            return nonlinear
        if method == "DDD":
            return "close to minimax", "almost chance, .5"
        return printed[method] if d >= 50 else (None, None)  # the paper's figure begins at d = 50

    tradeoff(run, "genki", "smile", "gender", "genki", said)


def fig3(run: Run) -> None:
    """5.2: mean, max, min and deviation of 13 MFCCs of an utterance; 80 % of each speaker's for training."""
    printed = {"minimax": ("as the others'", "near chance, .02 of 43"), "PPLS": (None, None)}
    printed |= dict.fromkeys(("random", "PCA"), (None, ".4 to .6"))
    tradeoff(run, "emodb", "happy", "speaker", "emodb", lambda method, d: printed[method])


def fig4(run: Run) -> None:
    """5.3: 561 features of a window; 15 of 30 people; a random half of each one's windows for training."""
    printed = {"PPLS": (None, "above minimax"), "random": (None, ".2 to .7"), "PCA": (None, ".2 to .7")}

    def said(method: str, d: int) -> Words:
        if method == "minimax":
            return "much higher than others" if d <= 20 else "comparable to others", "close to chance, .067"
        return printed[method]

    tradeoff(run, "har", "activity", "subject", "uci_har", said)


def fig5(run: Run) -> None:
    """5.4, Algorithm 3: 15 other people each learn a filter of their own, starting from that of domain 1 (d=20)."""
    s = run.settings
    if run.quick:
        trials = [run.part(f"seed {seed}", personal, seed, s["rounds"], s["every"]) for seed in run.seeds]
    else:
        command = f"python -m papers.minimax-filter.personal --trials {s['seeds']} --rounds {s['rounds']} --audit"
        trials = run.recorded(command, "2 CPU cores")["sequential"]["runs"]
        trials = [{k: v for k, v in t.items() if k != "bytes_samples"} for t in trials]
    rounds = [c["round"] for c in trials[0]["curve"]]
    mean = {
        k: [float(np.mean([t["curve"][i][k] for t in trials])) for i in range(len(rounds))]
        for k in ("target", "binary")
    }
    printed = {"before": (0.936, 0.674), "after": (0.946, 0.538)}
    commonest = float(tacit.load_dataset("uci_har").y["activity"].value_counts(normalize=True).max())
    for when, at in (("before", 0), ("after", -1)):
        run.row(f"{when} ({rounds[at]} rounds)", "activity, accuracy", printed[when][0], mean["target"][at],
                guessing=commonest)  # fmt: skip
        audits = [t["audit"][when] for t in trials if "audit" in t]
        found = sorted(audits, key=lambda a: a["subject"])[len(audits) // 2] if audits else None
        run.row(
            f"{when} ({rounds[at]} rounds)",
            "this person or another (guessing .500; attacker: which of the 15, balanced, .067)",
            printed[when][1], mean["binary"][at], found and found["subject"], found and (found["low"], found["high"]),
            found and found["attacker"],
        )  # fmt: skip
        if found:
            leak = {
                "value": found["subject"],
                "by": found["attacker"],
                **{k: found[k] for k in ("low", "high", "guessing")},
            }
            use = {"value": found["activity"], "guessing": commonest}
            line = {"utility": {"activity": use}, "leakage": {"subject": leak}}
            name = "minimax d=20 of other people" if when == "before" else "personal minimax d=20"
            # of the same fifteen people as the first trial's
            floor = run.part("label-only", adaptive, "har", "raw data", 0, 0, ["logistic"])
            run.audited(name, "uci_har", {**line, "certificate": {}}, floor=floor)
    figure = Figure(figsize=(4.5, 3), layout="constrained")
    axis = figure.subplots()
    axis.plot(rounds, mean["target"], "o-", label="activity")
    axis.plot(rounds, mean["binary"], "s-", label="this person or another (paper's reader)")
    if audits:
        ends = [float(np.mean([t["audit"][when]["subject"] for t in trials])) for when in ("before", "after")]
        axis.plot([rounds[0], rounds[-1]], ends, "x", color="C2", label="which of the 15, fresh attacker (ends only)")
        axis.axhline(1 / 15, color="C2", ls=":", lw=0.8)
    axis.axhline(0.5, color="C1", ls=":", lw=0.8, label="dotted: guessing")
    axis.set(xlabel="round", ylabel="accuracy", ylim=(0, 1))
    axis.legend(frameon=False, fontsize=7)
    run.figure("fig5", figure)


def personal(seed: int, rounds: int, every: int) -> dict[str, Any]:
    """One trial on every n-th window."""
    data = tacit.load_dataset("uci_har")
    data = data.take(np.arange(0, len(data), every))
    return one_trial(data, seed, rounds, {"rho": 1.0}, False)


EXPERIMENTS: dict[str, Callable[[Run], None]] = {"fig2": fig2, "fig3": fig3, "fig4": fig4, "fig5": fig5}


# -- one comparison: methods x dimensions ------------------------------------------------------------


def tradeoff(run: Run, part: str, target: str, secret: str, data: str, said: Callable[[str, int], Words]) -> None:
    s = run.settings
    runs = {
        d: [run.part(f"d={d} seed {seed}", in_print, part, d, seed, s["steps"], s["nonlinear"]) for seed in run.seeds]
        for d in s["dims"]
    }
    means = {
        d: {m: {k: float(np.mean([r[m][k] for r in found])) for k in ("target", "secret")} for m in found[0]}
        for d, found in runs.items()
    }
    ours = [f"minimax d={d}" for d in s["dims"]] + (["minimax nonlinear", "DDD"] if s["nonlinear"] else [])
    attacked = {
        name: [run.part(f"audit {name} seed {seed}", adaptive, part, name, seed, s["steps"], s["attackers"])
               for seed in range(s["audits"])]
        for name in ours
    }  # fmt: skip
    if s["reference_attackers"]:
        for name in ("raw data", f"PCA d={s['dims'][0]}"):
            attacked[name] = [run.part(f"audit {name}", adaptive, part, name, 0, 0, s["reference_attackers"])]

    guessing = run.part("guessing", guessed, part, target, secret)
    for d in s["dims"]:
        for method, row in means[d].items():
            printed = said(method, d)
            at = {"minimax nonlinear": f"{method}, {d} units", "DDD": "DDD, a mask"}.get(method, f"{method}, d={d}")
            run.row(at, f"{target}, accuracy", printed[0], row["target"],
                    guessing=guessing[target])  # fmt: skip
            name = method if method in ("minimax nonlinear", "DDD") else f"{method} d={d}"
            found = together(attacked[name])["leakage"][secret] if name in attacked else None
            balanced = f"; attacker: balanced, {shown(found['guessing'])}" if found else ""
            run.row(at, f"{secret}, accuracy (guessing {shown(guessing[secret])}{balanced})",
                    printed[1], row["secret"], **by_attacker(found))  # fmt: skip
    for name, audits in attacked.items():
        run.audited(name, data, audits, floor=attacked.get("raw data", audits)[0])
    audits = {d: together(attacked[f"minimax d={d}"]) for d in s["dims"]}
    run.figure(run.experiment, draw(means, audits, target, secret, guessing[target]))


def guessed(part: str, target: str, secret: str) -> dict[str, float]:
    """Accuracy on test rows of always saying the training rows' commonest class."""
    train, test = protocol.SPLITS[part](0)
    labels = [pd.concat([d.y, d.sensitive], axis=1)[[target, secret]].astype(str) for d in (train, test)]
    return (labels[1] == labels[0].mode().iloc[0]).mean().to_dict()


def in_print(part: str, d: int, seed: int, steps: int, nonlinear: bool) -> dict[str, dict[str, float]]:
    """The paper's measurement of every method: accuracy of a logistic regression on the release."""
    train, test = protocol.SPLITS[part](seed)
    mean, spread = train.X.mean(axis=0), train.X.std(axis=0) + 1e-9
    train, test = (protocol.replace_X(x, (x.X - mean) / spread) for x in (train, test))
    methods = {name: make for name, make in protocol.methods(part, d, steps).items() if name in SHOWN}
    if not nonlinear:
        methods.pop("minimax nonlinear", None)
    elif "minimax nonlinear" in methods:  # as there, d means nothing to it; both secrets must have two classes
        methods["DDD"] = lambda seed: tacit.baselines.DiscriminabilityMask(random_state=seed)
    return {name: protocol.evaluate(protocol.fitted(make(seed), train), train, test) for name, make in methods.items()}


def adaptive(part: str, name: str, seed: int, steps: int, attackers: list[str]) -> dict[str, Any]:
    """Fresh attackers on rows the filter never saw. With the raw data also the label-only floor."""
    train, attack, test = fresh_rows(part, seed)
    d = int(name.partition("d=")[2] or 10)
    release: Any = None
    if name.startswith("minimax"):
        network = "mlp" if name.endswith("nonlinear") else "linear"
        release = tacit.MinimaxFilter(d, network=network, solver="alternating", max_iter=steps, random_state=seed)
        release.fit(train.X, train.y, sensitive_features=train.sensitive)
    elif name == "DDD":
        release = tacit.baselines.DiscriminabilityMask(random_state=seed)
        release.fit(train.X, train.y, sensitive_features=train.sensitive)
    elif name.startswith("PCA"):
        release = make_pipeline(StandardScaler(), PCA(d, random_state=seed)).fit(train.X)
    floor = release is None
    return honest(tacit.audit(release, attack, test, attackers, pooled=(), floor=floor, limit=False, random_state=seed))


def fresh_rows(part: str, seed: int) -> tuple[tacit.Dataset, ...]:
    """For the filter, for the attackers, and for the test."""
    if part == "har":  # by bout, .4/.4/.2, of people on whom nothing was chosen
        data = tacit.load_dataset("uci_har")
        subject = data.sensitive["subject"].to_numpy()
        people = np.random.default_rng(0).permutation(np.unique(subject))[15:]
        return data.take(np.isin(subject, people)).split((0.4, 0.4, 0.2), random_state=seed)
    train, test = protocol.SPLITS[part](seed)
    train = protocol.replace_X(train, train.X)
    return *train.split((0.5, 0.5), random_state=seed), protocol.replace_X(test, test.X)


def draw(means: dict[int, dict], audits: dict[int, Any], target: str, secret: str, commonest: float) -> Figure:
    """As the paper draws it: up and to the left is better; dotted lines are equal trade-offs, grey ones guessing."""
    figure = Figure(figsize=(2.6 * len(means) + 1.6, 3), layout="constrained")
    axes = figure.subplots(1, len(means), sharex=True, sharey=True, squeeze=False)[0]
    for axis, (d, methods) in zip(axes, means.items(), strict=True):
        for name, row in methods.items():
            axis.plot(row["secret"], row["target"], "o", color=COLOURS[name], label=name)
        leak, kept = audits[d]["leakage"][secret], audits[d]["utility"][target]
        axis.plot(leak["value"], kept["value"], "x", color=COLOURS["minimax"], ms=8,
                  label="minimax, best fresh attacker\n(balanced, other rows)")  # fmt: skip
        axis.axvline(leak["guessing"], color="0.8", lw=1)
        axis.axhline(commonest, color="0.8", lw=1)
        axis.set(title=f"d = {d}", xlabel=f"{secret}, accuracy")
    low, high = axes[0].get_ylim()
    for axis in axes:
        for gap in np.arange(-1, 1, 0.1):
            axis.plot([0, 1], [gap, 1 + gap], ":", color="0.85", lw=0.7, zorder=0)
        axis.set(xlim=(0, 1), ylim=(low, high))
    axes[0].set_ylabel(f"{target}, accuracy")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8)
    return figure
