"""As `pip install tacit` is, without Arrow and cryptography: CSV files are released to the same bytes."""

from __future__ import annotations

import importlib
import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

from tacit.records import plain_columns, plain_compute
from tacit.records.plain_csv import write_plainly

# as where it is not installed: nothing finds it, in this process and in those it starts
ABSENT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyarrow", "cryptography"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""
ROLES = ("--target", "y", "--sensitive", "s")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng, n = np.random.default_rng(0), 200
    s = rng.choice(["m", "f"], n)
    table = pd.DataFrame({"a": rng.normal(s == "m", 1, n).round(1), "b": rng.choice(["u", "v"], n), "s": s})
    table = table.assign(y=np.where(table["a"] > 0.5, "p", "q"), k=np.where(rng.random(n) < 0.1, np.nan, 7.0))
    place = tmp_path_factory.mktemp("without")
    table.to_csv(place / "t.csv", index=False)
    table.to_csv(place / "german.csv", index=False, sep=";", decimal=",", encoding="utf-16")
    table.to_csv(place / "packed.csv.gz", index=False)
    table.to_parquet(place / "t.parquet")
    (place / "absent").mkdir()
    (place / "absent" / "sitecustomize.py").write_text(ABSENT)
    return place


def run(folder: Path, *words: str, arrow: bool = False) -> subprocess.CompletedProcess[str]:
    path = [] if arrow else [str(folder / "absent")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")]), "COLUMNS": "200"}
    command = [sys.executable, "-c", "from tacit.cli import main; main()", *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_the_blocker_blocks(folder):
    env = os.environ | {"PYTHONPATH": str(folder / "absent")}
    found = subprocess.run([sys.executable, "-c", "import pyarrow"], env=env, capture_output=True, text=True)
    assert "No module named 'pyarrow'" in found.stderr


def test_only_what_signs_or_federates_needs_more(folder):
    """Every module of Tacit is imported without the extras; those that cannot be are told by name."""
    code = """
import importlib, pkgutil, tacit
for found in pkgutil.walk_packages(tacit.__path__, "tacit."):
    if found.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(found.name)
    except ModuleNotFoundError as error:
        print(found.name, error.name)
"""
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder / "absent"), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lacks = [line.split() for line in done.stdout.splitlines()]
    assert {library for _, library in lacks} == {"cryptography"}
    others = [name for name, _ in lacks if not name.startswith(("tacit.ledger", "tacit.federated"))]
    assert others == ["tacit.release.signing"]


@pytest.mark.parametrize("name", ["coupling", "codebook"])
def test_a_csv_is_fitted_audited_and_released(name, folder):
    fitted = run(folder, "fit", "t.csv", *ROLES, "--quick", "--filter", name, "--out", name)
    assert fitted.returncode == 0, fitted.stderr
    assert (folder / name / "release.csv").exists()
    bundle = f"{name}/filter.tacit"
    key = next(iter((folder / f"{name}-keys").glob("*noise*")), None)
    keyed = ["--noise-key", str(key)] if key else []
    for arrow in (False, True):
        for source in ("t.csv", "german.csv", "packed.csv.gz"):
            done = run(
                folder, "release", "apply", bundle, source, f"{name}-{arrow}-{source[0]}.csv", *keyed, arrow=arrow
            )
            assert done.returncode == 0, done.stderr
    for source in "tgp":
        without, within = ((folder / f"{name}-{arrow}-{source}.csv").read_bytes() for arrow in (False, True))
        assert without == within  # and not empty:
        assert without.count(b"\n") == 201
    if name == "coupling":
        audit = run(folder, "audit", f"{name}/release.csv", "--data", "t.csv", *ROLES,
                    "--no-breadth", "--no-linkability", "--no-singling-out")  # fmt: skip
        assert audit.returncode == 0, audit.stderr


def test_what_needs_arrow_says_so_in_one_line(folder):
    get = "needs pyarrow, which is not installed; get it with: pip install 'tacit[arrow]'"
    fit = run(folder, "fit", "t.parquet", *ROLES)
    assert fit.returncode == 2
    assert fit.stderr.strip() == f"error: a Parquet file (t.parquet) {get}"
    sign = run(folder, "release", "keys", "k")
    assert sign.returncode == 2
    assert "needs cryptography" in sign.stderr
    assert "pip install 'tacit[sign]'" in sign.stderr
    doctor = run(folder, "doctor")
    assert doctor.returncode == 0, doctor.stderr
    assert "no pyarrow" in doctor.stdout
    assert "pip install 'tacit[arrow]'" in doctor.stdout
    assert "no pyarrow" not in run(folder, "doctor", arrow=True).stdout


TEXTS = [" a", "b ", "", None, "1", "-1.5", "+3", "1e5", ".5", "5.", "nan", "Inf", "TRUE", "1,5", "1.234,5", "x\n",
         "3.4.2024", "13/4/2024", "2024-04-03", "2024-04-03T10:11", "İ", "=1", "0x1", "1_0", "٣"]  # fmt: skip


@pytest.mark.parametrize("call", [
    lambda c, a, t: c.utf8_ltrim(t, " "), lambda c, a, t: c.utf8_trim(t, " "), lambda c, a, t: c.utf8_lpad(t, 3, "0"),
    lambda c, a, t: c.replace_substring(t, ".", ""), lambda c, a, t: c.is_in(t, value_set=a.array(["1", ""])),
    lambda c, a, t: c.if_else(c.equal(t, "1"), a.scalar(None, a.string()), t),
    lambda c, a, t: c.if_else(c.equal(t, "1"), "one", t),
    lambda c, a, t: c.binary_join_element_wise(t, t, "-"), lambda c, a, t: c.fill_null(c.equal(t, "1"), False),
])  # fmt: skip
def test_a_function_does_what_arrows_does(call):
    texts = pa.array(TEXTS, pa.string())
    plain = plain_columns.array(TEXTS, plain_columns.string())
    assert call(plain_compute, plain_columns, plain).to_pylist() == call(pc, pa, texts).to_pylist()


@pytest.mark.parametrize("text", [t for t in TEXTS if t is not None])
@pytest.mark.parametrize("kind", ["float64", "int64"])
def test_a_number_is_read_as_arrow_reads_it(text, kind):
    if text == "0x1":
        pytest.skip("Arrow reads it as a whole number, but is never asked to: it is no number with a point")

    def read(a, c):
        try:
            return repr(c.cast(a.array([text], a.string()), getattr(a, kind)()).to_pylist())
        except a.ArrowInvalid:
            return "none"

    assert read(plain_columns, plain_compute) == read(pa, pc)


def test_patterns_match_as_arrows_do():
    from tacit.records.spelling import COMMA_NUMBER, ISO, TURNED
    from tacit.release.record_files import FORMULA, PLAIN_NUMBER

    texts, plain = pa.array(TEXTS, pa.string()), plain_columns.array(TEXTS, plain_columns.string())
    for pattern in (COMMA_NUMBER, ISO, FORMULA, PLAIN_NUMBER):
        ours = plain_compute.match_substring_regex(plain, pattern).to_pylist()
        assert ours == pc.match_substring_regex(texts, pattern).to_pylist(), pattern
    assert plain_compute.extract_regex(plain, TURNED).to_pylist() == pc.extract_regex(texts, TURNED).to_pylist()


def test_csv_is_written_as_arrow_writes_it():
    rng = np.random.default_rng(0)
    floats = [*(rng.normal(size=400) * 10.0 ** rng.integers(-12, 20, 400)), 0.0, -0.0, 1e10, 1e-6, np.inf, np.nan, 1e9]
    n = len(floats)
    times = [pd.Timestamp("2020-01-02 03:04:05.000006").to_pydatetime(), None]
    columns = {
        "a": (floats, "float64"), 'b"': ([*TEXTS, 'q"'] * n, "string"), "c": ([True, None] * n, "bool_"),
        "d": ([2**60, None] * n, "int64"), "e": ([t and t.date() for t in times] * n, "date32"),
    }  # fmt: skip

    def written(a, write):
        made = {k: a.array(v[:n], getattr(a, kind)()) for k, (v, kind) in columns.items()}
        batch = a.record_batch({**made, "t": a.array((times * n)[:n], a.timestamp("us"))})
        file = io.BytesIO()
        write(file, batch)
        return file.getvalue()

    def arrows(file, batch):
        with pyarrow.csv.CSVWriter(file, batch.schema) as writer:
            writer.write_batch(batch)

    ours = written(plain_columns, lambda file, batch: write_plainly(file, [batch], batch.schema))
    assert ours.decode().splitlines() == written(pa, arrows).decode().splitlines()


def test_a_batch_comes_back_as_it_was_kept():
    times = [pd.Timestamp("1960-01-02 03:04:05.000006"), None]
    batch = plain_columns.record_batch({
        "t": plain_columns.array(times, plain_columns.timestamp("us")),
        "d": plain_columns.array(times, plain_columns.date32()),
        "s": plain_columns.array([pd.Timedelta("3s"), None], plain_columns.duration("us")), "x": ["é", None],
    })  # fmt: skip
    back = plain_columns.from_plain(plain_columns.to_plain(batch))
    assert back.schema == batch.schema
    assert [c.to_pylist() for c in back.columns] == [c.to_pylist() for c in batch.columns]


def test_the_stand_in_is_not_used_here():
    assert importlib.import_module("tacit.records.arrow").pa is pa
