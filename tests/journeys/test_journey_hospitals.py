"""Three hospitals that may not pool records: one command simulates the federation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tacit
from tacit.cli import app

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


def test_three_files_make_a_federation_in_one_command(tmp_path):
    for seed, name in enumerate(HOSPITALS):
        ward(seed).to_csv(tmp_path / f"{name}.csv", index=False)
    files, out = [str(tmp_path / f"{n}.csv") for n in HOSPITALS], tmp_path / "encoder.tacit"
    told = run("simulate", *files, "--target", "died", "--sensitive", "sex", "--epochs", "2", "--out", str(out))
    assert all(name in told for name in HOSPITALS)
    assert tacit.load(out).transform(ward(9).drop(columns=["died", "sex"])).shape == (300, 4)


def test_the_simulation_refuses_what_a_node_refuses(tmp_path):
    for seed, n in enumerate((300, 25)):  # 15 rows to train on
        ward(seed, n).to_csv(tmp_path / f"{seed}.csv", index=False)
    files = [str(tmp_path / f"{seed}.csv") for seed in (0, 1)]
    told = CliRunner().invoke(app, ["federated", "simulate", *files, "--target", "died", "--sensitive", "sex"])
    assert told.exit_code != 0
