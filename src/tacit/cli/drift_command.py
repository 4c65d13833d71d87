"""`tacit drift`: count what a bundle releases of new rows, and say whether the population has moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import tacit
from tacit.errors import InputError
from tacit.records.dataset import read_file
from tacit.report.screen import Console


def run(
    console: Console,
    bundle: Path,
    new: Path,
    state: Path | None,
    unit: str | None,
    sensitive: list[str] | None,
    released: bool,
    key: Path | None,
) -> None:
    rows = _read(new)
    for column in (unit, *(sensitive or [])):
        if column is not None and column not in getattr(rows, "columns", ()):
            raise InputError(f"{new.name} has no column {column!r}; its columns are {', '.join(_columns(rows))}")
    found = tacit.drift(
        bundle,
        rows.drop(columns=[c for c in (unit, *(sensitive or [])) if c]) if released and (unit or sensitive) else rows,
        state,
        units=None if unit is None else rows[unit].to_numpy(),
        sensitive_features=rows[sensitive] if sensitive else None,
        released=released,
        noise_key=key,
    )
    console.print(str(found), highlight=False, markup=False, soft_wrap=True)
    found.require()


def _columns(rows: Any) -> list[str]:
    return [str(c) for c in getattr(rows, "columns", ["none (an npz holds an array)"])]


def _read(path: Path) -> Any:
    if path.suffix != ".npz":
        return read_file(path)
    if not path.exists():
        raise InputError(f"no file {path}; check the path")
    try:
        with np.load(path) as held:
            return held["X"]
    except (ValueError, KeyError, OSError) as error:
        raise InputError(f"{path.name} holds no array X ({error}); save one with np.savez(path, X=X)") from None
