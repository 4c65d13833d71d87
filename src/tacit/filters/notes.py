"""What the user should know about the data before trusting a filter: said once, as a warning and in `notes_`."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tacit.errors import DependenceWarning, TacitWarning
from tacit.labels import MISSING, Labels

# Above this share of the target's entropy explained, "keep the target" and "hide the sensitive attribute" collide.
NEARLY_A_FUNCTION = 0.9
HERE = str(Path(__file__).parents[1])


def note(f: Any, text: str, kind: type[Warning]) -> None:
    """Warn, where the caller's own code called Tacit, and keep the text in the filter's `notes_`."""
    f.notes_.append(text)
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(HERE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=level - 1)


def note_copies(f: Any, X: pd.DataFrame | np.ndarray, sensitive: Labels) -> None:
    """Say which inputs are copies of a sensitive column."""
    for i, name in enumerate(sensitive.names):
        if copies := _copies(X, sensitive.codes[:, i]):
            note(
                f,
                f"sensitive column {name!r} is also among the inputs (as {', '.join(copies)}); that is allowed, "
                f"but the filter then has to unlearn what dropping the column would withhold for free",
                TacitWarning,
            )


def note_numbers(f: Any, targets: Labels, sensitive: Labels) -> None:
    """Say which numbers a filter that works by classes keeps or hides as classes."""
    if not getattr(f, "numbers_as_classes", False):
        return
    for labels, verb in ((targets, "kept"), (sensitive, "hidden")):
        for name in labels.number_names:
            n = labels.n_classes(labels.names.index(name))
            f.notes_.append(
                f"{name!r} is a number: it is {verb} as {n} classes of about equal size; an audit measures the number "
                f"itself"
            )


def note_dependence(f: Any, targets: Labels, sensitive: Labels) -> None:
    """Say which target and which sensitive column are nearly functions of each other."""
    for i, target in enumerate(targets.names):
        for j, name in enumerate(sensitive.names):
            share, reverse = dependence(targets.codes[:, i], sensitive.codes[:, j])
            if share >= NEARLY_A_FUNCTION:
                note(
                    f,
                    f"target {target!r} is (nearly) a function of sensitive {name!r}: knowing {name!r} "
                    f"removes {share:.0%} of the uncertainty about {target!r}, so any useful release gives part "
                    f"of {name!r} away; compare with the label-only release",
                    DependenceWarning,
                )
            elif reverse >= NEARLY_A_FUNCTION:
                note(
                    f,
                    f"sensitive {name!r} is (nearly) a function of target {target!r}: knowing {target!r} "
                    f"removes {reverse:.0%} of the uncertainty about {name!r}, so keeping {target!r} means "
                    f"giving {name!r} away; choose another target or accept the leak",
                    DependenceWarning,
                )


def dependence(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Share of a's entropy that b explains, and of b's that a explains (both 0..1, bias removed)."""
    both = (a != MISSING) & (b != MISSING)
    n = int(both.sum())
    if n == 0:
        return 0.0, 0.0
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a[both], b[both]), 1 / n)
    entropies = [_entropy(table.sum(1)), _entropy(table.sum(0)), _entropy(table.ravel())]
    bias = (np.count_nonzero(table.sum(1)) - 1) * (np.count_nonzero(table.sum(0)) - 1) / (2 * n)
    shared = max(0.0, entropies[0] + entropies[1] - entropies[2] - bias)
    found = shared + bias * (shared > 0)
    of_a, of_b = (min(1.0, found / h) if h > 0 and bias < h / 4 else 0.0 for h in entropies[:2])
    return of_a, of_b


def _entropy(p: np.ndarray) -> float:
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


def _copies(X: pd.DataFrame | np.ndarray, codes: np.ndarray) -> list[str]:
    """Inputs that are one-to-one with a label: constant within each class, different between classes."""
    if not isinstance(X, pd.DataFrame) and X.ndim != 2:
        return []
    known = codes != MISSING
    if isinstance(X, pd.DataFrame):
        values = np.column_stack(
            [pd.factorize(X[c].astype(str) if X[c].dtype == object else X[c])[0] for c in X.columns]
        )[known]
        names = [repr(str(c)) for c in X.columns]
    else:
        values, names = X[known], [f"column {i}" for i in range(X.shape[1])]
    levels, constant = [], np.ones(values.shape[1], dtype=bool)
    for c in np.unique(codes[known]):
        part = values[codes[known] == c]
        constant &= (part == part[0]).all(axis=0)
        levels.append(part[0])
    table = np.array(levels)
    return [names[j] for j in np.flatnonzero(constant) if len(np.unique(table[:, j])) == len(table)]
