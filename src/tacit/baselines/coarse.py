"""Coarser windows: fewer samples a second, or the first components of a singular spectrum. Nothing is learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.signal import resample
from sklearn.utils.validation import check_is_fitted

from tacit.errors import InputError, check_number
from tacit.filters.base import Filter, Knob
from tacit.records.windows import check_windows


class CoarseWindows(Filter, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """A filter that treats every window alike: no labels are needed, and no window is "in-sample"."""

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None, units: Any = None) -> Self:
        """Check the parameters and remember the windows' shape."""
        windows = self._windows(X, reset=True)
        self._n_features_out = int(np.prod(windows.shape[1:]))
        self._rows = windows
        return self

    def transform(self, X: Any, units: Any = None) -> np.ndarray:
        """Release windows of the same shape and units of measure; there is no noise that `units` could name."""
        check_is_fitted(self, "_n_features_out")
        return self._coarsen(self._windows(X, reset=False))

    def seen(self, X: Any, units: Any = None) -> np.ndarray:
        """No window: nothing is learned from any."""
        return np.zeros(len(X), dtype=bool)

    def _release_out_of_fold(self) -> np.ndarray:
        return self._coarsen(self._rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags

    def _windows(self, X: Any, reset: bool) -> np.ndarray:
        check_windows(X)
        windows: np.ndarray = self._check_records(X, reset)  # type: ignore[assignment]
        self._check_parameters(windows.shape[2])
        return windows

    def _check_parameters(self, length: int) -> None:
        raise NotImplementedError

    def _coarsen(self, X: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class Resample(CoarseWindows):
    """Windows as if sampled at a lower rate (Fourier method), brought back to their own length.

    Parameters
    ----------
    rate : the knob, samples a second that are kept
    from_rate : samples a second of the windows

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

    def _check_parameters(self, length: int) -> None:
        check_number("from_rate", self.from_rate, 1e-9)
        check_number("rate", self.rate, 1e-9, self.from_rate)
        if round(length * self.rate / self.from_rate) < 2:
            raise InputError(
                f"rate={self.rate:g} leaves fewer than 2 of {length} samples at from_rate={self.from_rate:g}; "
                f"pass a higher rate or longer windows"
            )

    def _coarsen(self, X: np.ndarray) -> np.ndarray:
        length = X.shape[2]
        return resample(resample(X, round(length * self.rate / self.from_rate), axis=2), length, axis=2)


class SingularSpectrum(CoarseWindows):
    """Each channel rebuilt from the strongest components of its singular spectrum (eq. 14 of the AAE paper).

    Parameters
    ----------
    components : how many, counted from the strongest; or which ones, as (1, 2)
    embedding : the number of components a channel has in all (the paper has 50)

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

    def _check_parameters(self, length: int) -> None:
        check_number("embedding", self.embedding, 1, whole=True)
        if self.embedding >= length:
            raise InputError(
                f"embedding={self.embedding} needs windows of more than {self.embedding} samples; found {length}"
            )
        for c in self._chosen():
            check_number("components", c, 1, self.embedding, whole=True)

    def _chosen(self) -> list[Any]:
        if isinstance(self.components, (list, tuple, np.ndarray)):
            return list(self.components)
        check_number("components", self.components, 1, self.embedding, whole=True)
        return list(range(1, int(self.components) + 1))  # type: ignore[arg-type]

    def _coarsen(self, X: np.ndarray, chunk: int = 2048) -> np.ndarray:
        series = X.reshape(-1, X.shape[2])
        parts = [self._rebuild(series[i : i + chunk]) for i in range(0, len(series), chunk)]
        return np.concatenate(parts).reshape(X.shape)

    def _rebuild(self, series: np.ndarray) -> np.ndarray:
        """Project the trajectory matrix on its chosen left singular vectors; average its anti-diagonals."""
        w, length = self.embedding, series.shape[1]
        trajectory = np.lib.stride_tricks.sliding_window_view(series, length - w + 1, axis=1)  # (n, w, lags)
        vectors = np.linalg.eigh(trajectory @ trajectory.transpose(0, 2, 1))[1]
        basis = vectors[:, :, [w - c for c in self._chosen()]]  # eigh sorts upwards
        kept = basis @ (basis.transpose(0, 2, 1) @ trajectory)
        out = np.zeros_like(series)
        for row in range(w):
            out[:, row : row + kept.shape[2]] += kept[:, row]
        lags = kept.shape[2]
        times = np.minimum.reduce([np.arange(1, length + 1), np.arange(length, 0, -1), np.full(length, min(w, lags))])
        return out / times
