"""Federations whose server sees sums alone: the same result, drop-outs, restarts, and what a record of them shows."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tacit.baselines import LinearARL, LinearEraser
from tacit.errors import InputError
from tacit.federated import DistributedEIGAN, Node, ProtocolError, fit_closed_form, simulate
from tacit.federated.closed_form import ClosedForm
from tacit.federated.eigan_rounds import Trained
from tacit.federated.secure_rounds import Descriptions
from tacit.federated.secure_sums import _key, add, expand, from_ring, join_shares, negative, threshold, unmasked
from tacit.federated.summed_statistics import SummedStatistics


def table(n, seed):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["m", "f"], n)
    X = pd.DataFrame(
        {
            "age": rng.normal(40 + 5 * (sex == "m"), 9, n),
            "gain": np.where(rng.random(n) < 0.02, rng.normal(1e4, 1e3, n), 0.0),
            "stamp": 1.7e9 + rng.normal(0, 1e6, n),
            "job": rng.choice(["nurse", "cook", "clerk"], n, p=[0.5, 0.4, 0.1]),
        }
    )
    X.loc[rng.random(n) < 0.05, "age"] = np.nan
    y = pd.DataFrame({"sick": np.where(X["age"].fillna(40) + rng.normal(0, 5, n) > 42, "yes", "no")})
    return Node(X, y, sensitive_features=pd.DataFrame({"sex": sex}), name=f"n{seed}")


# the games are too short to learn much, and one test sends rubbish
pytestmark = pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning")
NODES = [table(n, seed) for seed, n in enumerate((300, 150, 400))]
X = pd.concat([node.X for node in NODES], ignore_index=True)
GAME = {"n_components": 2, "epochs": 3, "random_state": 0}


class Engine:
    """Carries messages as an engine between machines does: states are written and read between any two of them.

    Attributes
    ----------
    silent : (node, round, step) from which on a node says nothing in that round
    messages : all that went up or down
    """

    def __init__(self, algorithm, nodes, silent=(), names=False):
        self.algorithm, self.silent, self.messages = algorithm, set(silent), []
        self.nodes = {str(node.name): node for node in nodes}
        self.states = {}
        self.coordinator = algorithm.coordinator(list(self.nodes) if names else [], 2)
        self.workers = {}

    def worker(self, name):
        made = self.algorithm.worker(self.nodes[name])
        if name in self.states:
            made.restore(*self.states[name])
        return made

    def exchange(self):
        asked = self.coordinator.requests(sorted(self.nodes))
        answers, failures = [], {}
        for m in asked:
            step = m.facts.get("secure", {}).get("step", m.kind)
            if (m.node, m.round, step) in self.silent:
                failures[m.node] = "gone"
                continue
            worker = self.worker(m.node)
            answers.append(worker.work(m))
            self.states[m.node] = worker.state()
        self.messages += [*asked, *answers]
        self.coordinator.receive(answers, failures)
        fresh = self.algorithm.coordinator(self.coordinator.names, 2)
        fresh.restore(*self.coordinator.state())
        self.coordinator = fresh

    def run(self):
        while not self.coordinator.finished:
            self.exchange()
        return self.algorithm.conclude(self.coordinator, [self.worker(name) for name in self.nodes])


@pytest.mark.parametrize("estimator", [LinearARL(), LinearEraser(), LinearEraser(min_frequency=0.03)], ids=str)
def test_closed_forms_are_the_plain_ones(estimator):
    plain, secure = (fit_closed_form(estimator, NODES, secure=on).transform(X) for on in (False, True))
    assert np.abs(plain - secure).max() <= 1e-9 * np.abs(plain).max()
    alone = fit_closed_form(estimator, NODES[:2], secure=True).transform(X)
    assert np.abs(plain - alone).max() > 1e-3  # the control


def test_windows_and_several_labels_too():
    rng = np.random.default_rng(0)
    labels = [(rng.integers(2, size=60), rng.integers(3 - i, size=60)) for i in range(2)]  # one has a class fewer
    nodes = [Node(rng.normal(0, 1, (60, 2, 4)), y, sensitive_features=s) for y, s in labels]
    plain, secure = (fit_closed_form(LinearARL(1), nodes, secure=on).transform(nodes[0].X) for on in (False, True))
    assert np.allclose(plain, secure, atol=1e-9)


@pytest.mark.parametrize("more", [{}, {"aggregation": "paper"}], ids=str)
def test_d_eigan_is_the_plain_one(more):
    plain, secure = (DistributedEIGAN(**GAME, **more, secure=on).fit(NODES) for on in (False, True))
    assert np.abs(plain.transform(X) - secure.transform(X)).max() <= 1e-6
    assert plain.nodes_ == secure.nodes_
    other = DistributedEIGAN(**{**GAME, "random_state": 1}).fit(NODES)
    assert np.abs(plain.transform(X) - other.transform(X)).max() > 1e-3  # the control


def test_a_share_of_the_encoder_is_the_same_at_all_nodes():
    engine = Engine(DistributedEIGAN(**GAME, share=0.5, secure=True), NODES)
    engine.run()
    sizes = {m.arrays["masked"].shape for m in engine.messages if m.kind == "masked" and m.round >= 0}
    assert len(sizes) == 1
    current = engine.coordinator.current
    assert sizes.pop()[1] == round(0.5 * sum(a.size for a in current.values()))


@pytest.mark.parametrize("step", ["open", "share", "mask", "unmask"])
def test_one_of_three_drops_out_of_a_closed_form(step):
    """Its records count where its numbers came; the filter is that of the other two, by the scaling of all three."""
    f = Engine(ClosedForm(LinearARL(), secure=True), NODES, {("n1", 0, step)}).run()
    gone = set() if step == "unmask" else {("n1", 0, "sum")}
    plain = Engine(ClosedForm(LinearARL()), NODES, gone).run()
    assert np.abs(f.transform(X) - plain.transform(X)).max() <= 1e-9
    assert f.nodes_ == plain.nodes_
    assert any("n1" in line["failed"] for line in f.rounds_)


def test_one_of_three_drops_out_of_d_eigan_and_comes_back():
    silent = {("n1", 1, "mask"), ("n2", 2, "share"), ("n0", -1, "share")}
    f = Engine(DistributedEIGAN(**GAME, secure=True), NODES, silent).run()
    assert [line["nodes"] for line in f.rounds_ if line["step"] == "mask"] == [
        ["n1", "n2"],
        ["n0", "n1", "n2"],
        ["n0", "n2"],
        ["n0", "n1"],
    ]
    assert np.isfinite(f.transform(X)).all()


def test_restarts_change_nothing(tmp_path):
    whole = simulate(NODES, DistributedEIGAN(**GAME, secure=True))
    assert (
        Engine(DistributedEIGAN(**GAME, secure=True), NODES, names=True).run().transform(X) == whole.transform(X)
    ).all()
    simulate(NODES, DistributedEIGAN(**GAME, secure=True), checkpoint=tmp_path / "state")
    again = simulate(NODES, DistributedEIGAN(**GAME, secure=True), checkpoint=tmp_path / "state")
    assert (again.transform(X) == whole.transform(X)).all()


@pytest.mark.parametrize(
    "algorithm", [DistributedEIGAN(**GAME, secure=True), ClosedForm(LinearARL(), secure=True)], ids=["eigan", "arl"]
)
def test_a_record_of_all_messages_tells_of_no_node(algorithm, monkeypatch):
    """Of every sum: each node's masked numbers less the own mask that the server learns, in every group of nodes.

    The sum over all is there to the last digit; over any other group nothing is nearer to the truth than 1e12, where
    the numbers themselves are below 1e9. And what is told in the clear holds no number of the statistics.
    """
    true = {}
    for kind in (Descriptions, SummedStatistics, Trained):

        def numbers(self, answer, agreed, before=kind.numbers):
            true[answer.node, answer.round] = found = before(self, answer, agreed)
            return found

        monkeypatch.setattr(kind, "numbers", numbers)
    engine = Engine(algorithm, NODES)
    engine.run()
    answers = [m for m in engine.messages if m.kind in ("masked", "told")]
    for round_ in {m.round for m in answers}:
        masked = {m.node: m.arrays["masked"] for m in answers if m.kind == "masked" and m.round == round_}
        told = {m.node: m.facts["shares"] for m in answers if m.kind == "told" and m.round == round_}
        bare = {}
        for node, words in masked.items():
            shares = {i + 1: told[n][node] for i, n in enumerate(sorted(told))}
            seed = join_shares(dict(list(shares.items())[: threshold(3)]))
            bare[node] = add(words, negative(expand(_key(seed, "own"), words.shape[1])))
        for group in itertools.chain(*(itertools.combinations(bare, k) for k in (1, 2, 3))):
            total = np.zeros_like(words)
            for node in group:
                total = add(total, bare[node])
            truth = sum(true[node, round_] for node in group)
            error = np.abs(from_ring(total) - truth)
            if len(group) == 3:
                assert error.max() <= 1e-6
            else:
                assert error.min() > 1e12
                assert np.abs(truth).max() < 1e9
    floats = [v for m in engine.messages for v in _numbers(m.facts) if isinstance(v, float)]
    floats += [v for m in engine.messages if m.node != "" and m.kind in ANSWERS for a in m.arrays.values()
               if a.dtype.kind == "f" for v in a.ravel().tolist()]  # fmt: skip
    own = {round(v, 9) for numbers in true.values() for v in numbers.tolist() if abs(v - round(v)) > 1e-6}
    assert own
    assert not own & {round(v, 9) for v in floats}


ANSWERS = ("opened", "shared", "masked", "told")


def _numbers(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [v for item in value for v in _numbers(item)]
    return [value]


def test_a_node_takes_part_in_one_sum_of_a_round():
    engine = Engine(ClosedForm(LinearARL(), secure=True), NODES)
    asked = []
    while not engine.coordinator.finished:
        before = len(engine.messages)
        engine.exchange()
        asked += [m for m in engine.messages[before:] if m.node == "n0" and "secure" in m.facts]
    worker = engine.worker("n0")
    last = [m for m in engine.messages if m.node == "n0" and m.kind == "told"][-1]
    assert worker.work(asked[-1]).facts == last.facts  # it may have been lost: the same words tell nothing new
    other = replace(asked[-1], facts={"secure": {"step": "unmask", "survivors": ["n0", "n1"]}})
    for message in [*asked[:-1], other]:
        with pytest.raises(ProtocolError, match="takes part in no second"):
            worker.work(message)
    plain = replace(asked[0], facts={k: v for k, v in asked[0].facts.items() if k != "secure"})
    with pytest.raises(ProtocolError, match="in secure sums alone; found 'describe' in the clear"):
        worker.work(plain)


@pytest.mark.parametrize("lie", ["scaling", "agreed"])
def test_a_server_cannot_have_all_but_one_send_nothing(lie):
    """With a scaling under which the others' records are all zero, the sum would be the one node's statistics.

    Pasquini et al. (2022) do the same with models. Masks are bound to what was asked, so that they do not go away.
    """
    engine = Engine(ClosedForm(LinearARL(), secure=True), NODES)
    true = {}
    while not engine.coordinator.finished:
        asked = engine.coordinator.requests(sorted(engine.nodes))
        answers = []
        for m in asked:
            step, arrays = m.facts["secure"]["step"], dict(m.arrays)
            if m.round == 0 and m.node != "n0" and step == "open" and lie == "scaling":
                arrays["scaling/variance"] = arrays["scaling/variance"] * 1e24
            if m.round == -1 and m.node != "n0" and step == "mask" and lie == "agreed":
                columns = [{**c, "range": [-1e30, 1e30]} if c["kind"] == "number" else c
                           for c in m.facts["secure"]["agreed"]["columns"]]  # fmt: skip
                m = replace(m, facts={"secure": {**m.facts["secure"], "agreed": {"columns": columns}}})
            worker = engine.worker(m.node)
            answers.append(worker.work(replace(m, arrays=arrays)))
            engine.states[m.node] = worker.state()
            if step == "mask" and m.node == "n0":
                kind = {-1: Descriptions, 0: SummedStatistics}[m.round]
                true[m.round] = kind().numbers(worker.answer, m.facts["secure"]["agreed"])
        round_, step = asked[0].round, asked[0].facts["secure"]["step"]
        if step == "mask" and round_ == {"scaling": 0, "agreed": -1}[lie]:
            assert len({m.facts["about"] for m in answers}) == 2
            answers = [replace(m, facts={"about": answers[0].facts["about"]}) for m in answers]  # it does not tell
        if step == "unmask" and round_ == {"scaling": 0, "agreed": -1}[lie]:
            shares = {m.node: m.facts["shares"] for m in answers}
            c = engine.coordinator
            found = unmasked(c.masked, c._keys, list(c.sealed), shares, c.about)
            assert np.median(np.abs(found - true[round_])) > 1e12
            return
        engine.coordinator.receive(answers)
    raise AssertionError("the lie was not tried")


def test_before_a_sum_is_unmasked_the_same_numbers_are_given_again():
    engine = Engine(DistributedEIGAN(**GAME, secure=True), NODES, {(f"n{i}", 1, "mask") for i in (0, 1)})
    with pytest.raises(ProtocolError, match="round 1, step 'mask': 1 of at least 2 nodes can be used, 3 times"):
        engine.run()
    engine = Engine(DistributedEIGAN(**GAME, secure=True), NODES)
    once = [(f"n{i}", 1, "mask") for i in (0, 1)]
    while not engine.coordinator.finished:
        retried = sum(line["round"] == 1 and line["step"] == "mask" for line in engine.coordinator.log)
        engine.silent = set(once) if not retried else set()
        engine.exchange()
    f = engine.algorithm.conclude(engine.coordinator)
    assert (f.transform(X) == DistributedEIGAN(**GAME, secure=True).fit(NODES).transform(X)).all()


@pytest.mark.parametrize("step", ["open", "share", "mask", "unmask"])
def test_what_cannot_be_read_costs_its_node_alone(step):
    four = [*NODES, replace(NODES[0], name="n3")]
    engine = Engine(ClosedForm(LinearARL(), secure=True), four)
    worker = engine.worker

    def spoiled(name):
        made = worker(name)
        if name != "n3":
            return made
        work = made.work

        def lie(message):
            answer = work(message)
            if message.round == 0 and message.facts["secure"]["step"] == step:
                bad = {"keys": "?", "outline": 3, "records": 5, "sealed": {"n0": "00"}, "shares": {"n0": 1}}
                return replace(answer, facts=bad, arrays={"masked": np.zeros((2, 3), np.uint64)})
            return answer

        made.work = lie
        return made

    engine.worker = spoiled
    f = engine.run()
    plain = Engine(ClosedForm(LinearARL()), four, set() if step == "unmask" else {("n3", 0, "sum")}).run()
    assert np.abs(f.transform(X) - plain.transform(X)).max() <= 1e-9
    assert any("n3" in line["rejected"] for line in f.rounds_)


def test_bad_input():
    with pytest.raises(InputError, match="secure=True takes 'epoch'"):
        DistributedEIGAN(secure=True, sync_unit="step").fit(NODES)
    with pytest.raises(InputError, match="at least 2 nodes; found n0 alone"):
        fit_closed_form(LinearARL(), NODES[:1], secure=True)
    odd = replace(NODES[0], X=NODES[0].X.drop(columns="age"), name="x")
    with pytest.raises(InputError, match="node 'x' has no column 'age'"):
        fit_closed_form(LinearARL(), [*NODES, odd], secure=True)
    with pytest.raises(InputError, match="label column 'sick' is not at all nodes"):
        fit_closed_form(LinearARL(), [*NODES, replace(NODES[0], y=None, name="x")], secure=True)
