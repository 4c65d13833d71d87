"""Do releases link, and do they single people out? What Must hold of it, and real data.

    python benchmarks/linkability.py [--runs 100] [--only planted,independent,adult,motionsense] [--device auto]

- planted: tables of independent columns, two records a person, and one stable byte of each person beside them.
- independent: the same without the byte, and tables whose two halves are independent: how often all figures of a run
  have chance inside their interval. Predicates of tables drawn independently of the people: how often the gain of
  singling out has 0 inside.
- adult: the raw table, the coupling, the codebook of 16 against the raw table (`views=`), with units none.
- motionsense: 24 people in two halves, each tested once. The filter (sixteen waveforms, as in
  papers/anonymizing-autoencoder) is fitted on some recordings of one half of the people, the pair attackers learn from
  their other recordings, and are tested on the other half of the people, whom nobody saw. A pair is one window of an
  earlier recording and one of a later one; or many of either. "raw windows" learns from all their recordings.

Writes benchmarks/linkability.json.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.preprocessing import FunctionTransformer

import tacit
from tacit.auditing.linkability import measure_linkability
from tacit.auditing.singling_out import measure_singling_out
from tacit.auditing.trial import Asked, Trial
from tacit.records.dataset import Dataset
from tacit.report.results import Linkability, SinglingOut

FIGURES = ("auc", "eer", "tpr_at_1", "tpr_at_01")
OUT = Path(__file__).with_suffix(".json")


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--runs", type=int, default=100)
    arguments.add_argument("--only", default="planted,independent,adult,motionsense")
    arguments.add_argument("--device", default="auto")
    arguments.add_argument("--epochs", type=int, default=25, help="of the waveforms")
    arguments.add_argument("--stride", type=int, default=20, help="between windows")
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    parts = {
        "planted": lambda: planted(),
        "independent": lambda: independent(chosen.runs),
        "adult": lambda: adult(),
        "motionsense": lambda: motionsense(chosen),
    }
    for name in chosen.only.split(","):
        found = parts[name]()
        earlier = json.loads(OUT.read_text()) if OUT.exists() else {}
        OUT.write_text(json.dumps({**earlier, name: found}, indent=1))


def people(n: int, seed: int, byte: bool) -> Dataset:
    """Two records of each person, of columns that know nothing of each other; and perhaps a byte that stays."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n), 2)
    X = pd.DataFrame({f"x{i}": rng.normal(size=2 * n) for i in range(5)})
    X["day"], X["word"] = rng.integers(30, size=2 * n), rng.choice(list("abcdef"), 2 * n)
    if byte:
        X["byte"] = rng.integers(256, size=n)[who]
    return Dataset(X, None, pd.Series(rng.choice(["f", "m"], n)[who], name="sex"), who)


def planted() -> dict[str, Any]:
    attack, test = people(1000, 0, byte=True).split((0.5, 0.5), random_state=0)
    return told("one stable byte", measure_linkability(Trial.of(None, attack, test)))


def independent(runs: int) -> dict[str, Any]:
    """Of so many runs, those in which every figure has chance inside its interval."""
    inside, missed = {"two records": 0, "two halves": 0, "singling out": 0}, []
    for seed in range(runs):
        data = people(600, seed, byte=False)
        halves = Dataset(data.X, None, data.sensitive)
        other = [d.X for d in people(600, 10_000 + seed, byte=False).split((0.5, 0.5), random_state=0)]
        for name, of in (("two records", data), ("two halves", halves)):
            attack, test = of.split((0.5, 0.5), random_state=seed)
            found = measure_linkability(Trial.of(None, attack, test, Asked(seed=seed)))
            out = [k for k, m in figures(found).items() if m and not m.low <= m.guessing <= m.high]
            inside[name] += not out
            missed += out
        attack, test = halves.split((0.5, 0.5), random_state=seed)
        alone = measure_singling_out(Trial.of((other[0], other[1]), attack, test, Asked(seed=seed)))
        inside["singling out"] += all(m.low <= 0 <= m.high for m in alone.gain.values())
    for name, n in inside.items():
        print(f"independent, {name}: chance inside in {n} of {runs} runs", flush=True)
    print(f"missed by figure: { ({k: missed.count(k) for k in FIGURES}) }", flush=True)
    return {"runs": runs, **inside, "missed": missed}


def adult() -> dict[str, Any]:
    data = tacit.load_dataset("adult")
    train, attack, test = data.split((0.5, 0.25, 0.25), random_state=0)
    itself = FunctionTransformer()
    out = {}
    for name, f in (
        ("raw", None),
        ("coupling", tacit.CouplingFilter(random_state=0)),
        ("codebook", tacit.CodebookFilter(16, random_state=0)),
    ):
        if f is not None:
            f.fit(train.X, train.y, sensitive_features=train.sensitive)
            link = measure_linkability(Trial.of(f, attack, test, Asked(views=(itself,))))
            out[f"{name} and the raw table"] = told(f"adult, {name} and the raw table", link)
        trial = Trial.of(f, attack, test)
        out[name] = told(f"adult, {name}", measure_linkability(trial), measure_singling_out(trial))
    return out


def motionsense(options: argparse.Namespace) -> dict[str, Any]:
    data = tacit.load_dataset("motionsense", stride=options.stride)
    key = pd.DataFrame(
        {"person": data.units["gender"], "kind": data.y["activity"].to_numpy(), "bout": data.units["identity"]}
    )
    turn = key.groupby(["person", "kind"])["bout"].transform(lambda b: pd.factorize(b)[0]).to_numpy()
    order = np.argsort(turn, kind="stable")  # so that the earlier and the later recordings are of all activities
    data, turn, person = data.take(order), turn[order], data.units["gender"][order]
    halves = np.random.default_rng(0).permutation(np.unique(person)).reshape(2, -1)
    out = {}
    for fold, tested in enumerate(halves):
        test = data.take(np.isin(person, tested))
        others = np.flatnonzero(~np.isin(person, tested))
        raw = measure_linkability(Trial.of(None, data.take(others), test))
        out[f"raw, people {fold + 1}"] = told(f"motionsense, people {fold + 1} of 2, raw windows", raw)
        # of a person's recordings of an activity the first is for the filter, the others are for the attack
        train, attack = data.take(others[turn[others] == 0]), data.take(others[turn[others] > 0])
        f = tacit.AnonymizingAutoencoder(
            0.6, 2.0, codes=16, epochs=options.epochs, learning_rate=2e-3, random_state=0, device=options.device
        )
        f.fit(train.X, train.y, sensitive_features=train.sensitive[["identity"]], units=train.units["identity"])
        found = measure_linkability(Trial.of(f, attack, test))
        out[f"people {fold + 1}"] = told(f"motionsense, people {fold + 1} of 2, sixteen waveforms", found)
    return out


def figures(found: Linkability | None) -> dict[str, Any]:
    return {} if found is None else {name: getattr(found, name) for name in FIGURES}


def told(name: str, found: Linkability | None, out: SinglingOut | None = None) -> dict[str, Any]:
    print(f"{name}: {'nothing to pair' if found is None else found.sentence}", flush=True)
    result: dict[str, Any] = {"linkability": None if found is None else figures(found) | {"by": found.by}}
    if found is not None and found.raw:
        result["raw"] = dict(found.raw)
    if out is not None:
        print(f"{name}, singling out: {out.sentence}", flush=True)
        result["singling out"] = {kind: [out.attack[kind], out.control[kind], out.gain[kind]] for kind in out.gain}
    return result


if __name__ == "__main__":
    main()
