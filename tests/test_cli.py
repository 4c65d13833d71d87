"""The command line as a user runs it. A process of its own where that matters: it costs two CPU-seconds of imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from commands import tacit_command
from tacit.filters.registry import make_filter, registered_filters

pytestmark = pytest.mark.usefixtures("few_steps", "one_attacker")  # what is done, not what is found


def in_a_process(*arguments):
    return subprocess.run(
        [sys.executable, "-P", "-m", "tacit", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "80"},
        check=False,
    )


def test_help_lists_the_commands():
    out = in_a_process("--help")
    assert out.returncode == 0
    for word in ("demo", "fit", "audit"):
        assert word in out.stdout
    assert "CSV, Parquet, Arrow" in tacit_command("fit", "--help").stdout  # arguments are explained, not only options


def test_warnings_are_notes_without_source_lines():
    code = (
        "import sys, warnings; import tacit.cli as cli; from tacit.errors import TacitWarning\n"
        "cli.app.command('warn')(lambda: (warnings.warn('mind [this]', TacitWarning), "
        "warnings.warn('old name', DeprecationWarning), warnings.warn('of a library')))\n"
        "sys.argv = ['tacit', 'warn']; cli.main()"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr
    assert "note: mind [this]\n" in told
    assert "TacitWarning" not in told  # nor the line of our source that said it
    assert "old name" not in told
    assert "UserWarning: of a library" in told  # what others say is not hidden


@pytest.mark.usefixtures("all_steps")
def test_fit_a_table(tmp_path):
    rng = np.random.default_rng(0)
    n = 600
    y, s = rng.integers(2, size=(2, n))
    pd.DataFrame({"a": y + 0.4 * rng.standard_normal(n), "b": s + 0.4 * rng.standard_normal(n), "y": y, "s": s}).to_csv(
        tmp_path / "t.csv", index=False
    )
    asked = ("fit", str(tmp_path / "t.csv"), "--target", "y", "--sensitive", "s", "--out", str(tmp_path / "o"))
    out = tacit_command(*asked, "--filter", "codebook")
    assert out.returncode == 0, out.stderr
    assert "certified" in out.stdout
    released = pd.read_parquet(tmp_path / "o" / "release.parquet")
    assert len(released) == n
    audit = json.loads((tmp_path / "o" / "audit.json").read_text())
    assert audit["leakage"]["s"]["balanced_accuracy"]["value"] < 0.65
    assert (tmp_path / "o" / "report.html").exists()


@pytest.mark.parametrize("name", [n for n, r in registered_filters().items() if r.settings is not None])
def test_every_filter_can_be_named(name):
    made = make_filter(name, 0.5, random_state=0)
    assert made.get_params()[made.frontier_parameter] == 0.5
    assert made.get_params()["random_state"] == 0


def test_audit_is_a_gate(tmp_path):
    rng = np.random.default_rng(0)
    y, s = rng.integers(2, size=(2, 800))
    pd.DataFrame({"a": rng.standard_normal(800), "y": y, "s": s}).to_csv(tmp_path / "t.csv", index=False)
    pd.DataFrame({"z": y}).to_parquet(tmp_path / "good.parquet")
    pd.DataFrame({"z": s}).to_csv(tmp_path / "bad.csv", index=False)
    common = (
        "--data",
        str(tmp_path / "t.csv"),
        "--target",
        "y",
        "--sensitive",
        "s",
        "--require",
        "s=.60",
        "--certified",
        "--attackers",
        "logistic",
    )
    good = tacit_command("audit", str(tmp_path / "good.parquet"), *common, "--out", str(tmp_path / "o"))
    assert good.returncode == 0, good.stderr
    assert "bounds are met" in good.stdout
    assert (tmp_path / "o" / "audit.json").exists()
    bad = tacit_command("audit", str(tmp_path / "bad.csv"), *common)
    assert bad.returncode == 3
    assert "leakage may be as high as 1.000" in bad.stderr.replace("\n", " ")
    assert "Traceback" not in bad.stderr
    pd.DataFrame({"z": y[:-1]}).to_csv(tmp_path / "short.csv", index=False)
    short = tacit_command("audit", str(tmp_path / "short.csv"), *common)
    assert short.returncode == 2
    assert "short.csv has 799 rows but t.csv has 800" in short.stderr.replace("\n", " ")


def test_fit_refuses_with_one_line(tmp_path):
    pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1], "s": [0, 1]}).to_csv(tmp_path / "t.csv", index=False)
    out = in_a_process("fit", str(tmp_path / "t.csv"), "--target", "wealth", "--sensitive", "s")
    assert out.returncode == 2
    assert "--target wealth: t.csv has no column" in out.stderr.replace("\n", " ")  # the option and the column typed
    assert "Traceback" not in out.stderr


@pytest.mark.slow  # guards the README's first command, from the data to the page
def test_demo(tmp_path):
    out = in_a_process("demo", "--out", str(tmp_path / "demo"))
    assert out.returncode == 0, out.stderr
    for word in ("raw data", "label-only", "PCA", "EIGAN", "CodebookFilter", "guessing", "certified", "audited"):
        assert word in out.stdout
    page = (tmp_path / "demo" / "report.html").read_text()
    assert page.count('data-draw="trade-off"') == 1
    assert all(len(line) <= 80 for line in out.stdout.splitlines())


def test_import_is_quick_and_light():
    """`import tacit` loads none of the heavy libraries (its time is in benchmarks/)."""
    code = "import sys, tacit; print([m for m in ('torch', 'sklearn', 'pandas', 'numpy') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "order",
    [
        "import tacit.auditing.stats, tacit",
        "from tacit import audit; import tacit.auditing.stats; assert audit is tacit.audit",
        pytest.param("import tacit; tacit.audit; import tacit.auditing.stats", marks=pytest.mark.slow),
        pytest.param("import tacit; f = tacit.audit; import tacit.auditing.stats; assert f is tacit.audit",
                     marks=pytest.mark.slow),
        pytest.param("import tacit; tacit.frontier; import tacit.tradeoff.points", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_public_name_means_the_same_in_every_order_of_imports(order):
    check = "import pickle; assert callable(tacit.audit) and callable(tacit.frontier); tacit.auditing.stats.accuracy; "
    check += "tacit.tradeoff.points.Point; assert pickle.loads(pickle.dumps(tacit.audit)) is tacit.audit"
    subprocess.run(
        [sys.executable, "-c", f"{order}; import tacit.auditing.stats, tacit.tradeoff.points; {check}"], check=True
    )
