"""Count released values, and compare the counts with those of an earlier audit.

A finite release is counted as a whole, a table column by column, numbers between the deciles of each of at most
`MOST_COLUMNS` of them, evenly spaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tacit.auditing.drift import compare_counts
from tacit.auditing.population import COIN
from tacit.auditing.received import plain_frame
from tacit.auditing.trial import Trial
from tacit.errors import InputError
from tacit.filters.mechanism import mechanism_of
from tacit.report.released import FEWEST, Released, ReleasedColumn

MOST_VALUES = 256  # that are counted apart
MOST_COLUMNS = 32
STRETCHES = 10
WHOLE = "release"


def count_released(trial: Trial) -> Released | None:
    """Count the values that were released of both parts of a trial; None for raw data.

    Columns that travel with the release are not counted.
    """
    table = _released_table(trial)
    if table is None:
        return None
    whole = trial.cells is not None and not trial.settings.alongside
    if not whole and table.shape[1] > MOST_COLUMNS and not carried_columns(trial.release):
        table = table.iloc[:, np.linspace(0, table.shape[1] - 1, MOST_COLUMNS).astype(int)]
    names = tuple(map(str, table.columns))
    return Released(
        names, whole, {WHOLE: _count_texts(row_texts(table))} if whole else {n: _count_column(table[n]) for n in names}
    )


def changed_since(before: Released, trial: Trial, level: float) -> dict[str, float]:
    """Return the released columns whose values are distributed otherwise than in an earlier audit, with p-values.

    Parameters
    ----------
    before : counts of the earlier audit of the same release mechanism
    trial : the rows of this audit; they must be other rows, or the comparison is too cautious
    level : confidence that no unchanged column is named (p-values are multiplied by the number of columns)

    Raises
    ------
    InputError : the release does not have the columns that were counted
    """
    table = _released_table(trial)
    if table is None:
        return {}
    found: dict[str, float] = {}
    codes = released_codes(before, table)
    for i, (name, column) in enumerate(before.columns.items()):
        p = compare_counts(column.counts, np.bincount(codes[:, i], minlength=len(column.counts))) * len(before.columns)
        found |= {name: p} if p <= 1 - level else {}
    return found


def _released_table(trial: Trial) -> pd.DataFrame | None:
    """The released values of one record per unit; None where there are none."""
    if trial.release is None:
        return None
    table = pd.concat([f.set_axis(list(map(str, f.columns)), axis=1) for f in trial.frames], ignore_index=True)
    table = table.iloc[:, : table.shape[1] - len(trial.settings.alongside)]
    carried = carried_columns(trial.release)
    table = table[[c for c in table if c not in carried]]
    units = None if trial.attack.units is None else np.concatenate([d.units_of() for d in trial.data])
    return table.iloc[one_of_each(units, len(table))] if table.shape[1] else None


def released_codes(released: Released, Z: Any) -> np.ndarray:
    """(n, columns) which of the counted values each release has; the last number of a column is any other."""
    table = plain_frame(Z)
    table = table.set_axis(list(map(str, table.columns)), axis=1)
    if all(n in table for n in released.names):
        table = table[list(released.names)]
    elif table.shape[1] == len(released.names):
        table = table.set_axis(list(released.names), axis=1)
    else:
        absent = next(n for n in released.names if n not in table)
        raise InputError(
            f"the released rows have no column {absent!r}; their columns are {', '.join(table.columns)}. Pass rows "
            f"that this bundle released, or raw rows for it to release"
        )
    if released.whole:
        return _coded(released.columns[WHOLE], row_texts(table))[:, None]
    return np.column_stack([_coded_column(released.columns[n], table[n]) for n in released.names])


def one_of_each(units: Any, n: int) -> np.ndarray:
    """The rows of one record of every unit, drawn by a coin that knows nothing of them; all rows without units."""
    if units is None:
        return np.arange(n)
    order = np.random.default_rng(COIN).permutation(n)
    first = np.unique(np.asarray(pd.factorize(np.asarray(units))[0])[order], return_index=True)[1]
    return np.sort(order[first])


def row_texts(table: pd.DataFrame) -> np.ndarray:
    """Every row as one text: that of its only column, else of all of them."""
    columns = [_texts(table[name]) for name in table]
    if len(columns) == 1:
        return columns[0]
    codes = [pd.factorize(c) for c in columns]
    which, rows = np.unique(np.column_stack([c for c, _ in codes]), axis=0, return_inverse=True)
    texts = [" | ".join(found[i] for i, (_, found) in zip(row, codes, strict=True)) for row in which]
    return np.array(texts, dtype=object)[rows.ravel()]


def carried_columns(release: Any) -> Sequence[str]:
    """Columns that a release carries along as they are, such as keys: nothing is learned of them, nothing counted."""
    mechanism = mechanism_of(release)
    if hasattr(mechanism, "manifest"):
        return list(mechanism.manifest["output"].get("carried") or ())
    return list(getattr(getattr(mechanism, "schema", None), "carried", ()))


def _texts(values: pd.Series) -> np.ndarray:
    which, found = pd.factorize(values, use_na_sentinel=False)
    return np.array([_text(v) for v in found], dtype=object)[which]


def _text(value: Any) -> str:
    """A value as text that is the same in memory and in a file."""
    if pd.isna(value):
        return ""
    try:
        return f"{float(value) + 0.0:.6g}"  # the graph is of single precision
    except (TypeError, ValueError):
        return str(value).removesuffix(" 00:00:00")


def _count_column(values: pd.Series) -> ReleasedColumn:
    numbers = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    if not numbers or values.nunique() <= min(MOST_VALUES, len(values) / 2):
        return _count_texts(_texts(values))
    x = values.dropna().to_numpy(dtype=np.float64)
    cuts = np.quantile(x, np.arange(1, STRETCHES) / STRETCHES)
    column = ReleasedColumn((), edges=tuple(sorted({float(f"{c:.4g}") for c in cuts})))
    return ReleasedColumn(_counted(column, _coded_column(column, values)), edges=column.edges)


def _count_texts(texts: np.ndarray) -> ReleasedColumn:
    found = pd.Series(texts).value_counts().head(MOST_VALUES)
    column = ReleasedColumn((), values=tuple(sorted(found.index[found >= FEWEST])))
    return ReleasedColumn(_counted(column, _coded(column, texts)), values=column.values)


def _counted(column: ReleasedColumn, codes: np.ndarray) -> tuple[int, ...]:
    return tuple(np.bincount(codes, minlength=_size(column)).tolist())


def _size(column: ReleasedColumn) -> int:
    """How many values are counted, all others being the last."""
    return len(column.edges) + 2 if column.edges else len(column.values) + 1


def _coded(column: ReleasedColumn, texts: np.ndarray) -> np.ndarray:
    found = pd.Index(column.values).get_indexer(pd.Index(texts)) if column.values else np.full(len(texts), -1)
    return np.where(found < 0, len(column.values), found)


def _coded_column(column: ReleasedColumn, values: pd.Series) -> np.ndarray:
    if not column.edges:
        return _coded(column, _texts(values))
    x = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isnan(x), len(column.edges) + 1, np.searchsorted(column.edges, x))
