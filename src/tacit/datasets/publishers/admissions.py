"""MIMIC-III's five tables of admissions as one: who, why, how long."""

from __future__ import annotations

import numpy as np
import pandas as pd

CHAPTERS = {  # of ICD-9, by the first three digits of the last code in each
    139: "infectious", 239: "neoplasm", 279: "endocrine", 289: "blood", 319: "mental", 389: "nervous",
    459: "circulatory", 519: "respiratory", 579: "digestive", 629: "genitourinary", 679: "pregnancy", 709: "skin",
    739: "musculoskeletal", 759: "congenital", 779: "perinatal", 799: "symptoms", 999: "injury",
}  # fmt: skip
UNSTATED = "UNKNOWN|UNABLE|DECLINED"


def join_mimic(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The five tables -> one row per admission, in the order of ADMISSIONS."""
    stays = tables["ADMISSIONS"].merge(tables["PATIENTS"][["SUBJECT_ID", "GENDER", "DOB"]], on="SUBJECT_ID")
    admitted, discharged, born = (pd.to_datetime(stays[c]) for c in ("ADMITTIME", "DISCHTIME", "DOB"))
    # by the calendar: births of patients over 89 are moved back 300 years, more than a time span can hold
    before_birthday = admitted.dt.strftime("%m%d") < born.dt.strftime("%m%d")
    age = admitted.dt.year - born.dt.year - before_birthday
    ethnicity = stays["ETHNICITY"].str.upper()
    race = np.where(
        ethnicity.str.startswith("WHITE"), "white", np.where(ethnicity.str.startswith("BLACK"), "black", "other")
    )
    stated = ethnicity.notna() & ~ethnicity.str.contains(UNSTATED, na=False)
    units = tables["ICUSTAYS"].sort_values("INTIME").groupby("HADM_ID")
    flags = _chapter_flags(tables["DIAGNOSES_ICD"])
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
            "N_DIAGNOSES": _count(tables["DIAGNOSES_ICD"].dropna(subset="ICD9_CODE"), stays),
            "N_PROCEDURES": _count(tables["PROCEDURES_ICD"], stays),
            "N_ICU_STAYS": _count(tables["ICUSTAYS"], stays),
            "FIRST_CAREUNIT": stays["HADM_ID"].map(units["FIRST_CAREUNIT"].first()),
            "ICU_LOS_DAYS": stays["HADM_ID"].map(units["LOS"].sum()).fillna(0).round(3),
            **{str(c): stays["HADM_ID"].map(flags[c]).fillna(0).astype(int) for c in flags},
            "HOSPITAL_EXPIRE_FLAG": stays["HOSPITAL_EXPIRE_FLAG"],
        }
    )


def _chapter_flags(diagnoses: pd.DataFrame) -> pd.DataFrame:
    """Per admission, which chapters of ICD-9 its diagnoses are in."""
    codes = diagnoses.dropna(subset="ICD9_CODE")
    text = codes["ICD9_CODE"].astype(str)
    number = pd.to_numeric(text.str[:3], errors="coerce")
    place = np.searchsorted(list(CHAPTERS), number.fillna(999))
    chapter = pd.Series(np.asarray(list(CHAPTERS.values()))[place], index=codes.index)
    chapter = chapter.where(number.notna(), text.str[0])  # E (causes of injury) and V (contacts)
    return pd.crosstab(codes["HADM_ID"], "ICD_" + chapter).clip(upper=1)


def _count(table: pd.DataFrame, stays: pd.DataFrame) -> pd.Series:
    return stays["HADM_ID"].map(table.groupby("HADM_ID").size()).fillna(0).astype(int)
