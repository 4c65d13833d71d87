"""A table whose sensitive column is a number: handed over, and audited later as the same number."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from commands import tacit_command

pytestmark = [
    pytest.mark.usefixtures("one_attacker"),
    pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning"),  # few rows
]


def test_what_was_said_to_be_a_number_stays_one(tmp_path):
    """Twelve floors look like classes: numeric says that they are a number, also to the audit that follows later."""
    rng, n = np.random.default_rng(0), 600
    floor = rng.integers(12, size=n)
    table = pd.DataFrame({"rent": 500 + 40 * floor + rng.normal(0, 60, n), "rooms": rng.integers(1, 6, n)})
    table.assign(sold=np.where(rng.random(n) < 0.5, "yes", "no"), floor=floor).to_csv(
        tmp_path / "flats.csv", index=False
    )
    words = ("--target", "sold", "--sensitive", "floor", "--set", "numeric=floor", "--filter", "codebook", "--quick")
    done = tacit_command("fit", tmp_path / "flats.csv", *words, "--out", tmp_path / "handover")
    assert done.returncode == 0, done.stderr
    later = tacit_command("audit", tmp_path / "handover")
    assert later.returncode == 0, later.stderr
    told = json.loads((tmp_path / "handover" / "audit.json").read_text())
    assert told["leakage"]["floor"]["headline"] == "r2"
