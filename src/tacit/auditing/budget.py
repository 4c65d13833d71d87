"""A time that is not to be passed by much: the most telling things come first, and what was left out is said."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tacit.errors import check_number


class Budget:
    """So many minutes from now on; None: as long as it takes.

    Examples
    --------
    >>> budget = Budget(minutes=None)
    >>> budget.run("a sum", lambda: 1 + 1, otherwise=0), budget.left_out
    (2, [])
    """

    def __init__(self, minutes: float | None = None) -> None:
        check_number("minutes", minutes, 0, optional=True)
        self.minutes, self.began = minutes, time.monotonic()
        self.left_out: list[str] = []

    @property
    def left(self) -> float:
        """Seconds."""
        return float("inf") if self.minutes is None else self.began + 60 * self.minutes - time.monotonic()

    @property
    def spent(self) -> bool:
        return self.left <= 0

    def run(self, what: str, measure: Callable[[], Any], otherwise: Any) -> Any:
        """Measure it, unless the time is over."""
        if self.spent:
            self.left_out.append(what)
            return otherwise
        return measure()

    def note(self) -> list[str]:
        """What a report says of it."""
        if not self.left_out:
            return []
        return [f"{self.minutes:g} minutes were given and are over; left out: {', '.join(self.left_out)}"]
