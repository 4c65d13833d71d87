"""Titanic as the authors' code has it: names and tickets as columns, 1321 of them, and 90 of 100 rows to learn from.

Their notebook leaves cabins out, drops passengers with a gap (712 stay), counts the words of names and tickets and
one-hot encodes the rest. The paper's measure is of a filter that learns from 90 of 100 rows. An attacker needs rows
that the filter never saw: the audited filter learns from two thirds of the 90, attackers from the other third. Both
are measured on the same 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer

import tacit
from papers.common.run import Run, honest, together

from .curves import IN_FULL, LABELS, OURS, PRINTED, TABLE_3, released
from .protocol import Parts, audit, each_release, in_print, mean_in_print

RAW = "raw data"
NOT_A_NUMBER = r"\b(?!\d+\b)\w\w+\b"  # of a ticket: "PC" and "STON", no digits alone


def titanic_wide(run: Run) -> None:
    """Table 3 but for DP, on all of the authors' columns."""
    found = each_release(run, (RAW, "autoencoder", "PCA", PRINTED, OURS), wide)
    floor = together([r["audit"] for r in found[RAW]])
    for name, runs in found.items():
        audits = [r["audit"] for r in runs]
        leaks = together(audits)["leakage"]
        for label, printed in zip(LABELS["titanic"], TABLE_3.get(name, (None,) * 3), strict=True):
            mean_in_print(run, name, label, runs, printed, loss=True, leak=leaks.get(label))
        run.audited(IN_FULL.get(name, name), "titanic, names and tickets", audits, floor=floor)


def wide(name: str, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    learn, attack, test = wide_parts(seed)
    whole = joined(learn, attack)
    printed, audited = (
        None if name == RAW else released(name, part, LABELS["titanic"], seed, s) for part in (whole, learn)
    )
    return {
        "print": in_print(printed, whole, [test], seed, s["evaluation"]),
        "audit": honest(audit(audited, (learn, attack, test), seed, s, floor=name == RAW)),
    }


def wide_parts(seed: int) -> Parts:
    """For the audited filter, for attackers, to test on. The first two are the 90 of 100 rows to learn from."""
    data = tacit.load_dataset("titanic", sensitive=["Sex", "Pclass"], identifiers=True)
    rows = np.flatnonzero(data.X.drop(columns="Cabin").notna().all(axis=1))
    told = data.take(rows)
    as_numbers = tacit.Dataset(words_and_classes(told.X), told.y, told.sensitive, name="titanic", modality="table")
    return as_numbers.split((0.6, 0.3, 0.1), random_state=seed)


def words_and_classes(table: pd.DataFrame) -> np.ndarray:
    """The authors' columns: words counted over all passengers, whoever they are for, as in their code."""
    names = CountVectorizer().fit_transform(table["Name"]).toarray()
    tickets = CountVectorizer(token_pattern=NOT_A_NUMBER).fit_transform(table["Ticket"]).toarray()
    classes = pd.get_dummies(table[["SibSp", "Parch", "Embarked"]].astype(str))
    return np.column_stack([table[["Age", "Fare"]], classes, names, tickets]).astype(float)


def joined(one: tacit.Dataset, other: tacit.Dataset) -> tacit.Dataset:
    X = np.concatenate([one.X, other.X])
    y, sensitive = (pd.concat([getattr(d, side) for d in (one, other)]) for side in ("y", "sensitive"))
    return tacit.Dataset(X, y.reset_index(drop=True), sensitive.reset_index(drop=True), name=one.name)
