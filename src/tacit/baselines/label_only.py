"""LabelOnly: release nothing but the predicted target. The floor under every other release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from tacit.errors import InputError
from tacit.filters.base import Filter, Knob, Problem
from tacit.filters.mechanism import Mechanism
from tacit.filters.posterior import Posteriors
from tacit.filters.registry import register_filter
from tacit.labels import Labels, cut_number
from tacit.noise.keyed import Finite
from tacit.training.trees import boosted_trees

FINE = 12  # classes of a number, whose probabilities say what it is expected to be


@register_filter("label-only", examples=[{"n_folds": 2}])
class LabelOnly(Filter):
    """Predict each target and release the prediction, one column per target; of a number, a number.

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

    takes_numbers = True
    knob = Knob("n_folds", utility_rises=True, values=(5,))

    def __init__(self, classifier: Any = None, *, n_folds: int = 5, random_state: Any = None) -> None:
        self.classifier = classifier
        self.n_folds = n_folds
        self.random_state = random_state

    def _learn(self, problem: Problem) -> Mechanism:
        if self.classifier is not None and not hasattr(self.classifier, "predict_proba"):
            raise InputError(f"classifier {self.classifier!r} has no predict_proba; wrap it in CalibratedClassifierCV")
        make = boosted_trees if self.classifier is None else _Cloner(self.classifier)
        targets, means = finely_cut(problem.targets)
        self.posteriors_ = Posteriors(self.n_folds, make).fit(
            problem.X, targets, problem.units, problem.seed, problem.crowd
        )
        self.classes_ = problem.targets.classes
        support = None if problem.targets.number_names else Finite()
        return Mechanism(PredictedLabels(self.posteriors_, means), len(problem.targets), support=support)

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        return _predicted(self.posteriors_.out_of_fold, finely_cut(problem.targets)[1])


@dataclass(frozen=True, eq=False)
class PredictedLabels:
    """The likeliest class of every target, as its number; of a number, what it is expected to be.

    Attributes
    ----------
    means : by target, of a number the means of the classes it was cut into
    """

    posteriors: Posteriors
    means: tuple[np.ndarray | None, ...] = ()

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return _predicted(self.posteriors.predict(X), self.means)

    def graph(self, g: Any, x: str) -> str:
        told = zip(self.posteriors.graph(g, x), self.means or [None] * len(self.posteriors.out_of_fold), strict=True)
        labels = [
            g.column_of_numbers(g.argmax(p)) if m is None else g.op("MatMul", p, g.constant("means", m[:, None]))
            for p, m in told
        ]
        return g.join(*labels) if len(labels) > 1 else labels[0]


def _predicted(posteriors: list[np.ndarray], means: tuple[np.ndarray | None, ...]) -> np.ndarray:
    told = zip(posteriors, means or [None] * len(posteriors), strict=True)
    return np.column_stack([p.argmax(axis=1) if m is None else p @ m for p, m in told]).astype(np.float64)


def finely_cut(targets: Labels) -> tuple[Labels, tuple[np.ndarray | None, ...]]:
    """Targets with their numbers cut into more classes, and the means of these; as they are where none is a number."""
    if not targets.number_names:
        return targets, ()
    classes, codes, means = list(targets.classes), targets.codes.copy(), list[np.ndarray | None]()
    for i in range(len(targets)):
        values = targets.number(i)
        means.append(None)
        if values is not None:
            classes[i], codes[:, i] = cut_number(values, FINE)
            means[i] = np.array([values[codes[:, i] == c].mean() for c in range(len(classes[i]))])
    return Labels(targets.names, tuple(classes), codes), tuple(means)


class _Cloner:
    """Makes copies of the user's classifier, as the posteriors ask for them."""

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    def __call__(self, shape: tuple[int, int], n_classes: int, seed: int) -> Any:
        return clone(self.classifier)
