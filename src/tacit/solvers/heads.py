"""Heads of a minimax game: the adversaries and allies that read a code z, as risks of (z, flat parameters).

Each head is a family of classifiers over which the inner solver optimises. A risk is what the head itself
wants small: cross-entropy plus a small ridge. `SoftmaxHeads` are the paper's; with `features` they read a
fixed nonlinear map of the code (`FourierFeatures`), `MlpHeads` learn theirs. `Reconstruction` (eq. 10),
`LeastSquares` (of numbers) and `CountingHeads` have their best response in closed form, hence no parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from tacit.labels import MISSING, Labels, standardized
from tacit.solvers.exact import code_loss, label_mass
from tacit.solvers.kiwiel import Evaluation


class Head(Protocol):
    """A family of classifiers (or reconstructions) that read the code."""

    def start(self) -> Tensor:
        """Parameters to begin from, flat."""

    def risk(self, z: Tensor, parameters: Tensor) -> Tensor:
        """What these parameters lose on the code z (n, d): a scalar."""


class SoftmaxHeads:
    """Softmax regression with an intercept, one per label column; their mean risk.

    Parameters
    ----------
    labels : what the heads predict; missing labels do not take part
    width : columns the heads read (of the code, or of its features)
    binary : the weighted one-against-rest loss (eq. 6-7) instead of the multiclass one (eq. 5). Each class's
        records weigh as much as all others together, whatever the class sizes; for equal sizes these are
        the weights (S-1) and 1 of eq. 7, scaled so that guessing has risk ln 2
    ridge : weight of |parameters|^2
    features : map of the code that the heads read instead of the code itself
    weight : of each row, in the multiclass loss; all alike without
    """

    def __init__(
        self,
        labels: Labels,
        width: int,
        *,
        binary: bool = False,
        ridge: float = 1e-6,
        features: Callable[[Tensor], Tensor] | None = None,
        weight: np.ndarray | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        self.codes = [torch.from_numpy(np.ascontiguousarray(c)) for c in labels.codes.T]
        self.classes = [labels.n_classes(i) for i in range(len(labels))]
        self.width, self.ridge, self.features, self.dtype = width, ridge, features, dtype
        pairs = zip(self.codes, self.classes, strict=True)
        self.weight = None if weight is None else torch.from_numpy(weight)
        self._known = [(c != MISSING).double().numpy() * (1 if weight is None else weight) for c in self.codes]
        self._own = [
            np.eye(m)[c.clamp_min(0).numpy()].T * known
            for c, m, known in zip(self.codes, self.classes, self._known, strict=True)
        ]
        self.against_rest = [against_rest(c, m, dtype) for c, m in pairs] if binary else None

    def start(self) -> Tensor:
        return torch.zeros((self.width + 1) * sum(self.classes), dtype=self.dtype)

    def risk(self, z: Tensor, parameters: Tensor) -> Tensor:
        read = z if self.features is None else self.features(z)
        table = parameters.view(self.width + 1, -1)
        logits = torch.addmm(table[-1], read, table[:-1])
        risks = [
            self._mean_loss(block, codes)
            if self.against_rest is None
            else weighted_binary_loss(block, *self.against_rest[i])
            for i, (block, codes) in enumerate(zip(logits.split(self.classes, dim=1), self.codes, strict=True))
        ]
        return torch.stack(risks).mean() + self.ridge * (parameters * parameters).sum()

    def _mean_loss(self, logits: Tensor, codes: Tensor) -> Tensor:
        if self.weight is None:
            return torch.nn.functional.cross_entropy(logits, codes, ignore_index=MISSING)
        losses = torch.nn.functional.cross_entropy(logits, codes, ignore_index=MISSING, reduction="none")
        return (self.weight * losses).sum() / self.weight[codes != MISSING].sum()

    def at(self, z: Tensor, dz: Tensor | None = None) -> Evaluation | None:
        """The risk (plus its slope along dz) and its gradient over the parameters, for a code that stands still.

        Written out because nearly all time goes here: class-major and in place it takes a fifth of autograd's.
        """
        if self.against_rest is not None:
            return None
        read = z if self.features is None else self.features(z)
        rows = np.concatenate([read.double().numpy().T, np.ones((1, len(read)))])
        moved = None
        if dz is not None:
            step = dz if self.features is None else torch.func.jvp(self.features, (z,), (dz,))[1]
            moved = np.concatenate([step.double().numpy().T, np.zeros((1, len(read)))])
        own = [np.ascontiguousarray(o) for o in self._own]
        share = [1 / (len(own) * max(1.0, o.sum())) for o in own]
        alike = [bool((known == 1).all()) for known in self._known]
        cuts = np.cumsum([0, *self.classes])

        def evaluate(flat: np.ndarray) -> tuple[float, np.ndarray]:
            table = flat.reshape(self.width + 1, -1)
            total, gradient = self.ridge * float(flat @ flat), 2 * self.ridge * table
            for i, o in enumerate(own):
                block = slice(cuts[i], cuts[i + 1])
                logits = table[:, block].T @ rows
                logits -= logits.max(axis=0)
                p = np.exp(logits)
                sums = p.sum(axis=0)
                p /= sums
                known = self._known[i]
                total += share[i] * (float(np.log(sums) @ known) - float(np.vdot(o, logits)))
                residual = p - o if alike[i] else p * known - o
                if moved is None:
                    gradient[:, block] += share[i] * (rows @ residual.T)
                    continue
                slope = table[:, block].T @ moved
                total += share[i] * float(np.vdot(residual, slope))
                turn = p * (slope - (p * slope).sum(axis=0)) * known
                gradient[:, block] += share[i] * (moved @ residual.T + rows @ (residual + turn).T)
            return total, gradient.ravel()

        return evaluate


class MlpHeads:
    """One hidden layer of tanh units, shared by the label columns; tanh because L-BFGS needs smoothness."""

    def __init__(
        self, labels: Labels, width: int, *, hidden: int = 32, ridge: float = 1e-4, binary: bool = False, seed: int = 0
    ) -> None:
        self.hidden, self.width, self.seed, self.ridge = hidden, width, seed, ridge
        self.last = SoftmaxHeads(labels, hidden, binary=binary, ridge=0.0)

    def start(self) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        first = torch.randn((self.width + 1) * self.hidden, generator=generator, dtype=torch.float64)
        return torch.cat([first / self.width**0.5, self.last.start()])

    def risk(self, z: Tensor, parameters: Tensor) -> Tensor:
        cut = (self.width + 1) * self.hidden
        table = parameters[:cut].view(self.width + 1, self.hidden)
        hidden = torch.tanh(torch.addmm(table[-1], standardised(z), table[:-1]))
        return self.last.risk(hidden, parameters[cut:]) + self.ridge * (parameters * parameters).sum()


class FourierFeatures:
    """The code, standardized, and random Fourier features of it: a linear head on these is a kernel machine.

    Half of the features are of the usual bandwidth (gamma = 1/d), half four times as sharp.
    """

    def __init__(self, width: int, n_features: int = 128, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        gamma = torch.where(torch.arange(n_features) % 2 == 0, 1.0, 4.0).double() / width
        normal = torch.randn(width, n_features, generator=generator, dtype=torch.float64)
        self.frequencies = normal * (2 * gamma).sqrt()
        self.phases = 2 * torch.pi * torch.rand(n_features, generator=generator, dtype=torch.float64)
        self.width = width + n_features

    def __call__(self, z: Tensor) -> Tensor:
        z = standardised(z)
        waves = torch.cos(torch.addmm(self.phases, z, self.frequencies)) * 2.0**0.5
        return torch.cat([z, waves], dim=1)


class Reconstruction:
    """The mean squared error of the best linear reconstruction of X from the code (eq. 10, least squares)."""

    def __init__(self, X: Tensor, ridge: float = 1e-6) -> None:
        self.X, self.ridge = X.reshape(len(X), -1), ridge

    def start(self) -> Tensor:
        return torch.zeros(0, dtype=torch.float64)

    def risk(self, z: Tensor, parameters: Tensor) -> Tensor:
        z = torch.cat([z, torch.ones_like(z[:, :1])], dim=1)
        gram = z.T @ z
        gram = gram + self.ridge * gram.diagonal().mean() * torch.eye(z.shape[1], dtype=z.dtype)
        against = z.T @ self.X
        explained = (against * torch.linalg.solve(gram, against)).sum()
        return ((self.X * self.X).sum() - explained) / self.X.numel()


class LeastSquares:
    """The best linear guess of numbers from the code, in closed form: their mean squared error, 1 for guessing.

    Numbers are standardized; a missing one does not take part. With `features` it reads these instead of the code.
    """

    def __init__(self, labels: Labels, ridge: float = 1e-6, features: Callable[[Tensor], Tensor] | None = None) -> None:
        values = standardized(labels)
        self.columns = [torch.from_numpy(v) for v in values.T if not np.isnan(v).all()]
        # many features of one code would learn the records by heart
        self.ridge, self.features = ridge if features is None else max(ridge, 1e-3), features

    def start(self) -> Tensor:
        return torch.zeros(0, dtype=torch.float64)

    def risk(self, z: Tensor, parameters: Tensor) -> Tensor:
        read = (z if self.features is None else self.features(z)).double()
        risks = []
        for values in self.columns:
            known = ~values.isnan()
            risks.append(Reconstruction(values[known][:, None], self.ridge).risk(read[known], parameters))
        return torch.stack(risks).mean()


class BothHeads:
    """Heads of classes and of numbers as one: their mean risk, every column weighing alike."""

    def __init__(self, classes: Head, n_classes: int, numbers: LeastSquares) -> None:
        self.classes, self.numbers = classes, numbers
        self.share = n_classes / (n_classes + len(numbers.columns))

    def start(self) -> Tensor:
        return self.classes.start()

    def risk(self, z: Tensor, parameters: Tensor) -> Tensor:
        of_numbers = self.numbers.risk(z, parameters[:0])
        return self.share * self.classes.risk(z, parameters) + (1 - self.share) * of_numbers


def with_numbers(
    labels: Labels, make: Callable[[Labels], Head | None], ridge: float, features: FourierFeatures | None = None
) -> Head:
    """Heads of label columns some of which are numbers; `make` gives those of the classes."""
    numbers = LeastSquares(labels, ridge, features)
    kept = [i for i in range(len(labels)) if labels.number(i) is None]
    if not kept:
        return numbers
    head = make(
        Labels(tuple(labels.names[i] for i in kept), tuple(labels.classes[i] for i in kept), labels.codes[:, kept])
    )
    assert head is not None
    return BothHeads(head, len(kept), numbers)


class CountingHeads:
    """The exact reader of a finite code: z holds scores of d cells, and every cell's classes are counted.

    For sensitive attributes (`balanced`) the risk is H(s|z) under equal class sizes, ln m - I(z;s), over every attacker
    there is; for targets it is that of `tacit.solvers.exact`. Cells are soft while learning: softmax(z / temperature).
    """

    def __init__(self, labels: Labels, *, balanced: bool, temperature: float = 1.0) -> None:
        self.balanced, self.temperature = balanced, temperature
        pairs = zip(labels.codes.T, labels.classes, strict=True)
        self.masses = [torch.from_numpy(label_mass(c, len(m), balanced)) for c, m in pairs]

    def start(self) -> Tensor:
        return torch.zeros(0, dtype=torch.float64)

    def risk(self, z: Tensor, parameters: Tensor) -> Tensor:
        q = torch.softmax(z / self.temperature, dim=1)[None]
        one = torch.ones(1, dtype=z.dtype)
        if not self.balanced:
            return code_loss(q, self.masses, [], one)[0]
        most = sum(np.log(m.shape[1]) for m in self.masses)
        return (most - code_loss(q, [], self.masses, one)[0]) / len(self.masses)


class Weighted:
    """A head's risk times a constant, as the solvers want it: -1 for an adversary, rho for an ally."""

    def __init__(self, head: Head, weight: float) -> None:
        self.head, self.weight = head, weight

    def __call__(self, z: Tensor, parameters: Tensor) -> Tensor:
        return self.weight * self.head.risk(z, parameters)

    def at(self, z: Tensor, dz: Tensor | None = None) -> Evaluation | None:
        quick = self.head.at(z, dz) if hasattr(self.head, "at") else None
        if quick is None:
            return None

        def evaluate(flat: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = quick(flat)
            return self.weight * value, self.weight * gradient

        return evaluate


def against_rest(codes: Tensor, n_classes: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Signs and weights (n, m) of the one-against-rest losses: each side of each class weighs 1 / (2m)."""
    known = codes != MISSING
    own = torch.nn.functional.one_hot(codes.clamp_min(0), n_classes).to(dtype) * known[:, None]
    rest = (1 - own) * known[:, None]
    weights = own / own.sum(0).clamp_min(1) + rest / rest.sum(0).clamp_min(1)
    return 2 * own - 1, weights / (2 * n_classes)


def weighted_binary_loss(logits: Tensor, signs: Tensor, weights: Tensor) -> Tensor:
    """Eq. 7, averaged over subjects (eq. 6); ln 2 is guessing."""
    return (weights * torch.nn.functional.softplus(-signs * logits)).sum()


def standardised(z: Tensor) -> Tensor:
    """Columns of mean 0 and variance 1, so that a filter gains nothing by shrinking its code."""
    z = z - z.mean(0)
    return z / (z * z).mean(0).add(1e-12).sqrt()


class MlpReconstruction:
    """The mean squared error of a reconstruction of X from the code by one hidden layer of tanh units (eq. 10).

    Beside the hidden layer the code goes on as it is, so that no linear reconstruction is beyond it.

    Examples
    --------
    >>> X = torch.arange(6.0, dtype=torch.float64).view(3, 2)
    >>> head = MlpReconstruction(X, 1, hidden=4)
    >>> float(head.risk(X[:, :1], torch.zeros_like(head.start())))  # the mean square of X
    9.166666666666666
    """

    def __init__(self, X: Tensor, width: int, *, hidden: int = 32, ridge: float = 1e-4, seed: int = 0) -> None:
        self.X, self.width, self.hidden, self.ridge, self.seed = X.reshape(len(X), -1), width, hidden, ridge, seed

    def start(self) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        first = torch.randn((self.width + 1) * self.hidden, generator=generator, dtype=torch.float64)
        last = torch.zeros((self.hidden + self.width + 1) * self.X.shape[1], dtype=torch.float64)
        return torch.cat([first / self.width**0.5, last])

    def risk(self, z: Tensor, parameters: Tensor) -> Tensor:
        cut = (self.width + 1) * self.hidden
        table = parameters[:cut].view(self.width + 1, self.hidden)
        z = standardised(z)
        read = torch.cat([torch.tanh(torch.addmm(table[-1], z, table[:-1])), z], dim=1)
        last = parameters[cut:].view(self.hidden + self.width + 1, -1)
        away = torch.addmm(last[-1], read, last[:-1]) - self.X
        return away.square().mean() + self.ridge * parameters.square().mean()


class HeadsTogether:
    """Several heads as one: the mean of their risks, their parameters one after the other."""

    def __init__(self, heads: Sequence[Head]) -> None:
        self.heads, self.sizes = heads, [len(h.start()) for h in heads]

    def start(self) -> Tensor:
        return torch.cat([h.start() for h in self.heads])

    def risk(self, z: Tensor, parameters: Tensor) -> Tensor:
        parts = zip(self.heads, parameters.split(self.sizes), strict=True)
        return torch.stack([h.risk(z, p) for h, p in parts]).mean()
