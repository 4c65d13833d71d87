"""What anyone may know of a served bundle: its schema, what its audit found, and samples that are nobody's."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.records.cells import GAPS
from tacit.records.schema import Column, TableSchema, schema_of
from tacit.release.bundle import Bundle, parse_json

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
        "analyzer": m["analyzer"],
        "model": m["members"]["model.onnx"],
        "audit": summary(parse_json(bundle.members["audit.json"], "audit.json")),
    }


def summary(audit: Any) -> dict[str, Any] | None:
    """By sensitive attribute, what an attacker could tell from a release: figures, and the same in words."""
    try:
        level = f"{audit['settings']['level']:.0%}".replace("%", " %")
        leakage = {n: _leak(n, r, audit["bound"].get(n), level) for n, r in audit["leakage"].items()}
        return {"level": level, "fresh": bool(audit["fresh"]), "leakage": leakage}
    except (KeyError, TypeError, ValueError, AttributeError):
        return None  # no audit, or one of another make: then the page says that nothing is known


def _leak(name: str, result: Any, bound: float | None, level: str) -> dict[str, Any]:
    m = result[result["headline"]]
    low, high, guessing = m["low"], m["high"], m["guessing"]
    if bound is not None and low > bound:
        raise ValueError(f"{name}: measured above its own bound")  # nothing of such an audit may be shown
    reached = f"Attackers that we trained name {name} right {_share(m['value'])} of the time"
    if bound is not None:
        words = (
            f"Whoever sees one release, however clever, names {name} right at most {_share(bound)} of the time "
            f"(certified, {level}). {reached}; guessing gives {_share(guessing)}."
        )
    else:
        words = (
            f"{reached} (between {_share(low)} and {_share(high)}, {level}); guessing gives {_share(guessing)}. This "
            f"was measured, not proved: a cleverer attacker may do better."
        )
    return {
        "value": m["value"],
        "low": max(low, guessing),
        "high": high if bound is None else bound,
        "guessing": guessing,
        "certified": bound is not None,
        "attacker": result["attacker"],
        "words": words,
    }


def _share(value: float) -> str:
    return f"{value:.0%}".replace("%", " %")


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
    return int(value) if column.type != "float" else float(f"{value:.4g}")
