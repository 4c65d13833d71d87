"""A data engineer: a table as an office has it, handed over; next month's file; the whole audit later."""

from __future__ import annotations

import sqlite3

import numpy as np
import pandas as pd
import pytest

from commands import tacit_command

pytestmark = pytest.mark.usefixtures("few_steps", "one_attacker")  # what is done, not what is found


def people(n: int = 240, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    sex = rng.choice(["weiblich", "männlich"], n)
    job = np.where(rng.random(n) < 0.5, np.where(sex == "weiblich", "Köchin", "Müller"), "Büro")
    born = pd.Timestamp("1960-01-01") + pd.to_timedelta(rng.integers(0, 15_000, n), unit="D")
    pay = np.round(1500 + 20 * rng.random(n) * 100 + 800 * (job == "Büro"), 2)
    rich = np.where(pay + rng.normal(0, 100, n) > np.median(pay), "ja", "nein")
    return pd.DataFrame({"Beruf": job, "geboren": born, "Lohn": pay, "reich": rich, "Geschlecht": sex})


def as_office(table: pd.DataFrame, path) -> None:
    """Semicolons, decimal commas, latin-1, dates as 31.12.1999, gaps as k.A."""
    plain = table.assign(geboren=table["geboren"].dt.strftime("%d.%m.%Y"))
    text = plain.to_csv(index=False, sep=";", decimal=",", lineterminator="\r\n")
    lines = text.split("\r\n")
    cells = lines[3].split(";")
    cells[2] = "k.A."
    lines[3] = ";".join(cells)
    path.write_bytes("\r\n".join(lines).encode("latin-1"))


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    """One command: the table is handed over."""
    folder = tmp_path_factory.mktemp("office")
    as_office(people(), folder / "leute.csv")
    done = tacit_command(
        "fit", folder / "leute.csv", "--target", "reich", "--sensitive", "Geschlecht", "--quick",
        "--out", folder / "handover", COLUMNS="200",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder, done


def test_the_table_comes_back_in_its_own_form(office):
    folder, done = office
    assert "semicolons between cells, decimal commas, in cp1252" in done.stdout
    text = (folder / "handover" / "release.csv").read_text()
    assert text.startswith("Beruf;geboren;Lohn;reich\n")
    back = pd.read_csv(folder / "handover" / "release.csv", sep=";", decimal=",")
    assert len(back) == 240
    assert back["Lohn"].median() == pytest.approx(people()["Lohn"].median(), rel=0.1)
    assert {"Köchin", "Müller", "Büro"} >= set(back["Beruf"])
    assert pd.to_datetime(back["geboren"]).dt.year.between(1955, 2010).all()
    assert {p.name for p in (folder / "handover").iterdir()} == {
        "release.csv", "report.html", "filter.tacit", "audit.json"
    }  # fmt: skip


def test_next_months_file_is_released_and_what_is_new_is_counted(office, tmp_path):
    """Other order, other separator, other dtypes, a column more, words that were not there."""
    folder, _ = office
    month = people(60, seed=1)[["Geschlecht", "reich", "Lohn", "geboren", "Beruf"]].assign(Filiale=7)
    month.loc[:9, "Beruf"] = "Pilot"
    month["Lohn"] = month["Lohn"].round().astype(int)
    month.to_parquet(tmp_path / "month.parquet")
    done = tacit_command(
        "release", "apply", folder / "handover" / "filter.tacit", tmp_path / "month.parquet", tmp_path / "out.csv",
        COLUMNS="200",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "new in month.parquet: Beruf: 10 of 60 rows have words that the fit did not have" in done.stderr
    assert "left out: Filiale" in done.stderr
    assert "Noise key: " in done.stderr  # found in handover-keys
    assert list(pd.read_csv(tmp_path / "out.csv").columns) == ["Beruf", "geboren", "Lohn", "reich"]
    month.rename(columns={"Beruf": "beruf"}).to_csv(tmp_path / "wrong.csv", index=False)
    wrong = tacit_command(
        "release", "apply", folder / "handover" / "filter.tacit", tmp_path / "wrong.csv", tmp_path / "no.csv",
        COLUMNS="200",
    )  # fmt: skip
    assert wrong.returncode == 2
    assert "wrong.csv has no column 'Beruf'; did you mean 'beruf'?" in wrong.stderr
    assert not (tmp_path / "no.csv").exists()


def _excel(table, path):
    pytest.importorskip("openpyxl", reason="openpyxl is not installed: pip install 'tacit[excel]'")
    table.to_excel(path, index=False)


def _sqlite(table, path):
    with sqlite3.connect(path) as connection:
        table.to_sql("people", connection, index=False)


def _duckdb(table, path):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(path)) as connection:
        connection.register("given", table)
        connection.execute("create table people as select * from given")
        connection.execute("create table other as select 1 as a")


def _folder(table, path):
    path.mkdir()
    table.head(100).to_parquet(path / "a.parquet")
    table.tail(len(table) - 100).to_parquet(path / "b.parquet")


FORMS = {
    "t.parquet": lambda t, p: t.to_parquet(p),
    "t.feather": lambda t, p: t.to_feather(p),
    "t.tsv": lambda t, p: t.to_csv(p, sep="\t", index=False),
    "t.txt": lambda t, p: t.to_csv(p, sep="|", index=False, encoding="utf-16"),
    "t.xlsx": _excel,
    "t.sqlite": _sqlite,
    "t.duckdb": _duckdb,
    "folder": _folder,
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_table_is_read(name, tmp_path):
    from tacit.records.table_files import open_table

    table = people(150)
    FORMS[name](table, tmp_path / name)
    asked = "select * from people where Lohn > 0" if name.endswith(("sqlite", "duckdb")) else None
    found = open_table(tmp_path / name, asked).table
    assert list(found.columns) == list(table.columns)
    assert len(found) == len(table)
    assert found["Beruf"].tolist() == table["Beruf"].tolist()
    assert pd.to_numeric(found["Lohn"]).to_numpy() == pytest.approx(table["Lohn"].to_numpy())
    assert pd.to_datetime(found["geboren"]).tolist() == table["geboren"].tolist()
