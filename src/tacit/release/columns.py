"""Releases as Arrow columns: what bulk work, streams and user-defined functions of data engines share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tacit.release.runtime import Release, load


def arrow_udf(
    bundle: str | Path | Release, trusted_key: Any = None, *, noise_key: bytes | str | Path | None = None
) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """A function from record batches to released record batches, for engines that map over Arrow.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, tacit
    >>> data = tacit.load_dataset("quadrants", n=400)
    >>> f = tacit.baselines.LinearARL().fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     release = tacit.release.arrow_udf(tacit.save(f, f"{folder}/plane.tacit"))
    >>> release(pa.record_batch({"a": [0.5, 1.0], "b": [1.0, 2.0]})).num_rows
    2
    """
    release = bundle if isinstance(bundle, Release) else load(bundle, trusted_key, noise_key=noise_key)

    def released(batch: pa.RecordBatch) -> pa.RecordBatch:
        return as_columns(release, release.transform(Columns(batch)))

    return released


class Columns:
    """A record batch with the two words by which the schema knows an Arrow table."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self.column_names = batch.schema.names

    def __len__(self) -> int:
        return self.batch.num_rows

    def column(self, i: int) -> Any:
        return self.batch.column(i)


def as_columns(release: Release, out: np.ndarray) -> pa.RecordBatch:
    """What was released, one column for each number; windows and images are laid out flat."""
    names = [str(n) for n in release.get_feature_names_out()]
    if release.manifest["output"]["table"] is None:
        flat = np.ascontiguousarray(out.reshape(len(out), -1).T)
        return pa.record_batch([pa.array(column) for column in flat], names=names)
    # the types of the bundle's own table, so that a batch of gaps has the type of the others
    types = [pa.array(values).type for values in release.manifest["output"]["table"]]
    return pa.record_batch([pa.array(list(out[:, i]), type=t) for i, t in enumerate(types)], names=names)
