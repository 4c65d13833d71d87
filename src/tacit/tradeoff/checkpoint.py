"""The folder of a frontier: JSON and safetensors, each file whole or not there; never a pickle.

`plan.json` says what is traced. A point has two halves, each a pair of files of which the JSON is written last:
`trained` (weights, releases, certificates) and `audited` (results). A run that is killed at any moment and started
again does what is missing, and nothing else.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from tacit.auditing.received import plain
from tacit.errors import InputError
from tacit.files import replacing, write_whole
from tacit.records.dataset import Dataset

FORMAT = "tacit-frontier-2"


class Folder:
    """Reads and writes the halves of points."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.path} cannot be a folder ({error.strerror}); name another") from None

    def agree_on(self, plan: Mapping[str, Any]) -> dict[str, Any]:
        """Keep the plan, or refuse a folder that belongs to another; a resumed run repeats the old one's groups."""
        ours: dict[str, Any] = json.loads(json.dumps({"format": FORMAT, **plan}))
        path = self.path / "plan.json"
        if not path.exists():
            write_whole(path, json.dumps(ours, indent=1))
            return ours
        try:
            earlier: dict[str, Any] = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read ({error}); name another folder") from None
        if not isinstance(earlier, dict) or "groups" not in earlier:
            raise InputError(f"{path} is not a plan of a frontier; name another folder")
        for key in ours:
            # how points were grouped is kept from the first run: bits may depend on it
            if key != "groups" and earlier.get(key) != ours[key]:
                raise InputError(
                    f"{self.path} belongs to a frontier with other {key}; name another folder, or delete this one"
                )
        return earlier

    def has(self, half: str, number: int | str) -> bool:
        return self._json(half, number).exists()

    def write(self, half: str, number: int | str, arrays: Mapping[str, np.ndarray], told: Any) -> None:
        path = self._json(half, number).with_suffix(".safetensors")
        with replacing(path) as partial:
            save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()} or {"none": np.zeros(1)}, partial)
        write_whole(self._json(half, number), json.dumps(told, allow_nan=False))  # last: it says that all is there

    def read(self, half: str, number: int | str) -> tuple[dict[str, np.ndarray], Any]:
        path = self._json(half, number)
        try:
            return load_file(path.with_suffix(".safetensors")), json.loads(path.read_text())
        except (OSError, SafetensorError, ValueError) as error:
            raise InputError(
                f"{path.with_suffix('')}.* cannot be read ({error}); delete {path.name} and run again: what it holds "
                f"is done anew"
            ) from None

    def _json(self, half: str, number: int | str) -> Path:
        name = f"{number:03d}" if isinstance(number, int) else number
        return self.path / f"{name}-{half}.json"


def packed(Z: Any) -> np.ndarray:
    """A release as an array: its numbers, or the bytes of a table that holds more."""
    Z = plain(Z)
    if not isinstance(Z, pd.DataFrame) or (
        Z.dtypes.map(pd.api.types.is_numeric_dtype).all() and not Z.isna().any().any()
    ):
        return np.asarray(Z, dtype=np.float64)
    sink = io.BytesIO()
    Z.to_parquet(sink, index=False)
    return np.frombuffer(sink.getvalue(), dtype=np.uint8)


def unpacked(array: np.ndarray | None) -> Any:
    """What was packed."""
    return pd.read_parquet(io.BytesIO(array.tobytes())) if array is not None and array.dtype == np.uint8 else array


class Scratch:
    """A folder that is gone with the last who holds this: Python's own would warn of it, at the end of every run."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="tacit-frontier-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


def data_identity(*parts: Dataset) -> str:
    """One hash of the records, labels and units of these data sets."""
    whole = hashlib.sha256()
    for part in parts:
        for frame in (part.X, part.y, part.sensitive):
            if isinstance(frame, pd.DataFrame):
                whole.update("\0".join(map(str, frame.columns)).encode())
                whole.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
            else:
                whole.update(str(frame.shape).encode() + np.ascontiguousarray(frame).tobytes())
        for name, units in (part.units or {}).items():
            whole.update(name.encode() + pd.util.hash_array(pd.Series(units).astype(str).to_numpy()).tobytes())
    return whole.hexdigest()
