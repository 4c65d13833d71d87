"""The statistics of closed forms as addends of a secure sum.

In the clear a node tells the classes of its labels, and in which columns half of its records have one value, and which.
Counts, sums and sums of products about zero are added up: records are scaled, so that little is lost by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.federated.protocol import Message, ProtocolError
from tacit.federated.secure_rounds import ALL

ROLES = ("targets", "sensitive")


class SummedStatistics:
    """How `closed_form.sums` are added up."""

    def outline(self, answer: Message) -> dict[str, Any]:
        common = [None if np.isnan(v) else float(v) for v in answer.arrays["common"]]
        return {"classes": answer.facts["classes"], "common": common, "dp": answer.facts.get("dp", {})}

    def agree(self, outlines: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, str]]:
        rejected = {
            n: f"node {n!r} sent classes that cannot be read" for n, told in outlines.items() if not _fits(told)
        }
        left = {n: told for n, told in sorted(outlines.items()) if n not in rejected}
        if not left:
            return {}, rejected
        forms = {n: (frozenset(told["classes"]), len(told["common"])) for n, told in left.items()}
        usual = Counter(forms.values()).most_common(1)[0][0]
        for node, form in forms.items():
            odd = sorted(usual[0] ^ form[0])
            if odd:
                name = odd[0].split("/", 1)[1]
                rejected[node] = f"node {node!r}: the label column {name!r} is not at all nodes; pass it everywhere"
            elif form != usual:
                rejected[node] = f"node {node!r} has {form[1]} encoded columns, the others have {usual[1]}"
        told = [told for node, told in left.items() if node not in rejected]
        classes = {key: list(dict.fromkeys(c for t in told for c in t["classes"][key])) for key in told[0]["classes"]}
        by_column = [list(dict.fromkeys(v for v in values if v is not None))[:2] for values in
                     zip(*(t["common"] for t in told), strict=True)]  # fmt: skip
        common = [[values[i] if len(values) > i else None for values in by_column] for i in range(2)]
        spent = {node: own for t in told for node, own in t.get("dp", {}).items()}  # what a private fit cost
        return {"classes": classes, "common": common, "dp": spent}, rejected

    def numbers(self, answer: Message, agreed: Mapping[str, Any]) -> np.ndarray:
        n, arrays = answer.facts["records"], answer.arrays
        mean, upper = arrays["mean"], np.triu_indices(len(arrays["mean"]))
        parts = [n * mean, arrays["scatter"] + n * np.outer(mean, mean)[upper]]
        for values in agreed["common"]:
            parts.append(np.where(arrays["common"] == np.array(values, dtype=float), arrays["often"], 0))
        for key, classes in agreed["classes"].items():
            mine = answer.facts["classes"][key]
            counts, sums = np.zeros(len(classes)), np.zeros((len(classes), len(mean)))
            at = [classes.index(c) for c in mine]
            counts[at] = arrays[f"{key}/counts"]
            sums[at] = counts[at][:, None] * arrays[f"{key}/means"]
            parts += [counts, sums.reshape(-1)]
        return np.concatenate(parts)

    def total(self, numbers: np.ndarray, agreed: Mapping[str, Any], records: int, within: Any) -> Message:
        width = len(agreed["common"][0])
        sizes = [width, width * (width + 1) // 2, width, width]
        for classes in agreed["classes"].values():
            sizes += [len(classes), len(classes) * width]
        if numbers.size != sum(sizes):
            raise ProtocolError(f"nodes summed {numbers.size} numbers, expected {sum(sizes)} of {width} columns")
        first, second, *parts = np.split(numbers, np.cumsum(sizes)[:-1])
        mean = first / records
        arrays = {"mean": mean, "scatter": second - records * np.outer(mean, mean)[np.triu_indices(width)]}
        often = np.rint(parts[:2])
        values, more = np.array(agreed["common"], dtype=float), often.argmax(axis=0)
        arrays |= {"common": values[more, np.arange(width)], "often": often.max(axis=0)}
        known = {}
        for key, counts, sums in zip(agreed["classes"], parts[2::2], parts[3::2], strict=True):
            here = np.flatnonzero(np.rint(counts) > 0)  # a class may have left with the one node that had it
            known[key] = [agreed["classes"][key][i] for i in here]
            arrays[f"{key}/counts"] = np.rint(counts[here]).astype(np.int64)
            arrays[f"{key}/means"] = sums.reshape(-1, width)[here] / arrays[f"{key}/counts"][:, None]
        return Message("sums", ALL, 0, {"records": records, "classes": known, "dp": agreed["dp"]}, arrays)


def _fits(told: Mapping[str, Any]) -> bool:
    classes, common = told.get("classes"), told.get("common")
    return (
        isinstance(classes, dict)
        and isinstance(told.get("dp", {}), dict)
        and all(readable_classes(key, known) for key, known in classes.items())
        and isinstance(common, list)
        and all(v is None or isinstance(v, float | int) for v in common)
    )


def readable_classes(key: Any, known: Any) -> bool:
    """Whether a label column's name and classes, as a node told them, are what they should be."""
    plain = isinstance(known, list) and all(isinstance(c, str | int | float | bool) for c in known)
    return plain and str(key).split("/", 1)[0] in ROLES and "/" in key and len(set(known)) == len(known)
