"""The certificate of few columns; that it holds is tested in tests/claims."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.audit.certificate import certify
from tacit.audit.columns_certificate import certify_columns
from tacit.errors import InputError
from tacit.labels import joint_codes


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 4), st.booleans())
@settings(max_examples=60, deadline=None)
def test_it_is_the_largest_certificate_of_any_set(seed, d, size, grouped):
    """Sets smaller than `size` too; each certified alone, at the same delta."""
    rng = np.random.default_rng(seed)
    columns, sensitive = rng.integers(4, size=(60, d)) - 2, rng.integers(3, size=60)
    units = rng.integers(20, size=60) if grouped else None
    found = certify_columns(columns, sensitive, 4, size, units=units)
    alone = {
        chosen: certify(joint_codes(columns[:, chosen]), sensitive, 4, units=units)
        for k in range(1, min(size, d) + 1)
        for chosen in combinations(range(d), k)
    }
    assert found.bound == pytest.approx(max(c.bound for c in alone.values()))
    assert found.accuracy_bound == pytest.approx(max(c.accuracy_bound for c in alone.values()))
    assert alone[found.worst].plugin == pytest.approx(found.plugin)
    one = alone[found.worst]
    assert (found.absent, found.n_units, found.unseen_mass) == (one.absent, one.n_units, one.unseen_mass)


def test_what_a_triple_tells_a_pair_does_not():
    rng = np.random.default_rng(0)
    columns = rng.integers(2, size=(20_000, 6))
    sensitive = columns[:, [0, 2, 5]].sum(axis=1) % 2
    assert certify_columns(columns, sensitive, 2, size=2).bound < 0.54  # bias of 15 pairs .007, slack .009: 1e-4
    found = certify_columns(columns, sensitive, 2, size=3)
    assert (found.plugin, found.worst, found.sets) == (1, (0, 2, 5), 20)


@pytest.mark.parametrize(
    "columns, size, message",
    [
        (np.zeros((4, 2)), 2, "whole numbers"),
        (np.zeros((4, 0), dtype=int), 2, "at least one column"),
        (np.zeros((4, 2), dtype=int), 0, "size must"),
        (np.zeros((4, 500), dtype=int), 3, "smaller size"),
        (np.zeros((3, 2), dtype=int), 2, "sensitive has 4 rows"),
    ],
)
def test_bad_input_is_refused(columns, size, message):
    with pytest.raises(InputError, match=message):
        certify_columns(columns, np.array([0, 1, 0, 1]), 2, size)
