"""The folder that is handed over: what lies in it, what lies beside it, and how both are written and found again."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from rich.markup import escape

from tacit.errors import InputError
from tacit.files import replacing, write_whole
from tacit.records.csv_files import CsvFile
from tacit.records.table_files import DATABASE, EXCEL, kind_of, open_table
from tacit.release.bundle import read_manifest
from tacit.release.keys import key_folder, key_path
from tacit.release.record_files import write_parts
from tacit.report.screen import Console

HANDED_OVER = ("filter.tacit", "release.csv", "release.parquet", "release.npz", "released", "report.html", "audit.json")


@dataclass(frozen=True)
class Source:
    """What a release was made from: `tacit audit FOLDER` finds the raw rows by it. It never leaves the owner."""

    table: str
    target: list[str]
    sensitive: list[str]
    unit: str | None = None
    drop: list[str] | None = None
    bins: int | None = None
    sql: str | None = None
    seed: int = 0
    numeric: list[str] | None = None

    def write(self, keys: Path, bundle: Path) -> None:
        """Beside the keys, called by the bundle that it is of."""
        write_whole(self._place(keys, bundle), json.dumps(asdict(self), indent=1), private=True)

    @staticmethod
    def _place(keys: Path, bundle: Path) -> Path:
        return key_path(keys, read_manifest(bundle), "source").with_suffix(".json")

    @classmethod
    def read(cls, keys: Path, bundle: Path) -> Source | None:
        """The source of a bundle that lies in a folder of keys; None where there is none."""
        try:
            return cls(**json.loads(cls._place(keys, bundle).read_text()))
        except (OSError, ValueError, TypeError):
            return None


def checked_places(table: Path, out: Path, keys: Path | None) -> Path:
    """The folder for keys, if nothing of the owner's lies where it would be overwritten or handed over."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; name a folder for what is handed over")
    if table.parent.resolve() == out.resolve() and table.name in HANDED_OVER:
        raise InputError(f"{table} would be overwritten by what is released of it; name another folder (--out)")
    folder = key_folder(out, keys)
    for name in ("noise.key", "owner.key"):
        if (out / name).exists():
            raise InputError(f"{out / name} lies in the folder that is handed over; move it away, such as to {folder}")
    return folder


def found_key(bundle: Path, keys: Path, kind: str) -> Path | None:
    """A bundle's own key, where it lies in this folder."""
    place = key_path(keys, read_manifest(bundle), kind)
    return place if place.exists() else None


def tell_keys(console: Console, bundle: Path, folder: Path) -> None:
    """Say where the keys are. Those of earlier runs stay: what they released may still be out there."""
    told = {
        "owner": "Owner's key: {} (keep it: with it the bundle knows the rows it was fitted on)",
        "noise": "Noise key: {} (secret: whoever has it can take the noise off)",
    }
    for kind, text in told.items():
        if (place := found_key(bundle, folder, kind)) is not None:
            console.print(text.format(f"[bold]{escape(str(place))}[/bold]"), highlight=False)


def tell_files(
    console: Console, released: str, bundle: Path, last_day: Any, page: Path, quick: Path | None = None
) -> None:
    """What lies where; after a quick audit, how to have the whole."""
    text = f"{released}\nBundle, for new rows: [bold]{bundle}[/bold], expires: {last_day or 'never'}\n"
    console.print(f"{text}Report: [bold]{page}[/bold]", highlight=False, soft_wrap=True)
    if quick is not None:
        console.print(
            f"Audited quickly. The whole audit: [bold]tacit audit {quick}[/bold]", highlight=False, soft_wrap=True
        )


def write_release(released: Any, out: Path, table: Path, names: list[str], shuffle: bool) -> Path:
    """The release in the form of the file that came in, where it is a table of the same columns; else as Parquet.

    It is CSV of an Excel file too, where text that begins with = would be run.
    """
    released = shuffled(released) if shuffle else released
    as_it_came = kind_of(table) in ("text", "excel") and set(released.columns) <= set(names)
    if set(released.columns) <= set(names):
        released = released[[c for c in names if c in released]]
    if not as_it_came:
        place = out / "release.parquet"
        write_parts(place, iter(pa.Table.from_pandas(released, preserve_index=False).to_batches()))
        return place
    place, form = out / "release.csv", CsvFile(table) if kind_of(table) == "text" else None
    floats = released.select_dtypes("float")
    whole = [c for c in floats if (floats[c].dropna() % 1 == 0).all()]  # counts that had gaps, not 40.0
    with replacing(place) as partial:
        plain = released.astype(dict.fromkeys(whole, "Int64"))
        signs = {"sep": form.delimiter, "decimal": form.decimal} if form else {}
        plain.to_csv(partial, index=False, **signs)
    return place


@contextmanager
def as_file(source: Path, sql: str | None) -> Iterator[Path]:
    """A file that is released in a stream; what an Excel file or a query holds is written as one, for so long."""
    known = sql is not None or source.suffix.lower() in (*EXCEL, *DATABASE)
    if not known or not source.is_file():
        yield source
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / f"{source.name}.csv"
        open_table(source, sql).table.to_csv(place, index=False)
        yield place


def shuffled(released: pd.DataFrame) -> pd.DataFrame:
    return released.iloc[np.random.default_rng().permutation(len(released))].reset_index(drop=True)


def clear(out: Path) -> None:
    """Take away what an earlier run handed over: wherever this one is stopped, nothing of that is among its own."""
    for place in map(out.joinpath, HANDED_OVER):
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
