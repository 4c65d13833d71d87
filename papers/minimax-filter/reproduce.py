"""Section 5 of Hamm (2015), "Preserving privacy of continuous high-dimensional data with minimax filters".

The paper's protocol is in `in_print`: filter and evaluator, a logistic regression, learn from the same training rows.
`adaptive` is ours: the same filter (`rows.py`) learns from some rows, attackers of several families from others, and
both are measured on a third part; windows of one bout never stand in two parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

import tacit
from papers.common.run import Run, by_attacker, honest, together
from papers.common.shown import shown

from . import later, personal, protocol
from .panels import draw
from .rows import LINEAR, OURS, PRINTED, SECOND, fresh_split, maker, split

Words = tuple[str | None, str | None]  # what the paper's text says of a method's target and secret
WITHOUT_D = (SECOND, "DDD")


def fig2(run: Run) -> None:
    """5.1: 1740 faces of 16x16 pixels to learn from, 200 to test (the paper's text says 100)."""
    minimax = ("highest", "almost chance, .5")
    printed = {PRINTED: minimax, OURS: minimax} | dict.fromkeys(("random", "PCA"), (None, "not reduced"))
    printed |= dict.fromkeys(("PPLS, as printed", "PPLS, ours"), (None, "not very successful"))
    printed[SECOND] = ("highest, slightly above the linear", "almost chance, slightly above the linear")
    printed["DDD"] = ("close to minimax", "almost chance, .5")
    tradeoff(run, "smile", "gender", lambda method, d: printed[method])


def fig3(run: Run) -> None:
    """5.2: mean, max, min and deviation of 13 MFCCs of an utterance; 80 % of each speaker's for training."""
    printed: dict[str, Words] = dict.fromkeys((PRINTED, OURS), ("as the others'", "near chance, .02 of 43"))
    printed |= dict.fromkeys(("random", "PCA"), (None, ".4 to .6"))
    tradeoff(run, "happy", "speaker", lambda method, d: printed.get(method, (None, None)))


def fig4(run: Run) -> None:
    """5.3: 561 features of a window; 15 of 30 people; a random half of each one's windows for training."""

    def said(method: str, d: int) -> Words:
        if method in (PRINTED, OURS):
            return "much higher than others" if d <= 20 else "comparable to others", "close to chance, .067"
        return None, "above minimax" if method.startswith("PPLS") else ".2 to .7"

    tradeoff(run, "activity", "subject", said)


EXPERIMENTS: dict[str, Callable[[Run], None]] = {
    "fig2": fig2,
    "fig3": fig3,
    "fig4": fig4,
    "fig5": personal.fig5,
    "orders": personal.orders,
    "ppls": later.ppls,
    "noisy": later.noisy,
    "reconstruction": later.reconstruction,
    "constrained": later.constrained,
    "bound": later.bound,
}


# -- one comparison: methods x dimensions ------------------------------------------------------------


def tradeoff(run: Run, target: str, secret: str, said: Callable[[str, int], Words]) -> None:
    s = run.settings
    part, steps, extra = s["part"], s["steps"], list(s["without_d"])
    by_d = {
        d: [run.part(f"d={d} seed {seed}", in_print, part, list(LINEAR), d, seed, steps) for seed in run.seeds]
        for d in s["dims"]
    }
    alone = [run.part(f"without d, seed {seed}", in_print, part, extra, 10, seed, steps) for seed in run.seeds]
    told = {d: {m: over_trials([r[m] for r in found]) for m in LINEAR} for d, found in by_d.items()}
    others = {m: over_trials([r[m] for r in alone]) for m in extra}

    def audits(name: str, d: int, attackers: list[str]) -> list[dict[str, Any]]:
        at = name if name in (*WITHOUT_D, "raw data") else f"{name} d={d}"
        return [run.part(f"audit {at} seed {seed}", adaptive, part, name, d, seed, steps, attackers)
                for seed in range(s["audits"])]  # fmt: skip

    first = s["dims"][0]
    attacked = {(m, d): audits(m, d, s["attackers"]) for d in s["dims"] for m in (PRINTED, OURS)}
    attacked |= {(m, first): audits(m, first, s["attackers"]) for m in extra}
    attacked |= {(m, first): audits(m, first, s["attackers"]) for m in s["references"]}

    guessing = run.part("guessing", guessed, part, target, secret)
    for d in s["dims"]:
        for method, row in told[d].items():
            tell(run, f"{method}, d={d}", row, said(method, d), target, secret, guessing, attacked.get((method, d)))
    for method, row in others.items():
        tell(run, method, row, said(method, first), target, secret, guessing, attacked[method, first])
    floor = attacked.get(("raw data", first))
    for (method, d), found in attacked.items():
        name = method if method in (*WITHOUT_D, "raw data") else f"{method} d={d}"
        run.audited(name, s["needs"][0], found, floor=together(floor or found))
    reads = {key: together(found) for key, found in attacked.items()}
    run.figure(run.experiment, draw(told, others, reads, target, secret, guessing, tuple(s["y"])))


def tell(
    run: Run, at: str, row: dict[str, Any], printed: Words, target: str, secret: str, guessing: Any, audits: Any
) -> None:
    """Two rows of the table: what the release keeps and what it gives away."""
    trials = f"± {shown(row['target_sd'])}, {{}} trials; guessing {{}}"
    run.row(at, f"{target}, accuracy ({trials.format(row['trials'], shown(guessing[target]))})",
            printed[0], row["target"])  # fmt: skip
    found = together(audits)["leakage"][secret] if audits else None
    more = f"; attacker: balanced, {shown(found['guessing'])}, {found['seeds']} seeds" if found else ""
    trials = f"± {shown(row['secret_sd'])}, {row['trials']} trials; guessing {shown(guessing[secret])}"
    run.row(at, f"{secret}, accuracy ({trials}{more})", printed[1], row["secret"], **by_attacker(found))


def over_trials(found: list[dict[str, float]]) -> dict[str, float]:
    """Mean and standard deviation over trials."""
    table = pd.DataFrame(found)[["target", "secret"]]
    deviation = {f"{k}_sd": float(table[k].std(ddof=min(1, len(table) - 1))) for k in table}
    return {**table.mean().to_dict(), **deviation, "trials": len(table)}


def guessed(part: str, target: str, secret: str) -> dict[str, float]:
    """Accuracy on test rows of always saying the training rows' commonest class."""
    train, test = protocol.SPLITS[part](0)
    labels = [pd.concat([d.y, d.sensitive], axis=1)[[target, secret]].astype(str) for d in (train, test)]
    return (labels[1] == labels[0].mode().iloc[0]).mean().to_dict()


def in_print(part: str, names: list[str], d: int, seed: int, steps: dict[str, int]) -> dict[str, dict[str, float]]:
    """The paper's measurement of every method: accuracy of a logistic regression on the release."""
    train, test = split(part, seed)
    made = {name: protocol.fitted(maker(name, part, d, steps)(seed, train), train) for name in names}
    found = {name: protocol.evaluate(f, train, test) for name, f in made.items()}
    told = {name: {k: round(row[k], 5) for k in ("target", "secret")} for name, row in found.items()}
    ends = {name: (f.n_iter_, f.stopped_) for name, f in made.items() if isinstance(f, tacit.MinimaxFilter)}
    return {name: {**row, "ended": ends[name]} if name in ends else row for name, row in told.items()}


def adaptive(part: str, name: str, d: int, seed: int, steps: dict[str, int], attackers: list[str]) -> dict[str, Any]:
    """Fresh attackers on rows the filter never saw. With the raw data also the label-only floor."""
    train, attack, test = fresh_split(part, seed)
    floor = name == "raw data"
    release = None if floor else protocol.fitted(maker(name, part, d, steps)(seed, train), train)
    return honest(
        tacit.audit(
            release,
            attack,
            test,
            attackers,
            measurements=["no-limit"] if floor else ["no-baseline"],
            random_state=seed,
            options=tacit.AuditOptions(pooled=()),
        )
    )
