"""Attacks on the same records by who holds something else of them: raw records, other draws, other views, masks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from tacit.auditing.attacks import AttackKind, register_attack
from tacit.auditing.received import plain_frame
from tacit.auditing.suite import AttackSuite
from tacit.auditing.trial import Trial, has_noise, released_parts
from tacit.filters.mechanism import sees_sensitive
from tacit.report.results import AnyResult

DRAWS = 10  # of the noise, for the averaging attack


@register_attack("without side information", place=0)
class WithoutSideInformation(AttackKind):
    """The release alone, where columns travel beside it."""

    def __init__(self, alongside: Sequence[str]) -> None:
        self.knows = f"the release but not {', '.join(alongside)}"

    @classmethod
    def planned(cls, trial: Trial) -> Iterable[AttackKind]:
        return [cls(trial.asked.alongside)]

    def applies(self, trial: Trial) -> bool:
        return bool(trial.asked.alongside)

    def run(self, trial: Trial, suite: AttackSuite) -> Mapping[str, AnyResult]:
        bare = Trial.of(trial.release, trial.attack, trial.test, replace(trial.asked, alongside=()))
        return suite.measure(bare, "sensitive")


@register_attack("transfer", place=30)
class Transfer(AttackKind):
    """Trained on raw data, tested on released data of the same format."""

    knows = "raw records with their sensitive attributes, no released ones (weaker than adaptive)"

    def applies(self, trial: Trial) -> bool:
        raw, Zt = trial.attack.X, trial.Z[1]
        if trial.release is None or np.shape(raw)[1:] != np.shape(Zt)[1:]:
            return False
        if isinstance(Zt, pd.DataFrame) and not isinstance(raw, pd.DataFrame):
            return False  # an array came in, a table goes out
        kinds = ([pd.api.types.is_numeric_dtype(kind) for kind in plain_frame(Z).dtypes] for Z in (raw, Zt))
        return next(kinds) == next(kinds)

    def run(self, trial: Trial, suite: AttackSuite) -> Mapping[str, AnyResult]:
        raw, Zt = trial.attack.X, trial.Z[1]
        if isinstance(raw, pd.DataFrame):
            Zt = plain_frame(Zt).set_axis(raw.columns, axis=1)
        return suite.measure(trial.showing([raw, Zt]), "sensitive")


@register_attack("averaging", place=50)
class Averaging(AttackKind):
    """Several draws of the noise on the same record, averaged: what keyed noise prevents."""

    knows = f"{DRAWS} releases of each record under different keys (the same key gives the same noise, and no average)"

    def applies(self, trial: Trial) -> bool:
        numbers = not sees_sensitive(trial.release)  # a table has no average
        return numbers and has_noise(trial.release) and hasattr(trial.release, "redraw")

    def run(self, trial: Trial, suite: AttackSuite) -> Mapping[str, AnyResult]:
        copies = [trial.release.redraw() for _ in range(DRAWS)]
        means = [np.mean([c.transform(d.X) for c in copies], axis=0) for d in trial.data]
        return suite.measure(trial.showing(means), "sensitive")


@register_attack("several views", place=60)
class SeveralViews(AttackKind):
    """This release and others of the same records, side by side."""

    def __init__(self, n: int) -> None:
        self.knows = f"{n} releases of the same records together"

    @classmethod
    def planned(cls, trial: Trial) -> Iterable[AttackKind]:
        return [cls(len(trial.asked.views) + 1)]

    def applies(self, trial: Trial) -> bool:
        return bool(trial.asked.views)

    def run(self, trial: Trial, suite: AttackSuite) -> Mapping[str, AnyResult]:
        views = [released_parts(v, trial.data) for v in trial.asked.views]
        tables = ([plain_frame(Z) for Z in part] for part in zip(trial.Z, *views, strict=True))
        both = [pd.concat(part, axis=1) for part in tables]
        both = [table.set_axis(range(table.shape[1]), axis=1) for table in both]
        return suite.measure(trial.showing(both), "sensitive")


@register_attack("mask only", place=70)
class MaskOnly(AttackKind):
    """The bare mask, without a pixel: its shape alone may say who it is. For releases that have ``mask``."""

    knows = "where the mask lies, but nothing of what it shows"

    def applies(self, trial: Trial) -> bool:
        return hasattr(trial.release, "mask")

    def run(self, trial: Trial, suite: AttackSuite) -> Mapping[str, AnyResult]:
        masks = [np.asarray(trial.release.mask(d.X), float) for d in trial.data]
        return suite.measure(trial.showing(masks), "sensitive")
