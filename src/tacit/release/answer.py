"""Run the analyzer of a bundle on releases. Numpy and onnxruntime alone."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tacit.errors import BundleError, InputError
from tacit.files import onnx_session
from tacit.release.bundle import Bundle
from tacit.release.manifest import ANALYZER


class Answerer:
    """The analyzer of a bundle, ready to run. It is safe to use from several threads."""

    def __init__(self, bundle: Bundle) -> None:
        output, declared = bundle.manifest["output"], bundle.manifest.get("analyzer")
        if declared is None:
            raise InputError(
                f"{bundle.name} has no analyzer, so a service could not answer; save it with "
                f"tacit.save(f, path, report, analyzer=tacit.serve.fit_analyzer(f, data))"
            )
        self.shape = tuple(output["shape"])
        self.codes: int | None = output["codes"]
        self.targets = declared["targets"]
        ends = np.cumsum([0, *(len(t["classes"]) for t in self.targets)]).tolist()
        self.spans = list(itertools.pairwise(ends))
        self._session = _session(bundle.graph(ANALYZER))
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


def _session(model: bytes) -> Any:
    try:
        return onnx_session(model)  # one thread: requests run beside each other instead
    except Exception as error:  # onnxruntime's errors share no base of their own
        raise BundleError(f"{ANALYZER} cannot be run ({str(error)[:300]})") from None
