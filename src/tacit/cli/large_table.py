"""`tacit fit` on a table that is too large to hold: fitted and audited on a sample, released in a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.markup import escape

import tacit
from tacit.cli.ledger_command import Book
from tacit.cli.tables import progress
from tacit.errors import InputError
from tacit.files import write_whole
from tacit.records.dataset import as_dataset
from tacit.records.sampling import Sample, may_exceed, read_sample
from tacit.release.arrow_columns import as_columns
from tacit.release.bulk import apply
from tacit.release.record_files import shuffle_parquet
from tacit.report.screen import Console


@dataclass(frozen=True, eq=False)
class LargeTable:
    """A table, and the rows of it that are held."""

    path: Path
    unit: str | None
    sample: Sample

    def data(
        self, target: Sequence[str], sensitive: Sequence[str], drop: Sequence[str], bins: Any, numeric: Any = None
    ) -> tacit.Dataset:
        """The rows that are held, each with its place in the whole table."""
        sample, name = self.sample, self.path.name
        return as_dataset(
            sample.table, name, target, sensitive, self.unit, drop, bins, rows=sample.rows, numeric=numeric
        )

    @property
    def note(self) -> str:
        """What the reader of a report must know."""
        held, total = len(self.sample.rows), self.sample.total
        by = "rows drawn by their number" if self.unit is None else f"whole units by the hash of {self.unit!r}"
        return (
            f"fitted and audited on a sample of {held:,} of the {total:,} rows of {self.path.name} "
            f"({100 * held / total:.2g} %; {by}); every other row is released by the same bundle, and what is said of "
            f"fresh rows holds for it as far as the sample is like the table"
        )

    def release(
        self, console: Console, chosen: Any, train: tacit.Dataset, bundle: Path, place: Path, shuffle: bool, jobs: int,
        aside: Path,
    ) -> int:  # fmt: skip
        """Rows of the fit by parts that did not see them, all others by the bundle, part by part; how many.

        Raw rows that do not fit go to the folder `aside`: they are not handed over.
        """
        opened = tacit.load(bundle)
        own = chosen.release_training_rows()
        cells = own.to_numpy(dtype=object) if isinstance(own, pd.DataFrame) else np.asarray(own)
        order = np.argsort(train.rows)
        instead = (train.rows[order], as_columns(opened, cells[order]))
        made = place.with_name(f".{place.stem}-in-order{place.suffix}") if shuffle else place
        with progress(console) as bar:
            task = bar.add_task(f"releasing {escape(self.path.name)}", total=self.sample.total)
            done = apply(
                bundle, self.path, made, noise_key=chosen.noise_key, unit=self.unit, on_error="quarantine", n_jobs=jobs,
                instead=instead, callback=lambda what, now, total: bar.update(task, completed=now),
            )  # fmt: skip
        if shuffle:
            shuffle_parquet(made, place)
            made.unlink()
        if done.quarantine is not None:
            kept = write_whole(aside / f"{place.name}.quarantine.jsonl", done.quarantine.read_bytes(), private=True)
            done.quarantine.unlink()
            told = f"{done.quarantined:,} rows do not fit what was learned and were set aside: {kept}"
            console.print(f"[yellow]note:[/yellow] {escape(told)}", highlight=False)
        return done.released

    def write_down(self, book: Book | None, bundle: Path, chosen: Any) -> None:
        """Write the release down in the ledger, or refuse it."""
        if book is not None:
            from tacit.ledger.recording import record_file  # only where it is asked for

            whose: dict[str, Any] = {"unit": self.unit, "noise_key": chosen.noise_key, "by": "fit", "way": "fit"}
            book.tell(record_file(book.ledger, book.to, bundle, self.path, self.path.stem.split(".")[0], **whose))


def large_table(
    console: Console, path: Path, unit: str | None, most: int, seed: int, chosen: Any, bins: int | None
) -> LargeTable | None:
    """The table with a sample of its rows, where it has more than this; else None, or all of a folder's rows."""
    if not may_exceed(path, most):
        return None
    with progress(console) as bar:
        bar.add_task(f"sampling {escape(path.name)}", total=None)
        found = LargeTable(path, unit, read_sample(path, unit, most, seed))
    if not found.sample.whole:
        if bins is not None and chosen.sees_sensitive:
            raise InputError(
                "--bins cuts columns that this filter looks at in every row, and a large table is released from its "
                "file; store the column as classes there"
            )
        console.print(f"[yellow]note:[/yellow] {escape(found.note)}", highlight=False)
    return found
