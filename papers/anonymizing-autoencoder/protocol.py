"""Windows, fresh networks and intervals that the experiments share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tacit
from tacit.auditing.stats import Measure, accuracy
from tacit.nets.windows import NetworkClassifier, deep_classifier, wide_classifier
from tacit.records.dataset import Dataset
from tacit.training.device import choose_device

RATE = 50  # samples a second
GUESSED_F1 = {"activity": 1 / 4, "identity": 1 / 24}  # one over the classes: see `tacit.auditing.measures.macro_f1`
FAMILIES = {"wide CNN": wide_classifier, "deep CNN": deep_classifier}


SEEN = ", attackers learn from rows the filter saw"  # of the summary's lines


def line_of(name: str) -> str:
    """What the summary calls a release whose attackers learn from the rows of its fit; raw data has none."""
    return name if name == "raw" else name + SEEN


def some_windows(
    s: dict[str, Any], split: str, signals: str = "magnitude", sensitive: Any = "identity"
) -> tuple[Dataset, Dataset]:
    """At most `windows` of the training part and half as many of the test part, at random."""
    data = tacit.load_dataset("motionsense", split=split, signals=signals, sensitive=sensitive, stride=s["stride"])
    rng = np.random.default_rng(0)
    train, test = data.split("official")
    return tuple(
        d.take(np.sort(rng.permutation(len(d))[:n])) for d, n in ((train, s["windows"]), (test, s["windows"] // 2))
    )  # type: ignore[return-value]


def network(
    X: np.ndarray, labels: Any, epochs: int, make: Any = wide_classifier, seed: int = 0
) -> Callable[[np.ndarray], np.ndarray]:
    """A fresh, class-balanced network as a function from windows to answers; on a GPU where there is one."""
    classes, codes = np.unique(np.asarray(labels), return_inverse=True)
    net = NetworkClassifier(make, epochs, 128, 3e-3, seed=seed, device=choose_device("auto"))
    net.fit(X, codes, len(classes))
    return lambda Z: classes[net.predict_proba(Z).argmax(1)]


def measured(truth: Any, guess: Any, units: Any) -> list[float]:
    """Accuracy with its interval, by recording, and the commonest class's share."""
    names = np.unique(np.concatenate([np.asarray(truth), np.asarray(guess)]), return_inverse=True)[1]
    found: Measure = accuracy(names[: len(truth)], names[len(truth) :], np.unique(units, return_inverse=True)[1])
    return [float(v) for v in found]


def told(m: list[float], by: str) -> dict[str, Any]:
    """What `measured` gave, as a line of an audit."""
    return {"value": m[0], "low": m[1], "high": m[2], "guessing": m[3], "by": by}


def read_by_cnns(a: Any, learn: Any, b: Any, truth: Any, units: Any, epochs: int, seed: int) -> dict[str, Any]:
    """A label by the better of two families of networks, both trained afresh on `a`; no choice: both are kept."""
    found = {by: measured(truth, network(a, learn, epochs, make, seed)(b), units) for by, make in FAMILIES.items()}
    best = max(found, key=lambda by: found[by][0])
    return {**told(found[best], best), "each": {by: m[0] for by, m in found.items()}}
