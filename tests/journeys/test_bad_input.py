"""Kinds of bad input: each gives one clear error, no traceback, exit 2 (1 where the system refuses a file)."""

from __future__ import annotations

import json
import sqlite3
import zipfile

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from commands import tacit_command

ROLES = ("--target", "y", "--sensitive", "s")


def good(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.integers(0, 9, n), "b": rng.choice(["u", "v"], n), "y": rng.choice(["p", "q"], n),
                         "s": rng.choice(["m", "f"], n)})  # fmt: skip


def csv(text: str | bytes):
    def write(folder):
        (folder / "t.csv").write_bytes(text if isinstance(text, bytes) else text.encode())

    return write


def frame(change, name: str = "t.csv"):
    def write(folder):
        change(good()).to_csv(folder / name, index=False)

    return write


def table(folder):
    good().to_csv(folder / "t.csv", index=False)


def nothing(folder):
    """No file at all."""


def photos(names: int = 4, labels: str = "file,y\n0.png,p\n1.png,q\n2.png,p\n3.png,q\n"):
    def write(folder):
        (folder / "photos").mkdir()
        for i in range(names):
            Image.new("RGB", (20, 20)).save(folder / "photos" / f"{i}.png")
        (folder / "labels.csv").write_text(labels)

    return write


def recordings(text: str = "time,ax,y\n0,1,p\n1,2,p\n"):
    def write(folder):
        (folder / "r").mkdir()
        (folder / "r" / "anna.csv").write_text(text)

    return write


def database(folder):
    with sqlite3.connect(folder / "t.sqlite") as connection:
        good().to_sql("one", connection, index=False)
        good().to_sql("two", connection, index=False)


def broken_bundle(folder):
    table(folder)
    with zipfile.ZipFile(folder / "f.tacit", "w") as archive:
        archive.writestr("manifest.json", json.dumps({"format": 99}))


def handed_over(folder):
    (folder / "o").mkdir()


FIT = ("fit", "t.csv", *ROLES)
PHOTOS = ("fit", "photos", "--images", "--set", "labels=labels.csv")
SENSORS = ("fit", "r", "--sensors")
# what it is: (what is made first, the command, what is said)
BAD = {
    "no such file": (nothing, FIT, "no file t.csv; check the path"),
    "a header alone": (csv("a,b,y,s\n"), FIT, "has no row"),
    "bytes that are no text": (csv(bytes(range(256)) * 40), FIT, "is no text file"),
    "a picture called .csv": (csv(b"\x89PNG\r\n\x1a\n" + b"\0\1\2" * 50), FIT, "is no text file"),
    "Excel of before 2007": (lambda f: (f / "t.xls").write_text("x"), ("fit", "t.xls", *ROLES), "save it as .xlsx"),
    "a broken Excel file": (lambda f: (f / "t.xlsx").write_text("x"), ("fit", "t.xlsx", *ROLES), "t.xlsx"),
    "a folder without tables": (lambda f: (f / "d").mkdir(), ("fit", "d", *ROLES), "no Parquet file"),
    "a database that is none": (
        lambda f: (f / "t.db").write_text("hello"),
        ("fit", "t.db", *ROLES),
        "neither an SQLite",
    ),
    "which of two tables?": (database, ("fit", "t.sqlite", *ROLES), "has the tables one, two"),
    "a wrong query": (database, ("fit", "t.sqlite", "--set", "sql=selct 1", *ROLES), "does not answer the query"),
    "a query of a CSV file": (table, (*FIT, "--set", "sql=select 1"), "sql asks a database"),
    "a target that is not there": (table, ("fit", "t.csv", "--target", "Y", "--sensitive", "s"), "did you mean 'y'"),
    "a secret that is not there": (table, ("fit", "t.csv", "--target", "y", "--sensitive", "zz"), "no column 'zz'"),
    "no target": (table, ("fit", "t.csv", "--sensitive", "s"), "--target COLUMN is missing"),
    "nothing to hide": (table, ("fit", "t.csv", "--target", "y"), "--sensitive COLUMN is missing"),
    "target and secret are one": (
        table,
        ("fit", "t.csv", "--target", "y", "--sensitive", "y"),
        "cannot be kept and hidden",
    ),
    "no input is left": (frame(lambda t: t[["y", "s"]]), FIT, "no input column left"),
    "one class only": (frame(lambda t: t.assign(s="m")), FIT, "'s'"),
    "four rows": (frame(lambda t: t.head(4)), FIT, ""),
    "a filter that is none": (table, (*FIT, "--filter", "magic"), "no filter is called 'magic'"),
    "an option of another filter": (
        table,
        (*FIT, "--filter", "eigan", "--set", "max_odds=3"),
        "no parameter 'max_odds'",
    ),
    "a weight without a number": (table, (*FIT, "--set", "bins"), "--set takes NAME=VALUE"),
    "a day that is none": (table, (*FIT, "--set", "expires=soon"), "soon"),
    "a folder that is a file": (table, (*FIT, "--out", "t.csv"), "is a file; name a folder"),
    "sensors and images": (table, (*FIT, "--sensors", "--images"), "do not go together"),
    "recordings without a folder": (nothing, (*SENSORS, *ROLES), "no file or folder r"),
    "recordings without signals": (
        recordings("time,y\n0,p\n1,p\n"),
        (*SENSORS, "--target", "y", "--sensitive", "who"),
        "no column of numbers",
    ),
    "recordings too short": (recordings(), (*SENSORS, "--target", "y", "--sensitive", "who"), "a window needs 16"),
    "photos without labels": (photos(labels="x,y\nno.png,p\n"), (*PHOTOS, "--target", "y"), "holds names of files"),
    "a folder without photos": (photos(0), (*PHOTOS, "--target", "y"), "holds no image"),
    "a bundle that is none": (broken_bundle, ("release", "apply", "f.tacit", "t.csv", "o.csv"), "f.tacit"),
    "a folder that nobody handed over": (handed_over, ("audit", "o"), "has no filter.tacit"),
    "a gate without a bound": (
        table,
        ("audit", "t.csv", "--data", "t.csv", *ROLES, "--require", "s"),
        "take NAME=BOUND",
    ),
    "a release of other rows": (
        lambda f: (table(f), good().head(9).to_csv(f / "z.csv")),
        ("audit", "z.csv", "--data", "t.csv", *ROLES),
        "has 9 rows but t.csv has 60",
    ),
    "a policy that is none": (
        lambda f: (f / "tacit.toml").write_text("[data"),
        ("check", "tacit.toml"),
        "tacit.toml",
    ),
    "a gap in what is hidden": (
        frame(lambda t: t.assign(s=[*t["s"][:40], *[None] * 20])),
        FIT,
        "column 's' is missing in 20 of 60 rows, first in row 40 (from 0)",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_gives_one_clear_error(kind, tmp_path, monkeypatch):
    make, command, said = BAD[kind]
    make(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TACIT_ENCODING", raising=False)
    done = tacit_command(*command, COLUMNS="400")
    monkeypatch.delenv("TACIT_ENCODING", raising=False)
    assert done.returncode in (1, 2), (done.returncode, done.stdout)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, done.stderr
    assert said in errors[0], errors[0]
    assert "Traceback" not in done.stderr
    assert "tacit.errors" not in done.stderr
    assert not (tmp_path / "tacit-out" / "release.csv").exists()
