"""An audit without any value of any column: what may be filed and read by whoever may not see the table.

Names of columns and figures stay. Left out are the names of classes and groups (a class may be a person), how often
each value comes, counts of released values, and records that a report shows as examples. The owner's audit has them.
"""

from __future__ import annotations

from typing import Any

from tacit.report.report import Report

GROUP = "one group (the owner's audit names it)"


def without_values(report: Report) -> Report:
    """The same figures, without a value.

    Examples
    --------
    >>> import tacit
    >>> _, attack, test = tacit.load_dataset("quadrants", n=900).split()
    >>> found = tacit.audit(None, attack, test, attackers="logistic", floor=False, power=False, breadth=False)
    >>> found.leakage["shape"].classes, without_values(found).leakage["shape"].classes
    (('o', 'x'), ('class 1', 'class 2'))
    """
    told = _unnamed(report.to_dict())
    told["groups"] = {name: dict(_numbered("group", by)) for name, by in told["groups"].items()}
    for found in told["exposure"].values():
        found["group"] = found["group"] and GROUP
    if told["change"] is not None:
        for column in told["change"]["columns"].values():
            column |= {"values": [], "before": [], "after": []}
    told["resemblance"]["examples"] = []
    told["released"] = None
    return Report.from_dict(told)


def _unnamed(value: Any) -> Any:
    """Plain data in which every result's classes are numbers."""
    if isinstance(value, list):
        return [_unnamed(v) for v in value]
    if not isinstance(value, dict):
        return value
    out = {k: _unnamed(v) for k, v in value.items()}
    if "confusion" in out and "classes" in out:
        out["classes"] = [f"class {i + 1}" for i in range(len(out["classes"]))]
    return out


def _numbered(word: str, told: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(f"{word} {i + 1}", value) for i, value in enumerate(told.values())]
