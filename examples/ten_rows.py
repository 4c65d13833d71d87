"""The README's ten rows: a made-up table, and what leaves of it.

    python examples/ten_rows.py [--write people.csv]

Nobody's data: people are drawn by the lines below. Struck out is what a value was, bold what it was replaced by; ages
that were only rounded are not bold. With --write the table is written, and nothing is released.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

import tacit

JOBS = ["nurse", "teacher", "clerk", "driver", "mechanic", "manager"]
SHARES = {"m": [0.08, 0.14, 0.2, 0.2, 0.14, 0.24], "f": [0.18, 0.2, 0.24, 0.12, 0.07, 0.19]}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--write")
    chosen = arguments.parse_args()
    table, sex = people()
    if chosen.write:
        table.assign(sex=sex).to_csv(chosen.write, index=False)
        return
    f = tacit.CouplingFilter(random_state=0).fit(table, table["income"], sensitive_features=sex)
    f = f.redraw(b"r" * 32)
    released = f.release_training_rows()
    columns = f.mechanism_.columns
    assert columns is not None
    kept = [c.codes(released[c.name]) == c.codes(table[c.name]) for c in columns]
    print(f"kept {np.mean(kept):.3f}; replaced in the first ten rows: {sum(int((~k[:10]).sum()) for k in kept)}")
    print("| " + " | ".join([*table.columns, "sex"]) + " |\n|" + "---|" * 7)
    for i in range(10):
        cells = [shown(table[c.name][i], released[c.name][i], bool(k[i])) for c, k in zip(columns, kept, strict=True)]
        print("| " + " | ".join([*cells, f"~~{sex[i]}~~"]) + " |")


def people(n: int = 6000, seed: int = 3) -> tuple[pd.DataFrame, pd.Series]:
    """Made-up people, whose job, hours and family tell their sex."""
    rng = np.random.default_rng(seed)
    sex = np.where(rng.random(n) < 0.5, "f", "m")
    age = np.clip(np.rint(rng.normal(42, 13, n)), 19, 75).astype(int)
    married = rng.random(n) < np.clip((age - 18) / 30, 0.1, 0.75)
    alone = np.where((age < 26) & (rng.random(n) < 0.7), "child at home", "lives alone")
    family = np.where(married, np.where(sex == "m", "husband", "wife"), alone)
    education = rng.choice(["school", "college", "university"], n, p=[0.45, 0.35, 0.2])
    job = np.array([rng.choice(JOBS, p=SHARES[s]) for s in sex])
    hours = np.clip(np.rint(rng.normal(np.where(sex == "m", 40, 37), 8, n) / 5) * 5, 10, 70).astype(int)
    score = 0.03 * (age - 40) + 0.9 * (education == "university") + 0.3 * (education == "college") + 0.25 * married
    score += 0.7 * (job == "manager") + 0.04 * (hours - 38) + rng.normal(0, 0.7, n)
    income = np.where(score > 0.9, "> 50K", "≤ 50K")
    table = {"age": age, "education": education, "job": job, "family": family, "hours": hours, "income": income}
    return pd.DataFrame(table), pd.Series(sex, name="sex")


def shown(raw: object, released: object, kept: bool) -> str:
    if raw == released:
        return str(raw)
    return f"~~{raw}~~ {released}" if kept else f"~~{raw}~~ **{released}**"


if __name__ == "__main__":
    main()
