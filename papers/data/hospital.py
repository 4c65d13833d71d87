"""Intensive care, one row per admission: mimic3, and its public demo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from papers.data.registry import Folder, Packed, dataset, require
from papers.data.tables import of_columns
from tacit.records.dataset import Dataset

MIMIC = "MIMIC-III of PhysioNet, which asks for a signed agreement; all .csv.gz files in one folder"
DEMO = "the MIMIC-III clinical database demo v1.4 of PhysioNet; its csv files in one folder"
PACKED, PACKED_DEMO = "mimic3/admissions_table.csv.gz", "mimic3_demo/admissions_table.csv.gz"
CHUNK = 2_000_000  # rows: CHARTEVENTS has 330 million, 33 GB
COMMON = 40  # drugs or inputs that get a column of their own: those of most admissions
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
WHOLE = ("SUBJECT_ID", "HADM_ID", "HOSPITAL_EXPIRE_FLAG")
NUMBERS = (*WHOLE, "ITEMID", "LOS", "VALUENUM", "ERROR")
CHAPTERS = {  # of ICD-9, by the first three digits of the last code in each
    139: "infectious", 239: "neoplasm", 279: "endocrine", 289: "blood", 319: "mental", 389: "nervous",
    459: "circulatory", 519: "respiratory", 579: "digestive", 629: "genitourinary", 679: "pregnancy", 709: "skin",
    739: "musculoskeletal", 759: "congenital", 779: "perinatal", 799: "symptoms", 999: "injury",
}  # fmt: skip
# Items of both record systems of the hospital (CareVue, MetaVision) with the values that a living person can have,
# as the public mimic-code has them. Fahrenheit is turned into Celsius.
Measure = tuple[tuple[int, ...], float, float]
FAHRENHEIT = (223761, 678)
VITALS: dict[str, Measure] = {
    "HEART_RATE": ((211, 220045), 0, 300),
    "SYSTOLIC_PRESSURE": ((51, 442, 455, 6701, 220179, 220050), 0, 400),
    "DIASTOLIC_PRESSURE": ((8368, 8440, 8441, 8555, 220180, 220051), 0, 300),
    "MEAN_PRESSURE": ((456, 52, 6702, 443, 220052, 220181, 225312), 0, 300),
    "RESPIRATORY_RATE": ((615, 618, 220210, 224690), 0, 70),
    "TEMPERATURE": ((223761, 678, 223762, 676), 10, 50),
    "OXYGEN_SATURATION": ((646, 220277), 0, 100),
    "GLUCOSE_BEDSIDE": ((807, 811, 1529, 3745, 3744, 225664, 220621, 226537), 0, 10000),
}
LABORATORY: dict[str, Measure] = {
    "ANION_GAP": ((50868,), 0, 10000),
    "ALBUMIN": ((50862,), 0, 10),
    "BANDS": ((51144,), 0, 100),
    "BICARBONATE": ((50882,), 0, 10000),
    "BILIRUBIN": ((50885,), 0, 150),
    "CREATININE": ((50912,), 0, 150),
    "CHLORIDE": ((50806, 50902), 0, 10000),
    "GLUCOSE": ((50809, 50931), 0, 10000),
    "HEMATOCRIT": ((50810, 51221), 0, 100),
    "HEMOGLOBIN": ((50811, 51222), 0, 50),
    "LACTATE": ((50813,), 0, 50),
    "PLATELETS": ((51265,), 0, 10000),
    "POTASSIUM": ((50822, 50971), 0, 30),
    "PTT": ((51275,), 0, 150),
    "INR": ((51237,), 0, 50),
    "PT": ((51274,), 0, 150),
    "SODIUM": ((50824, 50983), 0, 200),
    "UREA_NITROGEN": ((51006,), 0, 300),
    "WHITE_CELLS": ((51300, 51301), 0, 1000),
}


def prepare_demo(folder: Folder) -> Packed:
    """One row per admission, with the ethnicity as it was stated."""
    tables = base_tables(folder)
    table = join(tables).drop(columns="RACE")
    stated = tables["ADMISSIONS"].set_index("HADM_ID")["ETHNICITY"]
    table.insert(4, "ETHNICITY", table["HADM_ID"].map(stated))
    return {PACKED_DEMO: table}


def prepare_mimic(folder: Folder) -> Packed:
    """One row per admission: who, why, how long, and, of the event tables that are there, measurements and drugs."""
    table, parts = join(base_tables(folder)), []
    for name, measures in (("CHARTEVENTS", VITALS), ("LABEVENTS", LABORATORY)):
        if (path := folder.find(f"{name}.csv")) is not None:
            parts.append(measured(chunks(path, ("HADM_ID", "ITEMID", "VALUENUM", "ERROR")), measures))
    for name, column, prefix in (("PRESCRIPTIONS", "DRUG", "DRUG"), ("INPUTEVENTS_MV", "ITEMID", "INPUT")):
        if (path := folder.find(f"{name}.csv")) is not None:
            labels = folder.find("D_ITEMS.csv") if column == "ITEMID" else None
            items: dict[Any, str] = {}
            if labels is not None:
                items = pd.concat(chunks(labels, ("ITEMID", "LABEL"))).set_index("ITEMID")["LABEL"].to_dict()
            parts.append(given(chunks(path, ("HADM_ID", column)), column, prefix, items))
    if parts:
        events = pd.concat(parts, axis=1).reindex(table["HADM_ID"]).reset_index(drop=True)
        counts = [str(c) for c in events if str(c).startswith(("N_", "DRUG_", "INPUT_"))]
        events[counts] = events[counts].fillna(0).astype(int)
        target = table.pop("HOSPITAL_EXPIRE_FLAG")
        table = pd.concat([table, events, target], axis=1)
    return {PACKED: table}


@dataset(DEMO, PACKED_DEMO, prepare=prepare_demo)
def mimic_demo(sensitive: str | Sequence[str] = "GENDER", keep_sensitive: bool = False) -> Dataset:
    """MIMIC-III demo: 129 admissions of 100 patients; the patient is the unit. A smoke test, not a benchmark."""
    table = pd.read_csv(require(PACKED_DEMO, DEMO))
    drop = [c for c in ("SUBJECT_ID", "HADM_ID") if c in table]
    units = table["SUBJECT_ID"].to_numpy() if "SUBJECT_ID" in table else None
    return of_columns(table, "HOSPITAL_EXPIRE_FLAG", sensitive, keep_sensitive, "mimic_demo", drop, units=units)


@dataset(MIMIC, PACKED, prepare=prepare_mimic)
def mimic3(sensitive: str | Sequence[str] = ("GENDER", "RACE"), keep_sensitive: bool = False) -> Dataset:
    """58,976 admissions: keep survival, hide gender and race (EIGAN); the patient is the unit.

    RACE is the stated ethnicity as white, black or other, and missing where not stated. Nothing that is written down
    at or after discharge (place of discharge, time of death) is an input, save the lengths of stay and the codes of
    diagnoses and procedures.
    """
    table = pd.read_csv(require(PACKED, MIMIC), low_memory=False)
    units, drop = table["SUBJECT_ID"].to_numpy(), ["SUBJECT_ID", "HADM_ID"]
    return of_columns(table, "HOSPITAL_EXPIRE_FLAG", sensitive, keep_sensitive, "mimic3", drop, units=units)


def chunks(path: Path, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
    """Of these columns those that there are, some million rows at a time; the demo has their names in small letters."""
    kinds = {name: float if c in NUMBERS else str for c in columns for name in (c, c.lower())}
    for chunk in pd.read_csv(path, usecols=lambda c: c in kinds, dtype=kinds, chunksize=CHUNK, keep_default_na=False,
                             na_values=[""]):  # fmt: skip
        yield chunk.rename(columns=str.upper)


def base_tables(folder: Folder) -> dict[str, pd.DataFrame]:
    """The five tables about admissions, with the columns that are used."""
    tables = {}
    for name, columns in COLUMNS.items():
        table = pd.concat(chunks(folder.need(f"{name}.csv"), columns), ignore_index=True)[list(columns)]
        table = table.astype({c: int for c in columns if c in WHOLE})
        for time in (c for c in columns if c in ("ADMITTIME", "DISCHTIME", "DOB")):
            table[time] = pd.to_datetime(table[time], format="mixed")
        tables[name] = table
    return tables


def join(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The five tables -> one row per admission, in the order of ADMISSIONS."""
    stays = tables["ADMISSIONS"].merge(tables["PATIENTS"][["SUBJECT_ID", "GENDER", "DOB"]], on="SUBJECT_ID")
    admitted, discharged, born = (stays[c] for c in ("ADMITTIME", "DISCHTIME", "DOB"))
    # by the calendar: births of patients over 89 are moved back 300 years, more than a time span can hold
    before_birthday = admitted.dt.strftime("%m%d") < born.dt.strftime("%m%d")
    age = admitted.dt.year - born.dt.year - before_birthday
    ethnicity = stays["ETHNICITY"].str.upper()
    race = np.where(
        ethnicity.str.startswith("WHITE"), "white", np.where(ethnicity.str.startswith("BLACK"), "black", "other")
    )
    stated = ethnicity.notna() & ~ethnicity.str.contains("UNKNOWN|UNABLE|DECLINED", na=False)
    units = tables["ICUSTAYS"].sort_values("INTIME").groupby("HADM_ID")
    codes = tables["DIAGNOSES_ICD"].dropna(subset="ICD9_CODE")
    number = pd.to_numeric(codes["ICD9_CODE"].str[:3], errors="coerce")
    chapter = pd.Series(np.array([*CHAPTERS.values()])[np.searchsorted([*CHAPTERS], number.fillna(999))], codes.index)
    chapter = chapter.where(number.notna(), codes["ICD9_CODE"].str[0])  # E (causes of injury) and V (contacts)
    flags = pd.crosstab(codes["HADM_ID"], "ICD_" + chapter).clip(upper=1)
    count = lambda table: stays["HADM_ID"].map(table.groupby("HADM_ID").size()).fillna(0).astype(int)  # noqa: E731
    return pd.DataFrame(
        {
            "SUBJECT_ID": stays["SUBJECT_ID"],
            "HADM_ID": stays["HADM_ID"],
            "GENDER": stays["GENDER"],
            "RACE": pd.Series(race, dtype=object).where(stated),
            "AGE_YEARS": age.clip(upper=90),
            **{
                c: stays[c] for c in ("INSURANCE", "MARITAL_STATUS", "RELIGION", "ADMISSION_TYPE", "ADMISSION_LOCATION")
            },
            "LOS_DAYS": ((discharged - admitted).dt.total_seconds() / 86400).round(2),
            "N_DIAGNOSES": count(codes),
            "N_PROCEDURES": count(tables["PROCEDURES_ICD"]),
            "N_ICU_STAYS": count(tables["ICUSTAYS"]),
            "FIRST_CAREUNIT": stays["HADM_ID"].map(units["FIRST_CAREUNIT"].first()),
            "ICU_LOS_DAYS": stays["HADM_ID"].map(units["LOS"].sum()).fillna(0).round(3),
            **{str(c): stays["HADM_ID"].map(flags[c]).fillna(0).astype(int) for c in flags},
            "HOSPITAL_EXPIRE_FLAG": stays["HOSPITAL_EXPIRE_FLAG"],
        }
    )


def measured(events: Iterator[pd.DataFrame], measures: Mapping[str, Measure]) -> pd.DataFrame:
    """Mean, least and greatest value of each measure in each admission; errors and impossible values do not count."""
    items = pd.DataFrame(
        [(item, name, low, high) for name, (of, low, high) in measures.items() for item in of],
        columns=["ITEMID", "measure", "low", "high"],
    )
    found = []
    for chunk in events:
        known = chunk[chunk["ITEMID"].isin(items["ITEMID"])].dropna(subset=["HADM_ID", "VALUENUM"])
        if "ERROR" in known:
            known = known[known["ERROR"] != 1]
        known = known.merge(items, on="ITEMID")
        value = known["VALUENUM"].where(~known["ITEMID"].isin(FAHRENHEIT), (known["VALUENUM"] - 32) / 1.8)
        known = known.assign(value=value)[(value > known["low"]) & (value <= known["high"])]
        found.append(known.groupby(["HADM_ID", "measure"])["value"].agg(["sum", "count", "min", "max"]))
    how = {"sum": "sum", "count": "sum", "min": "min", "max": "max"}
    total = pd.concat(found).groupby(level=[0, 1]).agg(how)
    total["mean"] = total["sum"] / total["count"]
    wide = total[["mean", "min", "max"]].unstack()
    columns = {
        f"{name}_{what.upper()}": wide[what, name].round(3) if (what, name) in wide else np.nan
        for name in measures
        for what in ("mean", "min", "max")
    }
    return pd.DataFrame(columns, index=wide.index.astype(int))


def given(events: Iterator[pd.DataFrame], column: str, prefix: str, names: Mapping[Any, str]) -> pd.DataFrame:
    """How many were given in each admission, how many different ones, and which of the most frequent."""
    found = []
    for chunk in events:
        pairs = chunk.dropna().rename(columns={column: "what"})
        if prefix == "DRUG":
            pairs["what"] = pairs["what"].str.strip().str.upper()
        found.append(pairs.groupby(["HADM_ID", "what"]).size().rename("count"))
    total = pd.concat(found).groupby(level=[0, 1]).sum().reset_index()
    by = total.groupby("HADM_ID")["count"]
    out = pd.DataFrame({f"N_{prefix}S": by.sum(), f"N_DIFFERENT_{prefix}S": by.size()})
    often = total["what"].value_counts().rename_axis("what").reset_index()
    for value in often.sort_values(["count", "what"], ascending=[False, True])["what"][:COMMON]:
        name = names.get(value, value if isinstance(value, str) else f"{value:g}")
        out[f"{prefix}_{name}"] = out.index.isin(total.loc[total["what"] == value, "HADM_ID"]).astype(int)
    out.index = out.index.astype(int)
    return out
