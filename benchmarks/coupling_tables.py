"""What a table keeps at equal leakage: CouplingFilter beside dropping columns, LEACE, EIGAN, codebook, labels, PCA.

    python benchmarks/coupling_tables.py [--only "titanic;adult"] [--seeds 3]

On every table data set, its first sensitive column hidden. Filters are fitted on one half of the rows; attackers (the
"quick" ones, the best of them counts) learn from a quarter and are measured on another, and so is the breadth, over all
columns and targets. Columns are dropped greedily: each time the one whose removal lowers boosted trees most, which are
cross-validated on the attackers' rows, until they read no more there than from the coupling. PCA has as many components
as read no more so. The coupling releases the targets beside X; dropping, LEACE and PCA are given them too. "ok": the
lower end of the attacker's interval is at most guessing + .03. Writes benchmarks/coupling_tables.json.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GroupKFold, StratifiedKFold, cross_val_predict

import tacit
from tacit.auditing.breadth import breadth
from tacit.datasets import declarations
from tacit.records.encoding import make_encoder
from tacit.training.trees import boosted_trees

MOST_ROWS = 8_000
ROUNDS = 30
KEY = b"a key of this benchmark only ..."  # the same draws in every run
OPTIONS: dict[str, Any] = {
    "attackers": "quick",
    "floor": False,
    "limit": False,
    "pooled": (),
    "breadth": False,
}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--only", default="")
    arguments.add_argument("--seeds", type=int, default=3)
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    out = Path(__file__).with_suffix(".json")
    tables = [name for name, d in sorted(declarations().items()) if d.modality == "table" and d.present]
    for name in tables:
        if chosen.only and name not in chosen.only.split(";"):
            continue
        began = time.perf_counter()
        data = table(name)
        seeds = 1 if len(data) >= MOST_ROWS else chosen.seeds
        runs = [one_run(data, seed) for seed in range(seeds)]
        told(name, data, runs, time.perf_counter() - began)
        results = json.loads(out.read_text()) if out.exists() else {}  # another process may have written
        out.write_text(json.dumps(dict(sorted((results | {name: runs}).items())), indent=1) + "\n")


def table(name: str) -> tacit.Dataset:
    """At most `MOST_ROWS` rows of a data set, with its first sensitive column; X holds the targets too."""
    data = tacit.load_dataset(name)
    X = data.X if isinstance(data.X, pd.DataFrame) else pd.DataFrame(data.X).add_prefix("x")
    X = pd.concat([X.reset_index(drop=True), data.y.reset_index(drop=True)], axis=1)
    data = tacit.Dataset(X, data.y, data.sensitive.iloc[:, :1], data.units, name, "table")
    return data if len(data) <= MOST_ROWS else data.split((MOST_ROWS, len(data) - MOST_ROWS), random_state=0)[0]


def one_run(data: tacit.Dataset, seed: int) -> dict[str, Any]:
    train, attack, test = data.split((0.5, 0.25, 0.25), random_state=seed)
    parts = attack, test
    f = tacit.CouplingFilter(random_state=seed)
    f.fit(train.X, train.y, sensitive_features=train.sensitive, units=train.units_of())
    f = f.redraw(KEY)
    released = [f.transform(d.X, sensitive_features=d.sensitive) for d in parts]
    found = {"raw": measured([d.X for d in parts], parts, seed), "coupling": measured(released, parts, seed)}
    schema = f.mechanism_.schema
    codes = schema.parts(schema.read(test.X, test.sensitive, None)[0])[0]
    same = [v.codes(released[1][v.name]) == codes[:, j] for j, v in enumerate(schema.values)]
    found["coupling"]["kept"] = float(np.mean(same))
    level = read_by_trees(released[0], attack, seed)
    columns = dropped_to(level, attack, seed)
    found["dropping"] = measured([d.X[columns] for d in parts], parts, seed) | {"columns": columns}
    found |= {name: measured(Z, parts, seed) for name, Z in others(train, parts, level, seed)}
    return found


def measured(Z: list[Any], parts: tuple[tacit.Dataset, ...], seed: int) -> dict[str, Any]:
    """What the best attacker reads of a release, and its breadth."""
    if not np.shape(Z[0])[1]:  # every column was dropped
        Z = [np.zeros((len(d), 1)) for d in parts]
    [read] = tacit.audit(tuple(Z), *parts, random_state=seed, **OPTIONS).leakage.values()
    frames = [z if isinstance(z, pd.DataFrame) else pd.DataFrame(z).add_prefix("z") for z in Z]
    broad = breadth(frames, [d.X for d in parts], seed)
    own = {"attacker": read.value, "low": read.low, "high": read.high, "guessing": read.guessing}
    return {**own, "ok": bool(read.low <= read.guessing + 0.03), "breadth": broad.mean}


def read_by_trees(Z: Any, data: tacit.Dataset, seed: int) -> float:
    """Balanced accuracy of cross-validated trees, on the attackers' rows alone."""
    s = pd.factorize(data.sensitive.iloc[:, 0])[0]
    encoded = make_encoder(Z).transform(Z)
    units = data.units_of()
    cut = StratifiedKFold(3, shuffle=True, random_state=seed) if units is None else GroupKFold(3)
    trees = boosted_trees(encoded.shape, int(s.max()) + 1, seed, ROUNDS).set_params(class_weight="balanced")
    return float(balanced_accuracy_score(s, cross_val_predict(trees, encoded, s, cv=cut, groups=units)))


def dropped_to(level: float, attack: tacit.Dataset, seed: int) -> list[str]:
    """The columns that are left when dropping the most telling ones has brought trees down to a level."""
    left = list(attack.X.columns)
    while left and read_by_trees(attack.X[left], attack, seed) > level:
        if len(left) == 1:
            return []
        read = [read_by_trees(attack.X[[c for c in left if c != name]], attack, seed) for name in left]
        gone = {left[i] for i in np.argsort(read)[: max(1, len(left) // 8)]}  # of many columns several at a time
        left = [c for c in left if c not in gone]
    return left


def others(train: tacit.Dataset, parts: tuple[tacit.Dataset, ...], level: float, seed: int):
    """name, releases of both parts."""
    encoder = make_encoder(train.X)
    X, encoded = encoder.transform(train.X), [encoder.transform(d.X) for d in parts]
    eraser = tacit.baselines.LinearEraser().fit(X, sensitive_features=train.sensitive)
    yield "LEACE", [eraser.transform(x) for x in encoded]
    plain = [d.X.drop(columns=list(train.y)) for d in (train, *parts)]
    for name, f in {
        "EIGAN": tacit.EIGAN(random_state=seed),
        "codebook": tacit.CodebookFilter(random_state=seed),
        "labels": tacit.baselines.LabelOnly(),
    }.items():
        f.fit(plain[0], train.y, sensitive_features=train.sensitive, units=train.units_of())
        yield name, [f.transform(x) for x in plain[1:]]
    most = PCA(min(*X.shape, 16), random_state=seed).fit(X)
    codes = [most.transform(x) for x in encoded]
    n = codes[0].shape[1]
    while n > 1 and read_by_trees(codes[0][:, :n], parts[0], seed) > level:
        n -= 1
    yield "PCA", [z[:, :n] for z in codes]


def told(name: str, data: tacit.Dataset, runs: list[dict[str, Any]], seconds: float) -> None:
    """One table, in 80 columns."""

    def mean(method: str, figure: str) -> float:
        return float(np.mean([r[method][figure] for r in runs]))

    print(f"{name}: {len(data):,} rows, {data.X.shape[1]} columns, {len(runs)} seeds, {seconds:.0f} s; guessing "
          f"{mean('raw', 'guessing'):.3f}, kept {mean('coupling', 'kept'):.3f}")  # fmt: skip
    print("  " + "".join(f"{m:>9.9}" for m in ("", *runs[0])))
    for figure in ("attacker", "low", "breadth"):
        print(f"  {figure:9}" + "".join(f"{mean(m, figure):9.3f}" for m in runs[0]))
    gain = mean("coupling", "breadth") - mean("dropping", "breadth")
    print(f"  ok in {sum(r['coupling']['ok'] for r in runs)} of {len(runs)}; {gain:+.3f} breadth against dropping "
          f"to {np.mean([len(r['dropping']['columns']) for r in runs]):.1f} columns", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
