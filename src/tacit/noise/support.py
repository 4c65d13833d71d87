"""What a release can be: the two kinds of support from which a certificate can be made. Standard library alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finite:
    """The release is one of finitely many things, so a certificate counts them.

    Attributes
    ----------
    codes : how many code numbers there are, where the release is such a number; else None
    cells : how many different releases there are, where that is known
    """

    codes: int | None = None
    cells: int | None = None


@dataclass(frozen=True)
class Bounded:
    """A bounded code under noise that is added to it.

    Attributes
    ----------
    radius : of the L1 ball the code is clipped into, where that gives every release local privacy
    """

    radius: float | None = None

    def epsilon(self, scale: float) -> float | None:
        """Under Laplace noise of this scale no release is more than e^epsilon times as likely for another record."""
        return None if self.radius is None else 2 * self.radius / scale


Support = Finite | Bounded | None
