"""What anyone may know of a served bundle: its schema, what its audit found, and samples that are nobody's."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.errors import ContradictionError, InputError
from tacit.records.cells import GAPS
from tacit.records.schema import TIMES, Column, TableSchema, schema_of
from tacit.release.bundle import Bundle, parse_json
from tacit.report.plain_words import leak_in_words
from tacit.report.report import Report
from tacit.report.results import AnyResult

N_SAMPLES = 6


def describe(bundle: Bundle) -> dict[str, Any]:
    """The public description of a bundle, as plain data."""
    m = bundle.manifest
    return {
        "name": bundle.name,
        "filter": m["filter"],
        "input": m["input"],
        "gaps": list(GAPS),
        "output": m["output"],
        "noise": m["noise"],
        "expires": m.get("expires"),
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


def _leak(name: str, result: AnyResult, report: Report) -> dict[str, Any]:
    bound, m = report.bound.get(name), result.measure
    return {
        "value": m.value,
        "low": max(m.low, m.guessing),
        "high": m.high if bound is None else bound,
        "guessing": m.guessing,
        "certified": bound is not None,
        "attacker": result.attacker,
        "words": leak_in_words(report, name),
    }


def samples(declared: dict[str, Any], seed: int = 0) -> list[Any]:
    """Records made up from the schema's ranges and categories; no record of anyone is among them."""
    schema, rng = schema_of(declared), np.random.default_rng(seed)
    if isinstance(schema, TableSchema):
        made = schema.made_up(N_SAMPLES, rng, odd=False)
        return [{c.name: _shown(c, made[c.name][i]) for c in schema.columns} for i in range(N_SAMPLES)]
    return [] if len(schema.shape) == 3 else schema.made_up(N_SAMPLES, rng).round(4).tolist()  # images the person draws


def _shown(column: Column, value: Any) -> Any:
    if column.kind == "category":
        return value
    if column.type in TIMES:
        seconds = column.type == "duration"
        return (
            value / np.timedelta64(1, "s")
            if seconds
            else str(value.astype("M8[D]" if column.type == "day" else "M8[m]"))
        )
    return int(value) if column.type != "float" else float(f"{value:.4g}")
