"""Certificates by sums of counts are those of the pooled records, and under masks no count is shown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.auditing.looks import new_project
from tacit.baselines import LabelOnly
from tacit.errors import InputError
from tacit.federated import Node, certify_nodes
from tacit.federated.certificate import ONE_EACH, Counting

TRAIN, *PARTS = tacit.load_dataset("quadrants", n=2400).split((0.25, 0.25, 0.25, 0.25), random_state=0)
NODES = [Node(d.X, d.y, sensitive_features=d.sensitive, name=f"n{i}") for i, d in enumerate(PARTS)]


@pytest.fixture(scope="module")
def fitted():
    f = tacit.CodebookFilter(n_codes=4, random_state=0)
    return f.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)


@pytest.fixture(autouse=True)
def fresh():
    with new_project():
        yield


def pooled(f):
    released = np.concatenate([f.transform(d.X) for d in PARTS])
    table = pd.DataFrame(released, columns=[f"z{i}" for i in range(released.shape[1])])
    table["shape"] = pd.concat([d.sensitive for d in PARTS])["shape"].to_numpy()
    return table.groupby(list(table.columns)).size().rename("n").reset_index()


@pytest.mark.parametrize("secure", [False, True])
def test_the_certificate_is_that_of_all_records(fitted, secure):
    found = certify_nodes(fitted, NODES, secure=secure)
    with new_project():
        expected = tacit.certify(pooled(fitted), "shape")
    assert found["shape"].bound == pytest.approx(expected["shape"].bound, abs=1e-12)
    assert found["shape"].n == 1800
    assert ONE_EACH in found.notes
    with new_project():
        alone = certify_nodes(fitted, NODES[:2])
    assert alone["shape"].bound > found["shape"].bound  # the control: fewer records, a wider bound


def test_the_floor_too():
    f = LabelOnly(random_state=0).fit(TRAIN.X, TRAIN.y)
    found = certify_nodes(f, NODES)
    with new_project():
        assert found["shape"].bound == pytest.approx(tacit.certify(pooled(f), "shape")["shape"].bound, abs=1e-12)


def test_no_message_holds_a_count(fitted):
    algorithm = Counting(fitted, {}, secure=True)
    workers = {str(n.name): algorithm.worker(n) for n in NODES}
    coordinator = algorithm.coordinator(list(workers))
    own = [np.unique(n.sensitive_features["shape"], return_counts=True)[1] for n in NODES]
    sent = []
    while not coordinator.finished:
        answers = [workers[m.node].work(m) for m in coordinator.requests()]
        sent += answers
        coordinator.receive(answers)
    told = str([m.facts["outline"] for m in sent if m.kind == "opened"])
    assert all(f"{count}" not in told for counts in own for count in counts)
    assert {tuple(sorted(m.facts)) for m in sent if m.kind == "opened"} == {("key", "kind", "outline", "records")}
    assert {m.kind for m in sent if m.arrays} == {"masked"}


def test_one_record_of_each_person_counts(fitted):
    units = np.repeat(np.arange(len(PARTS[0]) // 2), 2)
    nodes = [replace(node, units=units) for node in NODES]
    assert certify_nodes(fitted, nodes)["shape"].n == len(units) // 2 * 3


def test_bad_input(fitted):
    with pytest.raises(InputError, match="node 'n0': there is no sensitive attribute"):
        certify_nodes(fitted, [replace(NODES[0], sensitive_features=None), *NODES[1:]])
    other = NODES[0].sensitive_features.rename(columns={"shape": "form"})
    with pytest.raises(InputError, match="has the sensitive columns"):
        certify_nodes(fitted, [*NODES, replace(NODES[0], sensitive_features=other, name="x")])
    many = replace(NODES[0], X=np.random.default_rng(0).normal(size=(10_001, 2)), y=None,
                   sensitive_features=np.zeros(10_001, int))  # fmt: skip
    same = type("Same", (), {"transform": staticmethod(lambda X: X)})
    with pytest.raises(InputError, match="10,001 different releases"):
        certify_nodes(same, [*NODES[1:], many])
