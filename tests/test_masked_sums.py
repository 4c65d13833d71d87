"""Masked sums: exact totals, uniform words in place of numbers, and rounds that are repeated without a node.

What the server sees is simulated from the totals alone; the control is the same run without masks.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats

pytest.importorskip("cryptography")
from tacit.baselines import LinearARL, LinearEraser
from tacit.errors import InputError
from tacit.federated import DistributedEIGAN, Node, ProtocolError, fit_closed_form
from tacit.federated.closed_form import ClosedForm, SummedStatistics
from tacit.federated.common_schema import Descriptions
from tacit.federated.distributed_eigan import Trained
from tacit.federated.masked_sums import add, add_masks, from_words, new_key, pair_secret, to_words
from tacit.federated.protocol import Message

pytestmark = pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning")  # the games are short
GAME = {"n_components": 2, "epochs": 3, "random_state": 0}


def hospital(n: int, seed: int) -> Node:
    rng = np.random.default_rng(seed)
    sex = rng.choice(["m", "f"], n)
    X = pd.DataFrame({"age": rng.normal(40 + 5 * (sex == "m"), 9, n), "stamp": 1.7e9 + rng.normal(0, 1e6, n)})
    X["gain"] = np.where(rng.random(n) < 0.1, rng.normal(1e4, 1e3, n), 0.0)
    X["job"] = rng.choice(["nurse", "cook", "clerk"], n, p=[0.5, 0.4, 0.1])
    y = pd.DataFrame({"sick": np.where(X["age"] + rng.normal(0, 5, n) > 42, "yes", "no")})
    return Node(X, y, sensitive_features=pd.DataFrame({"sex": sex}), name=f"n{seed}")


NODES = [hospital(n, seed) for seed, n in enumerate((300, 150, 400))]
X = pd.concat([node.X for node in NODES], ignore_index=True)


class Engine:
    """Carries messages as between machines: states are written and read between any two of them.

    `silent` are (node, round, step) of answers that are lost; `change` alters a question on its way to a node.
    """

    def __init__(self, algorithm, silent=(), change=lambda m: m):
        self.algorithm, self.silent, self.change, self.messages = algorithm, set(silent), change, []
        self.nodes = {str(node.name): node for node in NODES}
        self.states, self.coordinator = {}, algorithm.coordinator([], 2)

    def worker(self, name):
        made = self.algorithm.worker(self.nodes[name])
        if name in self.states:
            made.restore(*self.states[name])
        return made

    def exchange(self):
        answers, failures = [], {}
        for m in self.coordinator.requests(sorted(self.nodes)):
            if (m.node, m.round, m.facts["sum"]["step"]) in self.silent:
                failures[m.node] = "gone"
                continue
            worker = self.worker(m.node)
            answers.append(worker.work(self.change(m)))
            self.states[m.node] = worker.state()
        self.messages += answers
        self.coordinator.receive(answers, failures)
        fresh = self.algorithm.coordinator([], 2)
        fresh.restore(*self.coordinator.state())
        self.coordinator = fresh

    def run(self):
        while not self.coordinator.finished:
            self.exchange()
        return self.algorithm.conclude(self.coordinator)

    def log(self, round_):
        return [(line["step"], line["nodes"]) for line in self.coordinator.log if line["round"] == round_]


# -- words -------------------------------------------------------------------------------------------


def test_sums_of_words_are_exact_in_any_order():
    """A sum of doubles is not: 1e15 and small numbers lose digits, and the order shows."""
    whole = np.random.default_rng(0).integers(-(2**52), 2**52, size=(5, 200))
    values = whole * np.array([2.0**-60, 2.0**-40, 1.0, 2.0**-20, 2.0**5])[:, None]
    exact = [sum(int(w) << s for w, s in zip(column, (0, 20, 60, 40, 65), strict=True)) for column in whole.T]
    sums, naive = set(), set()
    for order in itertools.permutations(range(5)):
        total, plain = np.zeros((2, 200), np.uint64), np.zeros(200)
        for i in order:
            total, plain = add(total, to_words(values[i], 5)), plain + values[i]
        sums.add(total.tobytes())
        naive.add(plain.tobytes())
    assert len(sums) == 1 < len(naive)
    found = [(int(high) << 64 | int(low)) for low, high in total.T]
    assert found == [e * 2**4 % 2**128 for e in exact]
    for bad in (np.nan, np.inf, 2.0**61):
        with pytest.raises(InputError):
            to_words(np.array([bad]), 2)


def test_masks_cancel_over_all_nodes_and_over_no_fewer():
    names, zeros = "abcd", np.zeros((2, 1000), np.uint64)
    keys = {name: new_key() for name in names}
    masked = {}
    for name in names:
        secrets = {other: pair_secret(keys[name][0], keys[other][1]) for other in names if other != name}
        masked[name] = add_masks(zeros, name, secrets, b"round 0")
    for size in (1, 2, 3, 4):
        for group in itertools.combinations(names, size):
            total = zeros
            for name in group:
                total = add(total, masked[name])
            if size == 4:
                assert not total.any()
            else:  # uniform words: of 48 tests at a level of 1e-5 each, one fails by chance in 2,000 runs
                for words in total:
                    assert stats.kstest(words / 2.0**64, "uniform").pvalue > 1e-5
    with pytest.raises(ProtocolError):
        pair_secret(keys["a"][0], "00" * 32)  # a point of small order: the secret would be known


def test_two_honest_nodes_are_protected_when_all_others_collude():
    """The coalition subtracts every mask that it knows: the mask between the two honest nodes remains."""
    names, zeros = "abcd", np.zeros((2, 1000), np.uint64)
    keys = {name: new_key() for name in names}
    shared = {(n, o): pair_secret(keys[n][0], keys[o][1]) for n in names for o in names if n != o}

    def masked(name, others):
        return add_masks(zeros, name, {o: shared[name, o] for o in others}, b"c")

    for colluding, hidden in (("cd", True), ("bcd", False)):  # with three of four there is nothing left to hide
        view = masked("a", "bcd")
        for other in colluding:  # adds what the other node has for this pair
            view = add(view, add_masks(zeros, other, {"a": shared[other, "a"]}, b"c"))
        assert view.any() == hidden


# -- rounds ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator", [LinearARL(), LinearEraser(min_frequency=0.03)], ids=["LinearARL", "LinearEraser"]
)
def test_closed_forms_are_those_without_masks(estimator):
    plain, secure = (fit_closed_form(estimator, NODES, secure=s) for s in (False, True))
    assert np.allclose(plain.transform(X), secure.transform(X), rtol=1e-12, atol=1e-9)  # stamps are about 1.7e9
    assert secure.nodes_ == plain.nodes_


@pytest.mark.parametrize("more", [{}, {"share": 0.5}])
def test_d_eigan_is_the_one_without_masks(more):
    plain, secure = (DistributedEIGAN(**GAME, **more, secure=s).fit(NODES) for s in (False, True))
    far = np.abs(plain.transform(X) - secure.transform(X)).max()
    assert far <= 1e-5 if not more else far > 1e-3  # with a share nodes send the same coordinates: another run


@pytest.mark.parametrize("algorithm", [DistributedEIGAN(**GAME, secure=True), ClosedForm(LinearARL(), secure=True)])
def test_the_server_sees_masked_words_alone(algorithm, monkeypatch):
    """Every message that goes up: no number of a node's statistics in the clear, and no group's sum but that of all."""
    true = {}
    for kind in (Descriptions, SummedStatistics, Trained):

        def numbers(self, answer, agreed, before=kind.numbers):
            true[answer.node, answer.round] = found = before(self, answer, agreed)
            return found

        monkeypatch.setattr(kind, "numbers", numbers)
    engine = Engine(algorithm)
    engine.run()
    masked = [m for m in engine.messages if m.kind == "masked"]
    assert {m.kind for m in engine.messages} == {"opened", "masked"}
    assert all(a.dtype == np.uint64 for m in engine.messages for a in m.arrays.values())
    for round_ in {m.round for m in masked}:
        words = {m.node: m.arrays["words"] for m in masked if m.round == round_}
        for size in (1, 2, 3):
            for group in itertools.combinations(words, size):
                total = np.zeros_like(words["n0"])
                for node in group:
                    total = add(total, words[node])
                error = np.abs(from_words(total) - sum(true[node, round_] for node in group))
                assert error.max() <= 1e-6 if size == 3 else np.median(error) > 1e15
    floats = {round(v, 9) for m in engine.messages for v in _numbers(dict(m.facts)) if isinstance(v, float)}
    own = {round(v, 9) for numbers in true.values() for v in numbers.tolist() if abs(v - round(v)) > 1e-6}
    assert own
    assert not own & floats


def _numbers(value):
    if isinstance(value, dict):
        value = list(value.values())
    return [v for item in value for v in _numbers(item)] if isinstance(value, list | tuple) else [value]


def test_a_round_is_repeated_without_a_node_that_drops_out():
    engine = Engine(ClosedForm(LinearARL(), secure=True), silent={("n2", 0, "mask")})
    found = engine.run()
    everyone, two = ["n0", "n1", "n2"], ["n0", "n1"]
    assert engine.log(0) == [("open", everyone), ("mask", two), ("open", two), ("mask", two)]
    assert found.nodes_ == {"n0": 300, "n1": 150}
    plain = fit_closed_form(LinearARL(), NODES)
    assert np.abs(found.transform(X) - plain.transform(X)).max() > 1e-4  # the control: n2 has no part
    sent = [m for m in engine.messages if m.kind == "masked" and m.round == 0]
    first, again = (m.arrays["words"] for m in sent if m.node == "n0")
    assert not (first == again).any()  # new masks


def test_a_node_of_d_eigan_that_dropped_out_takes_part_again():
    engine = Engine(DistributedEIGAN(**GAME, secure=True), silent={("n1", 1, "open"), ("n2", 1, "mask")})
    with pytest.raises(ProtocolError):  # one node alone is no sum
        engine.run()
    engine = Engine(DistributedEIGAN(**GAME, secure=True), silent={("n2", 1, "mask")})
    engine.run()
    assert engine.log(1)[-1] == ("mask", ["n0", "n1"])
    assert engine.log(2)[-1] == ("mask", ["n0", "n1", "n2"])


@pytest.mark.parametrize("altered", ["question", "key", "agreed"])
def test_a_server_that_asks_one_node_differently_gets_noise(altered):
    """Otherwise it could have all but one node send what it knows beforehand."""

    def change(m):
        step = m.facts["sum"]["step"]
        if m.node != "n0" or m.round != 0:
            return m
        if altered == "question" and step == "open":
            return Message(m.kind, m.node, 0, m.facts, {k: a * 1.5 for k, a in m.arrays.items()})
        if altered != "question" and step == "mask":
            told = dict(m.facts["sum"])
            if altered == "key":
                told["keys"] = {**told["keys"], "n2": new_key()[1]}
            else:
                told["agreed"] = {**told["agreed"], "more": 1}
            return Message(m.kind, m.node, 0, {"sum": told}, m.arrays)
        return m

    with pytest.raises((InputError, ProtocolError)):
        Engine(ClosedForm(LinearARL(), secure=True), change=change).run()


def test_a_server_without_the_group_secret_replaces_no_key():
    worker = ClosedForm(LinearARL(), secure=True).worker(NODES[0])
    opened = worker.work(Message("describe", "n0", -1, {"categories": None, "sum": {"step": "open"}}))
    agreed, _ = Descriptions().agree({"n0": opened.facts["outline"]})
    private, public = new_key()  # the server's own, in the place of another node's
    keys = {"n0": opened.facts["key"], "n1": public}
    asked = Message("sum", "n0", -1, {"sum": {"step": "mask", "agreed": agreed, "keys": keys}})
    context = json.dumps([-1, worker.asked, agreed, sorted(keys.items())], sort_keys=True).encode()
    read = {}
    for secret in (b"", b"of the nodes"):
        worker.group_secret = secret
        known = {"n0": pair_secret(private, opened.facts["key"])}
        words = add_masks(worker.work(asked).arrays["words"], "n1", known, context)
        read[secret] = np.median(np.abs(from_words(words)))
    assert read[b""] < 1e9  # the control: without it the false key reads the node
    assert read[b"of the nodes"] > 1e15


def test_what_cannot_be_read_costs_its_node_alone():
    for change in (
        lambda m: Message(m.kind, m.node, m.round, m.facts, {"words": np.zeros((2, 3))}),
        lambda m: Message(m.kind, m.node, m.round, m.facts, {"words": m.arrays["words"][:, :-1]}),
    ):
        engine = Engine(ClosedForm(LinearARL(), secure=True))
        while not engine.coordinator.finished:
            asked = engine.coordinator.requests(sorted(engine.nodes))
            answers = []
            for m in asked:
                worker = engine.worker(m.node)
                answer = worker.work(m)
                engine.states[m.node] = worker.state()
                answers.append(change(answer) if (m.node, answer.kind, m.round) == ("n1", "masked", 0) else answer)
            engine.coordinator.receive(answers)
        assert engine.log(0)[-1] == ("mask", ["n0", "n2"])


def test_bad_input():
    with pytest.raises(InputError):
        fit_closed_form(LinearARL(), NODES[:1], secure=True)
    with pytest.raises(InputError):
        DistributedEIGAN(**GAME, secure=True, sync_unit="step").fit(NODES)
    worker = ClosedForm(LinearARL(), secure=True).worker(NODES[0])
    with pytest.raises(ProtocolError):
        worker.work(Message("describe", "n0", -1, {"categories": None}))  # in the clear
    opened = worker.work(Message("describe", "n0", -1, {"categories": None, "sum": {"step": "open"}}))
    agreed, _ = Descriptions().agree({"n0": opened.facts["outline"]})
    for keys in ({"n0": opened.facts["key"]}, {"n1": new_key()[1], "n2": new_key()[1]}):  # alone, or not among them
        with pytest.raises(ProtocolError):
            worker.work(Message("sum", "n0", -1, {"sum": {"step": "mask", "agreed": agreed, "keys": keys}}))


PROGRAM = """
import sys
for name in ("cryptography", "flwr"):
    sys.modules[name] = None
import numpy as np
from tacit.baselines import LinearARL
from tacit.federated import DistributedEIGAN, Node, fit_closed_form
rng = np.random.default_rng(0)
nodes = [Node(rng.normal(size=(60, 3)), rng.integers(2, size=60), rng.integers(2, size=60)) for _ in "ab"]
fit_closed_form(LinearARL(), nodes)
DistributedEIGAN(n_components=1, epochs=1, random_state=0).fit(nodes)
"""


def test_a_federation_in_one_process_imports_neither_cryptography_nor_flower():
    subprocess.run([sys.executable, "-P", "-W", "ignore", "-c", PROGRAM], check=True, env=dict(os.environ), timeout=300)
