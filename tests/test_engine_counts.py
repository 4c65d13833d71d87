"""Counts that an engine made give the certificate that the rows themselves give."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import tacit
from tacit.auditing.certificate import certify as certify_rows
from tacit.auditing.looks import looks_file
from tacit.auditing.population import look_delta
from tacit.cli import app
from tacit.errors import RequirementNotMet
from tacit.report.results import at_most

DELTA = look_delta(1 - 0.95, 1)


def rows(n=6000, people=2500, mixed=False, seed=0):
    """Releases of two columns, and a sensitive column that is a person's or, where mixed, a record's."""
    rng = np.random.default_rng(seed)
    who = rng.integers(people, size=n)
    s = rng.integers(3, size=n) if mixed else who % 3
    a = np.where(rng.random(n) < 0.2, s, rng.integers(4, size=n))
    return pd.DataFrame(
        {"a": a, "b": rng.choice([0.5, np.nan], n), "job": np.array(["cook", "nurse", "clerk"])[s], "who": who}
    )


def counted(table, *by):
    return table.groupby(list(by), dropna=False).size().rename("n").reset_index()


def expected(table, unit=None, delta=DELTA):
    """The certificate of the rows, sorted as the counts are."""
    keys = [*([unit] if unit else []), "a", "b", "job"]
    table = table.sort_values(keys)
    cells = table.groupby(["a", "b"], dropna=False).ngroup().to_numpy()
    codes = pd.Categorical(table["job"]).codes.astype(np.int64)
    return certify_rows(cells, codes, 3, delta, None if unit is None else table[unit].to_numpy())


def same(found, wanted):
    """Every field; sums of shares are taken in another order, and may differ in the last digits."""
    for name, value in wanted.to_dict().items():
        other = found.to_dict()[name]
        assert other == (pytest.approx(value, rel=1e-12) if isinstance(value, float) else value), name
    assert found.odds == wanted.odds


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("unit", [None, "who"])
def test_the_certificate_of_the_rows(unit, mixed):
    table = rows(mixed=mixed)
    by = [*([unit] if unit else []), "a", "b", "job"]
    wanted = expected(table, unit)
    counts = counted(table, *by)
    for form in (counts, pa.Table.from_pandas(counts), counts.to_dict("list"), counts.sample(frac=1, random_state=0)):
        found = tacit.certify(form, "job", unit=unit)
        assert found.look == 1  # the same counts are the same look
        same(found["job"], wanted)
    if unit and mixed:  # a control: people are not as many as records
        assert found["job"].bound > tacit.certify(counted(table, "a", "b", "job"), "job")["job"].bound


def test_partitions_and_days_are_merged_by_putting_them_together():
    """Somebody who comes on three days is one unit, not three."""
    table = rows()
    days = [counted(part, "a", "b", "job", "who") for _, part in table.groupby(np.arange(len(table)) % 3)]
    assert sum(d["who"].nunique() for d in days) > 1.5 * table["who"].nunique()
    found = tacit.certify(pd.concat(days), "job", unit="who")
    same(found["job"], expected(table, "who"))
    assert found["job"].n_units == table["who"].nunique()
    without = [counted(part, "a", "b", "job") for _, part in table.groupby(np.arange(len(table)) % 3)]
    same(tacit.certify(pd.concat(without), "job")["job"], expected(table))


def test_names_by_default_and_engines_that_count():
    """DuckDB and Polars: the group-by of docs/engines.md."""
    table = rows()
    wanted = expected(table)
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    by_duckdb = duckdb.sql(
        "select a, b, job as sensitive, count(*) as n from table group by all".replace("table", '"table"')
    )
    same(tacit.certify(by_duckdb.df())["sensitive"], wanted)
    by_polars = polars.from_pandas(table, nan_to_null=False).group_by("a", "b", sensitive="job").len("n")
    same(tacit.certify(by_polars)["sensitive"], wanted)
    hashed = duckdb.sql(
        "select a, b, job as sensitive, sha256('salt' || who) as unit, count(*) as n from \"table\" group by all"
    )
    found = tacit.certify(hashed.arrow().read_all())["sensitive"]  # which record speaks for a unit is another draw
    assert (found.n, found.n_units, found.cells) == (6000, table["who"].nunique(), wanted.cells)
    assert found.bound == pytest.approx(expected(table, "who").bound, rel=1e-12)


def test_several_columns_hold_together_and_missing_classes_count():
    table = rows().assign(sex=lambda t: np.where(t["who"] % 5 == 0, None, np.where(t["who"] % 2, "f", "m")))
    found = tacit.certify(counted(table, "a", "b", "job", "sex"), ["job", "sex"])
    assert list(found.certificate) == ["job", "sex", "job x sex"]
    same(found["job"], expected(table, delta=DELTA / 3))
    assert found["sex"].n == found["job x sex"].n == int((table["who"] % 5 != 0).sum())
    declared = tacit.certify(counted(table, "a", "b", "job"), "job", classes={"job": ["cook", "judge"]})
    assert (declared["job"].n_classes, declared["job"].absent) == (4, 1)
    with pytest.raises(tacit.TacitError, match="n_cells=7 but the counts have 8 different releases"):
        tacit.certify(counted(table, "a", "b", "job"), "job", n_cells=7)
    assert declared.releases.shape == (8, 2)
    worst = declared.releases.iloc[declared["job"].worst_cell]
    assert worst["a"] in range(4)
    all_there_are = tacit.certify(counted(table, "a", "b", "job"), "job", n_cells=8)
    assert all_there_are["job"].odds.cells is None


def test_looks_at_the_same_people_are_counted():
    """By their units; without units by how many have each class."""
    table = rows()
    other = table.assign(a=np.random.default_rng(1).permutation(table["a"]))
    for unit in ("who", None):
        by = ["a", "b", "job", *([unit] if unit else [])]
        looks = [tacit.certify(counted(t, *by), "job", unit=unit) for t in (table, other, table)]
        assert [c.look for c in looks] == [1, 2, 1]
        assert any("look 2 on these rows" in note for note in looks[1].notes)
        assert looks[1]["job"].delta == look_delta(1 - 0.95, 2)
    strangers = table.assign(who=table["who"] + 10**6)
    assert tacit.certify(counted(strangers, "a", "b", "job", "who"), "job", unit="who").look == 1
    kept = looks_file().read_text()
    assert "cook" not in kept
    assert "who" not in json.loads(kept)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda c: c.drop(columns="job"), "no column 'job'; they have a, b, n"),
        (lambda c: c.drop(columns="n"), "no column 'n'"),
        (lambda c: c.iloc[:0], "the counts are empty"),
        (lambda c: c.assign(n=-1), "row 0: '-1' is not a number of records"),
        (lambda c: c.assign(n=0.5), "row 0: '0.5' is not a number of records"),
        (lambda c: c.assign(n=0), "the counts are empty"),
        (lambda c: c.drop(columns=["a", "b"]), "no column of the release"),
        (lambda c: c.assign(unit=None), "a unit is missing"),
        (lambda c: c.assign(job="cook"), "'job' has one class (only 'cook')"),
        (lambda c: pd.concat([c] * 900).assign(id=lambda t: range(len(t))), "different releases (columns a, b, id)"),
    ],
)
def test_what_cannot_be_counts_is_refused(change, message):
    with pytest.raises(tacit.TacitError) as told:
        tacit.certify(change(counted(rows(), "a", "b", "job")), "job")
    assert message in str(told.value)


def test_too_few_units_give_no_certificate():
    found = tacit.certify({"z": [0, 1], "sex": ["f", "m"], "n": [2, 2]}, "sex")
    assert found["sex"] is None or found["sex"].bound == 1
    few = tacit.certify({"z": [0, 1, 0, 1], "sex": ["f", "f", "m", "m"], "n": [2, 2, 2, 2]}, "sex")
    assert few["sex"] is None
    assert any("too few units" in note for note in few.notes)
    with pytest.raises(RequirementNotMet, match="no certificate exists for these counts"):
        few.require({"sex": 1.0})
    with pytest.raises(tacit.TacitError, match="no attribute 'age'; they have sex"):
        few.require({"age": 0.6})


def test_the_command_line_is_a_gate(tmp_path):
    table = rows()
    counted(table, "a", "b", "job", "who").to_parquet(tmp_path / "counts.parquet")
    bound = expected(table, "who").bound
    call = ["audit", "--counts", str(tmp_path / "counts.parquet"), "--sensitive", "job", "--unit", "who"]
    run = lambda *more: CliRunner().invoke(app, [*call, *more])  # noqa: E731
    shown = run()
    assert shown.exit_code == 0, shown.output
    assert f"job: leakage at most {at_most(bound)}" in shown.output
    assert "certified" in shown.output
    assert "count rows that it never saw" in " ".join(shown.output.split())
    assert run("--require", f"job={bound + 0.001}", "--certified", "--require-odds", "job=9").exit_code == 0
    for gate in (("--require", f"job={bound - 0.001}"), ("--require-odds", "job=1.01")):
        refused = run(*gate)
        assert isinstance(refused.exception, RequirementNotMet) or refused.exit_code == 3
    for wrong in (["released.parquet"], ["--data", "x.csv"], ["--measure", "linkability"], ["--out", "report"]):
        assert isinstance(run(*wrong).exception, tacit.TacitError)
    nothing = CliRunner().invoke(app, ["audit", "--sensitive", "job"])
    assert isinstance(nothing.exception, tacit.TacitError)
