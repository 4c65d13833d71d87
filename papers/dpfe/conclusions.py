"""What DPFE's tables say, in sentences that are recomputed from them."""

from __future__ import annotations

from papers.common.conclusions import Figure, NotFoundError, Reading

LOG_RANK, NEAREST = "log-rank, mean gain", "1-NN error, mean gain"


def found(read: Reading, what: str, measure: str) -> tuple[Figure | None, Figure | None]:
    """Of the row that is called so, what the paper's reader finds and what our attackers find."""
    rows = [r for r in read.rows(3) if r["what"] == what and r["measure"].startswith(measure)]
    if len(rows) != 1:
        raise NotFoundError(f"{len(rows)} rows of {read.experiment} are called {what!r}, {measure!r}")
    (row,) = rows
    low, high = row["interval"] or (None, None)
    strong = row["adaptive"] is not None
    ours = None if row["ours"] is None else read.figure(row["ours"], 3, *((None, None) if strong else (low, high)))
    return ours, read.figure(row["adaptive"], 3, low, high) if strong else None
