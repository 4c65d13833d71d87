"""One column's laws: what is learned, whatever the machine."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest
import torch

from tacit.filters.conditionals import HIDDEN, Conditional, Samples, learn_laws
from tacit.records.cells import times


def _column(units: np.ndarray | None = None, n: int = 600) -> Samples:
    """A value that follows the column before it in one class, and is the other way round in the other."""
    rng = np.random.default_rng(0)
    before, s = rng.integers(2, size=(n, 1)), rng.integers(2, size=n)
    values = np.where(rng.random(n) < 0.9, before[:, 0] ^ s, 1 - (before[:, 0] ^ s))
    return Samples(before, [2], s, 2, values, 2, units)


def test_what_is_learned_side_by_side_is_what_is_learned_alone():
    columns = [_column(), _column(n=300)]
    alone = [learn_laws([c], [seed])[0].of(np.array([[0], [1]])) for c, seed in zip(columns, (7, 8), strict=True)]
    for law, own in zip(learn_laws(columns, [7, 8]), alone, strict=True):
        assert np.array_equal(law.of(np.array([[0], [1]])), own)
    assert not np.array_equal(alone[0], alone[1])


def _in_torch(net: Conditional) -> dict[str, torch.Tensor]:
    return {k: torch.tensor(v, requires_grad=k in net.weights) for k, v in net.state_dict().items()}


def test_gradients_are_those_of_autograd():
    rng = np.random.default_rng(0)
    net = Conditional([4, 3], rng.dirichlet(np.ones(3), 2), seed=1)
    net.weights |= {k: rng.normal(0, 0.3, v.shape).astype(np.float32) for k, v in net.weights.items()}
    before = np.column_stack([rng.integers(4, size=40), rng.integers(3, size=40)])
    classes, values = rng.integers(2, size=40), rng.integers(3, size=40)
    kept = (rng.random((40, HIDDEN)) < 0.7).astype(np.float32)
    w = _in_torch(net)
    inside = torch.relu(w["cells.weight"][torch.from_numpy(before) + w["starts"]].sum(1)) * torch.from_numpy(kept)
    features = inside + torch.relu(inside @ w["hidden.weight"].T + w["hidden.bias"])
    every = w["logits"] + (features @ w["shared.weight"].T + w["shared.bias"])[:, None]
    every = every + (features @ w["own.weight"].T + w["own.bias"]).view(-1, 2, 3)
    loss = torch.nn.functional.cross_entropy(
        every[torch.arange(40), torch.from_numpy(classes)], torch.from_numpy(values)
    )
    loss.backward()
    found = net.gradients(net.at(before), classes, values, kept)
    assert set(found) == set(net.weights)
    for name, slope in found.items():
        assert np.allclose(slope, w[name].grad.numpy(), atol=1e-6), name


def test_a_law_is_learned_in_each_class_and_sums_to_one():
    [law] = learn_laws([_column()], [0])
    found = law.of(np.array([[0], [1]]))
    assert np.allclose(found.sum(axis=2), 1, atol=1e-6)
    assert (found[[0, 1, 0, 1], [0, 0, 1, 1], [0, 1, 1, 0]] > 0.8).all()


def test_rows_of_one_unit_alone_leave_the_counts():
    column = _column(np.zeros(600, dtype=int))
    [law] = learn_laws([column], [0])
    assert np.allclose(law.of(np.array([[0]]))[0], column.counts, atol=1e-3)


@pytest.mark.parametrize("chunked", [False, True])
def test_arrows_times_are_read_as_pythons(chunked):
    days = [datetime.date(1969, 5, 4), None, datetime.date(9999, 12, 31)]  # in nanoseconds the last would wrap around
    moments = [None if d is None else datetime.datetime(d.year, d.month, d.day, 7, 8, 9, 250_000) for d in days]
    spans = [datetime.timedelta(days=3, seconds=0.5), None, datetime.timedelta(-1)]
    for cells, unit in ((days, "D"), (moments, "s"), (spans, "s")):
        arrow = pa.chunked_array([cells]) if chunked else pa.array(cells)
        assert np.allclose(times("t", arrow, unit)[0], times("t", cells, unit)[0], rtol=1e-12, equal_nan=True)
