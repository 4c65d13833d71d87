"""MIMIC-III's tables (.csv.gz or .csv), in chunks: CHARTEVENTS has 330 million rows, 33 GB."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from tacit.datasets.publishers.admissions import join_mimic
from tacit.datasets.publishers.columns import places
from tacit.datasets.publishers.hospital_events import LABORATORY, VITALS, Measured, Taken
from tacit.datasets.publishers.pack import Pack, counted, csv_gz
from tacit.datasets.publishers.source import Source
from tacit.datasets.where import WHERE
from tacit.errors import InputError, NotInstalled, installed

PACKED = "mimic3/admissions_table.csv.gz"
AGAIN = "fetch the file again, or mend that line"
CHUNK = 16 * 2**20  # bytes
COLUMNS = {
    "PATIENTS": ("SUBJECT_ID", "GENDER", "DOB"),
    "ADMISSIONS": (
        "SUBJECT_ID", "HADM_ID", "ADMITTIME", "DISCHTIME", "ADMISSION_TYPE", "ADMISSION_LOCATION", "INSURANCE",
        "RELIGION", "MARITAL_STATUS", "ETHNICITY", "HOSPITAL_EXPIRE_FLAG",
    ),
    "ICUSTAYS": ("HADM_ID", "INTIME", "FIRST_CAREUNIT", "LOS"),
    "DIAGNOSES_ICD": ("HADM_ID", "ICD9_CODE"),
    "PROCEDURES_ICD": ("HADM_ID", "ICD9_CODE"),
}  # fmt: skip
NUMBERS = ("SUBJECT_ID", "HADM_ID", "ITEMID", "LOS", "VALUENUM", "ERROR", "HOSPITAL_EXPIRE_FLAG")
EVENTS = ("CHARTEVENTS", "LABEVENTS", "PRESCRIPTIONS", "INPUTEVENTS_MV")
KEYS = ("SUBJECT_ID", "HADM_ID")


def base_tables(source: Source) -> dict[str, pd.DataFrame]:
    """The five tables that say who was admitted, with the columns that are used."""
    return {name: _whole(source, name, columns) for name, columns in COLUMNS.items()}


def event_columns(source: Source) -> tuple[pd.DataFrame, list[str]]:
    """Vitals, laboratory values and medication, one row per admission; and which tables are not here."""
    parts, absent = [], []
    for table, measured in (("CHARTEVENTS", Measured(VITALS)), ("LABEVENTS", Measured(LABORATORY))):
        name = source.find(f"{table}.csv")
        if name is None:
            absent.append(table)
            continue
        columns = ("HADM_ID", "ITEMID", "VALUENUM", *(("ERROR",) if table == "CHARTEVENTS" else ()))
        for chunk in chunks(source, name, columns):
            measured.add(chunk)
        parts.append(measured.columns())
    for table, column, prefix in (("PRESCRIPTIONS", "DRUG", "DRUG"), ("INPUTEVENTS_MV", "ITEMID", "INPUT")):
        name = source.find(f"{table}.csv")
        if name is None:
            absent.append(table)
            continue
        taken = Taken(prefix, _item_names(source) if column == "ITEMID" else {})
        for chunk in chunks(source, name, ("HADM_ID", column)):
            taken.add(chunk["HADM_ID"], chunk[column])
        parts.append(taken.columns())
    return (pd.concat(parts, axis=1) if parts else pd.DataFrame()), absent


def pack_mimic(source: Source) -> Pack:
    """One row per admission: who, why, how long, and what was measured and given."""
    table = join_mimic(base_tables(source))
    events, absent = event_columns(source)
    if len(events.columns):
        counts = [str(c) for c in events if str(c).startswith(("N_", "DRUG_", "INPUT_"))]
        joined = events.reindex(table["HADM_ID"]).reset_index(drop=True)
        joined[counts] = joined[counts].fillna(0).astype(int)
        target = table.pop("HOSPITAL_EXPIRE_FLAG")
        table = pd.concat([table, joined, target], axis=1)
    return Pack(
        f"{len(table):,} admissions of {table['SUBJECT_ID'].nunique():,} patients, {len(table.columns) - 3:,} columns: "
        f"died {counted(table['HOSPITAL_EXPIRE_FLAG'].map({0: 'no', 1: 'yes'}))}",
        {PACKED: csv_gz(table)},
        [f"without {', '.join(absent)}, which the folder does not have"] if absent else [],
    )


def chunks(source: Source, name: str, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
    """These columns, some million rows at a time; names in capitals whatever the file has."""
    if not installed("pyarrow"):
        raise NotInstalled("the hospital's tables", "pyarrow")
    import pyarrow as pa  # only those who hold these tables need it
    from pyarrow import csv as arrow

    heads = next(csv.reader([source.first_line(name)]), [])
    where = source.where(name)
    own = [heads[p] for p in places(heads, columns, where)]
    kinds = {o: pa.float64() if c in NUMBERS else pa.string() for o, c in zip(own, columns, strict=True)}
    with source.reading(name) as file:
        try:
            reader = arrow.open_csv(
                file,
                arrow.ReadOptions(use_threads=False, block_size=CHUNK),  # in one thread it knows the line
                arrow.ParseOptions(),
                arrow.ConvertOptions(
                    include_columns=own, column_types=kinds, null_values=[""], strings_can_be_null=True
                ),
            )
            for batch in reader:
                frame = batch.to_pandas()
                frame.columns = list(columns)
                yield frame
        except pa.ArrowInvalid as error:
            raise InputError(f"{where}{_told(str(error), columns)}; {AGAIN}") from None


def _told(text: str, columns: Sequence[str]) -> str:
    """What pyarrow says, without the cell that it quotes."""
    line = re.search(r"Row #(\d+)", text)
    place = f", line {line[1]}" if line else ""
    if wrong := re.search(r"Expected (\d+) columns, got (\d+)", text):
        return f"{place}: {wrong[2]} cells; expected {wrong[1]}"
    if "conversion error" in text:
        numbers = [c for c in columns if c in NUMBERS]
        return f"{place}: one of {', '.join(numbers)} is not a number"
    return f"{place}: it is no whole csv file"


def _whole(source: Source, table: str, columns: Sequence[str]) -> pd.DataFrame:
    name = source.need(f"{table}.csv", remedy=f"get {WHERE['mimic3']}")
    found = pd.concat(list(chunks(source, name, columns)), ignore_index=True)
    for column in (c for c in columns if c in (*KEYS, "HOSPITAL_EXPIRE_FLAG")):
        missing = found.index[found[column].isna()]
        if len(missing):
            raise InputError(f"{source.where(name)}, line {missing[0] + 2}: {column} is empty; {AGAIN}")
        found[column] = found[column].astype(int)
    for column in (c for c in columns if c in ("ADMITTIME", "DISCHTIME", "DOB")):
        dated = found[column].str.match(r"\d+[-/]\d+[-/]\d+", na=False)  # a bare hour would be one of today
        times = pd.to_datetime(found[column].where(dated), errors="coerce", format="mixed")
        missing = found.index[times.isna()]
        if len(missing):
            raise InputError(f"{source.where(name)}, line {missing[0] + 2}: {column} is no time; {AGAIN}")
        found[column] = times
    return found


def _item_names(source: Source) -> dict[Any, str]:
    name = source.find("D_ITEMS.csv")
    if name is None:
        return {}
    items = pd.concat(list(chunks(source, name, ("ITEMID", "LABEL"))))
    return dict(zip(items["ITEMID"], items["LABEL"], strict=True))
