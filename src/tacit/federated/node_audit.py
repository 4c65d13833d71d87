"""The audit of a federation: every node attacks the common filter on its own rows; only figures leave it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from tacit.auditing.audit import audit
from tacit.errors import InputError, RequirementNotMet, TacitError
from tacit.files import write_whole
from tacit.records.dataset import Dataset
from tacit.report.report import Report

SCHEMA = 1
FIGURE: Mapping[str, Any] = {
    **dict.fromkeys(("role", "attribute", "measure", "attacker"), str),
    **dict.fromkeys(("value", "low", "high", "guessing"), float | int),
    **dict.fromkeys(("rows", "units"), int),
}
MIN_ROWS = 60  # test rows below which a node's figures say nothing


@dataclass(frozen=True)
class FederatedReport:
    """What the nodes found.

    Attributes
    ----------
    figures : by node, one dict for each attribute: role ("utility" or "leakage"), attribute, measure, value, low, high,
        guessing, attacker, rows, units
    failed : by node, why there are no figures

    Examples
    --------
    >>> figure = {"role": "leakage", "attribute": "sex", "measure": "balanced accuracy", "value": .6, "low": .55,
    ...           "high": .65, "guessing": .5, "attacker": "trees", "rows": 400, "units": 400}
    >>> report = FederatedReport({"north": [figure], "south": [figure | {"value": .7, "high": .75}]})
    >>> report.worst("sex")["node"]
    'south'
    """

    figures: Mapping[str, Sequence[Mapping[str, Any]]]
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def table(self) -> pd.DataFrame:
        """One row per node and attribute."""
        return pd.DataFrame(self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        return [{"node": node, **figure} for node, figures in self.figures.items() for figure in figures]

    def worst(self, attribute: str) -> dict[str, Any]:
        """The node where this attribute leaks most (or, for a target, where least is kept), with its figures."""
        found = [row for row in self._rows() if row["attribute"] == attribute]
        if not found:
            known = sorted({row["attribute"] for row in self._rows()})
            raise InputError(f"no node has figures of {attribute!r}; there are {', '.join(known) or 'none'}")
        leaks = [f for f in found if f["role"] == "leakage"]
        return max(leaks, key=lambda f: f["value"]) if leaks else min(found, key=lambda f: f["value"])

    def _all_worst(self) -> dict[str, dict[str, Any]]:
        return {name: self.worst(name) for name in dict.fromkeys(row["attribute"] for row in self._rows())}

    def require(self, leakage: Mapping[str, float]) -> FederatedReport:
        """Raise unless the upper end of every node's leakage is at most what is asked, at every node."""
        problems = [f"{node}: {why}" for node, why in self.failed.items()]
        for name, most in leakage.items():
            self.worst(name)
            problems += [
                f"{f['node']}: {name} may leak {f['high']:.3f}, allowed {most:.3f}"
                for f in self._rows()
                if f["attribute"] == name and f["role"] == "leakage" and not f["high"] <= most
            ]
        if problems:
            raise RequirementNotMet("; ".join(problems))
        return self

    def __str__(self) -> str:
        lines = [f"{'node':16s} {'':8s} {'attribute':16s} value  interval     guessing  rows  by"]
        for f in self._rows():
            lines.append(
                f"{f['node']:16s} {'keeps' if f['role'] == 'utility' else 'leaks':8s} {f['attribute']:16s} "
                f"{f['value']:.3f}  {f['low']:.3f}–{f['high']:.3f}  {f['guessing']:.3f} {f['rows']:9d} {f['attacker']}"
            )
        for attribute, w in self._all_worst().items():
            word = "leaks most" if w["role"] == "leakage" else "is kept least"
            lines.append(
                f"worst: {attribute} {word} at {w['node']}: {w['value']:.3f} [{w['low']:.3f}, {w['high']:.3f}]"
            )
        lines += [f"no figures of {node}: {why}" for node, why in self.failed.items()]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        nodes = {node: [dict(f) for f in figures] for node, figures in self.figures.items()}
        return {"schema": SCHEMA, "nodes": nodes, "worst": self._all_worst(), "failed": dict(self.failed)}

    def to_json(self, path: str | Path | None = None) -> str:
        """As JSON; written whole or not at all when a path is given."""
        text = json.dumps(self.to_dict(), indent=1)
        if path is not None:
            write_whole(path, text)
        return text


def audit_nodes(
    release: Any,
    parts: Mapping[str, tuple[Dataset, Dataset]],
    attackers: str | Sequence[Any] = "quick",
    *,
    min_rows: int = MIN_ROWS,
    random_state: int = 0,
) -> FederatedReport:
    """Audit one filter at every node.

    Parameters
    ----------
    release : the common filter
    parts : by node, rows that attackers learn from and rows they are measured on; neither took part in training
    attackers : as of `tacit.audit`
    min_rows : test rows below which a node tells nothing

    Examples
    --------
    >>> import tacit
    >>> from tacit.federated import audit_nodes
    >>> from sklearn.decomposition import PCA
    >>> nodes = tacit.load_dataset("gaussians", n=300, n_nodes=2).split("official")
    >>> parts = {f"node {i}": d.split((.5, .5)) for i, d in enumerate(nodes)}
    >>> report = audit_nodes(PCA(1).fit(nodes[0].X), parts, attackers="logistic")
    >>> sorted(report.figures)
    ['node 0', 'node 1']
    """
    figures, failed = {}, {}
    for name, (attack, test) in parts.items():
        try:
            figures[name] = audit_here(release, attack, test, attackers, min_rows=min_rows, random_state=random_state)
        except TacitError as error:
            failed[name] = str(error)
    return FederatedReport(figures, failed)


def audit_here(
    release: Any,
    attack: Dataset,
    test: Dataset,
    attackers: str | Sequence[Any] = "quick",
    *,
    min_rows: int = MIN_ROWS,
    random_state: int = 0,
    confidence_level: float = 0.95,
) -> list[dict[str, Any]]:
    """What one node finds and tells."""
    if len(test) < min_rows:
        raise InputError(f"{len(test)} rows to measure on; at least {min_rows} are needed to say anything")
    report = audit(
        release, attack, test, attackers, measurements=(), confidence_level=confidence_level,
        random_state=random_state,
    )  # fmt: skip
    return shared_figures(report)


def readable_figures(told: Any) -> bool:
    """Whether what a node on another machine told are figures as `shared_figures` makes them."""
    if not isinstance(told, list) or not all(isinstance(f, dict) and set(f) == set(FIGURE) for f in told):
        return False

    def fits(value: Any, kind: Any) -> bool:
        if kind is str:  # it goes to a log and a screen
            return isinstance(value, str) and value.isprintable() and len(value) <= 200
        return isinstance(value, kind) and not isinstance(value, bool) and abs(value) < 1e15

    return all(
        f["role"] in ("utility", "leakage") and all(fits(f[k], kind) for k, kind in FIGURE.items()) for f in told
    )


def shared_figures(report: Report) -> list[dict[str, Any]]:
    """The numbers of an audit that leave a node: no row, no class, no confusion table."""
    return [
        {
            "role": role,
            "attribute": name,
            "measure": r.headline.replace("_", " "),
            **{k: round(float(getattr(r, k)), 4) for k in ("value", "low", "high", "guessing")},
            "attacker": r.attacker,
            "rows": int(r.n),
            "units": int(r.n_units),
        }
        for role, results in (("utility", report.utility), ("leakage", report.leakage))
        for name, r in results.items()
    ]
