"""PersonalMinimax in other orders: contributors in their own time, and all filters at once in batch."""

from __future__ import annotations

import importlib
from itertools import pairwise

import numpy as np
import pytest

from tacit.federated import PersonalMinimax
from tests.test_personal_minimax import nodes_of, start_of

AsynchronousMinimax = importlib.import_module("papers.minimax-filter.personal_asynchronous").AsynchronousMinimax
PersonalGame = importlib.import_module("papers.minimax-filter.personal_batch").PersonalGame
KINDS = {"sequential": PersonalMinimax, "asynchronous": AsynchronousMinimax}


@pytest.fixture(scope="module", params=[0, 1])
def learned(request):
    """By order: the filters' common objective (eq. 16), and the fitted PersonalMinimax; of two crowds."""
    seed, out = request.param, {}
    game = PersonalGame(start_of(seed), nodes_of(seed))
    for order, kind in KINDS.items():
        f = kind(start_of(seed), rounds=30).fit(nodes_of(seed))
        out[order] = game.objective(f.filters_), f
    common = {n: start_of(seed) for n in game.names}
    return {**out, "start": (game.objective(common), None), "game": game}


def test_asynchronous_contributors_end_about_where_those_in_turn_end(learned):
    start, turn, own = (learned[k][0] for k in ("start", "sequential", "asynchronous"))
    assert turn < start - 0.25
    assert abs(own - turn) < 0.05


def test_nobody_waits(learned):
    f = learned["asynchronous"][1]
    answers = [line["nodes"] for line in f.rounds_ if line["round"] >= 0]
    assert all(len(names) == 1 for names in answers)  # one at a time
    counts = [sum(names == [n] for names in answers) for n in f.filters_]
    assert sum(counts) == 30 * 4
    assert max(counts) > min(counts)  # fast ones more often: there is no round that they wait for
    order = [names[0] for names in answers]
    assert any(a == b for a, b in pairwise(order)), "someone answered twice before another did"


def test_the_times_are_those_of_the_seed():
    def run(seed):
        f = AsynchronousMinimax(start_of(0), rounds=2)
        f.random_state = seed
        return f.fit(nodes_of(0))

    f, again, other = run(0), run(0), run(1)
    X = nodes_of(0)[0].X
    assert np.array_equal(f.transform(X, "p0"), again.transform(X, "p0"))
    assert not np.array_equal(f.transform(X, "p0"), other.transform(X, "p0"))


def test_the_protocol_ends_where_the_batch_solution_ends(learned):
    matrices, phi = learned["game"].solve(max_iter=80)
    assert phi[0] == pytest.approx(learned["start"][0], abs=0.01)
    assert all(b <= a + 1e-6 for a, b in pairwise(phi[:-1]))
    assert abs(phi[-1] - learned["sequential"][0]) < 0.02  # each one's own part (eq. 19) loses little
    assert {m.shape for m in matrices.values()} == {(3, 6)}
