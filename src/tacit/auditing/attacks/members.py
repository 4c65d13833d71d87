"""Attacks on the people that a filter was fitted on: was this record among them?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from tacit.auditing.attacks import AttackKind, register_attack
from tacit.auditing.received import plain_frame
from tacit.auditing.suite import AttackSuite
from tacit.auditing.trial import Trial
from tacit.errors import InputError
from tacit.filters.base import Filter
from tacit.filters.mechanism import transformed
from tacit.records.dataset import Dataset
from tacit.release.runtime import Release
from tacit.report.results import AnyResult

MAX_MEMBERS = 4000


@register_attack("membership", place=80)
class Membership(AttackKind):
    """Was this record used to fit the filter? From its release and its true labels."""

    knows = "the release and the true labels of a record, and some members by name"

    def applies(self, trial: Trial) -> bool:
        return trial.asked.train is not None

    def run(self, trial: Trial, suite: AttackSuite) -> Mapping[str, AnyResult]:
        train: Any = trial.asked.train
        n = min(len(train), len(trial.test), MAX_MEMBERS)
        rng = np.random.default_rng(suite.seed)
        sides = [d.take(np.sort(rng.permutation(len(d))[:n])) for d in (train, trial.test)]
        Z = [plain_frame(transformed(trial.release, d)).assign(**_words(d)) for d in sides]
        member = pd.DataFrame({"membership": np.repeat(["in", "out"], n)})
        both = Dataset(pd.concat(Z, ignore_index=True), None, member)
        halves = both.split((0.5, 0.5), random_state=suite.seed)
        return suite.measure(Trial(halves, (halves[0].X, halves[1].X)), "sensitive", trial.level)


@register_attack("membership, by the bundle", place=90)
class BundleMembership(AttackKind):
    """The same, asked of the whole bundle: whoever holds it sees every number its graph computes on the way."""

    knows = "the bundle, and a record with its true labels; some members by name"

    def applies(self, trial: Trial) -> bool:
        return trial.asked.train is not None and isinstance(trial.release, Filter | Release)

    def run(self, trial: Trial, suite: AttackSuite) -> Mapping[str, AnyResult]:
        train: Any = trial.asked.train
        from tacit.auditing.membership import whitebox_membership  # onnx takes half a second: only this attack pays

        try:
            found = whitebox_membership(trial.release, train, trial.test, suite.seed, trial.level)
        except InputError:
            return {}  # a filter that cannot be saved has no bundle to give away
        return {"membership": found}


def _words(data: Dataset) -> dict[str, Any]:
    """The labels of every record, as words."""
    y, sensitive = data.by_class("y"), data.by_class("sensitive")
    named = {**{f"y {c}": y[c] for c in y}, **{f"s {c}": sensitive[c] for c in sensitive}}
    return {k: v.astype(object).where(v.notna(), "unknown").astype(str).to_numpy() for k, v in named.items()}
