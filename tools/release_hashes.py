"""Print a hash of what every filter and baseline releases on fixed synthetic records, to compare two versions.

    python tools/release_hashes.py > after.json      (with PYTHONPATH at another checkout: before.json)

Noise is drawn under a fixed key. A changed hash must be explained in CHANGELOG.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sys
import warnings

import numpy as np
import pandas as pd

import tacit
from tacit.filters.registry import registered_filters
from tacit.testing import people

N = 300


def _digest(release: object) -> str:
    """Hash every value of a release, with its type."""
    h = hashlib.sha256()
    if isinstance(release, pd.DataFrame):
        for name in release.columns:
            h.update(f"{name}:".encode() + "|".join(map(repr, release[name].tolist())).encode())
    else:
        Z = np.ascontiguousarray(np.asarray(release))
        h.update(f"{Z.dtype}{Z.shape}".encode() + Z.tobytes())
    return h.hexdigest()[:16]


def _records(modality: str) -> tuple[object, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y, s = rng.integers(2, size=N), rng.integers(2, size=N)
    if modality == "windows":
        X = rng.standard_normal((N, 3, 64)) + y[:, None, None] + np.sin(np.arange(64) * (1 + s[:, None, None]))
        return X, y, s
    if modality == "images":
        pixels = rng.integers(0, 256, (N, 1, 16, 16), dtype=np.uint8)
        return pixels // (1 + y[:, None, None, None]).astype(np.uint8), y, s
    plane = tacit.load_dataset("quadrants", n=N, random_state=1)
    return plane.X, plane.y.iloc[:, 0].to_numpy(), plane.sensitive.iloc[:, 0].to_numpy()


def main() -> None:
    warnings.simplefilter("ignore")
    secrets.token_bytes = lambda n=32: bytes(range(n or 32))  # type: ignore[assignment]
    hashes: dict[str, str] = {}
    only = sys.argv[1:]
    for name, registered in registered_filters().items():
        for i, example in enumerate(registered.examples):
            if only and name not in only:
                continue
            table = people()
            inputs = {"synthetic": _records(registered.modality)}
            if registered.modality in ("people", "table"):
                inputs["people"] = (table.X, table.y, table.sensitive)
            if registered.modality == "people":
                del inputs["synthetic"]
            for what, (X, y, s) in inputs.items():
                f = registered.make(**example)
                if "random_state" in f.get_params():
                    f.set_params(random_state=0)
                more = {"sensitive_features": s, "y": y} if registered.modality == "people" else {}
                try:
                    release = f.fit(X, y, sensitive_features=s).transform(X, **more)
                    hashes[f"{name}-{i}-{what}"] = _digest(release)
                except Exception as error:
                    hashes[f"{name}-{i}-{what}"] = f"{type(error).__name__}: {str(error)[:90]}"
    X, y, s = _records("images")
    for name in () if only else ("BlurMask", "BlockMask", "Pixelate", "RandomMask"):
        mask = getattr(tacit.baselines, name)()
        hashes[name] = _digest(mask.fit(X, y, sensitive_features=s).transform(X))
    json.dump(hashes, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
