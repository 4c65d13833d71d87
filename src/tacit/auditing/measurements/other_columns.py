"""The attack on everything else: which raw columns a release gives away, declared or not."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from tacit.auditing.measurements import Context, measurement
from tacit.auditing.received import plain_frame
from tacit.auditing.suite import AttackSuite
from tacit.auditing.trial import Trial
from tacit.errors import InputError
from tacit.labels import looks_continuous
from tacit.report.findings import Finding
from tacit.report.results import AnyResult

SCAN_CLASSES = 4  # a number is scanned as quarters
MIN_COUNT, MAX_VALUES = 20, 20  # of a value; rarer ones, and further ones, cannot be measured


@measurement("other_columns", auto=False, place=100)
def other_columns(trial: Trial, context: Context) -> Iterable[Finding]:
    """Attack every raw column, declared sensitive or not; the most exposed comes first."""
    trees = AttackSuite("trees", context.suite.seed)
    raw = [plain_frame(d.X) for d in trial.data]
    results: dict[str, AnyResult] = {}
    for column in raw[0].columns:
        labels = _classes(pd.concat([r[column] for r in raw], ignore_index=True))
        if column in trial.settings.alongside or labels.nunique() < 2:
            continue
        sides = labels.iloc[: len(raw[0])], labels.iloc[len(raw[0]) :]
        asking = trial.asking(*(pd.DataFrame({column: s}).reset_index(drop=True) for s in sides))
        try:
            results |= trees.measure(asking, "sensitive", trial.settings.level)
        except InputError:
            continue  # too rare in one part to say anything
    results = dict(sorted(results.items(), key=lambda item: item[1].guessing - item[1].value))
    return context.attacked("scan", "released records with the raw column of others", results)


def _classes(values: pd.Series) -> pd.Series:
    """A raw column as classes: numbers in quarters, common values alone."""
    if values.nunique() < 2:
        return values
    number = pd.api.types.is_numeric_dtype(values)
    if number and (looks_continuous(values) or values.nunique() > SCAN_CLASSES):
        values = pd.qcut(values, SCAN_CLASSES, duplicates="drop").astype(str).where(values.notna())
    common = values.value_counts()
    return values.where(values.isin(common.index[common >= MIN_COUNT][:MAX_VALUES]))
