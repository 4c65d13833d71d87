"""What a fitted filter leaves: one frozen object that releases, and from which every claim is read.

A filter is a learner. `fit` ends in a `Mechanism`, and `transform` is its release: no parameter that is set afterwards
changes what is released or what is said of it. Audit, bundle, frontier, service and federation use it alone; a loaded
bundle is one too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from tacit.errors import InputError
from tacit.noise.keyed import Bounded, Noise, Support
from tacit.records.dataset import Dataset
from tacit.records.fingerprints import Memory
from tacit.records.finite import FiniteColumn
from tacit.records.intake import Intake

if TYPE_CHECKING:  # tables are released and audited without torch
    from torch import nn


class Code(Protocol):
    """The learned part of a release: encoded records to numbers, before noise that is added to them.

    A code that takes noise in instead has `noisy(X, drawn)`; one that can be written to a file has `arrays()`.
    """

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Encoded records to what leaves, or to the number of their row in the mechanism's table."""

    def graph(self, g: Any, x: str) -> str:
        """The same as a graph: `x` names the encoded records; returns the result's name.

        `g` is a `tacit.release.onnx.GraphBuilder`. Noise that is taken in is its value `g.noise`.
        """


@dataclass(frozen=True)
class Mechanism:
    """A fitted filter's release, frozen.

    A filter's `_learn` gives the first six; the end of `fit` adds the others.

    Attributes
    ----------
    code : the learned part: encoded records to numbers
    width : how many numbers or columns a release has
    noise : what is really drawn for every release; None where releases carry none
    support : what a release can be (finite, bounded under noise, or neither), from which a certificate is chosen
    table : where a release is a row of a table: that table; the code then gives numbers of rows
    cloud : the network that answers from releases and each target's classes, where the filter has such a half
    filter : the name of the filter that learned it
    schema : what goes in: columns or shape, and how they are encoded
    memory : the rows of the fit, for the owner to know them again
    sensitive_classes : by sensitive attribute, the classes of the fit
    sees_sensitive : whether a release looks at the sensitive column
    """

    code: Code
    width: int
    noise: Noise | None = None
    support: Support = None
    table: pd.DataFrame | None = None
    cloud: tuple[nn.Module, Mapping[str, Any]] | None = None
    filter: str = ""
    schema: Intake = None  # type: ignore[assignment]
    memory: Memory | None = field(default=None, repr=False)
    sensitive_classes: Mapping[str, list[Any]] = field(default_factory=dict)
    sees_sensitive: bool = False

    @property
    def epsilon(self) -> float | None:
        """The local privacy of every release, by the noise that is really drawn; None where there is none."""
        return self.support.epsilon(self.noise.scale) if isinstance(self.support, Bounded) and self.noise else None

    @property
    def columns(self) -> tuple[FiniteColumn, ...] | None:
        """Where a release is a table of finite columns: these; None for all others."""
        return None

    def release(self, X: Any, key: bytes | None = None, units: Any = None) -> Any:
        """Release records; noise is drawn under the owner's key, for the unit each record belongs to."""
        encoded = self.schema.encode(X)
        return self.leave(self.numbers(encoded, self.draw(encoded, key, units)))

    def noiseless(self, X: Any) -> np.ndarray:
        """The code before added noise: for certificates and comparisons, never for release."""
        return np.asarray(self.code(self.schema.encode(X)), dtype=np.float64)

    def numbers(self, encoded: np.ndarray, drawn: np.ndarray | None) -> np.ndarray:
        """Encoded records to numbers, with this noise."""
        if drawn is None or self.noise is None:
            return self.code(encoded)
        if self.noise.added:
            return self.noise.add(self.code(encoded), drawn)
        return self.code.noisy(encoded, drawn)  # type: ignore[attr-defined]

    def draw(self, encoded: np.ndarray, key: bytes | None, units: Any = None) -> np.ndarray | None:
        """The noise of encoded records, keyed by what they are and whose; None without noise."""
        if self.noise is None:
            return None
        if key is None:
            raise InputError("this release carries noise, which is drawn under a secret key; pass key=")
        return self.noise.draw(key, self.noise.names(encoded, units))

    def leave(self, out: np.ndarray) -> Any:
        """Numbers in the one form in which they leave: rows of the table, no index, no negative zero."""
        table = self.table
        return as_it_leaves(out if table is None else table.iloc[out[:, 0].astype(np.int64)])

    def draw_names(self, X: Any, units: Any = None) -> list[bytes] | None:
        """What names the noise of each record: two records of one name share their draw. None without noise."""
        return None if self.noise is None else self.noise.names(self.schema.encode(X), units)

    def seen(self, X: Any, units: Any = None) -> np.ndarray:
        """Which of these records belong to a unit of the fit, or equal one of its records."""
        return np.zeros(len(X), dtype=bool) if self.memory is None else self.memory.seen(self.schema.check(X), units)

    def with_noise(self, noise: Noise | None) -> Mechanism:
        """The same code under other noise; what is claimed of it changes alike."""
        support = None if noise is None and isinstance(self.support, Bounded) else self.support
        return replace(self, noise=noise, support=support)

    def graph(self, g: Any, x: str) -> str:
        """The release before added noise, as a graph."""
        return self.code.graph(g, x)

    def arrays(self) -> dict[str, np.ndarray] | None:
        """What was learned, as named arrays; None where learning again is how it is got back."""
        give = getattr(self.code, "arrays", None)
        return None if give is None else give()


@dataclass(frozen=True, eq=False)
class NetworkOutput:
    """A code that is a network's output, in double precision.

    Attributes
    ----------
    net : encoded records to numbers
    flat : records go in as rows
    exact : exported in double precision too
    """

    net: nn.Module
    flat: bool = False
    exact: bool = False

    def __call__(self, X: np.ndarray) -> np.ndarray:
        from tacit.nets.forward import forward  # only a network needs torch

        return forward(self.net, X.reshape(len(X), -1) if self.flat else X)

    def graph(self, g: Any, x: str) -> str:
        return g.torch(self.net, g.flat(x) if self.flat else x, "encoder", exact=self.exact)


def mechanism_of(release: Any) -> Any:
    """The mechanism of a fitted filter; a loaded bundle is its own; None for anything else with ``transform``."""
    found = getattr(release, "mechanism_", None)
    if found is not None:
        return found
    return release if hasattr(release, "support") and hasattr(release, "draw_names") else None


def sees_sensitive(release: Any) -> bool:
    """Whether a release looks at the sensitive columns of the records it is given."""
    return bool(getattr(mechanism_of(release), "sees_sensitive", False))


def transformed(release: Any, data: Dataset) -> Any:
    """What a release makes of records; one that looks at the sensitive columns is given them, and the targets."""
    if mechanism_of(release) is None:
        return release.transform(data.X)
    seen = {"sensitive_features": data.sensitive, "y": data.y} if sees_sensitive(release) else {}
    return release.transform(data.X, data.units_of(), **seen)  # draws are a person's: say whose records these are


def as_it_leaves(Z: Any) -> Any:
    """A release in its one form: no index, no name but the columns', and 0.0 for -0.0, which a receiver can tell apart.

    Whatever a release could say beside its values it would say about a person.
    """
    if isinstance(Z, pd.DataFrame):
        Z = Z.reset_index(drop=True)
        Z.attrs.clear()
        floats = [c for c in Z.columns if pd.api.types.is_float_dtype(Z[c])]
        return Z.assign(**{c: Z[c] + 0.0 for c in floats}) if floats else Z
    array = np.ascontiguousarray(Z)
    return array + 0.0 if array.dtype.kind == "f" else array
