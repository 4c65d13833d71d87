"""Adult (adult.data, adult.test), the Titanic's list, the demo of MIMIC-III and MNIST's IDX files."""

from __future__ import annotations

import csv
from collections.abc import Sequence

import numpy as np
import pandas as pd

from tacit.datasets.publishers.admissions import join_mimic
from tacit.datasets.publishers.columns import AGAIN, number_in, rows
from tacit.datasets.publishers.idx import read_idx
from tacit.datasets.publishers.mimic_files import base_tables
from tacit.datasets.publishers.pack import Pack, counted, csv_gz, npz
from tacit.datasets.publishers.source import Source
from tacit.datasets.where import WHERE
from tacit.errors import InputError

ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip
ADULT_NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
TITANIC_COLUMNS = (
    "PassengerId", "Survived", "Pclass", "Name", "Sex", "Age", "SibSp", "Parch", "Ticket", "Fare", "Cabin", "Embarked",
)  # fmt: skip


def pack_adult(source: Source) -> Pack:
    """Both parts, with a column `split`."""
    train, test = (source.need(file, remedy=f"get {WHERE['adult']}") for file in ("adult.data", "adult.test"))
    table = pd.concat([adult_part(source, train, "train"), adult_part(source, test, "test")])
    return Pack(f"{len(table):,} people: {counted(table['split'])}", {"adult/adult.csv.gz": csv_gz(table)})


def adult_part(source: Source, name: str, part: str) -> pd.DataFrame:
    """Lines of 15 cells without a header; adult.test begins with a remark and ends its labels with a dot."""
    found: list[list[str]] = []
    for line, text in source.lines(name):
        if text.startswith("|"):
            continue
        cells = [cell.strip() for cell in next(csv.reader([text], skipinitialspace=True))]
        if len(cells) != len(ADULT_COLUMNS):
            raise InputError(f"{source.where(name)}, line {line}: {len(cells)} cells; expected 15; {AGAIN}")
        for column in ADULT_NUMBERS:
            number_in(cells[ADULT_COLUMNS.index(column)], source, name, line, column)
        found.append([*cells[:-1], cells[-1].rstrip("."), part])
    return pd.DataFrame(found, columns=[*ADULT_COLUMNS, "split"])


def pack_titanic(source: Source) -> Pack:
    """The list as it is."""
    name = source.need("titanic.csv", "train.csv", remedy=f"get {WHERE['titanic']}")
    table = _text_table(source, name, TITANIC_COLUMNS)
    return Pack(f"{len(table):,} passengers", {"titanic/titanic.csv.gz": csv_gz(table)})


def pack_mimic_demo(source: Source) -> Pack:
    """One row per admission, with the ethnicity as it was stated."""
    tables = base_tables(source)
    table = join_mimic(tables).drop(columns="RACE")
    stated = tables["ADMISSIONS"].set_index("HADM_ID")["ETHNICITY"]
    table.insert(4, "ETHNICITY", table["HADM_ID"].map(stated))
    return Pack(
        f"{len(table):,} admissions of {table['SUBJECT_ID'].nunique():,} patients",
        {"mimic3_demo/admissions_table.csv.gz": csv_gz(table)},
    )


def pack_mnist(source: Source) -> Pack:
    """The four files, compressed or not."""
    arrays = {}
    for part, stem in (("train", "train"), ("test", "t10k")):
        for key, kind, form in (("x", "images", "idx3"), ("y", "labels", "idx1")):
            either = f"{stem}-{kind}-{form}-ubyte", f"{stem}-{kind}.{form}-ubyte"
            name = source.need(*either, remedy=f"get {WHERE['mnist']}")
            arrays[f"{key}_{part}"] = read_idx(source.read(name), source.where(name))
        images, labels = len(arrays[f"x_{part}"]), len(arrays[f"y_{part}"])
        if images != labels:
            raise InputError(f"{source.path}: {images:,} images but {labels:,} labels of {part}; fetch both again")
    n = len(arrays["x_train"]), len(arrays["x_test"])
    return Pack(f"{sum(n):,} images: train {n[0]:,}, test {n[1]:,}", {"mnist/mnist.npz": npz(**arrays)})


def _text_table(source: Source, name: str, columns: Sequence[str]) -> pd.DataFrame:
    table = pd.DataFrame([cells for _, cells in rows(source, name, columns)], columns=list(columns))
    if not len(table):
        raise InputError(f"{source.where(name)} has no line of data below its header; fetch it again")
    return table.replace({"": np.nan})
