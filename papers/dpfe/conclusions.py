"""What DPFE's tables say, in sentences that are recomputed from them."""

from __future__ import annotations

from scipy import stats

from papers.common.conclusions import Figure, NotFoundError, Reading
from papers.common.shown import shown

PRINTED = "DPFE as printed"
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


def a_normal_law_says_otherwise(read: Reading) -> str:
    at = [r["what"] for r in read.rows(3) if r["measure"].startswith("nine in ten") and PRINTED in r["what"]]
    (named,) = [found(read, what, "nine in ten")[1] for what in at]
    law = stats.norm.sf((0.1 - 0.3) / 0.25)
    read.holds(abs(law - 0.788) < 0.001)
    read.holds(named.low <= 0.1)
    return (
        "Of Fig. 9 the paper says that a rank of mean .3 and deviation .25 is above .1 for 88 %. The normal law that "
        f"it reads this from gives {shown(float(law))}, and ranks are not normal. As printed, at the accuracy nearest "
        f"to .9, nine in ten have a rank of at least {named:interval} of all people, by our attackers."
    )


def cost_grows_with_the_cut(read: Reading) -> str:
    cuts = ("conv5_1", "conv6_1", "conv7", "all")
    counted = [found(read, f"up to {c}, in terms of conv4_2", "multiply-adds")[0] for c in cuts]
    took = [found(read, f"up to {c}, in terms of conv4_2", "time")[0] for c in cuts]
    for of in (counted, took):
        read.holds([f.value for f in of] == sorted(f.value for f in of))
    read.holds(counted[0].value > 1)
    more = found(read, "up to conv7, one core of a server (theirs: one core of a Nexus 6P)", "millions")[0]
    return (
        "The higher the cut, the more it costs, as printed. Up to conv7 are "
        f"{more} million multiply-adds an image, {counted[2]} times those up to conv4_2; the time is "
        f"{took[2]:interval} times (printed 1.91, on a telephone)."
    )


CONCLUSIONS = {"fig11": [cost_grows_with_the_cut]}
