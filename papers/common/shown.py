"""A number as the papers print it."""

from __future__ import annotations


def shown(value: float | str | None) -> str:
    """A number as the papers print it: .857; 1.23; 14.

    Examples
    --------
    >>> [shown(v) for v in (0.8571, 1.2345, 14, None, "below .07")]
    ['.857', '1.23', '14', '–', 'below .07']
    """
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:.0f}"
    text = f"{value:.3f}" if abs(value) < 1 else f"{value:.3g}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text
