"""The audit: attackers trained on released data, measurements, and certificates for finite releases."""

from __future__ import annotations

import pkgutil
from pathlib import Path

REGISTERED_NAMES: set[str] = set()  # of measurements registered so far; see `tacit.auditing.measurements`


def measurement_names() -> list[str]:
    """Return the names of all measurements, without importing their modules."""
    folder = Path(__file__).parent / "measurements"
    return sorted({*REGISTERED_NAMES, *(module.name for module in pkgutil.iter_modules([str(folder)]))})
