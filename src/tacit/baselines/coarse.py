"""Coarser windows: fewer samples a second, or the first components of a singular spectrum. Nothing is learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.signal import resample

from tacit.errors import InputError, check_number
from tacit.filters.base import Filter, Knob, Problem, finish_fit, refuse_positions
from tacit.filters.mechanism import Mechanism
from tacit.filters.registry import register_filter
from tacit.labels import Labels
from tacit.records.intake import Intake, check_records
from tacit.records.windows import check_windows


class CoarseWindows(Filter, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """A filter that treats every window alike: no labels are needed, and no window is "in-sample"."""

    needs_target = False
    refuse = check_windows

    def fit(self, X: Any, y: Any = None, *others: Any, sensitive_features: Any = None, units: Any = None) -> Self:
        """Check the parameters and remember the windows' shape."""
        refuse_positions(self, others)
        windows: Any = check_records(self, X, None, check_windows)
        intake = Intake(type(self).__name__, windows.shape[1:], None, None, as_given=True, refuse=check_windows)
        learned = Mechanism(self._coarsening(windows.shape[2]), int(np.prod(windows.shape[1:])))
        nobody = Labels((), (), np.empty((len(windows), 0), dtype=np.int64))
        finish_fit(self, Problem(windows, nobody, nobody, None, 0, schema=intake), learned)
        return self

    def _coarsening(self, length: int) -> Coarsening:
        """The change of windows of this length."""
        raise NotImplementedError

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        return self.mechanism_.code(problem.X)


class Coarsening:
    """Windows to coarser ones. It runs where the data is: there is nothing learned to carry in a bundle."""

    of: ClassVar[str]  # the filter's name

    def graph(self, g: Any, x: str) -> str:
        raise InputError(
            f"{self.of} learns nothing, so there is nothing to carry in a bundle; run it where the data is"
        )

    def __call__(self, X: np.ndarray) -> np.ndarray:
        raise NotImplementedError


@register_filter("resample", modality="windows", offered=False, examples=[{"rate": 5, "from_rate": 50}])
class Resample(CoarseWindows):
    """Windows as if sampled at a lower rate (Fourier method), brought back to their own length.

    Parameters
    ----------
    rate : the knob, samples a second that are kept
    from_rate : samples a second of the windows
    random_state : as every filter has; nothing is drawn

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((4, 2, 100))
    >>> Resample(rate=5, from_rate=50).fit(X).transform(X).shape
    (4, 2, 100)
    """

    knob = Knob("rate", utility_rises=True, values=(2.0, 5.0, 10.0, 20.0, 30.0, 40.0))

    def __init__(self, rate: float = 10.0, from_rate: float = 50.0, *, random_state: Any = None) -> None:
        self.rate = rate
        self.from_rate = from_rate
        self.random_state = random_state

    def _coarsening(self, length: int) -> Coarsening:
        check_number("from_rate", self.from_rate, 1e-9)
        check_number("rate", self.rate, 1e-9, self.from_rate)
        if round(length * self.rate / self.from_rate) < 2:
            raise InputError(
                f"rate={self.rate:g} leaves fewer than 2 of {length} samples at from_rate={self.from_rate:g}; "
                f"pass a higher rate or longer windows"
            )
        return Resampling(round(length * self.rate / self.from_rate))


@dataclass(frozen=True)
class Resampling(Coarsening):
    """Windows resampled to n samples and back."""

    of = "Resample"

    samples: int

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return resample(resample(X, self.samples, axis=2), X.shape[2], axis=2)


@register_filter("singular-spectrum", modality="windows", offered=False, examples=[{"components": 2, "embedding": 8}])
class SingularSpectrum(CoarseWindows):
    """Each channel rebuilt from the strongest components of its singular spectrum (eq. 14 of the AAE paper).

    Parameters
    ----------
    components : how many, counted from the strongest; or which ones, as (1, 2)
    embedding : the number of components a channel has in all (the paper has 50)
    random_state : as every filter has; nothing is drawn

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((3, 1, 40))
    >>> whole = SingularSpectrum(components=8, embedding=8).fit(X).transform(X)
    >>> bool(np.allclose(whole, X))
    True
    """

    knob = Knob("components", utility_rises=True, values=(1, 2, 4, 8, 16))

    def __init__(self, components: int | Sequence[int] = 2, embedding: int = 50, *, random_state: Any = None) -> None:
        self.components = components
        self.embedding = embedding
        self.random_state = random_state

    def _coarsening(self, length: int) -> Coarsening:
        check_number("embedding", self.embedding, 1, whole=True)
        if self.embedding >= length:
            raise InputError(
                f"embedding={self.embedding} needs windows of more than {self.embedding} samples; found {length}"
            )
        chosen = self.components
        if not isinstance(chosen, (list, tuple, np.ndarray)):
            check_number("components", chosen, 1, self.embedding, whole=True)
            chosen = range(1, int(chosen) + 1)  # type: ignore[arg-type]
        for c in chosen:
            check_number("components", c, 1, self.embedding, whole=True)
        return SpectrumPart(tuple(int(c) for c in chosen), self.embedding)


@dataclass(frozen=True)
class SpectrumPart(Coarsening):
    """Channels rebuilt from these components of so many."""

    of = "SingularSpectrum"

    chosen: tuple[int, ...]
    embedding: int

    def __call__(self, X: np.ndarray, chunk: int = 2048) -> np.ndarray:
        series = X.reshape(-1, X.shape[2])
        parts = [self._rebuild(series[i : i + chunk]) for i in range(0, len(series), chunk)]
        return np.concatenate(parts).reshape(X.shape)

    def _rebuild(self, series: np.ndarray) -> np.ndarray:
        """Project the trajectory matrix on its chosen left singular vectors; average its anti-diagonals."""
        w, length = self.embedding, series.shape[1]
        trajectory = np.lib.stride_tricks.sliding_window_view(series, length - w + 1, axis=1)  # (n, w, lags)
        vectors = np.linalg.eigh(trajectory @ trajectory.transpose(0, 2, 1))[1]
        basis = vectors[:, :, [w - c for c in self.chosen]]  # eigh sorts upwards
        kept = basis @ (basis.transpose(0, 2, 1) @ trajectory)
        out = np.zeros_like(series)
        for row in range(w):
            out[:, row : row + kept.shape[2]] += kept[:, row]
        lags = kept.shape[2]
        times = np.minimum.reduce([np.arange(1, length + 1), np.arange(length, 0, -1), np.full(length, min(w, lags))])
        return out / times
