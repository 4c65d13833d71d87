"""Three hospitals that may not pool records: practise on one machine, make the keys, ask how far the real one is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tacit
from tacit.cli import app

pytest.importorskip("flwr")
pytestmark = [
    pytest.mark.usefixtures("one_attacker"),
    pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning"),  # few epochs
]
HOSPITALS = ("st-anna", "north", "hill")


def ward(seed: int, n: int = 300) -> pd.DataFrame:
    """Semicolons, gaps and words, as a hospital's export has them."""
    rng = np.random.default_rng(seed)
    sex, late = rng.integers(2, size=n), rng.random(n) < 0.4
    table = pd.DataFrame({"age": rng.normal(60 + 4 * sex, 9, n).round(), "creatinine": rng.normal(1 + late, 0.3, n)})
    table["ward"] = rng.choice(["surgery", "heart", "lung"], n)
    table.loc[rng.random(n) < 0.1, "creatinine"] = np.nan
    return table.assign(died=np.where(late, "yes", "no"), sex=np.array(["f", "m"])[sex])


def run(*words: str) -> str:
    told = CliRunner().invoke(app, ["federated", *words])
    assert told.exit_code == 0, told.output + repr(told.exception)
    return told.output


def test_from_three_files_to_a_federation_in_three_commands(tmp_path):
    for seed, name in enumerate(HOSPITALS):
        ward(seed).to_csv(tmp_path / f"{name}.csv", index=False)
    files, home = [str(tmp_path / f"{n}.csv") for n in HOSPITALS], tmp_path / "federation"
    told = run("try", *files, "--target", "died", "--sensitive", "sex", "--epochs", "2", "--out", str(home))
    assert "worst: sex leaks most at" in told
    assert tacit.load(home / "encoder.tacit").transform(ward(9).drop(columns=["died", "sex"])).shape == (300, 4)
    run("keys", str(home / "keys"), *(word for n in HOSPITALS for word in ("--node", n)))
    assert "allowed: hill, north, st-anna" in run("status", str(home / "server.toml"))
