"""A bundle in its owner's hands: with the owner's key it knows the rows it was fitted on."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from tacit.errors import InputError
from tacit.records.fingerprints import looked, sketched, sketched_units
from tacit.release.bundle import Bundle
from tacit.release.runtime import Release


class OwnRelease(Release):
    """A `Release` that tells, like the filter it came from, which records it has seen."""

    def __init__(self, bundle: Bundle, noise_key: Any = None, *, owner_key: bytes) -> None:
        super().__init__(bundle, noise_key)
        declared = self.manifest.get("sketch")
        if declared is None:
            raise InputError(
                f"{self.name} has no sketch of the rows it was fitted on (bundles before format 3 have none, nor have "
                f"filters learned on other machines); load it without owner_key"
            )
        self._owner_key = owner_key
        self._sketch = base64.b64decode(declared["entries"])
        self._looks = [(int(digits), int(column)) for digits, column in declared["looks"]]

    def seen(self, X: Any, units: Any = None) -> np.ndarray:
        """Which of these records equal a record of the fit (but for rounding or a time stamp), or are of its units."""
        declared = self.manifest["input"]
        names = [c["name"] for c in declared["columns"]] if declared["kind"] == "table" else None
        prints = looked(X, names, self._looks)
        seen = np.zeros(len(prints[0]), dtype=bool)
        for look in prints:
            seen |= sketched(look, self._sketch, self._owner_key)
        if units is not None:
            seen |= sketched_units(list(np.asarray(units).astype(str)), self._sketch, self._owner_key)
        return seen
