"""D-EIGAN against centralised EIGAN: number of nodes, different objectives, and what travels (Fig. 7-9, 19-21).

    python -m papers.eigan.federated [--only nodes iid objectives sync] [--seeds 5] [--minutes 4.5] [--device cpu]

nodes, iid : Gaussians, K = 2 to 10 nodes of 400 records (Fig. 7: node k has k times the variance; Fig. 19: all
    alike), phi 1, a sync after every step; the centralised EIGAN takes as many steps with batches K times as large
objectives : Adult in 2 and 10 nodes: all nodes hide sex and race, or each hides one of them (Fig. 8, 20)
sync : Adult in 10 nodes of different shares of income: delta and phi, with bytes, both aggregations (Fig. 9, 21)

Who has MIMIC-III plays the last two on its admissions: `tacit reproduce eigan/fig8 --data mimic3`, and fig9.
Every figure is of attackers trained afresh on released rows that no training saw (`tacit.audit`). Runs that are already
in papers/eigan/federated.json are not run again, and a run stops after --minutes: call it again to go on.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import tacit

with suppress(ModuleNotFoundError):  # without cryptography there are no federations, and all other experiments
    from tacit.federated import DistributedEIGAN, Node

OUT = Path(__file__).with_suffix(".json")
NODES = tuple(range(2, 11))
GAME = {"n_components": 1, "epochs": 20, "adversary_steps": 3}
BATCH = 32
ADULT = {"n_components": 8, "noise": 0.3, "epochs": 6, "alpha": 0.3, "batch_size": 64, "adversary_steps": 3}
ATTACKERS = ["logistic", "trees", "mlp"]
ROWS = 8000  # of Adult's training rows, and half as many to learn attacks from and to measure them on; 0: all
SYNC = [
    *({"sync_every": d, "share": 0.8} for d in (1, 2, 3, 6)),
    *({"sync_every": 2, "share": p} for p in (0.2, 0.4, 0.6, 1.0)),
]


@dataclass(frozen=True)
class Size:
    """How much of the experiments to run; the figures of the paper's README are of the whole."""

    nodes: Sequence[int] = NODES
    game: Mapping[str, Any] = field(default_factory=lambda: GAME)
    adult: Mapping[str, Any] = field(default_factory=lambda: ADULT)
    attackers: Sequence[str] = tuple(ATTACKERS)
    sync: Sequence[Mapping[str, Any]] = tuple(SYNC)
    rows: int = ROWS
    data: str = "adult"


class OutOfTime(Exception):
    pass


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--only", nargs="*", default=["nodes", "iid", "objectives", "sync"])
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--minutes", type=float, default=4.5)
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--out", type=Path, default=OUT)
    arguments.add_argument("--rows", type=int, default=ROWS, help="of Adult; 0 takes all")
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    book = Book(chosen.out, time.monotonic() + 60 * chosen.minutes, Size(rows=chosen.rows))
    parts = {"nodes": gaussians, "iid": gaussians, "objectives": objectives, "sync": sync}
    try:
        for part in chosen.only:
            for seed in range(chosen.seeds):
                parts[part](book, part, seed, chosen.device)
    except OutOfTime:
        print(f"out of time: call again to go on; {len(book.runs)} runs are done", flush=True)
    summarise(book.runs)


class Book:
    """Runs by name, written after each."""

    def __init__(self, path: Path, deadline: float, size: Size) -> None:
        self.path, self.deadline, self.size = path, deadline, size
        self.runs = json.loads(path.read_text())["runs"] if path.exists() else {}

    def run(self, name: str, make) -> None:
        if name in self.runs:
            return
        if time.monotonic() > self.deadline:
            raise OutOfTime
        began = time.perf_counter()
        self.runs[name] = make() | {"seconds": round(time.perf_counter() - began, 1)}
        self.path.write_text(json.dumps({"runs": self.runs}, indent=1))
        print(f"{name}: {self.runs[name]}", flush=True)


# -- Fig. 7 and 19 ----------------------------------------------------------------------------------


def gaussians(book: Book, part: str, seed: int, device: str) -> None:
    for k in book.size.nodes:
        fresh = 8000 // k
        data = tacit.load_dataset("gaussians", n=400 + fresh, n_nodes=k, iid=part == "iid", random_state=seed)
        parts = [d.split((400, fresh / 2, fresh / 2), random_state=seed) for d in data.split("official")]
        train, attack, test = ([p[i] for p in parts] for i in range(3))

        def central(k=k, train=train, attack=attack, test=test):
            pooled = join(train)
            f = tacit.EIGAN(**book.size.game, batch_size=BATCH * k, random_state=seed, device=device)
            f.fit(pooled.X, pooled.y, sensitive_features=pooled.sensitive)
            return view(f, join(attack), join(test), seed, book.size.attackers)

        def spread(train=train, attack=attack, test=test):
            f = DistributedEIGAN(**book.size.game, batch_size=BATCH, sync_unit="step", random_state=seed, device=device)
            f.fit([Node(d.X, d.y, sensitive_features=d.sensitive) for d in train])
            return view(f, join(attack), join(test), seed, book.size.attackers) | sent(f)

        book.run(f"{part} K={k} EIGAN seed={seed}", central)
        book.run(f"{part} K={k} D-EIGAN seed={seed}", spread)


# -- Fig. 8 and 20 ----------------------------------------------------------------------------------


def objectives(book: Book, part: str, seed: int, device: str) -> None:
    train, attack, test = people(book.size.data, book.size.rows)
    secrets = list(train.sensitive)

    def central():
        f = tacit.EIGAN(**book.size.adult, random_state=seed, device=device)
        f.fit(train.X, train.y, sensitive_features=train.sensitive)
        return view(f, attack, test, seed, book.size.attackers)

    book.run(f"objectives EIGAN seed={seed}", central)
    for k, iid in ((2, True), (10, False)):
        shares = silos(train, k, iid, seed)
        for case in ("all", "one each"):

            def spread(shares=shares, case=case):
                nodes = []
                for i, d in enumerate(shares):
                    hide = secrets if case == "all" else [secrets[i % 2]]
                    nodes.append(Node(d.X, d.y, sensitive_features=d.sensitive[hide]))
                # of the paper: delta 2, phi .8 for ten nodes
                settings = {"sync_every": 2, "share": 0.8} if len(shares) > 2 else {}
                f = DistributedEIGAN(**book.size.adult, **settings, random_state=seed, device=device).fit(nodes)
                return view(f, attack, test, seed, book.size.attackers) | sent(f)

            book.run(f"objectives K={k} {case} seed={seed}", spread)


# -- Fig. 9 and 21 ----------------------------------------------------------------------------------


def sync(book: Book, part: str, seed: int, device: str) -> None:
    train, attack, test = people(book.size.data, book.size.rows)
    shares = silos(train, 10, False, seed)
    nodes = [Node(d.X, d.y, sensitive_features=d.sensitive) for d in shares]
    for settings in book.size.sync:
        for aggregation in ("unbiased", "paper"):

            def spread(settings=settings, aggregation=aggregation):
                f = DistributedEIGAN(
                    **book.size.adult, **settings, aggregation=aggregation, random_state=seed, device=device
                )
                return view(f.fit(nodes), attack, test, seed, book.size.attackers) | sent(f)

            words = f"delta={settings['sync_every']} phi={settings['share']} {aggregation}"
            book.run(f"sync {words} seed={seed}", spread)


# -- shared -----------------------------------------------------------------------------------------


Parts = tuple[tacit.Dataset, tacit.Dataset, tacit.Dataset]


def people(data: str, rows: int) -> Parts:
    """Rows for the nodes, to learn attacks from and to measure them on."""
    return {"adult": adult, "mimic3": admissions}[data](rows)


def adult(rows: int) -> Parts:
    parts = tacit.load_dataset("adult", sensitive=["sex", "race"]).split("official")
    # the four small groups are too few for ten nodes
    race = [np.where(p.sensitive["race"] == "White", "White", "other") for p in parts]
    train, test = (
        tacit.Dataset(p.X, p.y, p.sensitive.assign(race=r), name="adult") for p, r in zip(parts, race, strict=True)
    )
    return fewer(train, test, rows)


def admissions(rows: int) -> Parts:
    """The paper's own, for who has them: by patient, three classes of race."""
    return fewer(*tacit.load_dataset("mimic3").split((0.7, 0.3), random_state=0), rows)


def fewer(train: tacit.Dataset, test: tacit.Dataset, rows: int) -> Parts:
    """So many rows of both, or with 0 all; of the second one half each to attack with and to test on."""
    if rows:
        rng = np.random.default_rng(0)
        train, test = (d.take(np.sort(rng.permutation(len(d))[:rows])) for d in (train, test))
    attack, test = test.split((0.5, 0.5), random_state=0)
    return train, attack, test


def silos(train: tacit.Dataset, k: int, iid: bool, seed: int) -> list[tacit.Dataset]:
    """k parts; not alike: every node draws its own share of the target's two classes, and its own size."""
    rng = np.random.default_rng((seed, k))
    target = train.y.iloc[:, 0]
    second = (target == target.unique()[1]).to_numpy()
    parts: list[list[np.ndarray]] = [[] for _ in range(k)]
    for group in (second, ~second):
        rows = rng.permutation(np.flatnonzero(group))
        shares = np.full(k, 1 / k) if iid else rng.dirichlet(np.full(k, 3.0))
        for part, piece in zip(parts, np.split(rows, (np.cumsum(shares)[:-1] * len(rows)).astype(int)), strict=True):
            part.append(piece)
    return [train.take(np.sort(np.concatenate(p))) for p in parts]


def join(parts: list[tacit.Dataset]) -> tacit.Dataset:
    X = np.concatenate([p.X for p in parts])
    return tacit.Dataset(X, pd.concat([p.y for p in parts]), pd.concat([p.sensitive for p in parts]))


def view(f, attack: tacit.Dataset, test: tacit.Dataset, seed: int, attackers: Sequence[str] = ATTACKERS) -> dict:
    released = f.transform(attack.X), f.transform(test.X)  # each record once
    report = tacit.audit(
        released, attack, test, attackers=list(attackers), measurements="no-baseline", random_state=seed
    )
    figures = {f"keeps {n}": round(r.value, 4) for n, r in report.utility.items()}
    return figures | {f"leaks {n}": round(r.value, 4) for n, r in report.leakage.items()}


def sent(f: DistributedEIGAN) -> dict:
    return {"megabytes": round(sum(r["bytes_up"] + r["bytes_down"] for r in f.rounds_) / 2**20, 3)}


def summarise(runs: dict) -> None:
    """Means over seeds; for the Gaussians, whether D-EIGAN stays within .02 of EIGAN."""
    groups: dict[str, list[dict]] = {}
    for name, run in runs.items():
        groups.setdefault(name.rsplit(" seed=", 1)[0], []).append(run)
    means = {
        name: {k: float(np.mean([r[k] for r in found])) for k in found[0] if k != "seconds"} | {"seeds": len(found)}
        for name, found in groups.items()
    }
    for name, mean in means.items():
        text = ", ".join(f"{k} {v:.3f}" for k, v in mean.items() if k != "seeds")
        if " D-EIGAN" in name and (other := means.get(name.replace(" D-EIGAN", " EIGAN"))):
            apart = max(abs(mean[k] - other[k]) for k in ("keeps colour", "leaks shape"))
            text += f"; apart from EIGAN by at most {apart:.3f}: {'met' if apart <= 0.02 else 'NOT MET'}"
        print(f"{name} ({mean['seeds']} seeds): {text}", flush=True)


if __name__ == "__main__":
    main()
