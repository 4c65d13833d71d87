"""LabelOnly: release nothing but the predicted target. The floor under every other release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from tacit.errors import InputError
from tacit.filters.base import Filter, Knob, Problem
from tacit.filters.mechanism import Learned
from tacit.filters.posterior import Posteriors
from tacit.filters.registry import register_filter
from tacit.noise.support import Finite
from tacit.training.trees import boosted_trees


@register_filter("label-only", examples=[{"n_folds": 2}])
class LabelOnly(Filter):
    """Predict each target and release the prediction, one column per target.

    A filter that leaks more than this without being more useful is no use.

    Parameters
    ----------
    classifier : any scikit-learn classifier with ``predict_proba``; boosted trees by default.
        It is given the encoded numbers, not the raw table
    n_folds : models per target; their probabilities are averaged, training rows get the model
        that did not see them
    random_state : decides the folds and seeds the models

    Attributes
    ----------
    classes_ : per target, the class values; a released number is a position in them

    Examples
    --------
    >>> import tacit
    >>> data = tacit.load_dataset("quadrants", n=300)
    >>> f = tacit.baselines.LabelOnly(random_state=0).fit(data.X, data.y)
    >>> sorted(set(f.transform(data.X).ravel().tolist()))
    [0.0, 1.0]
    """

    knob = Knob("n_folds", utility_rises=True, values=(5,))

    def __init__(self, classifier: Any = None, *, n_folds: int = 5, random_state: Any = None) -> None:
        self.classifier = classifier
        self.n_folds = n_folds
        self.random_state = random_state

    def _learn(self, problem: Problem) -> Learned:
        if self.classifier is not None and not hasattr(self.classifier, "predict_proba"):
            raise InputError(f"classifier {self.classifier!r} has no predict_proba; wrap it in CalibratedClassifierCV")
        make = boosted_trees if self.classifier is None else _Cloner(self.classifier)
        self.posteriors_ = Posteriors(self.n_folds, make).fit(
            problem.X, problem.targets, problem.units, problem.seed, problem.crowd
        )
        self.classes_ = problem.targets.classes
        return Learned(PredictedLabels(self.posteriors_), len(problem.targets), support=Finite())

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        return _likeliest(self.posteriors_.out_of_fold)


@dataclass(frozen=True, eq=False)
class PredictedLabels:
    """The likeliest class of every target, as its number."""

    posteriors: Posteriors

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return _likeliest(self.posteriors.predict(X))

    def graph(self, g: Any, x: str) -> str:
        labels = [g.column_of_numbers(g.argmax(p)) for p in self.posteriors.graph(g, x)]
        return g.join(*labels) if len(labels) > 1 else labels[0]


def _likeliest(posteriors: list[np.ndarray]) -> np.ndarray:
    return np.column_stack([p.argmax(axis=1) for p in posteriors]).astype(np.float64)


class _Cloner:
    """Makes copies of the user's classifier, as the posteriors ask for them."""

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    def __call__(self, shape: tuple[int, int], n_classes: int, seed: int) -> Any:
        return clone(self.classifier)
