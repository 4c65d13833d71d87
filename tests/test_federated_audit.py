"""The federation's audit: every node, the worst one, and nothing but figures with counts."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.errors import InputError, RequirementNotMet
from tacit.federated import audit_nodes


class Columns:
    """A release that gives a node's secret away in its last column, or not."""

    def transform(self, X):
        return np.asarray(X)


def silo(leak, n=400, seed=0):
    rng = np.random.default_rng(seed)
    y, s = rng.integers(2, size=n), rng.integers(2, size=n)
    X = np.column_stack([y + 0.5 * rng.normal(size=n), leak * s + rng.normal(size=n)])
    data = tacit.Dataset(
        X, pd.DataFrame({"sick": np.array(["no", "yes"])[y]}), pd.DataFrame({"sex": np.array(["f", "m"])[s]})
    )
    return data.split((0.5, 0.5), random_state=seed)


@pytest.fixture(scope="module")
def report():
    parts = {"north": silo(0.0), "south": silo(4.0, seed=1), "west": silo(0.5, seed=2), "tiny": silo(1.0, n=40, seed=3)}
    return audit_nodes(Columns(), parts, attackers="logistic")


def test_every_node_and_the_worst_one_are_shown(report):
    assert list(report.figures) == ["north", "south", "west"]
    assert report.worst("sex")["node"] == "south"
    assert report.worst("sex")["value"] > 0.9
    assert report.worst("sick")["role"] == "utility"
    text = str(report)
    assert "worst: sex leaks most at south" in text
    assert all(node in text for node in ("north", "west"))
    assert "no figures of tiny: 20 rows to measure on; at least 60" in text
    assert len(report.table) == 6


def test_only_figures_with_counts_are_shared(report, tmp_path):
    told = json.loads(report.to_json(tmp_path / "audit.json"))
    assert told == json.loads((tmp_path / "audit.json").read_text())
    keys = {"role", "attribute", "measure", "value", "low", "high", "guessing", "attacker", "rows", "units"}
    for figures in told["nodes"].values():
        for figure in figures:
            assert set(figure) == keys
            assert figure["rows"] == 200
            assert figure["low"] <= figure["value"] <= figure["high"]


def test_a_gate_holds_at_every_node(report):
    with pytest.raises(RequirementNotMet, match=r"tiny: .*; south: sex may leak"):
        report.require({"sex": 0.7})
    with pytest.raises(InputError, match="no node has figures of 'race'; there are sex, sick"):
        report.worst("race")
