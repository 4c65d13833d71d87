"""The protocol: legal steps only, exact averages, and answers that cannot be used are named while the rest go on."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from tacit.errors import InputError, TacitError
from tacit.federated import protocol
from tacit.federated.distributed_eigan import clip, clip_answer, median_of
from tacit.federated.protocol import (
    Message,
    ProtocolError,
    aggregate,
    choose_indices,
    fault_of_head,
    fault_of_parameters,
    follow,
    pack,
    sift,
    unpack,
)

LIKE = {"weight": np.zeros((4, 3), dtype=np.float32), "bias": np.zeros(4, dtype=np.float32)}


def weights(seed):
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(a.shape).astype(np.float32) for name, a in LIKE.items()}


def answer(node, mine, records=10, indices=None, **changes):
    facts = {"records": records}
    return Message(
        **{"kind": "trained", "node": node, "round": 3, "facts": facts, "arrays": pack(mine, indices)} | changes
    )


# every pair of state and event: the legal ones are written out here, apart from the table under test
LEGAL = {
    "SERVER": {
        "recruiting": {"describe": "agreeing"},
        "agreeing": {"agree": "ready", "retry": "recruiting"},
        "ready": {"open": "collecting", "finish": "finished"},
        "collecting": {"merge": "ready", "retry": "ready"},
        "finished": {},
    },
    "NODE": {
        "new": {"describe": "described"},
        "described": {"describe": "described", "start": "started"},
        "started": {"describe": "started", "train": "started"},
    },
}
PAIRS = [
    (machine, state, event)
    for machine, legal in LEGAL.items()
    for state, event in itertools.product(legal, sorted({e for moves in legal.values() for e in moves}))
]


@pytest.mark.parametrize("machine, state, event", PAIRS)
def test_every_pair_of_state_and_event(machine, state, event):
    table = getattr(protocol, machine)
    if event in LEGAL[machine][state]:
        assert follow(table, state, event) == LEGAL[machine][state][event]
    else:
        with pytest.raises(ProtocolError, match=f"{event!r} is not allowed while {state!r}"):
            follow(table, state, event)


def test_the_tables_hold_no_other_state():
    for machine, legal in LEGAL.items():
        table = getattr(protocol, machine)
        assert {s for s, _ in table} | set(table.values()) == set(legal)


def test_one_whole_answer_is_returned_bit_for_bit():
    mine = weights(0)
    for aggregation in ("unbiased", "paper"):
        merged = aggregate(LIKE, [answer("a", mine, records=777)], aggregation)
        assert all(np.array_equal(merged[n], mine[n]) and merged[n].dtype == np.float32 for n in LIKE)


def test_averages_weigh_by_records_whatever_the_order():
    a, b = weights(1), weights(2)
    answers = [answer("a", a, records=30), answer("b", b, records=10)]
    merged = aggregate(LIKE, answers)
    assert np.allclose(merged["weight"], 0.75 * a["weight"] + 0.25 * b["weight"], atol=1e-7)
    other = aggregate(LIKE, answers[::-1])
    assert all(np.array_equal(merged[n], other[n]) for n in LIKE)


def test_the_two_aggregations_differ_where_coordinates_are_missing():
    a, b, now = weights(1), weights(2), weights(3)
    nothing = np.empty(0, dtype=np.uint32)
    first = {"weight": np.array([0, 5], dtype=np.uint32), "bias": nothing}
    second = {"weight": np.array([5], dtype=np.uint32), "bias": nothing}
    answers = [answer("a", a, indices=first), answer("b", b, indices=second)]
    fair, letter = aggregate(now, answers), aggregate(now, answers, "paper")
    flat = [x["weight"].ravel() for x in (a, b, now, fair, letter)]
    assert flat[3][0] == flat[0][0]  # only a sent it
    assert np.isclose(flat[3][5], (flat[0][5] + flat[1][5]) / 2)
    assert np.array_equal(flat[3][[1, 2, 3]], flat[2][[1, 2, 3]])  # nobody sent it: it stays
    assert np.isclose(flat[4][0], flat[0][0] / 2)  # zero-filled
    assert (flat[4][[1, 2, 3]] == 0).all()
    assert (letter["bias"] == 0).all()


def test_a_share_is_a_share_and_travels_back_and_forth():
    rng = np.random.default_rng(0)
    indices = choose_indices(LIKE, 0.5, rng)
    assert sum(len(i) for i in indices.values()) == 8
    mine, theirs = weights(1), weights(2)
    packed = pack(mine, indices)
    got = unpack(packed, theirs)
    for name in LIKE:
        chosen = np.zeros(LIKE[name].size, dtype=bool)
        chosen[indices[name]] = True
        assert np.array_equal(got[name].ravel()[chosen], mine[name].ravel()[chosen])
        assert np.array_equal(got[name].ravel()[~chosen], theirs[name].ravel()[~chosen])
    assert choose_indices(LIKE, 1.0, rng) is None
    assert all(np.array_equal(unpack(pack(mine, None), theirs)[n], mine[n]) for n in LIKE)
    counts = np.zeros(16)
    for _ in range(400):
        chosen = choose_indices(LIKE, 0.25, rng)
        counts[np.concatenate([chosen["weight"], 12 + chosen["bias"].astype(int)])] += 1
    assert abs(counts / 400 - 0.25).max() < 0.11  # 5 standard deviations


def broken(change):
    arrays = pack(weights(0), None)
    change(arrays)
    return arrays


def some(indices):
    return {"indices/weight": np.array(indices, np.uint32), "values/weight": np.ones(len(indices), np.float32)}


FAULTS = {
    "NaN": (
        dict(arrays=broken(lambda a: a.update({"values/bias": np.full(4, np.nan, dtype=np.float32)}))),
        "'values/bias' holds NaN",
    ),
    "shape": (
        dict(arrays=broken(lambda a: a.update({"values/weight": np.zeros((3, 4), np.float32)}))),
        r"'values/weight' has shape \(3, 4\) .* expected \(4, 3\)",
    ),
    "type": (dict(arrays=broken(lambda a: a.update({"values/bias": np.zeros(4)}))), "type float64, expected float32"),
    "missing": (dict(arrays=broken(lambda a: a.pop("values/bias"))), "has no array 'values/bias'"),
    "unknown": (dict(arrays=broken(lambda a: a.update({"values/extra": np.zeros(1)}))), "unknown array 'values/extra'"),
    "records": (dict(facts={"records": 0}), "0 records; at least 1"),
    "no records": (dict(facts={}), "None records"),
    "round": (dict(round=2), "of round 2, expected 'trained' of round 3"),
    "indices": (
        dict(arrays=broken(lambda a: a.update(some([3, 99])))),
        "outside 0..11",
    ),
    "repeat": (dict(arrays=broken(lambda a: a.update(some([3, 3])))), "repeat"),
    "counts": (
        dict(arrays=broken(lambda a: a.update({"indices/weight": np.array([3], np.uint32)}))),
        r"expected \(1,\)",
    ),
}


def fault_of(message):
    return fault_of_head(message, "trained", 3) or fault_of_parameters(message, LIKE)


@pytest.mark.parametrize("name", FAULTS)
def test_an_answer_that_cannot_be_used_is_named_and_the_rest_go_on(name):
    changes, words = FAULTS[name]
    good, bad = answer("good", weights(1)), answer("bad", weights(2), **changes)
    usable, rejected = sift([bad, good], fault_of)
    assert [m.node for m in usable] == ["good"]
    assert list(rejected) == ["bad"]
    assert re.search(words, rejected["bad"])


def test_an_answer_counts_once():
    usable, rejected = sift([answer("a", weights(1)), answer("a", weights(2))], fault_of)
    assert len(usable) == 1
    assert rejected == {"a": "answered twice"}


def test_bytes_are_counted():
    whole, half = (
        answer("a", weights(0)),
        answer("a", weights(0), indices=choose_indices(LIKE, 0.5, np.random.default_rng())),
    )
    assert whole.nbytes == 16 * 4 + len('{"records": 10}')
    assert half.nbytes == 8 * (4 + 4) + len('{"records": 10}')


def test_words_of_refusal():
    with pytest.raises(InputError, match="'unbiased' or 'paper'"):
        aggregate(LIKE, [answer("a", weights(0))], "mean")
    with pytest.raises(TacitError, match="no answer"):
        aggregate(LIKE, [])


# -- nodes that send something else -------------------------------------------------------------------


def test_one_false_answer_of_five_stays_within_the_honest_ones():
    current, rng = weights(0), np.random.default_rng(0)
    honest = [{k: a + rng.normal(size=a.shape).astype(a.dtype) for k, a in current.items()} for _ in range(4)]
    for by in (1e5, -1e5):
        false = {k: a + np.asarray(by, a.dtype) for k, a in current.items()}
        answers = [answer(f"n{i}", mine) for i, mine in enumerate([*honest, false])]
        merged = median_of(current, answers)
        for name in current:
            votes = np.array([mine[name] for mine in honest])
            assert (votes.min(axis=0) <= merged[name]).all()
            assert (merged[name] <= votes.max(axis=0)).all()
            mean = aggregate(current, answers)[name]
            assert (np.abs(mean) > 1e4).all()  # the control
    two = [answer(f"n{i}", mine) for i, mine in enumerate(honest[:2])]
    assert all(np.array_equal(a, current[k]) for k, a in median_of(current, two).items())


def test_updates_are_cut_to_the_norm_and_shorter_ones_are_not_touched():
    current = weights(0)
    far = {k: a + np.ones_like(a) for k, a in current.items()}
    moved = {k: a - current[k] for k, a in clip(current, far, 1.0).items()}
    assert np.sqrt(sum(float((a**2).sum()) for a in moved.values())) == pytest.approx(1.0, rel=1e-5)
    assert all(np.array_equal(a, far[k]) for k, a in clip(current, far, 1e3).items())
    message = answer("n1", far)
    assert all(
        np.allclose(a, current[k] + moved[k])
        for k, a in unpack(clip_answer(current, message, 1.0).arrays, current).items()
    )
