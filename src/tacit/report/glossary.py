"""The words of reports and messages, each explained once: for pages (one hover away), `tacit glossary` and the docs."""

from __future__ import annotations

import difflib

from tacit.errors import InputError

GLOSSARY = {
    "release": "What leaves your hands: the filter's output, after any noise or rounding.",
    "filter": "The learned transformation that makes a release out of a record.",
    "target": "What must keep working: a column that models still have to tell from the release.",
    "sensitive": "What must not be recoverable from the release.",
    "leakage": (
        "How well the best attacker we trained tells the sensitive attribute from releases it did not learn from. "
        "Guessing is the least there can be."
    ),
    "utility": "How well a model that learns from releases tells a target.",
    "guessing": "What somebody gets who sees no release: the least that any figure can be compared with.",
    "balanced accuracy": (
        "The share of right answers when every class is as common as every other, so that always naming the "
        "commonest class gains nothing. Of two classes guessing gives .500."
    ),
    "R²": (
        "Of a number: the share of how much it differs between people that a guess explains. 0 is guessing, 1 is "
        "knowing it."
    ),
    "mean error": "Of a number: how far a guess is off on average, beside that of always naming the median.",
    "rank correlation": "Of a number: how well guesses put people in order, from 0 (not at all) to 1 (Spearman's).",
    "attacker": "A model trained afresh on released rows to tell the sensitive attribute from a release.",
    "audited": (
        "Attackers were trained and this is how far they got. It was measured, not proved: a cleverer one may get "
        "further."
    ),
    "certified": (
        "No attacker, however clever, does better on average on one release of a new person who is like those counted, "
        "if they know nothing else about that person. Wrong in at most 5 of 100 such statements."
    ),
    "none": "No figure exists, for the reason that is told. It is no promise.",
    "interval": "The range that holds the true value with the stated confidence.",
    "label-only": "Releasing nothing but the predicted target: the floor that every release is compared with.",
    "dominated": "Another release is as useful and leaks less, both beyond chance: there is no reason to use this one.",
    "odds": "How far one single release can move anybody's betting odds, in the worst case, not on average.",
    "breadth": "How much of every column can still be told from the release: 0 as by guessing, 1 as from raw rows.",
    "unit": "The independent thing a release is about: a person, a visit. Rows of one unit belong together.",
    "linkability": "Whether two releases can be told to be of one person.",
    "singling out": "Whether something in the release picks out one person alone.",
    "inference": "Whether something sensitive can be told about a person.",
    "frontier": "The curve of utility against leakage that a filter's knob traces.",
    "bundle": "The file that carries a filter to where it runs. It holds no code and no record.",
    "in-sample": "Measured on rows that the filter was fitted on. It says nothing about new rows.",
}


def explain(term: str) -> str:
    """What a word means here.

    Examples
    --------
    >>> explain("Certified")[:33]
    'No attacker, however clever, does'
    """
    known = {t.casefold(): t for t in GLOSSARY}
    if term.casefold() in known:
        return GLOSSARY[known[term.casefold()]]
    near = difflib.get_close_matches(term.casefold(), known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise InputError(f"the glossary has no word {term!r}; {hint}It has {', '.join(GLOSSARY)}")


def as_markdown() -> str:
    """The page of the documentation."""
    rows = [f"| **{term}** | {text} |" for term, text in sorted(GLOSSARY.items())]
    head = "# Glossary\n\nThe words of reports and messages. `tacit glossary` shows them in a terminal.\n"
    return "\n".join([head, "| word | what it means |", "|---|---|", *rows, ""])
