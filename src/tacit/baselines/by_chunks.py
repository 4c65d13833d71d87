"""Filters that are solved from moments can learn chunk by chunk, from a table of any size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from tacit.baselines.moments import ClassMeans, Moments
from tacit.errors import InputError
from tacit.filters.base import Filter, Problem, check_units, encode_problem, finish_fit
from tacit.filters.mechanism import Learned
from tacit.filters.public_intake import encode_in_public
from tacit.labels import encode_labels
from tacit.noise.fit_privacy import DP

ROLES = (("y", "target"), ("sensitive_features", "sensitive"))


class ByChunks(Filter):
    """A filter whose `_from_moments` needs no more than counts, means and covariances."""

    dp: DP | None = None

    def _prepare(self, X: Any, y: Any, sensitive_features: Any, units: Any) -> Problem:
        return encode_in_public(self, self.dp, X, y, sensitive_features, units)

    def partial_fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None, units: Any = None) -> Self:
        """Learn from one more chunk of records; rows are not kept, so `release_training_rows` needs `fit`.

        The first chunk fixes the columns, the words of text columns (later new ones are "other") and the scaling, so
        let it be a large one. `LinearARL` and `LinearEraser` do not depend on the scaling: all chunks together give
        what `fit` gives (but for the sign of a column). A chunk may lack classes.
        """
        if self.dp is not None:
            raise InputError("dp adds its noise once, to the sums of all records; use fit")
        if not hasattr(self, "_moments"):
            problem = encode_problem(self, X, None, None, units, chunk=True)
            width = int(np.prod(problem.X.shape[1:]))
            self._moments, self._class_means = Moments(width), [ClassMeans(width) for _ in ROLES]
        else:
            checked = self.mechanism_.schema.check(X)
            memory: Any = self._prepared.memory
            self._prepared = replace(self._prepared, memory=memory.joined(checked, check_units(units, len(checked))))
        encoded = self._prepared.intake.encode(X)
        flat = encoded.reshape(len(encoded), -1)
        given = ((y if self.needs_target else None), sensitive_features)
        labels = [encode_labels(v, name, len(flat), min_classes=0) for v, (name, _) in zip(given, ROLES, strict=True)]
        for known, running, (_, what) in zip(labels, self._class_means, ROLES, strict=True):
            if self._moments.n and set(known.names) != set(running.columns):
                raise InputError(
                    f"this chunk has the {what} columns {list(known.names)}, earlier ones had "
                    f"{list(running.columns)}; pass the same columns with every chunk"
                )
        if self.needs_target and not len(labels[0]):
            raise InputError(f"{type(self).__name__} needs a target (y) with every chunk: say what must keep working")
        self._moments.update(flat)
        for known, running in zip(labels, self._class_means, strict=True):
            running.update(flat, known)
        self.notes_: list[str] = []  # what was said of fewer chunks
        targets, sensitive = self._class_means
        finish_fit(self, None, self._from_moments(self._moments, targets, sensitive, self._prepared.intake.scaling))
        return self

    def _from_moments(self, moments: Moments, targets: ClassMeans, sensitive: ClassMeans, scaling: Any) -> Learned:
        raise NotImplementedError
