"""D-EIGAN in one process: equal to EIGAN where it must be, exact scaling, clear refusals, resumable, and usable."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import tacit
from tacit.errors import InputError, InputTypeError, TacitWarning
from tacit.federated import DistributedEIGAN, Node, ProtocolError, simulate
from tacit.federated.common_schema import agree, describe, make_common_encoder
from tacit.federated.protocol import Message
from tacit.records.encoding import make_encoder

pytestmark = pytest.mark.filterwarnings("ignore:.*collapsed")  # two epochs learn little


def plane(n=120, n_nodes=3, seed=0):
    data = tacit.load_dataset("gaussians", n=n, n_nodes=n_nodes, random_state=seed)
    parts = data.split("official") if n_nodes > 1 else (data,)
    return data, [Node(d.X, d.y, sensitive_features=d.sensitive) for d in parts]


def small(**changes):
    return DistributedEIGAN(**{"n_components": 2, "epochs": 2, "random_state": 0} | changes)


def weights(f):
    return np.concatenate([p.detach().numpy().ravel() for p in f.encoder_module_.parameters()])


def people(n, seed=0, jobs=("nurse", "cook", "clerk")):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.integers(20, 70, n), "job": rng.choice(list(jobs), n), "pay": rng.normal(seed, 2, n)})
    X.loc[::7, "pay"] = np.nan
    y = pd.DataFrame({"sick": rng.choice(["yes", "no"], n)})
    return X, y, pd.DataFrame({"sex": rng.choice(["m", "f"], n)})


def clinic(name, n=60, seed=0, **options):
    X, y, s = people(n, seed, **options)
    return Node(X, y, sensitive_features=s, name=name)


# -- equality -------------------------------------------------------------------------------------


@pytest.fixture
def exact_scaling(monkeypatch):
    """Nodes agree on exact means and scales; a fit in one place rounds them to what its people support."""
    monkeypatch.setattr("tacit.records.intake.make_encoder", lambda X, crowd: make_encoder(X))


@pytest.mark.parametrize("noise", [None, 0.3])
def test_one_node_that_shares_all_after_every_step_is_eigan_bit_for_bit(noise, exact_scaling):
    data, nodes = plane(n=200, n_nodes=1)
    settings = {"n_components": 2, "epochs": 3, "noise": noise, "random_state": 5}
    central = tacit.EIGAN(device="cpu", **settings).fit(data.X, data.y, sensitive_features=data.sensitive)
    shared = DistributedEIGAN(share=1, sync_every=1, sync_unit="step", **settings).fit(nodes)
    assert np.array_equal(weights(central), weights(shared))
    assert np.array_equal(central.noiseless(data.X), shared.noiseless(data.X))
    assert not np.array_equal(weights(central), weights(shared.set_params(alpha=0.1).fit(nodes)))


def test_one_node_with_text_and_gaps_is_eigan_bit_for_bit(exact_scaling):
    X, y, s = people(90)
    central = tacit.EIGAN(2, epochs=2, random_state=1, device="cpu").fit(X, y, sensitive_features=s)
    shared = DistributedEIGAN(2, epochs=2, random_state=1).fit([Node(X, y, sensitive_features=s)])
    assert np.array_equal(central.transform(X), shared.transform(X))


def test_same_seed_same_bits_other_seed_another_encoder():
    _, nodes = plane()
    one, again, other = (weights(small(share=0.5, random_state=r).fit(nodes)) for r in (0, 0, 1))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("settings", [{"share": 0.5}, {"sync_every": 2}, {"sync_unit": "step"}])
def test_every_setting_counts(settings):
    _, nodes = plane()
    assert not np.array_equal(weights(small().fit(nodes)), weights(small(**settings).fit(nodes)))


def test_scaling_is_that_of_all_records_together():
    parts = [people(n, seed)[0] for seed, n in enumerate((40, 75, 130))]
    _, facts, arrays, _ = agree([describe(X, f"n{i}") for i, X in enumerate(parts)])
    together = make_encoder(pd.concat(parts, ignore_index=True))
    agreed = make_common_encoder(facts, arrays)
    for mine, all_ in zip(agreed.columns, together.columns, strict=True):
        assert (mine.name, mine.kind, mine.categories) == (all_.name, all_.kind, all_.categories)
        assert mine.has_missing == all_.has_missing
        assert np.isclose(mine.mean, all_.mean, rtol=1e-12)
        assert np.isclose(mine.scale, all_.scale, rtol=1e-12)
    images = [np.random.default_rng(i).normal(1e3 * i, 1 + i, (20 + i, 3, 4, 5)) for i in range(3)]
    _, facts, arrays, _ = agree([describe(X, f"n{i}") for i, X in enumerate(images)])
    agreed = make_common_encoder(facts, arrays)
    together = make_encoder(np.concatenate(images))
    assert np.allclose(agreed.mean, together.mean, rtol=1e-12)
    assert np.allclose(agreed.scale, together.scale, rtol=1e-12)


IMPOSSIBLE = {
    "NaN": lambda facts, arrays: arrays.update(mean=np.full_like(arrays["mean"], np.nan)),
    "a mean beyond the range": lambda facts, arrays: arrays.update(mean=arrays["mean"] + 1e9),
    "a variance beyond the range": lambda facts, arrays: arrays.update(variance=arrays["variance"] + 1e9),
    "a negative variance": lambda facts, arrays: arrays.update(variance=-arrays["variance"]),
    "more values than records": lambda facts, arrays: arrays.update(count=arrays["count"] + 2**60),
    "a column twice": lambda facts, arrays: facts["columns"].append(facts["columns"][-1]),
    "no columns": lambda facts, arrays: facts.update(columns=[]),
    "half a column": lambda facts, arrays: facts.update(columns=[{"name": "age"}]),
    "an infinite range": lambda facts, arrays: facts["columns"][0].update(range=[0, float("inf")]),
    "words without end": lambda facts, arrays: facts["columns"][1]["categories"].extend(map(str, range(10_001))),
}


@pytest.mark.parametrize("how", IMPOSSIBLE)
def test_a_description_that_no_records_have_is_left_out(how):
    """It would spoil the scaling of all nodes."""
    told = [describe(people(50, seed)[0], f"n{seed}") for seed in range(3)]
    usable, *_ = agree(told)
    assert len(usable) == 3
    IMPOSSIBLE[how](told[2].facts, told[2].arrays)
    usable, _, _, rejected = agree(told)
    assert [m.node for m in usable] == ["n0", "n1"]
    assert list(rejected) == ["n2"]


def test_what_a_node_tells_of_its_columns_holds_no_record():
    X, _, _ = people(50)
    X.loc[3, "job"] = "astronaut"  # one person has it
    X.loc[5, "pay"] = 987.654321
    told = describe(X, "a")
    text = str(told.facts) + str({k: v.tolist() for k, v in told.arrays.items()})
    assert "nurse" in text
    assert "astronaut" not in text
    assert "987.65" not in text
    fixed = describe(X.replace("astronaut", "cook"), "a", {"job": ["clerk", "cook", "nurse", "pilot"]})
    assert fixed.facts["columns"][1]["categories"] == ["clerk", "cook", "nurse", "pilot"]


# -- what travels ---------------------------------------------------------------------------------


def test_only_the_encoder_and_scaling_statistics_travel():
    _, nodes = plane(n=60)
    f = small(share=0.5)
    seen = []
    make = f.worker

    def listening(node):
        worker = make(node)
        work = worker.work

        def record(message):
            answer = work(message)
            seen.extend([message, answer])
            return answer

        worker.work = record
        return worker

    f.worker = listening
    f.fit(nodes)
    encoder = {f"values/{n}" for n, _ in f.encoder_module_.named_parameters()}
    allowed = encoder | {n.replace("values", "indices") for n in encoder}
    allowed |= {"count", "mean", "variance", "scaling/count", "scaling/mean", "scaling/variance"}
    assert {name for m in seen for name in m.arrays} <= allowed
    assert {k for m in seen if m.kind == "trained" for k in m.facts} == {"records"}
    up = [m for m in seen if m.kind == "trained"]
    total = sum(p.numel() for p in f.encoder_module_.parameters())
    assert {sum(len(a) for k, a in m.arrays.items() if k.startswith("values")) for m in up} == {total // 2}
    sets = [np.concatenate([m.arrays[k] for k in sorted(m.arrays) if k.startswith("indices")]) for m in up[:3]]
    assert not np.array_equal(sets[0], sets[1])  # each node draws its own
    down = [m for m in seen if m.kind == "train" and m.round == 1]
    assert all(np.array_equal(a, down[0].arrays[k]) for m in down for k, a in m.arrays.items())
    assert f.rounds_[-1]["bytes_up"] == sum(m.nbytes for m in up if m.round == 1)
    assert f.rounds_[-1]["bytes_down"] == sum(m.nbytes for m in down)


def test_nodes_of_different_sizes_targets_and_secrets():
    X, y, s = people(120)
    y["well"] = np.where(X["age"] > 40, "yes", "no")
    s["age group"] = np.where(X["age"] > 50, "old", "young")
    nodes = [
        Node(X[:70], y[["sick"]][:70], sensitive_features=s[["sex"]][:70], name="a"),
        Node(X[70:100], y[["well"]][70:100], sensitive_features=s[["age group"]][70:100], name="b"),
        Node(X[100:], None, sensitive_features=s[100:], name="c"),
    ]
    f = small(target_weights={"sick": 1.0, "well": 2.0}).fit(nodes)
    assert f.nodes_ == {"a": 70, "b": 30, "c": 20}
    told = f.node_history_
    assert {"target sick", "adversary sex"} <= set(told["a"][-1])
    assert {"target well", "adversary age group"} <= set(told["b"][-1])
    assert "target well" not in told["a"][-1]
    assert {"target sick", "target well", "adversary sex", "adversary age group"} <= set(f.history_[-1])


# -- a filter afterwards --------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [None, 0.2])
def test_it_is_a_filter_that_can_be_saved_audited_and_released(tmp_path, noise):
    nodes = [clinic(name, seed=i) for i, name in enumerate("abc")]
    f = small(noise=noise).fit(nodes)
    X, y, s = people(400, 9)
    assert f.seen(nodes[1].X).all()
    assert not f.seen(X[X["pay"].notna()]).any()
    released = tacit.load(tacit.save(f, tmp_path / "f.tacit"), noise_key=f.noise_key)
    assert np.allclose(released.transform(X), f.transform(X), atol=1e-4)
    data = tacit.Dataset(X, y, s)
    report = tacit.audit(f, *data.split((0.5, 0.5)), attackers=["logistic"], measurements="no-baseline")
    assert 0 <= report.leakage["sex"].value <= 1
    with pytest.raises(InputError):
        f.release_training_rows()
    assert list(f.get_feature_names_out()) == ["distributedeigan0", "distributedeigan1"]


def test_windows_and_networks_of_ones_own():
    rng = np.random.default_rng(0)
    nodes = [
        Node(rng.normal(size=(40, 2, 8)), rng.integers(2, size=40), sensitive_features=rng.integers(2, size=40))
        for _ in range(2)
    ]

    def encoder(n_in, n_out):
        return nn.Sequential(nn.Conv1d(n_in[0], 4, 3), nn.BatchNorm1d(4), nn.Flatten(), nn.Linear(24, n_out))

    f = small(encoder=encoder, share=0.7).fit(nodes)
    assert f.transform(rng.normal(size=(5, 2, 8))).shape == (5, 2)


# -- what is refused ------------------------------------------------------------------------------


def clinics(change):
    nodes = [clinic(name, seed=i) for i, name in enumerate(["north", "south", "west"])]
    X, y, s = people(60, 7)
    return [*nodes, Node(change(X), y, sensitive_features=s, name="east")]


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda X: X.drop(columns="age"), "node 'east' has no column 'age'"),
        (lambda X: X.assign(extra=1.0), "node 'east' has a column 'extra'"),
        (lambda X: X[["job", "age", "pay"]], "node 'east' has column 'job' where the others have 'age'"),
        (lambda X: X.assign(age="old"), "node 'east' has text in column 'age', where the others have numbers"),
        (
            lambda X: X.assign(job=X["job"].str.upper()),
            "node 'east' has in column 'job' the categories 'CLERK'.*use the same words",
        ),
        (lambda X: X.assign(pay=np.nan), "node 'east': column 'pay' has no value"),
        (lambda X: np.ones((60, 3)), "node 'east' has arrays of shape .3,., the others have a table of 3 columns"),
    ],
)
def test_a_node_that_does_not_fit_in_is_named_with_its_column(change, words):
    with pytest.raises(InputError, match=words):
        small().fit(clinics(change))


def test_words_agreed_beforehand():
    jobs = {"job": ["nurse", "cook", "clerk", "pilot"]}
    assert small(categories=jobs).fit(clinics(lambda X: X.assign(job="pilot"))).transform(people(5)[0]).shape == (5, 2)
    with pytest.raises(InputError, match=r"node 'east': column 'job' has the categories 'baker'.*not among"):
        small(categories=jobs).fit(clinics(lambda X: X.assign(job="baker")))


def test_other_bad_input():
    X, y, s = people(30)
    with pytest.raises(InputError, match="node 'a' has no record"):
        Node(X[:0], y[:0], name="a")
    with pytest.raises(InputTypeError, match=r"list of tacit.federated.Node"):
        small().fit(X)
    with pytest.raises(InputError, match="no node"):
        small().fit([])
    with pytest.raises(InputError, match="two nodes are called 'a'"):
        small().fit([clinic("a"), clinic("a")])
    with pytest.raises(InputError, match="node 'b': y has 29 rows"):
        small().fit([clinic("a"), Node(X, y[:29], sensitive_features=s, name="b")])
    with pytest.raises(InputError, match=r"node 'b'.*nothing to train"):
        small().fit([clinic("a"), Node(X, name="b")])
    for settings, words in (
        ({"share": 0}, "share"),
        ({"sync_every": 0}, "sync_every"),
        ({"sync_unit": "batch"}, "sync_unit"),
        ({"aggregation": "median"}, "aggregation"),
        ({"target_weights": [1.0]}, "mapping"),
        ({"n_bins": 4}, "all records in one place"),
    ):
        with pytest.raises(InputError, match=words):
            small(**settings).fit([clinic("a")])


def spoil(f, name, change):
    """Let one node's answers be changed on their way."""
    make = f.worker

    def worker(node):
        w = make(node)
        if node.name == name:
            work = w.work
            w.work = lambda m: change(work(m)) if m.kind == "train" else work(m)
        return w

    f.worker = worker
    return f


@pytest.mark.parametrize(
    "array",
    [
        lambda a: np.full_like(a, np.nan),
        lambda a: a.T if a.ndim == 2 else a[:-1],
        lambda a: np.full_like(a, 3e38),  # the others would train on to NaN
    ],
    ids=["NaN", "other shape", "too large"],
)
def test_a_node_that_sends_rubbish_is_named_and_the_others_go_on(array):
    _, nodes = plane()

    def change(m):
        return Message(m.kind, m.node, m.round, m.facts, {k: array(v) for k, v in m.arrays.items()})

    with pytest.warns(TacitWarning, match="node 2: what it sent was rejected in 2 of 3 rounds"):
        f = spoil(small(), "node 2", change).fit(nodes)
    assert np.isfinite(weights(f)).all()
    assert f.rounds_[-1]["nodes"] == ["node 1", "node 3"]
    without = small().fit([nodes[0], nodes[2]])
    assert not np.array_equal(weights(f), weights(without))  # scaling came from all three
    with pytest.raises(ProtocolError):
        spoil(small(), "node 1", change).fit([Node(nodes[0].X, nodes[0].y, name="node 1")])


def test_a_node_that_missed_a_round_gets_the_whole_encoder_again():
    _, nodes = plane()
    f = small(share=0.5, epochs=4)
    names = ["node 1", "node 2"]
    workers = {name: f.worker(replace(n, name=name)) for name, n in zip(names, nodes, strict=False)}
    server = f.coordinator(names)

    def turn(lost=()):
        asked = server.requests([*names, "node 3"])  # who was not there at the beginning is not asked
        told = [workers[m.node].work(m) for m in asked if m.node not in lost]
        server.receive(told, dict.fromkeys(lost, "no answer in time"))
        return {m.node: m for m in asked}

    server.receive([workers[m.node].work(m) for m in server.requests(names)])
    assert all("agreed" in m.facts for m in turn(lost=["node 2"]).values())  # round 0: all is new
    asked = turn()
    assert "agreed" in asked["node 2"].facts
    assert "indices/0.weight" not in asked["node 2"].arrays
    assert "indices/0.weight" in asked["node 1"].arrays
    assert list(turn()) == names
    assert server.log[1]["failed"] == {"node 2": "no answer in time"}
    asked = server.requests(names)
    other = workers["node 2"].work(Message("describe", "node 2", 3))  # it has to train
    server.receive([workers["node 1"].work(asked[0]), other])
    assert list(server.log[-1]["rejected"]) == ["node 2"]
    assert server.finished
    with pytest.warns(TacitWarning, match="node 2: what it sent was rejected in 1 of 5 rounds"):
        assert f.conclude(server).transform(nodes[0].X).shape == (120, 2)
    with pytest.raises(InputError):
        f.release_training_rows()


# -- resuming -------------------------------------------------------------------------------------


def long(checkpoint=None):
    _, nodes = plane(n=80)
    return simulate(nodes, small(epochs=6, share=0.6, noise=0.1), checkpoint=checkpoint)


def test_after_kill_9_it_goes_on_to_the_same_bits(tmp_path):
    whole = long()
    code = f"""
    import os, signal, sys
    sys.path.insert(0, {os.path.dirname(__file__)!r})
    import torch
    torch.set_num_threads(1)
    import tacit.federated.rounds as s
    import test_federated as t
    write = s.write_state
    def killed(path, states, identity):
        write(path, states, identity)
        if states["server"][1]["round"] == 3:
            os.kill(os.getpid(), signal.SIGKILL)
    s.write_state = killed
    t.long({str(tmp_path / "c")!r})
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True)
    assert ran.returncode == -signal.SIGKILL, ran.stderr.decode()
    resumed = long(tmp_path / "c")
    assert np.array_equal(weights(whole), weights(resumed))
    assert resumed.history_ == whole.history_
    assert resumed.rounds_ == whole.rounds_
    _, nodes = plane(n=81)
    with pytest.raises(InputError, match="other settings or other data"):
        simulate(nodes, small(epochs=6), checkpoint=tmp_path / "c")


def test_an_interrupt_leaves_a_usable_filter():
    _, nodes = plane()
    count = iter(range(100))

    def stop(m):
        if next(count) == 2:
            raise KeyboardInterrupt
        return m

    with pytest.warns(TacitWarning, match="interrupted after 2 of 9 rounds"):
        f = spoil(small(epochs=9), "node 1", stop).fit(nodes)
    assert f.transform(nodes[0].X).shape == (120, 2)


@pytest.mark.filterwarnings("ignore:node ")
def test_hundreds_of_nodes():
    data, nodes = plane(n=6, n_nodes=200)
    f = small(epochs=1, adversary_steps=1, encoder=lambda n_in, n_out: nn.Linear(n_in, n_out))
    with pytest.warns(TacitWarning, match=r"and .* more: y column 'colour' has only red here, so it trains no head"):
        f.fit(nodes)
    assert len(f.rounds_[-1]["nodes"]) == 200
    assert torch.isfinite(torch.from_numpy(f.transform(data.X))).all()
