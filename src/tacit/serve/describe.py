"""What anyone may know of a served bundle: its schema, what its audit found, and samples that are nobody's."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.errors import ContradictionError, InputError
from tacit.release.bundle import Bundle, parse_json
from tacit.report.report import Report
from tacit.report.results import Result, percent

N_SAMPLES = 6


def describe(bundle: Bundle) -> dict[str, Any]:
    """The public description of a bundle, as plain data."""
    m = bundle.manifest
    return {
        "name": bundle.name,
        "filter": m["filter"],
        "input": m["input"],
        "output": m["output"],
        "noise": m["noise"],
        "analyzer": m["analyzer"],
        "model": m["members"]["model.onnx"],
        "audit": summary(parse_json(bundle.members["audit.json"], "audit.json")),
    }


def summary(audit: Any) -> dict[str, Any] | None:
    """By sensitive attribute, what an attacker could tell from a release: figures, and the same in words."""
    try:
        report = Report.from_dict(audit)
    except (InputError, ContradictionError):
        return None  # no audit, one of another make, or one that contradicts itself: nothing of it may be shown
    leakage = {name: _leak(name, result, report) for name, result in report.leakage.items()}
    return {"level": report.level, "fresh": report.fresh, "leakage": leakage}


def _leak(name: str, result: Result, report: Report) -> dict[str, Any]:
    bound, m = report.bound.get(name), result.measure
    reached = f"Attackers that we trained name {name} right {percent(m.value)} of the time"
    if bound is not None:
        words = (
            f"Whoever sees one release, however clever, names {name} right at most {percent(bound)} of the time "
            f"(certified, {report.level}). {reached}; guessing gives {percent(m.guessing)}."
        )
    else:
        words = (
            f"{reached} (between {percent(m.low)} and {percent(m.high)}, {report.level}); guessing gives "
            f"{percent(m.guessing)}. This was measured, not proved: a cleverer attacker may do better."
        )
    return {
        "value": m.value,
        "low": max(m.low, m.guessing),
        "high": m.high if bound is None else bound,
        "guessing": m.guessing,
        "certified": bound is not None,
        "attacker": result.attacker,
        "words": words,
    }


def samples(declared: dict[str, Any], seed: int = 0) -> list[Any]:
    """Records made up from the schema's ranges and categories; no record of anyone is among them."""
    rng = np.random.default_rng(seed)
    if declared["kind"] == "table":
        return [{c["name"]: _cell(c, rng) for c in declared["columns"]} for _ in range(N_SAMPLES)]
    shape, low, high = declared["shape"], *np.array(declared.get("ranges") or [[0, 1]] * declared["shape"][0]).T
    if len(shape) == 2:
        return [_window(shape, low, high, rng).round(4).tolist() for _ in range(N_SAMPLES)]
    if len(shape) == 3:
        return []  # the person draws
    # in the middle of the range, where most records are
    return [(low + (high - low) * rng.beta(2, 2, shape)).round(4).tolist() for _ in range(N_SAMPLES)]


def _cell(column: dict[str, Any], rng: np.random.Generator) -> Any:
    if column["kind"] == "category":
        return str(rng.choice(column["categories"])) if column["categories"] else None
    low, high = column["range"]
    value = low + (high - low) * rng.beta(2, 2)
    if column["type"] == "boolean":
        return int(rng.integers(2))
    return int(np.clip(round(value), low, high)) if column["type"] == "integer" else float(f"{value:.4g}")


def _window(shape: list[int], low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A few waves around the middle of each channel's range, as of something that moves."""
    time = np.linspace(0, 1, shape[1])
    waves = sum(
        rng.uniform(0.1, 0.5, (shape[0], 1))
        / k
        * np.sin(2 * np.pi * (k * rng.uniform(1, 4) * time + rng.random((shape[0], 1))))
        for k in (1, 2, 3)
    )
    middle, half = (low + high)[:, None] / 2, (high - low)[:, None] / 2
    return np.clip(middle + half * 0.6 * np.asarray(waves), low[:, None], high[:, None])
