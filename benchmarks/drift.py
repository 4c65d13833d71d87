"""Does `tacit drift` cry wolf, does it find what matters, and does its bound on the moved certificate hold?

    python benchmarks/drift.py [--streams 1000] [--part power]

1. False alarms: streams of the audited population itself, 100 records a day, asked every day of a year.
2. Power: shifts of the released values' law (P(sensitive | value) kept) that move the best attacker's balanced accuracy
   by .05, up or down; new records come 100 at a time and are asked for each time. Found within 2,000 records of the
   shift, which comes at once, after a month or after a year. Directions are random, and the cheapest there is: along
   what moves the attacker most at every step, which needs the least change of law. Beside them, "one class": its
   values alone move, and P(sensitive | value) with them; that may hardly show in the values, and is not promised.
3. The moved bound against the truth, over random laws and shifts, with 2, 3 and 8 classes.

Laws: Adult's own code (16 cells, sex), and made-up codes of 4 and 64 cells. Written to drift.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from tacit.auditing.drift import few_share, many_share, moved_accuracy, moved_balanced, telling_of, total_variation_end
from tacit.auditing.monitor import Watch
from tacit.auditing.stats import binomial_interval

DELTA, DAY, YEAR, WITHIN, MOVE = 0.05, 100, 365, 2000, 0.05


def balanced(law: np.ndarray, posterior: np.ndarray) -> float:
    """The best attacker's balanced accuracy where values have this law."""
    joint = law[:, None] * posterior
    return float((joint / joint.sum(axis=0)).max(axis=1).sum() / posterior.shape[1])


def gain(law: np.ndarray, posterior: np.ndarray) -> np.ndarray:
    """By how much more mass on each value moves that accuracy (m times)."""
    ratio = posterior / (law @ posterior)
    best = ratio.argmax(axis=1)
    hits = np.array([(law * posterior[:, s])[best == s].sum() for s in range(posterior.shape[1])]) / (law @ posterior)
    return np.asarray(ratio.max(axis=1) - ratio @ hits)


def shifted(law: np.ndarray, posterior: np.ndarray, direction: np.ndarray | float) -> np.ndarray | None:
    """The law moved until leakage has moved by MOVE: tilted along a direction, or climbing (1) or falling (-1)."""
    start, new = balanced(law, posterior), law
    for _ in range(3000):
        along = direction * gain(new, posterior) if isinstance(direction, float) else direction
        new = new * np.exp(0.01 * along)
        new = new / new.sum()
        if abs(balanced(new, posterior) - start) >= MOVE:
            return np.asarray(new)
    return None


def adult_code() -> tuple[np.ndarray, np.ndarray]:
    """The law of Adult's code of 16 cells, and P(sex | cell), on rows that the filter never saw."""
    train, rest = tacit.load_dataset("adult").split((0.4, 0.6), random_state=0)
    f = tacit.CodebookFilter(16, leakage_weight=1.0, random_state=0)
    f.fit(train.X, train.y, sensitive_features=train.sensitive)
    _, cells = np.unique(np.asarray(f.transform(rest.X)), axis=0, return_inverse=True)
    sex = rest.labels("sensitive").codes[:, 0]
    table = np.zeros((cells.max() + 1, 2))
    np.add.at(table, (cells.ravel(), sex), 1)
    return table.sum(axis=1) / table.sum(), table / table.sum(axis=1, keepdims=True)


def made_up(k: int, m: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.dirichlet(np.full(k, 2.0)), rng.dirichlet(np.full(m, 3.0), size=k)


def asked_daily(known: np.ndarray, days: list[np.ndarray]) -> int | None:
    """The day of the first alarm; None without one."""
    watch = Watch.start([len(known)])
    for day, records in enumerate(days):
        watch.add(None, records[:, None], None)
        watch.look([known], DELTA)
        if watch.facts["drifted"]:
            return day
    return None


def false_alarms(law: np.ndarray, n: int, streams: int, rng: np.random.Generator) -> dict[str, Any]:
    k = len(law)
    found = sum(
        asked_daily(rng.multinomial(n, law), list(rng.choice(k, size=(YEAR, DAY), p=law))) is not None
        for _ in range(streams)
    )
    low, high = binomial_interval(found / streams, streams)
    return {"cells": k, "reference": n, "streams": streams, "alarms": found, "share": found / streams,
            "low": low, "high": high}  # fmt: skip


def one_class(law: np.ndarray, posterior: np.ndarray) -> np.ndarray | None:
    """The law of values after the last class alone has moved away from the others, until leakage has moved by MOVE.

    P(sensitive | value) changes with it: not what the bound is about, and harder to see.
    """
    joint, start = law[:, None] * posterior, balanced(law, posterior)
    classes = joint.sum(axis=0)
    own = joint[:, -1] / classes[-1]
    for _ in range(3000):
        own = own * np.exp(0.01 * np.sign(own / law - 1))
        own = own / own.sum()
        new = np.column_stack([joint[:, :-1], classes[-1] * own])
        if balanced(new.sum(axis=1), new / new.sum(axis=1, keepdims=True)) - start >= MOVE:
            return np.asarray(new.sum(axis=1))
    return None


def shifts(kind: str, law: np.ndarray, posterior: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """New laws of one kind, without end."""
    if kind == "random":
        while True:
            if (new := shifted(law, posterior, rng.standard_normal(len(law)))) is not None:
                yield new
    ways = [one_class(law, posterior)] if kind == "one class" else [shifted(law, posterior, w) for w in (1.0, -1.0)]
    yield from itertools.cycle([w for w in ways if w is not None])


def power(kind: str, law: np.ndarray, posterior: np.ndarray, n: int, calm: int, streams: int,
          rng: np.random.Generator) -> dict[str, Any]:  # fmt: skip
    """How often a shift of one kind is found within WITHIN records, after so many days without."""
    k, found, variations = len(law), 0, []
    for new in itertools.islice(shifts(kind, law, posterior, rng), streams):
        variations.append(float(np.abs(new - law).sum() / 2))
        days = [*rng.choice(k, size=(calm, DAY), p=law), *rng.choice(k, size=(WITHIN // DAY, DAY), p=new)]
        day = asked_daily(rng.multinomial(n, law), days)
        found += day is not None and day >= calm
    low, high = binomial_interval(found / streams, streams)
    return {"cells": k, "leakage": balanced(law, posterior), "reference": n, "days before": calm, "shift": kind,
            "streams": streams, "found": found / streams, "low": low, "high": high,
            "total variation": [min(variations), float(np.median(variations))]}  # fmt: skip


def moved(streams: int, rng: np.random.Generator) -> dict[str, Any]:
    """How often the bound on the moved certificate is below the truth, and how far above; counts are real counts."""
    below = below_plain = 0
    slack = []
    for _ in range(streams):
        m, k = int(rng.choice([2, 2, 3, 8])), int(rng.integers(2, 33))
        law, posterior = made_up(k, m, rng)
        new = rng.dirichlet(rng.choice([3.0, 30.0, 300.0, 3000.0]) * law + 0.01)
        n0, n1 = (int(rng.choice([500, 2000, 10000])) for _ in range(2))
        table = np.vstack(
            [rng.multinomial(n0, (law[:, None] * posterior).ravel()).reshape(k, m), np.zeros(m, dtype=int)]
        )
        old, now = table.sum(axis=1), np.append(rng.multinomial(n1, new), 0)
        many = many_share(old)
        telling = telling_of(table, many, DELTA / 2)
        end = total_variation_end(old, now, DELTA / 4)
        few = few_share(old, many, DELTA / 8) + few_share(now, many, DELTA / 8)
        bound = moved_balanced(balanced(law, posterior), end, m, telling, few)
        below += balanced(new, posterior) > bound
        below_plain += new @ posterior.max(axis=1) > moved_accuracy(law @ posterior.max(axis=1), end, m, telling, few)
        slack.append(bound - balanced(new, posterior))
    return {"streams": streams, "balanced below truth": int(below), "plain below truth": int(below_plain),
            "slack of the balanced bound, quartiles": np.quantile(slack, (0.25, 0.5, 0.75)).tolist()}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--part", choices=["moved", "power", "false alarms"], help="only this; the others stay")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    laws = {"Adult": adult_code(), "4 cells": made_up(4, 2, rng), "64 cells": made_up(64, 2, rng)}
    some, few = max(1, asked.streams // 5), max(1, asked.streams // 10)  # few of those that take a year

    def every_power() -> list[dict[str, Any]]:
        cases = ((5000, 0, some), (20000, 0, some), (20000, 30, some), (20000, YEAR, few))
        return [
            told({"law": name, **power(kind, *law, n, calm, streams, rng)})
            for name, law in laws.items()
            for n, calm, streams in cases
            for kind in ("cheapest", "random", "one class")
        ]

    parts: dict[str, Callable[[], Any]] = {
        "moved": lambda: told(moved(10 * asked.streams, rng)),
        "power": every_power,
        "false alarms": lambda: [
            told({"law": name, **false_alarms(law, n, asked.streams, rng)})
            for name, (law, _) in laws.items()
            for n in ((1000, 5000, 20000) if name == "Adult" else (5000,))
        ],
    }
    for part in [asked.part] if asked.part else parts:
        started, found = time.perf_counter(), parts[part]()
        kept = json.loads(asked.out.read_text()) if asked.out.exists() else {}
        kept[part] = {"seconds": round(time.perf_counter() - started), "found": found}
        asked.out.write_text(json.dumps(kept, indent=1) + "\n")


def told(found: dict[str, Any]) -> dict[str, Any]:
    print(found, flush=True)
    return found


if __name__ == "__main__":
    main()
