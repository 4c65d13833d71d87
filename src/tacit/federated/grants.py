"""What a node grants a server, whoever runs it: floors in people, every question once, noise on what it tells.

A server chooses batches, weights, columns and filters, and could choose them such that an answer is one person's
record. In one process (`simulate`) nothing leaves, and nothing of this applies; a node of its own has an `algorithm`
whose `grants` are its own file's, and answers within them. They are no proof: secure sums and differential privacy are.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tacit.errors import InputError, check_number
from tacit.federated.node import Node
from tacit.federated.protocol import ProtocolError
from tacit.files import read_state, write_state, write_whole
from tacit.labels import MISSING, encode_labels, label_frame
from tacit.records.dataset import Dataset
from tacit.records.people import Crowd

DAY = 24 * 3600.0
TABLES = "tacit-tables-1"
SURE = 0.025  # how often the noise of an audit may lie outside its share of the interval


@dataclass(frozen=True, kw_only=True)
class Grants:
    """What leaves a node at most.

    Attributes
    ----------
    min_people : people that every step, sum and audit is over at least
    min_count : people that a class, a word or a column's mean needs to count at all
    min_steps : steps of training between two answers
    max_rounds : rounds of one federation
    max_federations : federations that begin within 24 hours
    blur : standard deviation of the noise on every answer of D-EIGAN, in learning rates per root of a step
    audit_epsilon : of one audit's noise, for the people whose rows it measures on
    audit_budget : sum of these, for as long as the node keeps its state
    fit_budget : where set, every fit must be differentially private (`[training.dp]`), and all together, for as long as
        the node keeps its state, spend at most this epsilon
    """

    min_people: int = 20
    min_count: int = 5
    min_steps: int = 1
    max_rounds: int = 200
    max_federations: int = 5
    blur: float = 1.0
    audit_epsilon: float = 0.5
    audit_budget: float = 10.0
    fit_budget: float | None = None

    def check(self) -> None:
        """Raise where one is not a number that can be used."""
        for name in ("min_people", "min_count", "min_steps", "max_rounds", "max_federations"):
            check_number(name, getattr(self, name), 1, whole=True)
        for name in ("blur", "audit_budget"):
            check_number(name, getattr(self, name), 0)
        check_number("audit_epsilon", self.audit_epsilon, 1e-6)
        check_number("fit_budget", self.fit_budget, 1e-3, optional=True)

    def check_rows(self, crowd: Crowd, n_rows: int, what: str, remedy: str) -> None:
        """Refuse so few rows that they may be of too few people."""
        found = fewest_people(crowd, n_rows)
        if found < self.min_people:
            raise InputError(
                f"{what} of {n_rows} rows may be of {found} people; this node answers for at least {self.min_people}: "
                f"{remedy}, or lower min_people here"
            )

    def check_node(self, node: Node) -> None:
        """Refuse a table, or a class of a label, of too few people: what is learned from it is learned of them."""
        crowd = crowd_of(node)
        self.check_rows(crowd, len(node), "a table", "take part with more")
        for values, what in ((node.y, "y"), (node.sensitive_features, "sensitive_features")):
            labels = encode_labels(values, what, len(node), min_classes=1)
            for name, codes in zip(labels.names, labels.codes.T, strict=True):
                few = [c for c in np.unique(codes[codes != MISSING]) if crowd.count(codes == c) < self.min_count]
                if few:
                    raise InputError(
                        f"a class of {name!r} has {crowd.count(codes == few[0])} people here, and what is learned of "
                        f"it is learned of them; at least {self.min_count} are needed: leave these rows out (label "
                        f"NaN), or lower min_count"
                    )


def crowd_of(node: Node) -> Crowd:
    """Who the rows of a node belong to."""
    return Crowd(len(node), None if node.units is None else np.asarray(node.units))


def fewest_people(crowd: Crowd, n_rows: int) -> int:
    """How many people so many rows are of, at least, whichever rows they are.

    Examples
    --------
    >>> fewest_people(Crowd(6, np.array(["a", "a", "a", "b", "b", "c"])), 4)
    2
    """
    if crowd.units is None:
        return min(n_rows, crowd.n_rows)
    return int(np.searchsorted(np.cumsum(np.sort(np.bincount(crowd.units))[::-1]), n_rows)) + 1


# -- what a node has answered before ----------------------------------------------------------------


@contextlib.contextmanager
def spending(folder: Path) -> Iterator[dict[str, Any]]:
    """What was granted so far, to be changed; one answer at a time, so that none is granted twice."""
    folder.mkdir(parents=True, exist_ok=True)
    path, lock = folder / "granted.json", os.open(folder / "granted.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        with contextlib.suppress(ImportError):  # Windows has no such lock
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        kept = json.loads(path.read_text()) if path.exists() else {"federations": {}, "epsilon": 0.0}
        try:
            yield kept
        finally:  # what was asked in vain counts too
            write_whole(path, json.dumps(kept), private=True)
    finally:
        os.close(lock)


def grant_federation(kept: dict[str, Any], grants: Grants, federation: str, now: float | None = None) -> None:
    """Count a federation that begins: the same question under another name is another one."""
    now = time.time() if now is None else now
    recent = {name: at for name, at in kept["federations"].items() if abs(now - at) < DAY}
    if federation not in recent and len(recent) >= grants.max_federations:
        raise ProtocolError(
            f"{len(recent)} federations began here within 24 hours, and what several tell of the same rows adds up; "
            f"wait, or raise max_federations"
        )
    kept["federations"] = {federation: now, **recent}


def grant_fit(kept: dict[str, Any], grants: Grants, dp: Any) -> None:
    """Count what a fit will spend, where this node has a budget for fits."""
    if grants.fit_budget is None:
        return
    if not isinstance(dp, dict) or not isinstance(dp.get("epsilon", 3.0), int | float):
        raise ProtocolError(
            "this node takes part in differentially private fits alone (fit_budget in its file); set [training.dp] "
            "epsilon on the server"
        )
    spent = kept.get("fits", 0.0) + float(dp.get("epsilon", 3.0))
    if spent > grants.fit_budget + 1e-9:
        raise ProtocolError(
            f"fits here have spent an epsilon of {kept.get('fits', 0.0):g} of {grants.fit_budget:g}; this one would "
            f"make it {spent:g}. Take part with other people, or raise fit_budget"
        )
    kept["fits"] = spent


def grant_audit(kept: dict[str, Any], grants: Grants) -> None:
    """Count an audit."""
    spent = kept["epsilon"] + grants.audit_epsilon
    if spent > grants.audit_budget + 1e-9:
        raise ProtocolError(
            f"audits here have spent an epsilon of {kept['epsilon']:g} of {grants.audit_budget:g}; hold other rows "
            f"out, or raise audit_budget"
        )
    kept["epsilon"] = spent


def grant_table(folder: Path, grants: Grants, node: Node) -> None:
    """Refuse a table that is one of before but for a few people: what both tell would differ by these."""
    table = pd.concat([label_frame(v, "*") for v in (node.X, node.y, node.sensitive_features) if v is not None], axis=1)
    rows = pd.util.hash_pandas_object(table, index=False).to_numpy()
    crowd = crowd_of(node)
    mine = np.zeros(crowd.n_people, dtype=np.uint64)
    np.add.at(mine, np.arange(len(rows)) if crowd.units is None else crowd.units, rows)
    path = folder / "tables.safetensors"
    before = list(read_state(path, TABLES, "a node")[0].values()) if path.exists() else []
    for other in before:
        few = max(len(np.setdiff1d(mine, other)), len(np.setdiff1d(other, mine)))
        if 0 < few < grants.min_people:
            raise ProtocolError(
                f"this table differs in {few} people from one that took part before, and so would what both tell; "
                f"take part with the former one, or when at least {grants.min_people} differ (min_people)"
            )
    if not any(np.array_equal(np.sort(mine), other) for other in before):
        kept = [*before, np.sort(mine)]
        write_state(path, {str(i): a for i, a in enumerate(kept)}, None, TABLES, private=True)


# -- audits: figures of which nobody's share can be told ------------------------------------------------


def influence(labels: Any, units: Any, n: int) -> float:
    """By how much one person can move an accuracy, or a balanced one, in which all people of a class weigh alike."""
    codes = encode_labels(labels, "labels", n, min_classes=1).codes[:, 0]
    crowd = Crowd(n, units)
    who = np.arange(n) if crowd.units is None else crowd.units
    known = codes != MISSING
    pairs = np.unique(np.column_stack([who, codes])[known], axis=0)  # a person counts once in each class
    sizes = np.bincount(pairs[:, 1])
    share = 1 / np.maximum(sizes, 1) / max(1, (sizes > 0).sum())
    return float(np.bincount(pairs[:, 0], share[pairs[:, 1]]).max())


def blur_figures(
    figures: Sequence[Mapping[str, Any]], test: Dataset, epsilon: float, rng: np.random.Generator | None = None
) -> list[dict[str, Any]]:
    """Figures with Laplace noise: epsilon of all together, for whoever's rows they were measured on.

    Intervals hold the noise as well, and everything is rounded outwards. Attackers' rows are not covered: of them the
    figures tell what attackers learned from all of them.
    """
    rng = np.random.default_rng() if rng is None else rng
    out = []
    for figure in figures:
        table = test.y if figure["role"] == "utility" else test.sensitive
        name = figure["attribute"]
        scale = influence(table[name], test.units_of(name), len(test)) * len(figures) / epsilon
        noise, more = rng.laplace(0, scale), scale * math.log(1 / SURE)
        low, high = (min(1.0, max(0.0, figure[end] + noise + sign * more)) for end, sign in (("low", -1), ("high", 1)))
        value = min(1.0, max(0.0, figure["value"] + noise))
        told = {"value": round(value, 2), "low": math.floor(100 * low) / 100, "high": math.ceil(100 * high) / 100}
        out.append({**figure, **told, "guessing": round(figure["guessing"], 2)})
    return out
