"""What the codebook's tables say, in sentences that are recomputed from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from papers.common.conclusions import Reading
from papers.common.shown import shown
from papers.common.tables import dominated


def more_income_at_no_more_leakage(read: Reading) -> str:
    names = [f"{kind} code, weight {w}" for kind in ("posterior", "MLP") for w in (1, 3, 10)]
    gains = [read.ours(n, "income, accuracy").value - PROTOTYPE[n][0] for n in names]
    leaks = [read.leak(f"CodebookFilter, {n}", "sex").value - PROTOTYPE[n][1] for n in names]
    read.holds(min(gains) > 0)
    read.holds(max(leaks) < 0.02)
    return (
        f"The six learned codes keep {shown(min(gains))} to {shown(max(gains))} more income than the prototype's of "
        f"the same weight, and leak {shown(min(leaks))} to {shown(max(leaks))} more. A weight does not mean quite what "
        f"it meant there, the training differs: compare pairs of accuracy and leakage{read.few}."
    )


def two_cells_are_best_in_accuracy_and_poor_in_auc(read: Reading) -> str:
    closed, code = "closed code, weight 0.1", "posterior code, weight 3"
    kept = [read.ours(n, "income, accuracy") for n in (closed, code)]
    auc = [read.ours(n, "income, AUC") for n in (closed, code)]
    bound = [read.ours(n, "sex, certified") for n in (closed, code)]
    read.holds(bound[0].value < bound[1].value)
    read.holds(auc[0].value < auc[1].value)
    return (
        f"The two-cell rule (*closed*, weight .1) keeps {kept[0]} of income under a bound of {bound[0]} where sixteen "
        f"cells (*posterior*, weight 3) keep {kept[1]} under {bound[1]}. It says less of who is likelier than who: its "
        f"AUC is {auc[0]} against {auc[1]}{read.few}. Both are shown."
    )


def no_attacker_passes_its_bound(read: Reading) -> str:
    bounded = [line for line in read.lines() if line["certificate"] is not None]
    nearest = min(line["certificate"] - line["leakage"]["value"] for line in bounded)
    read.holds(nearest >= 0)
    return (
        f"No attacker of ours passes the bound of its release; the nearest comes to within {shown(nearest)}{read.few}."
    )


def asked_for_and_met(read: Reading) -> str:
    rows = read.rows(3)
    met = [_met(r["printed"], r["ours"] if r["adaptive"] is None else r["adaptive"]) for r in rows if r["printed"]]
    over = [r["interval"][1] for r in rows if _limit(r) is not None and r["interval"][1] > _limit(r)]
    read.holds(all(met))
    read.holds(len(over) <= 2)
    worst = f"; the highest of a seed is {shown(max(over))}" if over else ""
    return f"All {len(met)} figures that were asked for are met by the median of three seeds{worst}."


def digits_close_to_label_only(read: Reading) -> str:
    floor = read.lines()[0]["label_only"]
    free, tied = (read.leak(f"CodebookFilter, weight {w}", "digit") for w in ("0", "1"))
    loose, held = (read.kept(f"CodebookFilter, weight {w}", "parity") for w in ("0", "3"))
    read.holds(free.value > floor["value"])
    read.holds(abs(tied.value - floor["value"]) < 0.02)
    read.holds(abs(held.value - loose.value) < 0.02)
    return (
        f"Label-only is nearly all one can do here: weight 1 leaks {tied} where label-only leaks "
        f"{shown(floor['value'])} (guessing .100). Without a weight the code leaks {free} and keeps {loose} of parity; "
        f"weight 3 keeps {held}."
    )


def as_good_as_label_only(read: Reading) -> str:
    data = [r["what"].partition(", label-only")[0] for r in read.rows(1) if r["what"].endswith(", label-only")]
    names = list(dict.fromkeys(data))
    good = [n for n in names if any(r["what"].startswith(f"{n}, code") for r in read.rows(1))]
    read.holds(len(good) == len(names))
    return f"On all {len(names)} sets some setting of the code is as good as label-only on both axes (one seed)."


def training_rows_leak_little_more(read: Reading) -> str:
    by_name: dict[str, dict[str, float]] = {}
    for row in read.rows(3):
        by_name.setdefault(row["what"], {})[row["measure"].partition(" (")[0].split(", ", 2)[2]] = row["adaptive"]
    more = sum(v["training, transform"] > v["fresh"] for v in by_name.values())
    less = sum(v["training, out of fold"] < v["training, transform"] for v in by_name.values())
    widest = max(abs(v["training, transform"] - v["fresh"]) for v in by_name.values())
    read.holds(more > len(by_name) / 2)
    read.holds(less > len(by_name) / 2)
    return (
        f"Of {len(by_name)} pairs training rows leak more than fresh ones in {more}, by at most {shown(widest)} either "
        f"way: less than the intervals tell apart. Out of fold {less} of {len(by_name)} leak less than by `transform`."
    )


def who_is_dominated(read: Reading) -> str:
    count = taken(read.lines())
    worst = [m for m in ("raw data", "PCA, d=10", "autoencoder, d=8", "LEACE") if m in count]
    read.holds(min(count[m][0] for m in worst) >= 5)
    read.holds(max(count[m][0] for m in ("codebook", "codebook, closed")) == 0)
    told = ", ".join(f"{m} on {c} of {n}" for m, (c, n) in count.items() if c)
    return f"Label-only dominates (one seed): {told} tables; the codebook nowhere."


def taken(lines: list[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """By method of the grid: on how many tables label-only dominates it, of how many that it takes."""
    methods = dict.fromkeys(line["method"] for line in lines if line["method"] != "label-only")
    of = {m: [dominated(line) for line in lines if line["method"] == m] for m in methods}
    return {m: (sum(found), len(found)) for m, found in of.items()}


def _limit(row: Mapping[str, Any]) -> float | None:
    words = str(row["printed"]).split()
    return float(words[-1]) if words[:2] == ["at", "most"] else None


def _met(asked: str, found: float) -> bool:
    limit = float(asked.split()[-1])
    return round(found, 3) >= limit if asked.startswith("at least") else round(found, 3) <= limit


# income accuracy and sex, balanced, of the notes' prototype (one seed)
PROTOTYPE = {
    "posterior code, weight 1": (0.862, 0.575), "posterior code, weight 3": (0.855, 0.536),
    "posterior code, weight 10": (0.842, 0.510), "MLP code, weight 1": (0.844, 0.58),
    "MLP code, weight 3": (0.836, 0.54), "MLP code, weight 10": (0.827, 0.51),
}  # fmt: skip
CONCLUSIONS = {
    "adult": [
        more_income_at_no_more_leakage,
        two_cells_are_best_in_accuracy_and_poor_in_auc,
        no_attacker_passes_its_bound,
    ],
    "claims": [asked_for_and_met],
    "digits": [digits_close_to_label_only, no_attacker_passes_its_bound],
    "floor": [as_good_as_label_only],
    "training-rows": [training_rows_leak_little_more],
    "everywhere": [who_is_dominated, no_attacker_passes_its_bound],
}
