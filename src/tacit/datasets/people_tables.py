"""Tables about people: adult, titanic, mimic_demo."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from tacit.datasets.declaration import declare
from tacit.datasets.publishers.open_tables import adult_part
from tacit.datasets.publishers.pack import csv_gz
from tacit.datasets.publishers.source import Source
from tacit.datasets.store import cache_folder, download, locate, packed
from tacit.errors import InputError
from tacit.files import replacing
from tacit.records.dataset import Dataset

ADULT_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"


@declare("48,842", "table", "income", "sex, race", "CC BY 4.0 (UCI)", ("adult/adult.csv.gz",))
def adult(sensitive: str | Sequence[str] = "sex", keep_sensitive: bool = False, target: str = "income") -> Dataset:
    """US census 1994: keep income above 50K, hide sex (or race, or both); official train/test split.

    Age is a number, as target and as sensitive attribute.
    """
    path = locate("adult/adult.csv.gz") or _download_adult()
    table = pd.read_csv(path, na_values="?")
    return choose_columns(table, target, sensitive, keep_sensitive, "adult", drop=["split"], official=table["split"])


@declare("891", "table", "Survived", "Sex, Pclass", "facts, public domain", ("titanic/titanic.csv.gz",))
def titanic(sensitive: str | Sequence[str] = "Sex", keep_sensitive: bool = False, identifiers: bool = False) -> Dataset:
    """Titanic passengers: keep survival, hide sex (or class).

    Names, tickets and cabins are identifiers: dropped, unless `identifiers` asks for them.
    """
    path = packed("titanic/titanic.csv.gz", "titanic")
    table = pd.read_csv(path)
    drop = ["PassengerId", *([] if identifiers else ["Name", "Ticket", "Cabin"])]
    return choose_columns(table, "Survived", sensitive, keep_sensitive, "titanic", [c for c in drop if c in table])


@declare(
    "129",
    "table",
    "HOSPITAL_EXPIRE_FLAG",
    "GENDER, ETHNICITY",
    "ODbL 1.0 (PhysioNet)",
    ("mimic3_demo/admissions_table.csv.gz",),
)
def mimic_demo(sensitive: str | Sequence[str] = "GENDER", keep_sensitive: bool = False) -> Dataset:
    """MIMIC-III demo: 129 admissions of 100 patients; the patient is the unit. A smoke test, not a benchmark."""
    path = packed("mimic3_demo/admissions_table.csv.gz", "mimic_demo")
    table = pd.read_csv(path)
    drop = [c for c in ("SUBJECT_ID", "HADM_ID") if c in table]
    units = table["SUBJECT_ID"].to_numpy() if "SUBJECT_ID" in table else None
    return choose_columns(table, "HOSPITAL_EXPIRE_FLAG", sensitive, keep_sensitive, "mimic_demo", drop, units=units)


def choose_columns(
    table: pd.DataFrame,
    target: str,
    sensitive: str | Sequence[str],
    keep_sensitive: bool,
    name: str,
    drop: Sequence[str] = (),
    official: pd.Series | None = None,
    units: np.ndarray | None = None,
) -> Dataset:
    secrets = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    unknown = [s for s in (target, *secrets) if s not in table]
    if unknown:
        raise InputError(f"{name} has no column {unknown[0]!r}; its columns are {', '.join(table.columns)}")
    out = {target, *drop, *([] if keep_sensitive else secrets)}
    X = table[[c for c in table.columns if c not in out]]
    return Dataset(X, table[[target]], table[secrets], units, name, "table", official)


def _download_adult() -> Path:
    """Fetch the publisher's two files, join them as shared copies do, and keep the result."""
    train = download(ADULT_URL + "adult.data", "md5:5d7c39d7b8804f071cdd1f2a7c460872", "adult")
    test = download(ADULT_URL + "adult.test", "md5:35238206dfdf7f1fe215bbb874adecdc", "adult")
    return join_adult(train, test, cache_folder() / "adult" / "adult.csv.gz")


def join_adult(train: Path, test: Path, out: Path) -> Path:
    """adult.data + adult.test -> one compressed CSV with a column `split`; written whole or not at all."""
    parts = [adult_part(Source(p, "adult"), p.name, part) for p, part in ((train, "train"), (test, "test"))]
    with replacing(out) as partial:
        csv_gz(pd.concat(parts))(partial)
    return out
