"""The codebook filter: release one of k cells, so that the best attacker is known in closed form.

With P(z|s) counted from data the best attacker's balanced accuracy is (1/m) sum_z max_s P(z|s): the game's inner
maximum over *every* attacker. `adult` is the trade-off with the estimated limit of any release behind it; `claims`,
`floor` and `training-rows` tell what `benchmarks/adult.py`, `papers/codebook/floor.py` and
`training_rows.py` measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import tacit
from papers.common.run import Run, honest, together
from tacit.records.dataset import Dataset

from .everywhere import everywhere
from .floor import parts

MACHINE = "two CPU cores, one thread"
# our notes' prototype: income accuracy, best attacker, certified (balanced)
PRINTED = {
    ("label-only", 0): (0.874, 0.585, 0.595), ("posterior", 1): (0.862, 0.575, 0.585),
    ("posterior", 3): (0.855, 0.536, 0.546), ("posterior", 10): (0.842, 0.510, 0.522),
    ("MLP", 1): (0.844, 0.58, 0.587), ("MLP", 3): (0.836, 0.54, 0.547), ("MLP", 10): (0.827, 0.51, 0.523),
    ("closed", 0.05): (0.868, None, 0.567), ("closed", 0.1): (0.859, None, 0.539),
    ("closed", 0.15): (0.843, None, 0.517),
}  # fmt: skip


def adult(run: Run) -> None:
    """Accuracy of income against what any attacker can know of sex, by kind of code and weight of the leakage."""
    s = run.settings
    found = {
        (kind, weight): [run.part(f"{kind} {weight} seed {seed}", on_adult, kind, weight, seed, s)
                         for seed in run.seeds]
        for kind, weight in s["releases"]
    }  # fmt: skip
    for at, audits in found.items():
        one, printed = together(audits), PRINTED[at]
        name = at[0] if at[0] == "label-only" else f"{at[0]} code, weight {at[1]:g}"
        income, sex = one["utility"]["income"], one["leakage"]["sex"]
        run.row(name, "income, accuracy", printed[0], income["value"], interval=(income["low"], income["high"]),
                guessing=income["guessing"])  # fmt: skip
        run.row(name, "income, AUC", None, income["auc"])
        run.row(name, "sex, balanced", printed[1], None, sex["value"], (sex["low"], sex["high"]), sex["by"],
                sex["guessing"])  # fmt: skip
        run.row(name, "sex, certified for any attacker, 95 %", printed[2], one["certificate"]["sex"])
        method = name if at[0] == "label-only" else f"CodebookFilter, {name}"
        run.audited(method, "adult", audits, floor=found["label-only", 0][0])
    run.figure("adult", draw(found))


def claims(run: Run) -> None:
    """Medians over three seeds of fitting, at the knob that a validation fifth of the training rows chose."""
    found = run.recorded("python benchmarks/adult.py", MACHINE)
    test = tacit.load_dataset("adult").split("official")[1]
    commonest = float(test.y["income"].value_counts(normalize=True).max())
    for name, of in found.items():
        if not isinstance(of, dict) or "median" not in of:
            continue
        needed, bound, _ = of["needed"]
        at = f"{name.partition(',')[0]}, knob {of['knob']:g}"
        runs = {k: [r[k] for r in of["runs"]] for k in of["median"]}
        spread = {k: (min(v), max(v)) for k, v in runs.items()}
        run.row(at, "income, accuracy", f"at least {needed:g}", of["median"]["income"], interval=spread["income"],
                guessing=commonest)  # fmt: skip
        if name.startswith("EIGAN"):
            run.row(
                at,
                "sex, balanced",
                f"at most {bound:g}",
                None,
                of["median"]["sex"],
                spread["sex"],
                "best of quick",
                0.5,
            )
        else:
            run.row(at, "sex, certified for any attacker, 95 %", f"at most {bound:g}", of["median"]["sex"],
                    interval=spread["sex"])  # fmt: skip
            run.row(at, "sex, balanced", None, None, of["median"]["attacked"], spread["attacked"], "best of quick", 0.5)
    run.note("Intervals are from the least to the most of the seeds. In the first column: what was asked for.")


def digits(run: Run) -> None:
    """Which digit it is says more than its parity: the code must merge digits of the same parity."""
    s = run.settings
    found = {
        w: [run.part(f"weight {w:g} seed {seed}", on_digits, w, seed, s) for seed in run.seeds] for w in s["weights"]
    }
    first = next(iter(found.values()))[0]
    target, secret = next(iter(first["utility"])), next(iter(first["leakage"]))
    floor = first["label_only_utility"][target], first["label_only"][secret]
    run.row("label-only", f"{target}, accuracy", None, floor[0]["value"], interval=(floor[0]["low"], floor[0]["high"]),
            guessing=floor[0]["guessing"])  # fmt: skip
    run.row(
        "label-only",
        f"{secret}, balanced",
        None,
        None,
        floor[1]["value"],
        (floor[1]["low"], floor[1]["high"]),
        "counting",
        floor[1]["guessing"],
    )
    for weight, audits in found.items():
        one = together(audits)
        kept, leak = one["utility"][target], one["leakage"][secret]
        run.row(f"weight {weight:g}", f"{target}, accuracy", None, kept["value"], interval=(kept["low"], kept["high"]),
                guessing=kept["guessing"])  # fmt: skip
        run.row(
            f"weight {weight:g}",
            f"{secret}, balanced",
            None,
            None,
            leak["value"],
            (leak["low"], leak["high"]),
            leak["by"],
            leak["guessing"],
        )
        run.row(f"weight {weight:g}", f"{secret}, certified for any attacker, 95 %", None, one["certificate"][secret])
        run.audited(f"CodebookFilter, weight {weight:g}", "digits", audits)


def floor(run: Run) -> None:
    """On each data set the first setting, from open to shut, that is as good as label-only on both axes."""
    found = run.recorded("python -m papers.codebook.floor", MACHINE)
    guessing = run.part("guessing", guessed, list(found))
    for name, of in found.items():
        base, best = of["label_only"], next(iter(of["as_good"]), None)
        shown = {"label-only": base, **({f"code, {best}": of["settings"][best]} if best else {})}
        for release, figures in shown.items():
            run.row(
                f"{name}, {release}",
                "targets, accuracy",
                None,
                figures["accuracy"],
                interval=around(figures, "accuracy"),
                guessing=guessing[name]["targets"],
            )
            leak = figures["leakage"]
            run.row(f"{name}, {release}", "secrets, balanced", None, None, leak, around(figures, "leakage"), "logistic",
                    guessing[name]["secrets"])  # fmt: skip
        if best is None:
            run.note(f"{name}: no setting tried is as good as label-only on both axes.")
    run.note(
        "Means over targets and over secrets; at most 6,000 rows; intervals of two standard errors. A setting counts "
        "as good when it is no worse than label-only beyond half a standard error."
    )


def training_rows(run: Run) -> None:
    """Leakage of sex from fresh rows, from training rows through transform, and out of fold."""
    found = run.recorded("python -m papers.codebook.training_rows", MACHINE)
    for name, by_rows in found.items():
        for rows, seeds in by_rows.items():
            value, low, high = np.mean(seeds, axis=0)
            run.row(name, f"sex, balanced, {rows}", None, None, value, (low, high), "best of three", 0.5)
    run.note("Means over seeds of the value and of its interval's ends.")


EXPERIMENTS: dict[str, Callable[[Run], None]] = {
    "adult": adult, "claims": claims, "digits": digits, "floor": floor, "training-rows": training_rows,
    "everywhere": everywhere,
}  # fmt: skip


# -- the work ------------------------------------------------------------------------------------------


def on_adult(kind: str, weight: float, seed: int, s: dict[str, Any]) -> dict[str, Any]:
    """Fitted on the training rows; half of the test rows is the attackers', the other half the test."""
    train, test = tacit.load_dataset("adult", sensitive="sex").split("official")
    rows, folds = s["rows"], s["folds"]
    if rows < len(train):
        train, test = (d.split((rows, len(d) - rows), random_state=seed)[0] for d in (train, test))
    attack, test = test.split((0.5, 0.5), random_state=0)
    f: Any = {
        "label-only": lambda: tacit.baselines.LabelOnly(n_folds=folds, random_state=seed),
        "posterior": lambda: tacit.CodebookFilter(16, weight, features="posterior", n_folds=folds, random_state=seed),
        "MLP": lambda: tacit.CodebookFilter(16, weight, features="raw", random_state=seed, device="cpu"),
        "closed": lambda: tacit.CodebookFilter(
            leakage_weight=weight, solver="closed", n_folds=folds, random_state=seed
        ),
    }[kind]()
    f.fit(train.X, train.y, sensitive_features=train.sensitive)
    return audited(f, attack, test, s, kind == "label-only", seed)


def on_digits(weight: float, seed: int, s: dict[str, Any]) -> dict[str, Any]:
    data = tacit.load_dataset("digits")
    if s["rows"] < len(data):
        data = data.split((s["rows"], len(data) - s["rows"]), random_state=seed)[0]
    train, attack, test = data.split((0.5, 0.2, 0.3), random_state=seed)
    f = tacit.CodebookFilter(leakage_weight=weight, n_folds=s["folds"], random_state=seed)
    f.fit(train.X, train.y, sensitive_features=train.sensitive)
    return audited(f, attack, test, s, True, seed)


def audited(f: Any, attack: Dataset, test: Dataset, s: dict[str, Any], base: bool, seed: int) -> dict[str, Any]:
    """The honest columns; with `base` also label-only's and the estimated limit of any release."""
    report = tacit.audit(
        f,
        attack,
        test,
        s["attackers"],
        measurements=("auto" if s["limit"] else "no-limit") if base else "no-baseline",
        random_state=seed,
        options=tacit.AuditOptions(pooled=()),
    )
    limits = {
        secret: [[float(p.accuracy), float(p.leakage)] for p in points] for secret, points in report.limit.items()
    }
    return {**honest(report), "limit": limits}


def guessed(names: list[str]) -> dict[str, dict[str, float]]:
    """On each data set's test rows: the commonest classes' shares, and one over the number of classes (means)."""
    tests = {name: parts(name)[2] for name in names}
    return {
        name: {
            "targets": float(np.mean([test.y[c].value_counts(normalize=True).max() for c in test.y])),
            "secrets": float(np.mean([1 / test.sensitive[c].nunique() for c in test.sensitive])),
        }
        for name, test in tests.items()
    }


def around(figures: dict[str, float], key: str) -> tuple[float, float]:
    return max(0.0, figures[key] - 2 * figures["error"]), min(1.0, figures[key] + 2 * figures["error"])


def draw(found: dict[tuple[str, float], list[dict[str, Any]]]) -> Figure:
    """Down and to the right is better: accuracy over what an attacker gets, and over what any attacker can."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axis = figure.subplots()
    limit = found[("label-only", 0)][0]["limit"].get("sex", [])
    if limit:
        accuracy, leak = np.array(limit).T
        axis.plot(accuracy, leak, "-", color="0.8", lw=4, label="limit (estimate, see text)")
    for i, kind in enumerate(dict.fromkeys(kind for kind, _ in found)):
        of = {w: together(a) for (k, w), a in found.items() if k == kind}
        kept = [a["utility"]["income"]["value"] for a in of.values()]
        leak = [a["leakage"]["sex"] for a in of.values()]
        values = [v["value"] for v in leak]
        bars = [[v["value"] - v["low"] for v in leak], [v["high"] - v["value"] for v in leak]]
        axis.errorbar(
            kept, values, bars, fmt="o-", ms=4, lw=1, capsize=2, color=f"C{i}", label=f"{kind}: best attacker"
        )
        axis.plot(kept, [a["certificate"]["sex"] for a in of.values()], "_", ms=12, mew=2, color=f"C{i}")
    axis.axhline(0.5, color="0.6", ls=":", lw=1)
    axis.set(
        xlabel="income, accuracy", ylabel="sex, balanced accuracy", title="Dash: certified for any attacker (95 %)"
    )
    axis.title.set_fontsize(9)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    return figure
