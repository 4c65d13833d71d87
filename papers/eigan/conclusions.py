"""What EIGAN's tables say, in sentences that are recomputed from them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from papers.common.conclusions import Figure, Reading
from papers.common.shown import shown


def table(read: Reading, what: str, measure: str) -> Mapping[str, Any]:
    """The row of that name, its measure beginning so; its seeds are counted."""
    entry = read.results[read.experiment]
    told = len(entry["seeds"])
    rows = [r for r in read.rows(told) if r["what"] == what and r["measure"].startswith(measure)]
    read.holds(len(rows) == 1, f"one row {what!r}, {measure!r}")
    return rows[0]


def attacked(read: Reading, what: str, measure: str) -> Figure:
    """The attacker's column of a row."""
    row = table(read, what, measure)
    return Figure(row["adaptive"], *row["interval"])


def value(read: Reading, what: str, measure: str) -> Figure:
    """The column "ours" of a row."""
    return Figure(table(read, what, measure)["ours"])


# -- Fig. 7 to 9, 21: D-EIGAN -----------------------------------------------------------------------


def nodes_match_one_place(read: Reading) -> str:
    apart = {"colour, accuracy": 0.0, "shape, balanced": 0.0}
    for kind in ("unlike", "alike"):
        for k in range(2, 11):
            both = [f"{m}, K={k}, {kind} (5 seeds)" for m in ("EIGAN", "D-EIGAN")]
            for measure in apart:
                one, other = (table(read, w, measure) for w in both)
                column = "ours" if measure.startswith("colour") else "adaptive"
                apart[measure] = max(apart[measure], abs(one[column] - other[column]))
    few, many = (value(read, f"D-EIGAN, K={k}, unlike (5 seeds)", "colour") for k in (2, 10))
    read.holds(max(apart.values()) < 0.02)
    read.holds(many.value < few.value - 0.05)
    return (
        f"As printed, D-EIGAN matches EIGAN at every number of nodes: colour within "
        f"{shown(apart['colour, accuracy'])}, "
        f"shape within {shown(apart['shape, balanced'])}. With unlike nodes the ally falls from {few} (two nodes) to "
        f"{many} (ten), as each further node has more variance."
    )


def ten_nodes_need_longer(read: Reading) -> str:
    central, two, ten, longer = (
        value(read, w, "income, accuracy")
        for w in ("EIGAN (3 seeds)", "K=2 all (3 seeds)", "K=10 all (3 seeds)", "K=10 all, 60 epochs (3 seeds)")
    )
    read.holds(abs(two.value - central.value) < 0.01)
    read.holds(ten.value < central.value - 0.02)
    read.holds(central.value - longer.value < 0.01)
    return (
        f"Two alike nodes keep what EIGAN keeps ({two} against {central}), as printed. Ten unlike ones keep "
        f"{ten} in as "
        f"many epochs: a node has a tenth of the rows, so that its encoder takes a tenth of the steps. With "
        f"sixty epochs "
        f"they keep {longer}."
    )


def one_each_lets_more_through(read: Reading) -> str:
    more = {
        k: attacked(read, f"K={k} one each (3 seeds)", "sex").value
        - attacked(read, f"K={k} all (3 seeds)", "sex").value
        for k in (2, 10)
    }
    read.holds(min(more.values()) > 0.01)
    return (
        f"A node that hides one of the two secrets only lets more of sex through: {shown(more[2])} more with "
        f"two nodes, "
        f"{shown(more[10])} with ten. In print, too, (a) has a slight improvement over (b), which the paper "
        f"calls robust."
    )


def zero_filling_costs_the_ally(read: Reading) -> str:
    guess = 0.763
    literal = {phi: value(read, f"delta=2 phi={phi} paper (3 seeds)", "income") for phi in (0.2, 0.4, 0.6, 1.0)}
    ours = {phi: value(read, f"delta=2 phi={phi} unbiased (3 seeds)", "income") for phi in (0.2, 1.0)}
    read.holds(max(literal[phi].value for phi in (0.2, 0.4, 0.6)) < guess + 0.005)
    read.holds(literal[1.0].value > guess + 0.05)
    read.holds(ours[0.2].value > guess + 0.02)
    return (
        f"Counting what was not sent as 0 shrinks every weight: with phi of .6 and less nothing of the income "
        f"is kept "
        f"({literal[0.6]} at .6, guessing {shown(guess)}; {literal[1.0]} at 1). Averaged over those who sent "
        f"it, {ours[0.2]} are "
        f"kept at phi = .2 and {ours[1.0]} at 1."
    )


def no_gain_of_sending_less(read: Reading) -> str:
    for way in ("paper", "unbiased"):
        by = {
            phi: value(read, f"delta=2 phi={phi} {way} (3 seeds)", "income").value for phi in (0.2, 0.4, 0.6, 0.8, 1.0)
        }
        read.holds(by[1.0] == max(by.values()))
    deltas = [value(read, f"delta={d} phi=0.8 unbiased (3 seeds)", "income") for d in (1, 2, 3, 6)]
    read.holds(all(a.value > b.value for a, b in pairwise(deltas)))
    return (
        f"Print has the ally lose once phi reaches 1; here it keeps most at phi = 1, in both ways of averaging. "
        f"It is not "
        f"quite robust to delta either: {deltas[0]} with an exchange after every epoch, {deltas[-1]} after "
        f"every sixth."
    )


# -- what a node uploads ----------------------------------------------------------------------------


def a_part_of_the_weights_protects_little(read: Reading) -> str:
    one = {phi: attacked(read, f"phi={phi:g}, after 1 exchange", "which") for phi in (0.01, 0.05, 0.2, 0.5, 1.0)}
    five = {phi: attacked(read, f"phi={phi:g}, after 5 exchanges", "which") for phi in (0.01, 0.05, 0.2, 0.5, 1.0)}
    read.holds(one[1.0].low is not None and one[1.0].low > 0.6)
    read.holds(one[0.2].low is not None and one[0.2].low > 0.5)
    read.holds(one[0.01].value < one[0.2].value)
    read.holds(all(five[phi].value > one[phi].value for phi in one))
    read.holds(five[1.0].value - five[0.2].value < 0.05)
    read.holds(five[0.01].low is not None and five[0.01].low > 0.5)
    return (
        f"From a whole encoder after one exchange the server tells a node's population in {one[1.0]:interval} of "
        f"cases (guessing .500), from a fifth of it in {one[0.2]:interval}, from a hundredth in "
        f"{one[0.01]:interval}. Exchanges add up: after five it gets {five[1.0]:interval}, {five[0.2]:interval} and "
        f"{five[0.01]:interval}. So a small phi reduces what one look tells, as the paper says; a node that takes part "
        f"for longer it protects little, and a phi of .2 or more hardly at all."
    )


CONCLUSIONS = {
    "fig7": [nodes_match_one_place],
    "fig8": [ten_nodes_need_longer, one_each_lets_more_through],
    "fig9": [zero_filling_costs_the_ally, no_gain_of_sending_less],
    "uploads": [a_part_of_the_weights_protects_little],
}
