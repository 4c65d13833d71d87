"""What the service does with releases: check them against the bundle's output, and run the analyzer. Numpy alone."""

from __future__ import annotations

import itertools
import math
from itertools import chain
from typing import Any

import numpy as np

from tacit.errors import BundleError, InputError
from tacit.files import onnx_session
from tacit.release.bundle import Bundle
from tacit.release.first_load import try_elsewhere
from tacit.release.manifest import ANALYZER

# Messages of this module go to whoever sent a request: they name places and never repeat a value.


class Answerer:
    """The analyzer of a bundle, ready to run; safe to use from several threads."""

    def __init__(self, bundle: Bundle) -> None:
        output, declared = bundle.manifest["output"], bundle.manifest.get("analyzer")
        if declared is None:
            raise InputError(
                f"{bundle.name} has no analyzer, so a service could not answer; save it with "
                f"tacit.save(f, path, report, analyzer=tacit.serve.fit_analyzer(f, data))"
            )
        try_elsewhere(bundle)
        self.shape = tuple(output["shape"])
        self.codes: int | None = output["codes"]
        self.targets = declared["targets"]
        ends = np.cumsum([0, *(len(t["classes"]) for t in self.targets)]).tolist()
        self.spans = list(itertools.pairwise(ends))
        self._session = _session(bundle.members[ANALYZER])
        found = self.probabilities(np.zeros((1, *self.shape)))
        if found.shape != (1, ends[-1]):
            raise BundleError(f"{ANALYZER} gives {found.shape[1:]} numbers a release, its manifest says {ends[-1]}")

    def probabilities(self, Z: np.ndarray) -> np.ndarray:
        """For each release the probabilities of all classes, target after target."""
        try:
            return self._session.run(["answer"], {"release": np.ascontiguousarray(Z, dtype=np.float64)})[0]
        except Exception as error:  # onnxruntime's errors share no base of their own
            raise BundleError(f"{ANALYZER} failed ({str(error)[:300]})") from None

    def answer(self, Z: np.ndarray) -> dict[str, Any]:
        """By target: for each release the likeliest class, and the probabilities of all."""
        found = self.probabilities(Z)
        answers = {}
        for target, (first, last) in zip(self.targets, self.spans, strict=True):
            part = found[:, first:last]
            labels = [target["classes"][i] for i in part.argmax(axis=1)]
            answers[target["name"]] = {"label": labels, "probabilities": part.round(6).tolist()}
        return {"rows": len(Z), "answers": answers}

    # -- what comes in --------------------------------------------------------------------------

    def from_lists(self, value: Any) -> np.ndarray:
        """Releases from nested lists of numbers, of the bundle's output shape exactly."""
        if type(value) is not list:
            raise InputError("'release' must be a list of releases")
        flat = value
        for length in self.shape:
            if any(type(v) is not list or len(v) != length for v in flat):
                raise InputError(f"every release must be a list of numbers of shape {list(self.shape)}")
            flat = list(chain.from_iterable(flat))
        if any(type(v) is not float and type(v) is not int for v in flat):
            raise InputError("releases are made of numbers; found something else")
        try:
            return self.checked(np.array(flat, dtype=np.float64).reshape(len(value), *self.shape))
        except OverflowError:
            raise InputError("a number is too large") from None

    def from_bytes(self, data: bytes) -> np.ndarray:
        """Releases from little-endian doubles, one release after the other."""
        size = 8 * math.prod(self.shape)
        if len(data) % size:
            raise InputError(f"a release has {size} bytes (little-endian doubles of shape {list(self.shape)}); "
                             f"found {len(data)} bytes")  # fmt: skip
        return self.checked(np.frombuffer(data, dtype="<f8").reshape(-1, *self.shape))

    def checked(self, Z: np.ndarray) -> np.ndarray:
        if len(Z) == 0:
            raise InputError("there is no release")
        flat = Z.reshape(len(Z), -1)
        # networks run in single precision: what does not fit there would come out as no answer at all
        bad = ~(np.abs(flat) <= 1e30)
        if self.codes is not None:
            bad |= ~((flat >= 0) & (flat < self.codes) & (flat == np.floor(flat)))
        if bad.any():
            row = int(np.flatnonzero(bad.any(axis=1))[0])
            what = "finite numbers" if self.codes is None else f"whole numbers from 0 to {self.codes - 1}"
            raise InputError(f"release {row}: releases of this bundle are {what}")
        return Z


def _session(model: bytes) -> Any:
    try:
        return onnx_session(model)  # one thread: requests run beside each other instead
    except Exception as error:  # onnxruntime's errors share no base of their own
        raise BundleError(f"{ANALYZER} cannot be run ({str(error)[:300]})") from None
