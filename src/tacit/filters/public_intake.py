"""How records come into a differentially private fit: scaled by ranges and words that everybody may know.

What was not stated is learned from the records as ever (rounded, and shared by `min_people` people), and the fit's
statement says that it is not covered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tacit.errors import InputError
from tacit.filters.base import Filter, Problem, encode_problem
from tacit.noise.accounting import DP, Spent
from tacit.records.encoding import TableEncoder
from tacit.records.intake import Intake
from tacit.records.schema import Column

REST = (
    "the bundle's sketch of the rows of the fit, which only the owner's key reads",
    "the fit's warnings, and audits on its rows",
)


def encode_in_public(f: Filter, dp: DP | None, X: Any, y: Any, sensitive_features: Any, units: Any) -> Problem:
    """The problem of `encode_problem`, with what `dp` states in the place of what the records show."""
    f.__dict__.pop("dp_", None)  # of an earlier fit
    problem = encode_problem(f, X, y, sensitive_features, units)
    if dp is None:
        return problem
    if not isinstance(dp, DP):
        raise InputError(f"dp is a tacit.DP, such as tacit.DP(epsilon=3.0); found {dp!r}")
    if numbers := [*problem.targets.number_names, *problem.sensitive.number_names]:
        raise InputError(
            f"dp bounds what one person adds to counts of classes; {numbers[0]!r} is a number: cut it into classes "
            f"(bins=)"
        )
    assert problem.schema is not None
    intake, learned = stated(problem.schema, dp)
    f.not_covered_ = (*learned, *REST)
    checked: Any = intake.check(X)
    X = intake.encode(clipped(checked, intake) if isinstance(checked, pd.DataFrame) else checked)
    if not isinstance(checked, pd.DataFrame) and intake.ranges is not None:
        X = np.clip(X, -math.sqrt(3), math.sqrt(3))
    return replace(problem, X=X, schema=intake)


def refuse_second_fit(f: Any) -> None:
    """Training rows are released by fits on parts of them."""
    if hasattr(f, "dp_"):
        raise InputError(
            "release_training_rows fits the filter again on parts of the same rows, which dp has not paid for; release "
            "rows that took no part in the fit"
        )


def tell_spent(f: Any, spent: Spent) -> None:
    """Keep what a fit has spent, and say so in its notes, which go into its report."""
    f.dp_ = spent
    f.notes_.append(str(spent))


def stated(intake: Intake, dp: DP) -> tuple[Intake, tuple[str, ...]]:
    """The intake by what is stated, and what was learned from the records all the same."""
    if not isinstance(intake.scaling, TableEncoder):
        if dp.ranges is None:
            return intake, ("scaling, which was learned from the records (state ranges)",)
        if isinstance(dp.ranges, Mapping) or len(dp.ranges) != 2:
            raise InputError(f"dp.ranges of arrays is one pair (low, high); found {dp.ranges!r}")
        encoder = intake.scaling
        assert encoder is not None
        low, high = map(float, dp.ranges)
        scaling = type(encoder)()
        scaling.mean = np.full_like(encoder.mean, (low + high) / 2)
        scaling.scale = np.full_like(encoder.scale, (high - low) / 2 / math.sqrt(3))
        count = intake.shape[0]
        return replace(intake, scaling=scaling, ranges=((low, high),) * count), ()
    if not isinstance(dp.ranges, Mapping | None):
        raise InputError(f"dp.ranges of a table names its columns: {{'age': (0, 120)}}; found {dp.ranges!r}")
    ranges, words = dict(dp.ranges or {}), dict(dp.categories or {})
    unknown = sorted({*ranges, *words} - {c.name for c in intake.scaling.columns})
    if unknown:
        raise InputError(f"dp states column {unknown[0]!r}, which the records do not have; check its name")
    columns, learned = list[Column](), list[str]()
    for c in intake.scaling.columns:
        if c.kind == "number" and c.name in ranges:
            low, high = map(float, ranges[c.name])
            scale = max((high - low) / 2 / math.sqrt(3), 1e-12)
            columns.append(replace(c, low=low, high=high, has_missing=True, mean=(low + high) / 2, scale=scale))
        elif c.kind == "category" and c.name in words:
            columns.append(replace(c, categories=tuple(words[c.name])))
        else:
            columns.append(c)
            learned.append(c.name)
    table = TableEncoder()
    table.columns = tuple(columns)
    told = f"scaling and words of {', '.join(map(str, learned))}, which were learned from the records"
    return replace(intake, scaling=table), (told,) if learned else ()


def clipped(records: pd.DataFrame, intake: Intake) -> pd.DataFrame:
    """Records with their numbers inside the ranges."""
    assert isinstance(intake.scaling, TableEncoder)
    ends = {c.name: (c.low, c.high) for c in intake.scaling.columns if c.kind == "number"}
    return records.assign(**{str(n): pd.to_numeric(records[n], errors="coerce").clip(*e) for n, e in ends.items()})
