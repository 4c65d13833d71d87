"""Releases that are tables: numbers of values as cells again, in the types in which the columns came."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.errors import BundleError
from tacit.records.cells import as_array
from tacit.records.schema import TIMES

TEXTS, BOOLEANS = ("object", "string", "str", "category"), ("bool", "boolean")


def columns_out(
    output: Mapping[str, Any], codes: np.ndarray, records: Mapping[str, Any], good: np.ndarray, like: Any
) -> Any:
    """Released numbers (n, columns) as a table of cells, with the columns that are carried.

    Parameters
    ----------
    output : of the manifest
    records : raw columns, from which some are carried
    good : which of the records were released
    like : a DataFrame in whose types the columns leave; None: as an array of plain cells, times as text
    """
    cells = iter(zip(output["table"], output["types"], codes.T.astype(np.int64), strict=True))
    columns = {}
    for name in output["names"]:
        if name in output["carried"]:
            columns[name] = as_array(records[name])[good] if like is None else like[name].to_numpy()[good]
            continue
        values, kind, own = next(cells)
        if len(own) and not 0 <= own.min() <= own.max() < len(values):
            raise BundleError(f"the graph names a value of {name!r} that the manifest does not have")
        columns[name] = objects(values)[own] if like is None else _typed(values, kind, own, like, name)
    if like is not None:
        return sys.modules["pandas"].DataFrame(columns)
    table = np.empty((len(codes), len(columns)), dtype=object)
    for i, column in enumerate(columns.values()):
        table[:, i] = column
    return table


def _typed(values: list[Any], kind: str, codes: np.ndarray, like: Any, name: str) -> Any:
    """Values in the type of the column that came in; in their own where that cannot hold them."""
    pandas = sys.modules["pandas"]
    found = pandas.Series(values, dtype=object) if name in like or kind in TIMES else pandas.Series(values)
    if kind in TIMES:
        found = pandas.to_timedelta(found, unit="s") if kind == "duration" else pandas.to_datetime(found, utc=True)
    elif kind != "text":
        found = pandas.Series(values)
    dtype = like[name].dtype if name in like else found.dtype
    if (kind == "text") != (dtype.name in TEXTS) or (kind == "boolean") != (dtype.name in BOOLEANS):
        dtype = found.dtype
    if kind in ("day", "time"):
        zone = getattr(dtype, "tz", None)
        found = found.dt.tz_localize(None) if zone is None else found.dt.tz_convert(zone)
    try:
        typed = found.astype(dtype)
        found = typed if (typed.isna() == found.isna()).all() else found
    except (TypeError, ValueError):
        pass  # a column of integers that has a gap now, or came as text
    return found.iloc[codes].reset_index(drop=True)


def objects(values: list[Any]) -> np.ndarray:
    """Plain values as an array of objects."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
