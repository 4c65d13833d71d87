"""`pip install tacit` has no torch: tables are fitted, attacked, released and reported without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tacit.errors import EXTRAS

# as where it is not installed: nothing finds it
BLOCKED = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
ABSENT = ("torch", "onnxscript", "matplotlib", "PIL", "flwr", "fastapi", "openpyxl", "duckdb")
sys.meta_path.insert(0, Absent())
"""
COMMAND = BLOCKED + "from tacit.cli import main; main()"


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *words], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng, n = np.random.default_rng(0), 200
    s = rng.choice(["m", "f"], n)
    table = pd.DataFrame({"a": rng.normal(s == "m", 1, n).round(1), "b": rng.choice(["u", "v"], n), "s": s})
    place = tmp_path_factory.mktemp("without")
    table.assign(y=np.where(table["a"] > 0.5, "p", "q")).to_csv(place / "t.csv", index=False)
    return place


@pytest.mark.parametrize("name", ["coupling", "codebook", "linear-eraser"])
def test_a_table_is_fitted_audited_and_released(name, folder):
    fitted = run(
        folder, "fit", "t.csv", "--target", "y", "--sensitive", "s", "--quick", "--filter", name, "--out", name
    )
    assert fitted.returncode == 0, fitted.stderr
    released = run(folder, "release", "apply", f"{name}/filter.tacit", "t.csv", f"{name}.csv")
    assert released.returncode == 0, released.stderr
    assert (folder / f"{name}.csv").exists()
    if name == "coupling":
        audit = run(folder, "audit", f"{name}/release.csv", "--data", "t.csv", "--target", "y", "--sensitive", "s",
                    "--attackers", "strong", "--measure", "no-breadth",
                    "--measure", "no-linkability", "--measure", "no-singling_out")  # fmt: skip
        assert audit.returncode == 0, audit.stderr
        assert "one fewer here: an ensemble of networks needs torch" in " ".join(audit.stdout.split())


def test_what_needs_torch_names_the_extra(folder):
    eigan = run(folder, "fit", "t.csv", "--target", "y", "--sensitive", "s", "--filter", "eigan")
    assert eigan.returncode == 2
    assert "the filter eigan needs torch" in eigan.stderr
    assert "pip install 'tacit[train]'" in " ".join(eigan.stderr.split())
    code = BLOCKED + "import tacit\ntry:\n    tacit.EIGAN\nexcept tacit.TacitError as error:\n    print(error)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "tacit.EIGAN needs torch, which is not installed; get it with: pip install 'tacit[train]'" in told
    sensors = run(folder, "fit", "t.csv", "--sensors", "--target", "y", "--sensitive", "s")
    assert sensors.returncode == 2
    assert "tacit[train]" in sensors.stderr
    doctor = run(folder, "doctor")
    assert doctor.returncode == 0, doctor.stderr
    assert "no torch" in doctor.stdout
    assert "pip install 'tacit[train]'" in doctor.stdout


def test_every_extra_that_a_message_names_is_there():
    import tomllib

    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert set(EXTRAS.values()) <= set(extras)
    assert not any(n.startswith(("torch", "onnxscript", "matplotlib")) for n in project["dependencies"])
    assert {"train", "deep", "serve", "federated", "all"} <= set(extras)
