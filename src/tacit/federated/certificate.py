"""`certify_nodes`: the certificate of a finite release from counts of several holders, none of whom shows a label.

Each node releases its own records and counts them, by release and by sensitive class; the counts are summed (under
masks with `secure=True`), and `tacit.certify` takes the sum. The label-only baseline is certified in the same way: pass
a fitted `LabelOnly`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tacit.auditing.engine_counts import CountedCertificates, certify
from tacit.errors import InputError, check_number
from tacit.federated.masked_sums import SumCoordinator, SumWorker
from tacit.federated.node import Grants, Node, naming
from tacit.federated.protocol import ALL, Kept, Message, ProtocolError
from tacit.federated.rounds import simulate
from tacit.labels import label_frame
from tacit.records.dataset import unit_columns
from tacit.records.fingerprints import fingerprints

MAX_KINDS = 10_000  # different pairs of release and class that a node tells of
ONE_EACH = (
    "one record of each person, drawn at its node, was counted; somebody whose records are at two nodes counts as two"
)


def certify_nodes(release: Any, nodes: Sequence[Node], *, secure: bool = False, **terms: Any) -> CountedCertificates:
    """Bound any attacker on a finite release by the sums of counts of all nodes.

    Parameters
    ----------
    release : a fitted filter or a loaded bundle whose releases are few (a codebook, label-only)
    nodes : `Node`s whose records the filter has not seen, with the same sensitive columns
    secure : the server sees sums over all nodes alone (`tacit.federated.masked_sums`); otherwise each node's counts
    terms : `classes`, `n_cells`, `candidates`, `confidence_level`, as of `tacit.certify`

    Notes
    -----
    Beside the sums the server hears which releases and which sensitive classes occur at a node, and how many people
    it counted. It does not hear who has which.

    Examples
    --------
    >>> import tacit
    >>> from tacit.auditing.looks import new_project
    >>> from tacit.federated import Node, certify_nodes
    >>> train, *parts = tacit.load_dataset("quadrants", n=4000).split((.25, .25, .25, .25), random_state=0)
    >>> f = tacit.CodebookFilter(n_codes=4, random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)
    >>> with new_project():
    ...     found = certify_nodes(f, [Node(d.X, sensitive_features=d.sensitive) for d in parts])
    >>> found["shape"].n
    3000
    """
    return simulate(nodes, Counting(release, terms, secure))


class Counting:
    """The algorithm behind `certify_nodes`, for `simulate` and for Flower.

    Between machines every node counts the releases of its own copy of a bundle: a server that chose the release could
    choose one that tells a person from all others. Copies that differ are refused.
    """

    grants: Grants | None = None

    def __init__(self, release: Any, terms: Mapping[str, Any], secure: bool = False) -> None:
        self.release, self.terms, self.secure, self.copy = release, terms, secure, ""

    def check_parameters(self) -> None:
        """Raise where a term is not one that can be used."""
        check_number("n_cells", self.terms.get("n_cells"), 1, whole=True, optional=True)
        check_number("candidates", self.terms.get("candidates", 1), 1, whole=True)
        check_number("confidence_level", self.terms.get("confidence_level", 0.95), 0.5, 0.999999)

    def count(self, bundle: Path) -> None:
        """Count the releases of this bundle."""
        from tacit.release.runtime import load  # every message starts a new Python at a node

        self.release, self.copy = load(bundle, trust=True), hashlib.sha256(bundle.read_bytes()).hexdigest()

    def coordinator(self, names: Sequence[str], min_nodes: int = 2) -> SumCoordinator:
        return SumCoordinator(CountsCoordinator(), names, min_nodes, {"counts": Counts()}, self.secure)

    def worker(self, node: Node) -> SumWorker:
        return SumWorker(CountsWorker(self.release, node, self.copy), {"counts": Counts()}, self.secure)

    def conclude(self, coordinator: Any, workers: Sequence[Any] = ()) -> CountedCertificates:
        found = certify(coordinator.table, coordinator.sensitive, **self.terms)
        found.notes.append(ONE_EACH)
        return found


class CountsCoordinator(Kept):
    """Asks once, and keeps what comes."""

    kept = ("round", "keys", "counts", "sensitive", "log")
    n_rounds = 1

    def __init__(self) -> None:
        self.round, self.keys, self.sensitive = 0, list[list[Any]](), list[str]()
        self.counts = np.zeros(0)
        self.log: list[dict[str, Any]] = []

    @property
    def finished(self) -> bool:
        return self.round == 1

    def requests(self, available: Sequence[str]) -> list[Message]:
        return [Message("count", node, 0) for node in available]

    def receive(self, answers: Sequence[Message]) -> None:
        (answer,) = answers
        self.keys, self.sensitive = answer.facts["keys"], answer.facts["sensitive"]
        self.counts, self.round = answer.arrays["n"], 1
        self.log.append({"round": 0, "rejected": {}})

    @property
    def table(self) -> pd.DataFrame:
        released = [f"z{i}" for i in range(len(self.keys[0]) - len(self.sensitive))]
        return pd.DataFrame(self.keys, columns=[*released, *self.sensitive]).assign(n=self.counts)


class CountsWorker(Kept):
    """Releases a node's records, and counts one of each person."""

    def __init__(self, release: Any, node: Node, copy: str = "") -> None:
        self.release, self.node, self.name, self.copy = release, node, str(node.name), copy

    def digest(self) -> str:
        """Of this node's data and its copy of the release."""
        return hashlib.sha256(fingerprints(self.node.X).tobytes() + self.copy.encode()).hexdigest()

    def own_filter(self) -> None:
        """None is learned."""

    def work(self, message: Message) -> Message:
        if message.kind != "count":
            raise ProtocolError(f"node {self.name!r} knows 'count'; found {message.kind!r}")
        node, rng = self.node, np.random.default_rng()
        with naming(f"node {self.name!r}"):
            if node.sensitive_features is None:
                raise InputError("there is no sensitive attribute to certify; pass sensitive_features")
            labels = label_frame(node.sensitive_features, "sensitive_features")
        released = pd.DataFrame(np.asarray(self.release.transform(node.X)).reshape(len(node), -1))
        table = pd.concat([released, labels.reset_index(drop=True)], axis=1)
        units = unit_columns(node.units, len(node))
        if units is not None:
            who = next(iter(units.values()))
            shuffled = rng.permutation(len(node))
            table = table.iloc[shuffled[np.unique(who[shuffled], return_index=True)[1]]]
        table = table.dropna(subset=list(labels.columns))
        counts = table.groupby(list(table.columns), sort=True, observed=True).size()
        if not 1 <= len(counts) <= MAX_KINDS:
            raise InputError(
                f"node {self.name!r} has {len(counts):,} different releases with their classes, expected 1 to "
                f"{MAX_KINDS:,}; releases that can be certified by counting are few"
            )
        keys = [[getattr(v, "item", lambda v=v: v)() for v in key] for key in counts.index]
        facts = {"records": len(table), "keys": keys, "sensitive": [str(c) for c in labels.columns], "copy": self.copy}
        return Message("counts", self.name, 0, facts, {"n": counts.to_numpy()})


class Counts:
    """Counts as addends; which releases and classes there are is told."""

    def outline(self, answer: Message) -> dict[str, Any]:
        width = len(answer.facts["sensitive"])
        parts = zip(*((tuple(key[:-width]), tuple(key[-width:])) for key in answer.facts["keys"]), strict=True)
        releases, classes = (sorted(set(part), key=str) for part in parts)
        told = {"releases": [list(z) for z in releases], "classes": [list(s) for s in classes]}
        return told | {k: answer.facts[k] for k in ("sensitive", "copy")}

    def agree(self, outlines: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, str]]:
        first = outlines[min(outlines)]
        rejected = {
            n: f"has the sensitive columns {told.get('sensitive')}, {min(outlines)!r} has "
            f"{first['sensitive']}; pass the same everywhere"
            for n, told in outlines.items()
            if told.get("sensitive") != first["sensitive"]
        }
        copies = Counter(told.get("copy") for told in outlines.values()).most_common(1)[0][0]
        rejected |= {
            n: "has another bundle than the others; give every node the same file"
            for n, told in outlines.items()
            if told.get("copy") != copies
        }
        usable = [told for n, told in sorted(outlines.items()) if n not in rejected]
        releases, classes = (
            sorted({tuple(part) for told in usable for part in told[word]}, key=str) for word in ("releases", "classes")
        )
        return {"keys": [[*z, *s] for z in releases for s in classes], "sensitive": first["sensitive"]}, rejected

    def numbers(self, answer: Message, agreed: Mapping[str, Any]) -> np.ndarray:
        own = {tuple(key): n for key, n in zip(answer.facts["keys"], answer.arrays["n"], strict=True)}
        return np.array([own.get(tuple(key), 0) for key in agreed["keys"]], dtype=np.float64)

    def total(self, numbers: np.ndarray, agreed: Mapping[str, Any], records: int, within: Any) -> Message:
        if numbers.shape != (len(agreed["keys"]),) or numbers.min() < -0.5 or abs(numbers.sum() - records) > 0.5:
            raise ProtocolError(f"sent counts that are not of {records} records")
        return Message("counts", ALL, 0, {"records": records, **agreed}, {"n": np.rint(numbers).astype(np.int64)})
