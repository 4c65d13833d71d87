"""The bound on every softmax reader's expected risk: it holds, it is not empty, and it shrinks with rows."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from tacit.errors import InputError

risk_bound = importlib.import_module("papers.minimax-filter.generalisation").risk_bound


def population(m, rng, n):
    """Codes in the unit ball that tell their class a little."""
    codes = rng.integers(m, size=n)
    z = 0.25 * rng.normal(size=(n, 3)) + 0.3 * np.eye(3)[codes % 3]
    return z / np.maximum(1, np.linalg.norm(z, axis=1))[:, None], codes


def expected(z, codes, table):
    logits = np.column_stack([z, np.ones(len(z))]) @ table
    logits -= logits.max(axis=1, keepdims=True)
    return float((np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(z)), codes]).mean())


@pytest.mark.parametrize("m", [2, 3])
def test_no_reader_of_the_family_beats_it(m):
    """Of 30 draws of rows the best reader on a large sample is below the bound in none (each may fail once in 20 at
    most; the bound is far looser, so a false alarm is rarer than 1 in 1,000)."""
    rng = np.random.default_rng(0)
    z, codes = population(m, rng, 20000)
    best = risk_bound(z, codes, 1.0)
    found = [risk_bound(*population(m, rng, 500), 1.0) for _ in range(30)]
    assert all(f.least <= best.empirical for f in found)
    assert any(f.empirical < best.empirical for f in found)  # without the slack it would not hold


def test_the_best_reader_on_the_rows_is_found():
    rng = np.random.default_rng(1)
    z, codes = population(3, rng, 400)
    best = risk_bound(z, codes, 2.0).empirical
    for _ in range(300):
        table = rng.normal(size=(4, 3))
        assert expected(z, codes, 2.0 * table / np.linalg.norm(table)) >= best - 1e-9


def test_it_says_something_and_more_rows_say_more():
    rng = np.random.default_rng(2)
    few, many = (risk_bound(*population(2, rng, n), 1.0) for n in (500, 50000))
    assert 0 < few.least < many.least < many.empirical < many.guessing
    assert many.slack == pytest.approx(few.slack / 10, rel=1e-6)
    assert risk_bound(*population(2, rng, 500), 3.0).slack > few.slack


def test_codes_outside_the_ball_are_refused():
    with pytest.raises(InputError, match="unit ball"):
        risk_bound(np.full((4, 2), 3.0), np.array([0, 1, 0, 1]), 1.0)
