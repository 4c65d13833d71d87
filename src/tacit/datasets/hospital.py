"""Intensive care: mimic3, joined from the publisher's own tables."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import pandas as pd

from tacit.datasets.declaration import declare
from tacit.datasets.people_tables import choose_columns
from tacit.datasets.publishers import mimic_files
from tacit.datasets.publishers.admissions import join_mimic
from tacit.datasets.publishers.source import Source
from tacit.datasets.store import locate, packed
from tacit.errors import TacitWarning
from tacit.records.dataset import Dataset

TABLES = tuple(mimic_files.COLUMNS)


@declare(
    "58,976",
    "table",
    "HOSPITAL_EXPIRE_FLAG",
    "GENDER, RACE",
    "signed agreement (PhysioNet)",
    tuple(f"mimic3/{name}.csv.gz" for name in TABLES),
    here=lambda: locate(mimic_files.PACKED) is not None,
)
def mimic3(sensitive: str | Sequence[str] = ("GENDER", "RACE"), keep_sensitive: bool = False) -> Dataset:
    """Intensive care, one row per admission: keep survival, hide gender and race (EIGAN); the patient is the unit.

    Files: what ``tacit data prepare mimic3 FOLDER`` wrote, with vitals (CHARTEVENTS), laboratory values (LABEVENTS)
    and medication (PRESCRIPTIONS, INPUTEVENTS_MV) over the whole stay where the folder has these tables; or,
    without them, the publisher's PATIENTS, ADMISSIONS, ICUSTAYS, DIAGNOSES_ICD and PROCEDURES_ICD, as .csv.gz or
    .csv, in the folder mimic3. RACE is the stated ethnicity as white, black or other, and missing where not stated.
    Nothing that is written down at or after discharge (place of discharge, time of death) is an input,
    save the lengths of stay and the codes of diagnoses and procedures.
    """
    whole = locate(mimic_files.PACKED)
    if whole is None:
        folder = min(packed(f"mimic3/{name}.csv.gz", "mimic3") for name in TABLES).parent
        source = Source(folder, "mimic3")
        unread = [name for name in mimic_files.EVENTS if source.find(f"{name}.csv")]
        if unread:
            warnings.warn(
                f"mimic3: {', '.join(unread)} are not read at every start; tacit data prepare mimic3 {folder} packs "
                f"what they say, once",
                TacitWarning,
                stacklevel=2,
            )
        table = join_mimic(mimic_files.base_tables(source))
    else:
        table = pd.read_csv(whole, low_memory=False)
    units = table["SUBJECT_ID"].to_numpy()
    drop = ["SUBJECT_ID", "HADM_ID"]
    return choose_columns(table, "HOSPITAL_EXPIRE_FLAG", sensitive, keep_sensitive, "mimic3", drop, units=units)
