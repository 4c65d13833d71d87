"""The protocol: exact averages, and answers that cannot be used are named while the rest go on."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.federated.distributed_eigan import clip, clip_answer, median_of
from tacit.federated.protocol import (
    Message,
    aggregate,
    check_head,
    check_parameters,
    choose_indices,
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


def sparse(indices, values=None):
    values = np.ones(len(indices), np.float32) if values is None else values
    return {"indices/weight": np.array(indices, np.uint32), "values/weight": values}


FAULTS = {
    "NaN": dict(arrays=broken(lambda a: a.update({"values/bias": np.full(4, np.nan, dtype=np.float32)}))),
    "too large": dict(arrays=broken(lambda a: a.update({"values/bias": np.full(4, 1e30, dtype=np.float32)}))),
    "shape": dict(arrays=broken(lambda a: a.update({"values/weight": np.zeros((3, 4), np.float32)}))),
    "type": dict(arrays=broken(lambda a: a.update({"values/bias": np.zeros(4)}))),
    "missing": dict(arrays=broken(lambda a: a.pop("values/bias"))),
    "unknown": dict(arrays=broken(lambda a: a.update({"values/extra": np.zeros(1)}))),
    "no records": dict(facts={}),
    "0 records": dict(facts={"records": 0}),
    "endless records": dict(facts={"records": 10**400}),
    "round": dict(round=2),
    "kind": dict(kind="description"),
    "indices outside": dict(arrays=broken(lambda a: a.update(sparse([3, 99])))),
    "indices that repeat": dict(arrays=broken(lambda a: a.update(sparse([3, 3])))),
    "indices of two axes": dict(arrays=broken(lambda a: a.update(sparse([[3]], np.ones((1, 1), np.float32))))),
    "other number of indices": dict(arrays=broken(lambda a: a.update({"indices/weight": np.array([3], np.uint32)}))),
    "no mapping": dict(facts=None),
}


def check(message):
    check_head(message, "trained", 3)
    check_parameters(message, LIKE)


@pytest.mark.parametrize("name", FAULTS)
def test_an_answer_that_cannot_be_used_is_named_and_the_rest_go_on(name):
    good, bad = answer("good", weights(1)), answer("bad", weights(2), **FAULTS[name])
    usable, rejected = sift([bad, good], check)
    assert [m.node for m in usable] == ["good"]
    assert list(rejected) == ["bad"]


def test_an_answer_counts_once():
    usable, rejected = sift([answer("a", weights(1)), answer("a", weights(2))], check)
    assert len(usable) == 1
    assert list(rejected) == ["a"]
    assert np.array_equal(usable[0].arrays["values/bias"], weights(1)["bias"])


def test_bytes_are_counted():
    whole, half = (
        answer("a", weights(0)),
        answer("a", weights(0), indices=choose_indices(LIKE, 0.5, np.random.default_rng())),
    )
    assert whole.nbytes == 16 * 4 + len('{"records": 10}')
    assert half.nbytes == 8 * (4 + 4) + len('{"records": 10}')


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
