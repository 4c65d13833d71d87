"""One report of two parts never says better than either of them."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit.report.worse_part import worse_part


@pytest.fixture(scope="module")
def parts():
    """Records under noise; one bit that tells the shape; and nothing at all: the last two are certified."""
    _, attack, test = tacit.load_dataset("quadrants", n=900).split()
    bit = tuple((d.sensitive["shape"] == "x").to_numpy(dtype=float)[:, None] for d in (attack, test))
    nothing = tuple(np.zeros((len(d), 1)) for d in (attack, test))
    asked = {"attackers": "logistic", "floor": False, "breadth": False, "confidence_level": 0.98}
    rng = np.random.default_rng(0)
    noisy = tuple(d.X + rng.normal(0, 3, np.shape(d.X)) for d in (attack, test))
    releases = {"noisy": noisy, "bit": bit, "none": nothing}
    return {n: tacit.audit(r, attack, test, name=n, **asked) for n, r in releases.items()}


@pytest.mark.parametrize("names", [("noisy", "none"), ("bit", "none"), ("noisy", "bit")])
def test_the_worse_part_is_told(parts, names):
    a, b = (parts[n] for n in names)
    worse = parts[{("noisy", "none"): "noisy", ("bit", "none"): "bit", ("noisy", "bit"): "bit"}[names]]
    certified = "noisy" not in names
    assert (a.bound["shape"] is not None and b.bound["shape"] is not None) == certified
    for both in (worse_part(a, b, "both"), worse_part(b, a, "both")):
        assert both.leakage["shape"] == worse.leakage["shape"]
        assert both.bound["shape"] == (worse.bound["shape"] if certified else None)
        assert both.certificate["shape"] == (worse.certificate["shape"] if certified else None)
        for target, kept in both.utility.items():
            assert kept.value == min(a.utility[target].value, b.utility[target].value)
        for attack in both.attacks:
            for r in (a, b):
                found = next((x.results for x in r.attacks if x.kind == attack.kind), {})
                assert all(attack.results[s].high >= v.high for s, v in found.items())
        assert "98 %" in both.notes[0]
        assert "together at 96 %" in both.notes[0]
