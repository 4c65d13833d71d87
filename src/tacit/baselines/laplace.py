"""LaplaceMechanism: clip every record, then add Laplace noise of the size that the clipping calls for.

The comparison in print adds Laplace(1/epsilon) to standardized data that are not clipped, which guarantees nothing.
Here a record is first shrunk into an L1 ball of radius R, so that any two records are at most 2R apart, and gets
noise of scale 2R / epsilon in every column: then P(z|x) <= e^epsilon P(z|x') for all records and releases
(local differential privacy), and no attacker on a sensitive attribute of m classes exceeds balanced accuracy
e^epsilon / (m - 1 + e^epsilon). No data are needed to say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.errors import check_number
from tacit.filters.base import Filter, Knob, Problem
from tacit.filters.mechanism import Mechanism
from tacit.filters.registry import register_filter
from tacit.noise.keyed import Bounded, Noise, mechanism


@register_filter("laplace", examples=[{"epsilon": 5.0}])
class LaplaceMechanism(Filter):
    """Records with noise, locally differentially private: certified against any attacker, and seldom useful.

    The guarantee is for one release of a record that had no part in the fit (which learns how to scale columns and
    which categories there are, nothing else). Draws are keyed by the record: asking again tells nothing new.

    Parameters
    ----------
    epsilon : the knob: no release is more than e^epsilon times as likely for one record as for another
    clip : radius of the L1 ball that records are shrunk into, for each encoded column: 1 is the size of a
        typical standardized record. Chosen without looking at the data
    random_state : as every filter has; the noise is drawn with a key of its own, whatever it is

    Attributes
    ----------
    epsilon_ : the local privacy that every release has
    scale_ : scale of the Laplace noise in every encoded column

    Examples
    --------
    >>> import tacit
    >>> data = tacit.load_dataset("quadrants", n=400)
    >>> f = tacit.baselines.LaplaceMechanism(epsilon=1.0).fit(data.X)
    >>> f.transform(data.X).shape, f.scale_
    ((400, 2), 4.0)
    """

    knob = Knob("epsilon", utility_rises=True, values=(0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0))
    needs_target = False

    def __init__(self, epsilon: float = 1.0, clip: float = 1.0, *, random_state: Any = None) -> None:
        self.epsilon = epsilon
        self.clip = clip
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # every object draws a key of its own
        return tags

    def _learn(self, problem: Problem) -> Mechanism:
        check_number("epsilon", self.epsilon, 1e-9)
        check_number("clip", self.clip, 1e-9)
        width = int(np.prod(problem.X.shape[1:]))
        self.radius_ = self.clip * width
        self.scale_ = 2 * self.radius_ / self.epsilon
        self.epsilon_ = float(self.epsilon)
        noise = Noise("laplace", self.scale_, width, True, mechanism(self.scale_, self.radius_))
        return Mechanism(InBall(self.radius_), width, noise, Bounded(self.radius_))

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        # nothing but the scaling of columns was learned from these rows
        return self.mechanism_.code(problem.X)


@dataclass(frozen=True)
class InBall:
    """Records shrunk into an L1 ball."""

    radius: float

    def __call__(self, X: np.ndarray) -> np.ndarray:
        flat = X.reshape(len(X), -1)
        norm = np.abs(flat).sum(axis=1, keepdims=True)
        return (flat * (self.radius / np.maximum(norm, self.radius))).reshape(X.shape)

    def graph(self, g: Any, x: str) -> str:
        flat = g.flat(x)
        norm = g.op("Max", g.sum(g.op("Abs", flat)), g.number(self.radius))
        return g.like(g.op("Mul", flat, g.op("Div", g.number(self.radius), norm)), x)
