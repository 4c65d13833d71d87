"""What Tacit raises and warns: what was found, what was expected, and what to do about it."""

from __future__ import annotations

import difflib
import importlib.util
import math
import numbers
from collections.abc import Sequence
from typing import Any


class TacitError(Exception):
    """Everything Tacit raises on purpose."""


class InputError(TacitError, ValueError):
    """The data or a parameter is not what was expected; the message names it and the remedy."""


class InputTypeError(TacitError, TypeError):
    """A value has a type that cannot be used; the message names it and the remedy."""


class BundleError(TacitError, ValueError):
    """A bundle is damaged, forged, too new, or not what its manifest says; nothing of it was used."""


class UntrustedBundle(BundleError):
    """A bundle that this user did not write on this machine, and that no trusted key has signed."""

    code = "bundle.untrusted"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} was not written by you on this machine, so it is not loaded. Either have it signed where it was "
            f"made (tacit release sign {name} --signing-key KEY) and pass the public key here (trusted_key='KEY.pub', "
            f"or --trusted-key KEY.pub); or, if you know where the file comes from, pass trust=True (or --trust)"
        )
        self.name = name


class ContradictionError(TacitError):
    """An attacker of ours reads more than a certificate allows: one of the two is wrong, and nothing may be signed."""


class RequirementNotMet(TacitError):
    """`Report.require` was not satisfied; the message says by how much."""


EXTRAS = {
    "torch": "train", "onnxscript": "train", "flwr": "federated", "fastapi": "serve", "uvicorn": "serve",
    "prometheus_client": "serve", "httpx": "serve", "dp_accounting": "privacy", "openpyxl": "excel", "duckdb": "sql",
    "PIL": "deep", "matplotlib": "figures", "cryptography": "sign",
}  # fmt: skip


class NoColumn(InputError):
    """A file lacks a column; the message has the nearest name that it has.

    Attributes
    ----------
    file, column : names of both
    columns : the names that the file has

    Examples
    --------
    >>> print(NoColumn("people.csv", "Age", ["age", "sex"]))
    people.csv has no column 'Age'; did you mean 'age'? Its columns are age, sex
    """

    code = "column.missing"

    def __init__(self, file: str, column: str, there: Sequence[Any], role: str = "") -> None:
        self.file, self.column, self.columns, self.role = file, column, [str(n) for n in there], role
        lower = {n.lower().strip(): n for n in self.columns}
        near = difflib.get_close_matches(column.lower().strip(), list(lower), 1, 0.6)
        mean = f"; did you mean {lower[near[0]]!r}? Its" if near else "; its"
        names = ", ".join(self.columns[:20]) + (f" and {len(there) - 20} more" if len(there) > 20 else "")
        super().__init__(f"{file} has no column {column!r}{role}{mean} columns are {names}")

    def __reduce__(self) -> Any:  # it crosses processes
        return type(self), (self.file, self.column, self.columns, self.role)


def installed(module: str) -> bool:
    """Whether a library can be imported here, without doing so."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


class NotInstalled(TacitError, ModuleNotFoundError):
    """A library that only some installs of Tacit have; the message names the extra that brings it."""

    def __init__(self, what: str, module: str) -> None:
        extra = EXTRAS.get(module.split(".")[0])  # without one: a device install, which has numpy and onnxruntime
        get = "tacit" if extra is None else f"'tacit[{extra}]'"
        super().__init__(f"{what} needs {module}, which is not installed; get it with: pip install {get}")
        self.name = module


def check_number(
    name: str, value: Any, low: float, high: float = math.inf, whole: bool = False, optional: bool = False
) -> None:
    """Refuse a parameter that is not a number, or lies outside its range."""
    if value is None and optional:
        return
    number = isinstance(value, numbers.Integral if whole else numbers.Real) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not low <= value <= high:
        kind = "a whole number" if whole else "a number"
        range_ = f"of at least {low:g}" if high == math.inf else f"between {low:g} and {high:g}"
        raise InputError(f"{name} must be {kind} {range_}{' (or None)' if optional else ''}; found {value!r}")


class TacitWarning(UserWarning):
    """Something works but is probably not what the user wants."""


class OtherKeyWarning(TacitWarning):
    """Noise is drawn under another key than that of the fit, so the draws are not the filter's."""

    code = "noise_key.other"


class DependenceWarning(TacitWarning):
    """A target is (nearly) a function of a sensitive attribute, or the other way round."""


class CollapseWarning(TacitWarning):
    """A filter was trained but its release carries nothing, or a head stopped learning."""
