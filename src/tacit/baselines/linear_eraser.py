"""LinearEraser: the smallest change to the records after which no linear attacker finds what is sensitive (LEACE).

Belrose et al., "LEACE: Perfect linear concept erasure in closed form", Theorem 4.3:

    r(x) = x - W+ P W (x - E[x]),   W = (Cov[x]^1/2)+,   P = projection onto the columns of W Cov[x, z],

z the one-hot sensitive attribute. Afterwards the release and z are uncorrelated, so that no linear model with any
convex loss beats a constant. Nothing is promised against attackers who are not linear: trees read the
sensitive attribute of Adult almost as well as before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.baselines.moments import ByChunks, ClassMeans, Moments, moments_of, noisy_moments, whitening
from tacit.errors import CollapseWarning, InputError, TacitWarning, check_number
from tacit.filters.base import Knob, Problem, release_by_folds
from tacit.filters.mechanism import Mechanism
from tacit.filters.notes import note
from tacit.filters.public_intake import refuse_second_fit
from tacit.filters.registry import register_filter
from tacit.noise.accounting import DP
from tacit.records.encoding import TableEncoder

# Singular values of the whitened cross-covariance are canonical correlations; below this they are rounding.
UNCORRELATED = 1e-10


@register_filter("linear-eraser")
class LinearEraser(ByChunks):
    """Remove everything that linear models can use to find the sensitive attributes, and nothing else.

    The release has the shape and the units of the input (text columns become one column per category).
    No target is needed. Several sensitive attributes, of any number of classes, are erased together.

    Parameters
    ----------
    min_frequency : columns in which a smaller share of the records differ (a rare category) are released constant.
        Erased like the others, such a column would be, among all records without the category, a clean copy of
        the erased direction that a linear attacker has only to scale up. (Adult, a logistic attacker on fresh
        rows: .85 at min_frequency=0, which is LEACE to the letter, .52 at .005)
    n_folds : how often it is refitted to release the training rows (each by an eraser that has not seen it)
    random_state : decides the folds; erasing itself draws nothing
    dp : a `tacit.DP`: the statistics carry noise, so that the fit is differentially private for its people. What is
        erased is then what the noisy statistics show, and columns that hardly vary are not known

    Attributes
    ----------
    eraser_ : the `Eraser`, an affine map: what is released depends on nothing else

    Examples
    --------
    >>> import tacit
    >>> data = tacit.load_dataset("quadrants", n=400)
    >>> f = tacit.baselines.LinearEraser().fit(data.X, sensitive_features=data.sensitive)
    >>> Z, upper = f.transform(data.X), (data.sensitive["shape"] == data.sensitive["shape"][0]).to_numpy()
    >>> bool(abs(Z[upper].mean(axis=0) - Z[~upper].mean(axis=0)).max() < 1e-9)
    True
    """

    takes_numbers = True
    knob = Knob("n_folds", utility_rises=True, values=(5,))  # erasing is all or nothing
    needs_target = False

    def __init__(
        self, *, min_frequency: float = 5e-3, n_folds: int = 5, random_state: Any = None, dp: DP | None = None
    ) -> None:
        self.min_frequency = min_frequency
        self.n_folds = n_folds
        self.random_state = random_state
        self.dp = dp

    def _from_moments(self, moments: Moments, targets: ClassMeans, sensitive: ClassMeans, scaling: Any) -> Mechanism:
        self._check()
        return self.finish(scaling, moments, sensitive)

    def _check(self) -> None:
        check_number("min_frequency", self.min_frequency, 0, 1)
        check_number("n_folds", self.n_folds, 2, whole=True)

    def _learn(self, problem: Problem) -> Mechanism:
        self._check()
        if self.dp is None:
            moments, (means,) = moments_of(problem.X, problem.sensitive)
        else:
            moments, (_, means) = noisy_moments(self, problem, self.dp)
        learned = self.finish(problem.scaling, moments, means)
        if len(problem.sensitive) == 0:
            note(self, "there is nothing to erase: pass sensitive_features, or records are released as they are",
                       TacitWarning)  # fmt: skip
        elif self.eraser_.rank and self.eraser_.rank == self.eraser_.dimensions:
            note(
                self,
                f"collapsed: the sensitive attributes take up all {self.eraser_.rank} dimensions of the records, so "
                f"every record is released alike; pass fewer sensitive attributes, or more columns",
                CollapseWarning,
            )

        return learned

    def finish(self, scaling: Any, moments: Moments, means: ClassMeans) -> Mechanism:
        """The eraser of these statistics."""
        self.eraser_ = make_eraser(moments, means, self.min_frequency)
        return Mechanism(Erased(self.eraser_, *_units_of(scaling), means.fewest_classes()), len(moments.mean))

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        refuse_second_fit(self)
        code: Any = self.mechanism_.code

        def learn(part: Problem) -> Any:
            moments, (means,) = moments_of(part.X, part.sensitive)
            return replace(code, eraser=make_eraser(moments, means, self.min_frequency))

        return release_by_folds(problem, learn, self.n_folds)


@dataclass(frozen=True, eq=False)
class Erased:
    """Records without what linear models find, in the units they came in.

    Attributes
    ----------
    eraser : of encoded records
    scale, mean : of each encoded column
    poorest : the sensitive column with the fewest classes so far, and how many
    """

    eraser: Eraser
    scale: np.ndarray
    mean: np.ndarray
    poorest: tuple[str, int] | None

    def __call__(self, X: np.ndarray) -> np.ndarray:
        if self.poorest is not None and self.poorest[1] < 2:
            raise InputError(
                f"sensitive column {self.poorest[0]!r} had {self.poorest[1]} class so far, so that nothing is erased "
                f"yet; pass chunks with other classes first"
            )
        return self.eraser(X) * self.scale + self.mean

    def graph(self, g: Any, x: str) -> str:
        e, flat = self.eraser, g.flat(x)
        mean = g.constant("mean", e.mean[None])
        erased = flat
        if e.rank:
            component = g.op("MatMul", g.op("Sub", flat, mean), g.constant("right", e.right.T))
            erased = g.op("Sub", flat, g.op("MatMul", component, g.constant("left", e.left.T)))
        keep = g.constant("kept", 1.0 - e.constant[None])
        fixed = g.constant("fixed", np.where(e.constant, e.mean, 0.0)[None])
        out = g.like(g.op("Add", g.op("Mul", erased, keep), fixed), x)
        return g.op("Add", g.op("Mul", out, g.constant("unit", self.scale)), g.constant("origin", self.mean))


def _units_of(scaling: Any) -> tuple[np.ndarray, np.ndarray]:
    """Scale and origin of every encoded column: words stay zeros and ones."""
    if not isinstance(scaling, TableEncoder):
        return scaling.scale, scaling.mean
    pairs = [(c.scale, c.mean, c.width) if c.kind == "number" else (1.0, 0.0, c.width) for c in scaling.columns]
    scale = np.concatenate([[scale, *[1.0] * (width - 1)] for scale, _, width in pairs])
    mean = np.concatenate([[mean, *[0.0] * (width - 1)] for _, mean, width in pairs])
    return scale[None], mean[None]


@dataclass(frozen=True)
class Eraser:
    """The result: x -> x - left right (x - mean), for records of any shape.

    Attributes
    ----------
    mean : (d,) of the records it was learned from
    left, right : (d, rank) and (rank, d); rank is the number of dimensions taken away
    constant : (d,) columns that are released as their mean
    dimensions : how many independent directions the records had
    """

    mean: np.ndarray
    left: np.ndarray
    right: np.ndarray
    constant: np.ndarray
    dimensions: int

    @property
    def rank(self) -> int:
        return self.left.shape[1]

    def __call__(self, X: np.ndarray) -> np.ndarray:
        flat = X.reshape(len(X), -1)
        # in this order nothing of size (d, d) is made
        out = flat - ((flat - self.mean) @ self.right.T) @ self.left.T
        return np.where(self.constant, self.mean, out).reshape(X.shape)


def make_eraser(moments: Moments, means: ClassMeans, min_frequency: float) -> Eraser:
    """Theorem 4.3 of LEACE from running statistics."""
    constant = moments.nearly_constant(min_frequency)
    W, W_inverse = whitening(moments, without=constant)
    U, values, _ = np.linalg.svd(W @ means.cross_covariance(), full_matrices=False)
    U = U[:, values > UNCORRELATED]
    return Eraser(moments.mean, W_inverse @ U, U.T @ W, constant, len(W))
