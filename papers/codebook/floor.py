"""On every data set: is some setting of CodebookFilter at least as good as label-only on both axes?

    python -m papers.codebook.floor [--only adult]

Label-only releases the predicted target and nothing else. Both are fitted on the same rows by the same
kind of model and audited by counting on the same rows. A setting counts as "at least as good" when its
accuracy is not lower and its leakage not higher than label-only's beyond half a standard error, which is
what two fits of the same model differ by. Writes papers/codebook/floor.json.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import tacit
from papers.data import REGISTRY

# the learned code first, from open to shut; the closed rule (one target) is the last resort: at 0 it is label-only
SETTINGS = [("learned", w) for w in (0.0, 0.3, 1.0, 3.0)] + [("closed", w) for w in (0.05, 0.02, 0.0)]
MAX_ROWS = 6_000
BUILT_IN = ("circles", "diabetes", "digits", "gaussians", "octants", "quadrants")


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--only", default="")
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    results = {}
    for name in sorted({*REGISTRY, *BUILT_IN}):
        if chosen.only not in name or (name in REGISTRY and not REGISTRY[name].present):
            continue
        train, attack, test = parts(name)
        began = time.perf_counter()
        label = fit(tacit.baselines.LabelOnly(random_state=0), train)
        floor = figures(label, attack, test)
        settings = {}
        for solver, weight in SETTINGS[: 4 if train.y.shape[1] > 1 else None]:
            f = fit(tacit.CodebookFilter(leakage_weight=weight, solver=solver, random_state=0), train)
            key = f"{solver} {weight:g}"
            settings[key] = figures(f, attack, test)
            if as_good(settings[key], floor):
                break
        good = [w for w, s in settings.items() if as_good(s, floor)]
        results[name] = {"label_only": floor, "settings": settings, "as_good": good}
        show = f"{good[0]}: {line(settings[good[0]])}" if good else f"NONE of {line(settings)}"
        print(f"{name:12s} label-only {line(floor)} | {show} | {time.perf_counter() - began:.0f} s", flush=True)
    out = Path(__file__).with_suffix(".json")
    earlier = json.loads(out.read_text()) if out.exists() else {}
    out.write_text(json.dumps({**earlier, **results}, indent=1))


def parts(name: str) -> tuple[tacit.Dataset, ...]:
    data = tacit.load_dataset(name)
    if len(data) > MAX_ROWS:
        data = data.split((MAX_ROWS, len(data) - MAX_ROWS), random_state=0)[0]
    return data.split((0.5, 0.2, 0.3), random_state=0)


def fit(f, train):
    return f.fit(train.X, train.y, sensitive_features=train.sensitive, units=train.units_of())


def figures(f, attack, test) -> dict[str, float]:
    report = tacit.audit(f, attack, test, attackers=["logistic"], measurements="no-baseline")
    utility = [r.value for r in report.utility.values()]
    leak = [r.value for r in report.leakage.values()]
    spread = [(r.high - r.low) / 4 for r in [*report.utility.values(), *report.leakage.values()]]
    return {"accuracy": sum(utility) / len(utility), "leakage": sum(leak) / len(leak), "error": max(spread)}


def as_good(one: dict[str, float], floor: dict[str, float]) -> bool:
    slack = floor["error"] / 2
    return one["accuracy"] >= floor["accuracy"] - slack and one["leakage"] <= floor["leakage"] + slack


def line(figure) -> str:
    if "accuracy" not in figure:
        return "; ".join(f"{w}: {line(s)}" for w, s in figure.items())
    return f"{figure['accuracy']:.3f} / {figure['leakage']:.3f} (se {figure['error']:.3f})"


if __name__ == "__main__":
    main()
