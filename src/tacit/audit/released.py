"""What is audited: releases as arrays, the rows they belong to, and which of them were seen before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tacit.audit.received import received_pair
from tacit.errors import InputError
from tacit.filters.mechanism import mechanism_of
from tacit.labels import encode_labels
from tacit.records.dataset import Dataset


def released(release: Any, attack: Dataset, test: Dataset, alongside: Sequence[str] | None) -> tuple[Any, Any]:
    if release is None:
        Z = attack.X, test.X
    elif isinstance(release, (tuple, list)):
        if len(release) != 2:
            raise InputError(
                f"pass a pair of released arrays, one for `attack` and one for `test`; found {len(release)}"
            )
        Z = release[0], release[1]
    elif mechanism_of(release) is not None:  # noise is drawn for a person: say whose records these are
        Z = release.transform(attack.X, attack.units_of()), release.transform(test.X, test.units_of())
    elif hasattr(release, "transform"):
        Z = release.transform(attack.X), release.transform(test.X)
    else:
        raise InputError(
            f"{release!r} has no transform; pass a filter, a pair of released arrays, or None for raw data"
        )
    Z = received_pair(*Z)
    for part, data, word in ((Z[0], attack, "attack"), (Z[1], test, "test")):
        if len(part) != len(data):
            raise InputError(
                f"the release of `{word}` has {len(part)} rows but the data has {len(data)}; release every row once"
            )
    return with_side_columns(Z[0], attack, alongside), with_side_columns(Z[1], test, alongside)


def with_side_columns(Z: Any, data: Dataset, alongside: Sequence[str] | None) -> Any:
    """The release with the columns that travel beside it."""
    if not alongside:
        return Z
    if not isinstance(data.X, pd.DataFrame):
        raise InputError(
            f"alongside names {alongside[0]!r}, but X has no named columns; pass X as a DataFrame, or put the column "
            f"into the release yourself: tacit.audit((released_attack, released_test), ...)"
        )
    missing = [c for c in alongside if c not in data.X]
    if missing:
        label = next((s for s, f in (("a target", data.y), ("a secret", data.sensitive)) if missing[0] in f), None)
        remedy = (
            f"it is {label}; to send it along, put it into the released tables and audit those: "
            f"tacit.audit((released_attack, released_test), ...)"
            if label
            else f"the columns are {', '.join(map(str, data.X.columns))}"
        )
        raise InputError(f"alongside names {missing[0]!r}, which is no column of X: {remedy}")
    return pd.concat([plain_frame(Z), data.X[list(alongside)].reset_index(drop=True)], axis=1)


def seen(release: Any, data: Dataset) -> np.ndarray:
    """Rows (or whole units) that the filter was fitted on; a pipeline is asked through its filter."""
    X = data.X
    if hasattr(release, "named_steps"):
        for _, step in release.steps:
            if hasattr(step, "seen"):
                return step.seen(X, data.units_of())
            if hasattr(step, "transform"):
                X = step.transform(X)
    return release.seen(X, data.units_of()) if hasattr(release, "seen") else np.zeros(len(data), dtype=bool)


def can_tell(release: Any) -> bool:
    return hasattr(release, "seen") or any(hasattr(step, "seen") for _, step in getattr(release, "steps", []))


def has_noise(release: Any) -> bool:
    """Whether releases carry noise: our filters have a key for it, others may say so by ``noise``."""
    if hasattr(release, "noise_key"):
        return release.noise_key is not None
    return bool(getattr(release, "noise", None))


def crossing(attack: Dataset, test: Dataset) -> int:
    """How many units stand in both parts, for the unit that separates them most finely."""
    if attack.units is None or test.units is None:
        return 0
    return min(len(np.intersect1d(attack.units[k], test.units[k])) for k in attack.units)


def plain(Z: Any) -> Any:
    if isinstance(Z, pd.DataFrame):
        return Z.reset_index(drop=True).set_axis([str(c) for c in Z.columns], axis=1)
    array = np.asarray(Z.toarray() if hasattr(Z, "toarray") else Z)
    if array.dtype.kind in "OUS":
        return plain_frame(array)
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise InputError(
            f"the release has NaN or infinity in row {int(np.argwhere(~np.isfinite(array))[0][0])}; repair the filter"
        )
    return array[:, None] if array.ndim == 1 else array


def plain_frame(Z: Any) -> pd.DataFrame:
    if isinstance(Z, pd.DataFrame):
        return Z.reset_index(drop=True)
    array = np.asarray(Z)
    flat = array.reshape(len(array), -1)
    return pd.DataFrame(flat, columns=[f"z{i}" for i in range(flat.shape[1])])


def take_rows(Z: Any, rows: np.ndarray) -> Any:
    return (
        Z.iloc[np.flatnonzero(rows) if rows.dtype == bool else rows]
        if isinstance(Z, pd.DataFrame)
        else np.asarray(Z)[rows]
    )


def stack_rows(parts: list[Any]) -> Any:
    return pd.concat(parts, ignore_index=True) if isinstance(parts[0], pd.DataFrame) else np.concatenate(parts)


def join_parts(parts: list[Dataset]) -> Dataset | None:
    if not parts:
        return None
    first = parts[0]
    units = None if first.units is None else {k: np.concatenate([p.units[k] for p in parts]) for k in first.units}
    return Dataset(
        stack_rows([p.X for p in parts]),
        pd.concat([p.y for p in parts]),
        pd.concat([p.sensitive for p in parts]),
        units,
        first.name,
        first.modality,
    )


def known_classes(frames: Sequence[pd.DataFrame], column: str) -> tuple[np.ndarray, ...]:
    both = pd.concat([f[[column]] for f in frames], ignore_index=True)
    return encode_labels(both, column, len(both), min_classes=1).classes


def check_pair(attack: Dataset, test: Dataset) -> None:
    for part, word in ((attack, "attack"), (test, "test")):
        if not isinstance(part, Dataset):
            raise InputError(f"`{word}` is a {type(part).__name__}; pass a tacit.Dataset (X with targets and secrets)")
    if (attack.units is None) != (test.units is None):
        raise InputError(
            "only one of `attack` and `test` has units; give both the same kind, or records count as people"
        )
    for side in ("y", "sensitive"):
        a, t = list(getattr(attack, side).columns), list(getattr(test, side).columns)
        if a != t:
            raise InputError(f"`attack` has the {side} columns {a} but `test` has {t}; use parts of one data set")


def name_of(release: Any) -> str:
    if release is None:
        return "raw data"
    return "released arrays" if isinstance(release, (tuple, list)) else type(release).__name__
