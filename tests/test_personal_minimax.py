"""PersonalMinimax: contributors hide among each other, nothing but filtered samples travels, statistics are exact."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

import tacit
from tacit.errors import InputError
from tacit.federated import Node, PersonalMinimax, simulate
from tacit.federated.personal import made_samples, statistics_of, weighted_softmax
from tacit.federated.protocol import Message


def crowd(n_people=4, n=80, seed=0, strange=2.0):
    """Activity in two directions; who it is, in others: each person stands at a place of their own."""
    rng = np.random.default_rng(seed)
    place = np.random.default_rng(99 + seed).normal(size=(n_people, 6)) * strange
    place[:, :2] = 0
    people = []
    for k in range(n_people):
        y = rng.integers(3, size=n)
        X = rng.normal(size=(n, 6)) + place[k]
        X[:, :2] += 3 * np.array([(0, 0), (0, 1), (1, 0)])[y]
        people.append((X, np.array(["sit", "walk", "run"])[y]))
    return people


@functools.cache
def start_of(seed):
    """The common filter, learned from people of another crowd."""
    people = crowd(seed=7 + 100 * seed)
    X, y = np.concatenate([p[0] for p in people]), np.concatenate([p[1] for p in people])
    who = np.repeat([f"p{i}" for i in range(len(people))], 80)
    return tacit.MinimaxFilter(3, max_iter=3, random_state=seed).fit(X, y, sensitive_features=who)


def nodes_of(seed):
    return [Node(X, y, name=f"p{i}") for i, (X, y) in enumerate(crowd(seed=seed))]


@pytest.fixture(scope="module")
def start():
    return start_of(0)


@pytest.fixture(scope="module")
def nodes():
    return nodes_of(0)


def told_apart(f, people):
    """Mean balanced accuracy of telling each contributor's fresh samples from the others'."""
    Z = [f(X, i) for i, (X, _) in enumerate(people)]
    who = np.repeat(np.arange(len(Z)), [len(z) for z in Z])
    Z = np.concatenate(Z)
    half = np.arange(len(Z)) % 2 == 0
    scores = []
    for i in range(len(people)):
        reader = LogisticRegression(class_weight="balanced", max_iter=500).fit(Z[half], who[half] == i)
        scores.append(balanced_accuracy_score(who[~half] == i, reader.predict(Z[~half])))
    return np.mean(scores)


def learned(seed, settings):
    """How well one crowd's contributors are told apart before and after, and what is kept."""
    start, fresh = start_of(seed), crowd(n=200, seed=seed)  # the same people's places, other samples
    f = PersonalMinimax(start, rounds=8, **settings).fit(nodes_of(seed))
    before = told_apart(lambda X, i: start.transform(X), fresh)
    after = told_apart(lambda X, i: f.transform(X, f"p{i}"), fresh)
    Z = np.concatenate([f.transform(X, f"p{i}") for i, (X, _) in enumerate(fresh)])
    y = np.concatenate([y for _, y in fresh])
    return before, after, LogisticRegression(max_iter=500).fit(Z, y).score(Z, y)


@pytest.mark.parametrize(
    "settings, crowds, fall, kept",
    [
        ({}, 3, 0.1, 0.8),
        ({"exchange": "statistics"}, 3, 0.1, 0.8),
        ({"loss": "squared"}, 3, 0.1, 0.8),
        ({"order": "parallel"}, 4, 0.01, 0.75),
    ],
    ids=["in turn", "statistics", "squared", "at once"],
)
def test_contributors_learn_to_hide_among_each_other(settings, crowds, fall, kept):
    """Means over a few crowds, which are fixed. Over 12 crowds the attacker fell by .20 (deviation .045) where
    contributors learned in turn, by .15 (.08) where at once: with fresh crowds a false alarm is rarer than 1 in 1,000.
    """
    before, after, keeps = np.mean([learned(seed, settings) for seed in range(crowds)], axis=0)
    assert before > 0.6  # the control: there was something to hide (.74, deviation .045; guessing is .5)
    assert after < before - fall
    assert keeps > kept


def test_in_turn_the_objective_falls(start, nodes):
    """At once it need not: each moves against where the others were."""
    history = PersonalMinimax(start, rounds=8).fit(nodes).history_
    assert history[-1]["objective"] < history[0]["objective"]


def test_statistics_are_exact_for_the_squared_loss_and_save_bytes(start, nodes):
    samples = PersonalMinimax(start, rounds=3, loss="squared").fit(nodes)
    sums = PersonalMinimax(start, rounds=3, loss="squared", exchange="statistics").fit(nodes)
    for name in samples.filters_:
        Z = [f.transform(nodes[0].X, name) for f in (samples, sums)]
        assert np.allclose(*Z, atol=1e-8)
    assert sums.bytes_["sent"] < sums.bytes_["samples"] / 2
    assert abs(sums.bytes_["samples"] / samples.bytes_["samples"] - 1) < 0.05
    assert samples.bytes_["sent"] == samples.bytes_["samples"]
    logistic = PersonalMinimax(start, rounds=3).fit(nodes)
    close = PersonalMinimax(start, rounds=3, exchange="statistics").fit(nodes)
    assert not np.allclose(logistic.transform(nodes[0].X, "p0"), close.transform(nodes[0].X, "p0"), atol=1e-8)


def test_made_samples_have_the_means_and_covariances_of_the_samples():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 3)), rng.integers(2, size=60)
    rows, codes, weights = made_samples(statistics_of(z, y, 3))
    for c in (0, 1):
        w = weights[codes == c]
        assert np.isclose(w.sum(), (y == c).sum())
        assert np.allclose(np.average(rows[codes == c], axis=0, weights=w), z[y == c].mean(axis=0))
        assert np.allclose(np.cov(rows[codes == c].T, aweights=w, bias=True), np.cov(z[y == c].T, bias=True))


def test_the_written_out_gradient_is_the_gradient():
    rng = np.random.default_rng(1)
    head = weighted_softmax(
        rng.integers(3, size=8), rng.random(8), rng.normal(size=(5, 2)), rng.integers(3, size=5), rng.random(5), 3, 1e-2
    )
    z, dz = torch.from_numpy(rng.normal(size=(8, 2))), torch.from_numpy(rng.normal(size=(8, 2)))
    v = torch.from_numpy(rng.normal(size=9)).requires_grad_(True)
    for direction in (None, dz):
        if direction is None:
            value = head.risk(z, v)
        else:
            moving = z.clone().requires_grad_(True)
            risk = head.risk(moving, v)
            value = risk + (torch.autograd.grad(risk, moving, create_graph=True)[0] * dz).sum()
        quick = head.at(z, direction)(v.detach().numpy())
        assert np.isclose(quick[0], float(value.detach()))
        assert np.allclose(quick[1], torch.autograd.grad(value, v)[0].numpy())


def test_what_travels_is_filtered_samples_and_target_labels(start, nodes):
    f, seen = PersonalMinimax(start, rounds=1), []
    make = f.worker

    def listening(node):
        worker = make(node)
        work = worker.work
        worker.work = lambda m: seen.append((m, work(m))) or seen[-1][1]
        return worker

    f.worker = listening
    f.fit(nodes)
    up = [answer for _, answer in seen]
    assert {k for m in up for k in m.arrays} == {"samples", "labels"}
    assert {a.shape[1] for m in up for k, a in m.arrays.items() if k == "samples"} == {3}
    marks = np.concatenate([n.X.ravel() for n in nodes])
    travelled = np.concatenate(
        [a.ravel() for pair in seen for m in pair for k, a in m.arrays.items() if "labels" not in k]
    )
    assert not np.isin(marks, travelled).any()


def test_a_run_goes_on_from_its_checkpoint_and_filters_can_be_saved(start, nodes, tmp_path):
    whole = PersonalMinimax(start, rounds=4).fit(nodes)
    stopped = PersonalMinimax(start, rounds=4)
    make, count = stopped.worker, iter(range(100))

    def worker(node):
        w = make(node)
        work = w.work

        def stop(m):
            if next(count) == 10:
                raise RuntimeError("killed")
            return work(m)

        w.work = stop
        return w

    stopped.worker = worker
    with pytest.raises(RuntimeError, match="killed"):
        simulate(nodes, stopped, checkpoint=tmp_path / "c")
    resumed = simulate(nodes, PersonalMinimax(start, rounds=4), checkpoint=tmp_path / "c")
    X = nodes[1].X
    assert np.array_equal(whole.transform(X, "p1"), resumed.transform(X, "p1"))
    assert len(resumed.rounds_) == len(whole.rounds_)
    mine = whole.filters_["p1"]
    assert mine.seen(X).all()
    assert not mine.seen(crowd(seed=5)[0][0]).any()
    with pytest.raises(InputError, match="took no part"):
        mine.release_training_rows()
    release = tacit.load(tacit.save(mine, tmp_path / "p1.tacit"))
    assert np.allclose(release.transform(X), whole.transform(X, "p1"), atol=1e-4)


def test_bad_input(start, nodes):
    with pytest.raises(InputError, match="at least 2"):
        PersonalMinimax(start).fit(nodes[:1])
    with pytest.raises(InputError, match="contributor 'x': y must be one target"):
        PersonalMinimax(start).fit([*nodes, Node(nodes[0].X, name="x")])
    with pytest.raises(InputError, match="contributor 'x'"):
        PersonalMinimax(start).fit([*nodes, Node(nodes[0].X[:, :4], nodes[0].y, name="x")])
    with pytest.raises(InputError, match="linear MinimaxFilter"):
        PersonalMinimax(tacit.EIGAN()).fit(nodes)
    for settings in ({"order": "random"}, {"exchange": "all"}, {"loss": "hinge"}, {"rounds": 0}):
        with pytest.raises(InputError, match=next(iter(settings))):
            PersonalMinimax(start, **settings).fit(nodes)
    f = PersonalMinimax(start, rounds=1).fit(nodes)
    with pytest.raises(InputError, match="no contributor is called 'who'"):
        f.transform(nodes[0].X, "who")
    names = np.where(np.arange(80) % 2 == 0, "p0", "p1")
    assert np.allclose(f.transform(nodes[0].X, names)[::2], f.transform(nodes[0].X, "p0")[::2])


@pytest.mark.parametrize("bad", [np.full((80, 3), np.nan), np.zeros((80, 2))], ids=["NaN", "other shape"])
def test_a_contributor_that_sends_rubbish_is_named_and_the_others_go_on(start, nodes, bad):
    f = PersonalMinimax(start, rounds=2)
    make = f.worker

    def worker(node):
        w = make(node)
        if node.name == "p2":
            work = w.work
            w.work = lambda m: (
                work(m) if m.kind == "begin" else Message("improved", "p2", m.round, {}, {"samples": bad})
            )
        return w

    f.worker = worker
    f.fit(nodes)
    rejected = [line["rejected"] for line in f.rounds_ if line["rejected"]]
    assert [list(line) for line in rejected] == [["p2"], ["p2"]]


def test_missing_targets_and_targets_that_some_never_have(start, nodes):
    y = pd.Series(nodes[0].y).replace("run", None)
    f = PersonalMinimax(start, rounds=1).fit([Node(nodes[0].X, y, name="a"), *nodes[1:]])
    assert np.isfinite(f.transform(nodes[0].X, "a")).all()
