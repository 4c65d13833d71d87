"""Secure sums: exact, whoever drops out; the server's view is that of the sum; both kinds of share are never told."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import kstest

from tacit.errors import InputError
from tacit.federated import secure_sums
from tacit.federated.protocol import ProtocolError
from tacit.federated.secure_sums import (
    PRIME,
    SumNode,
    add,
    expand,
    from_ring,
    join_shares,
    negative,
    split_secret,
    threshold,
    to_ring,
    unmasked,
)

STEPS = ["advertise", "share", "mask", "unmask"]


class Run:
    """A sum, with all that the server sees; `gone` says from which step on which nodes are silent."""

    def __init__(self, inputs, gone=None):
        gone = gone or {}
        self.nodes = {name: SumNode(name) for name in inputs}

        def left(step):
            return [n for n in self.nodes if n not in gone or STEPS.index(gone[n]) > STEPS.index(step)]

        self.keys = {n: self.nodes[n].advertise() for n in left("advertise")}
        self.sealed = {n: self.nodes[n].share(self.keys) for n in left("share")}
        self.shared = list(self.sealed)
        self.masked = {
            n: self.nodes[n].mask(inputs[n], {m: s[n] for m, s in self.sealed.items() if m != n}) for n in left("mask")
        }
        self.told = {n: self.nodes[n].unmask(list(self.masked)) for n in left("unmask")}
        self.sum = unmasked(self.masked, self.keys, self.shared, self.told)


def inputs_of(n, width=5, seed=0):
    rng = np.random.default_rng(seed)
    return {f"n{i}": rng.normal(0, 10.0 ** rng.integers(-6, 9), width) for i in range(n)}


def test_the_ring_is_exact():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(0, s, 50) for s in (1e-9, 1, 1e9)] + [[0.0, -0.0, -1e-19, 1e-19, -1.0]])
    assert np.abs(from_ring(to_ring(values, 1)) - values).max() <= 2.0**-64
    exact = rng.integers(-(2**53), 2**53, 100).astype(float) / 2**20
    assert (from_ring(add(to_ring(exact, 2), to_ring(-exact, 2))) == 0).all()
    a, b = (rng.integers(2**64, size=(2, 50), dtype=np.uint64) for _ in range(2))
    whole = [int(x) + (int(y) << 64) for x, y in a.T], [int(x) + (int(y) << 64) for x, y in b.T]
    for found, expected in ((add(a, b), map(sum, zip(*whole, strict=True))), (negative(a), (-x for x in whole[0]))):
        assert [int(x) + (int(y) << 64) for x, y in found.T] == [e % 2**128 for e in expected]
    for bad in (np.nan, np.inf, 2.0**61):
        with pytest.raises(InputError, match="a sum of 3 nodes holds numbers up to"):
            to_ring(np.array([bad]), 3)


def test_fewer_shares_tell_nothing():
    secret = bytes(range(100, 132))
    shares = split_secret(secret, 3, 5)
    for places in itertools.combinations(range(5), 3):
        assert join_shares({x + 1: shares[x] for x in places}) == secret
    # whatever the secret, some third share goes with these two (at 0, a parabola is 3 y1 - 3 y2 + y3)
    for other in (bytes(32), bytes(range(32)), secret):
        third = (int.from_bytes(other) - 3 * int(shares[0], 16) + 3 * int(shares[1], 16)) % PRIME
        assert join_shares({1: shares[0], 2: shares[1], 3: f"{third:x}"}) == other


@pytest.mark.parametrize("n", [3, 4, 7, 10])
def test_the_sum_is_the_plain_sum(n):
    inputs = inputs_of(n)
    run = Run(inputs)
    assert np.allclose(run.sum, sum(inputs.values()), rtol=1e-14, atol=1e-12)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("n", [4, 6, 9])
def test_a_third_may_drop_out_at_every_step(n, step):
    inputs = inputs_of(n)
    gone = dict.fromkeys(list(inputs)[1 : 1 + n // 3], step)
    run = Run(inputs, gone)
    left = [v for k, v in inputs.items() if k not in gone or step == "unmask"]  # whose numbers came are in the sum
    assert np.allclose(run.sum, sum(left), rtol=1e-14, atol=1e-12)
    assert not np.allclose(run.sum, sum(left[1:]), rtol=1e-14, atol=1e-12)  # the control


def test_one_of_three_may_drop_out():
    inputs = inputs_of(3)
    for step in ("share", "mask", "unmask"):
        expected = sum(v for k, v in inputs.items() if k != "n1" or step == "unmask")
        assert np.allclose(Run(inputs, {"n1": step}).sum, expected, rtol=1e-14, atol=1e-12)


def test_nodes_drop_out_at_different_steps():
    inputs = inputs_of(9)
    run = Run(inputs, {"n0": "share", "n4": "mask", "n8": "unmask"})
    assert np.allclose(run.sum, sum(v for k, v in inputs.items() if k not in ("n0", "n4")), rtol=1e-14, atol=1e-12)


def test_below_the_threshold_nodes_refuse():
    inputs = inputs_of(6)
    with pytest.raises(ProtocolError, match=r"refuses: 3 nodes are in the sum, at least 4 are needed"):
        Run(inputs, dict.fromkeys(["n1", "n2", "n3"], "mask"))
    with pytest.raises(ProtocolError, match=r"refuses: 3 nodes shared their secrets, at least 4 are needed"):
        Run(inputs, dict.fromkeys(["n1", "n2", "n3"], "share"))
    with pytest.raises(ProtocolError, match="3 nodes told their shares, at least 4"):
        Run(inputs, dict.fromkeys(["n1", "n2", "n3"], "unmask"))
    with pytest.raises(ProtocolError, match="among at least 2 nodes"):
        Run(inputs_of(1))
    assert all(2 * threshold(n) > n and threshold(n) <= n - n // 3 for n in range(2, 100))


def test_both_kinds_of_share_are_never_told():
    run = Run(inputs_of(4))
    others = [n for n in run.nodes if n != "n0"]
    with pytest.raises(ProtocolError, match="every question is answered once"):
        run.nodes["n1"].unmask(others)  # now as if n0 had dropped out
    with pytest.raises(ProtocolError, match="every question is answered once"):
        run.nodes["n1"].unmask(list(run.nodes))
    # told different things from the start: no t nodes are left for both kinds
    nodes = {n: SumNode(n) for n in run.nodes}
    keys = {n: node.advertise() for n, node in nodes.items()}
    sealed = {n: node.share(keys) for n, node in nodes.items()}
    for n, node in nodes.items():
        node.mask(np.zeros(2), {m: s[n] for m, s in sealed.items() if m != n})
    seeds = [nodes[n].unmask(["n0", "n1", "n2"])["n0"] for n in ("n1",)]
    key_shares = [nodes[n].unmask(["n1", "n2", "n3"])["n0"] for n in ("n2", "n3")]
    assert len(seeds) < threshold(4)
    assert len(key_shares) < threshold(4)
    with pytest.raises(ProtocolError, match="a sum of its own"):
        nodes["n0"].unmask(["n1", "n2", "n3"])


def test_questions_out_of_turn_and_changed_messages_are_refused():
    node = SumNode("a")
    with pytest.raises(ProtocolError, match="has to advertise"):
        node.unmask(["a", "b", "c"])
    nodes = {n: SumNode(n) for n in "abc"}
    keys = {n: node.advertise() for n, node in nodes.items()}
    with pytest.raises(ProtocolError, match="two nodes with one key"):
        nodes["a"].share({**keys, "d": keys["b"]})
    nodes = {n: SumNode(n) for n in "abc"}
    keys = {n: node.advertise() for n, node in nodes.items()}
    sealed = {n: node.share(keys) for n, node in nodes.items()}
    with pytest.raises(ProtocolError, match="changed on its way"):
        nodes["a"].mask(np.zeros(2), {"b": sealed["c"]["a"], "c": sealed["b"]["a"]})
    with pytest.raises(ProtocolError, match="not among those it knows"):
        nodes["b"].mask(np.zeros(2), {"z": sealed["c"]["b"]})


# -- the server's view -------------------------------------------------------------------------------


def view(run):
    """All numbers that the server can form of each node: its masked words, and less its own mask (which it learns)."""
    out = []
    for node, words in run.masked.items():
        seed = {sorted(run.keys).index(n) + 1: told[node] for n, told in run.told.items()}
        needed = dict(list(seed.items())[: threshold(len(run.keys))])
        own = expand(secure_sums._key(join_shares(needed), "own"), words.shape[1])
        out += [words, add(words, negative(own))]
    return np.stack(out)


def test_the_view_is_simulated_from_the_sum_alone():
    """A simulator that knows the sum alone runs the nodes with (sum, 0, 0): what the server sees has one distribution.

    Every number that the server can form of single nodes is uniform under both: Kolmogorov-Smirnov at 1e-4 for each of
    16 tests, so that fresh masks raise a false alarm in less than 1 of 600 runs. Without pairwise masks it fails.
    """
    width = 4000
    rng = np.random.default_rng(1)
    real = {n: rng.normal(0, 1, width) for n in ("a", "b", "c", "d")}
    total = sum(real.values())
    simulated = dict(zip(real, [total, *np.zeros((3, width))], strict=True))
    swapped = dict(zip(real, [real["b"], real["a"], real["d"], real["c"]], strict=True))
    sums = []
    for inputs in (real, simulated):
        run = Run(inputs)
        sums.append(run.sum)
        for words in view(run):
            uniform = words[1].astype(np.float64) / 2.0**64
            assert kstest(uniform, "uniform").pvalue > 1e-4
    sums.append(Run(swapped).sum)
    assert np.allclose(sums[0], sums[1], atol=1e-12)
    assert (sums[0] == sums[2]).all()


def test_the_view_without_pairwise_masks_is_not(monkeypatch):
    monkeypatch.setattr(secure_sums, "_pair_mask", lambda private, public, adds, n, about: np.zeros((2, n), np.uint64))
    rng = np.random.default_rng(1)
    seen = view(Run({n: rng.normal(0, 1, 4000) for n in "abc"}))
    assert kstest(seen[1][1].astype(np.float64) / 2.0**64, "uniform").pvalue < 1e-12


def test_no_part_of_the_sum_can_be_formed():
    """Own masks taken off, masked numbers of every proper group of nodes are noise; those of all are the sum."""
    inputs = inputs_of(5, width=50)
    run = Run(inputs)
    bare = dict(zip(run.masked, view(run)[1::2], strict=True))
    for size in range(1, 6):
        for group in itertools.combinations(bare, size):
            found = np.zeros((2, 50), np.uint64)
            for node in group:
                found = add(found, bare[node])
            errors = np.abs(from_ring(found) - sum(inputs[n] for n in group))
            assert (errors.max() < 1e-6) == (size == 5)
            assert size == 5 or np.median(errors) > 1e15
