"""One column's laws: what is learned, whatever the machine."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest
import torch

from tacit.filters.conditionals import Column, learn_laws
from tacit.records.cells import times


def _column(units: np.ndarray | None = None, n: int = 600) -> Column:
    """A value that follows the column before it in one class, and is the other way round in the other."""
    rng = np.random.default_rng(0)
    before, s = rng.integers(2, size=(n, 1)), rng.integers(2, size=n)
    values = np.where(rng.random(n) < 0.9, before[:, 0] ^ s, 1 - (before[:, 0] ^ s))
    return Column(before, [2], s, 2, values, 2, units)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_do_not_change_what_is_learned_nor_torchs_own_draws(threads):
    columns = [_column(), _column(n=300)]
    alone = [learn_laws([c], [seed])[0].of(np.array([[0], [1]])) for c, seed in zip(columns, (7, 8), strict=True)]
    state, before = torch.get_rng_state(), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        together = learn_laws(columns, [7, 8])
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert torch.equal(torch.get_rng_state(), state)
    for law, own in zip(together, alone, strict=True):
        assert np.array_equal(law.of(np.array([[0], [1]])), own)
    assert not np.array_equal(alone[0], alone[1])


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
