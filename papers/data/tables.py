"""Tables about people: adult, titanic."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from papers.data.registry import Folder, Packed, dataset, require
from tacit.errors import InputError
from tacit.records.dataset import Dataset

UCI_ADULT = "adult.data and adult.test of 'Adult', UCI Machine Learning Repository"
LIST = "titanic.csv of the public passenger list (Kaggle's train.csv)"
ADULT_COLUMNS = [
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
]  # fmt: skip
TITANIC_COLUMNS = [
    "PassengerId", "Survived", "Pclass", "Name", "Sex", "Age", "SibSp", "Parch", "Ticket", "Fare", "Cabin", "Embarked",
]  # fmt: skip


def prepare_adult(folder: Folder) -> Packed:
    """Both parts, with a column `split`; adult.test begins with a remark and ends its labels with a dot."""
    parts = []
    for part, file in (("train", "adult.data"), ("test", "adult.test")):
        table = pd.read_csv(folder.need(file), names=ADULT_COLUMNS, skipinitialspace=True, comment="|", dtype=str,
                            keep_default_na=False)  # fmt: skip
        parts.append(table.assign(income=table["income"].str.rstrip("."), split=part))
    return {"adult/adult.csv.gz": pd.concat(parts)}


def prepare_titanic(folder: Folder) -> Packed:
    """The list as it is."""
    table = pd.read_csv(folder.need("titanic.csv", "train.csv"), dtype=str)
    names = {c.lower(): c for c in TITANIC_COLUMNS}
    return {"titanic/titanic.csv.gz": table.rename(columns=lambda c: names.get(c.lower(), c))[TITANIC_COLUMNS]}


@dataset(UCI_ADULT, "adult/adult.csv.gz", prepare=prepare_adult)
def adult(sensitive: str | Sequence[str] = "sex", keep_sensitive: bool = False, target: str = "income") -> Dataset:
    """US census 1994, 48,842 people: keep income above 50K, hide sex (or race, or both); official train/test split.

    Age is a number, as target and as sensitive attribute.
    """
    table = pd.read_csv(require("adult/adult.csv.gz", UCI_ADULT), na_values="?")
    return of_columns(table, target, sensitive, keep_sensitive, "adult", drop=["split"], official=table["split"])


@dataset(LIST, "titanic/titanic.csv.gz", prepare=prepare_titanic)
def titanic(sensitive: str | Sequence[str] = "Sex", keep_sensitive: bool = False, identifiers: bool = False) -> Dataset:
    """891 Titanic passengers: keep survival, hide sex (or class).

    Names, tickets and cabins are identifiers: dropped, unless `identifiers` asks for them.
    """
    table = pd.read_csv(require("titanic/titanic.csv.gz", LIST))
    drop = ["PassengerId", *([] if identifiers else ["Name", "Ticket", "Cabin"])]
    return of_columns(table, "Survived", sensitive, keep_sensitive, "titanic", [c for c in drop if c in table])


def of_columns(
    table: pd.DataFrame, target: str, sensitive: str | Sequence[str], keep_sensitive: bool, name: str,
    drop: Sequence[str] = (), **more: object,
) -> Dataset:  # fmt: skip
    """A table's columns as inputs, target and sensitive attributes."""
    secrets = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    for column in (target, *secrets):
        if column not in table:
            raise InputError(f"{name} has no column {column!r}; its columns are {', '.join(table.columns)}")
    out = {target, *drop, *([] if keep_sensitive else secrets)}
    X = table[[c for c in table.columns if c not in out]]
    return Dataset(X, table[[target]], table[secrets], name=name, modality="table", **more)
