"""MIMIC-III with vitals, laboratory values and medication: small tables with the publisher's columns, made here."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

import tacit
from tacit.datasets import declarations
from tacit.datasets.publishers import hospital_events, mimic_files
from tacit.datasets.publishers.packing import prepare

TABLES = {
    "PATIENTS": '"ROW_ID","SUBJECT_ID","GENDER","DOB","DOD","DOD_HOSP","DOD_SSN","EXPIRE_FLAG"\n'
    '1,1,"F",2050-03-01 00:00:00,,,,0\n2,2,"M",2120-06-02 00:00:00,,,,0\n',
    "ADMISSIONS": '"ROW_ID","SUBJECT_ID","HADM_ID","ADMITTIME","DISCHTIME","DEATHTIME","ADMISSION_TYPE",'
    '"ADMISSION_LOCATION","DISCHARGE_LOCATION","INSURANCE","LANGUAGE","RELIGION","MARITAL_STATUS","ETHNICITY",'
    '"EDREGTIME","EDOUTTIME","DIAGNOSIS","HOSPITAL_EXPIRE_FLAG","HAS_CHARTEVENTS_DATA"\n'
    '1,1,10,2101-02-03 12:00:00,2101-02-05 00:00:00,,"URGENT","CLINIC","HOME","Medicare",,,"SINGLE","WHITE",,,"A, B",'
    "1,1\n"
    '2,2,20,2150-06-01 00:00:00,2150-06-02 00:00:00,,"URGENT","CLINIC","HOME","Private",,,,"ASIAN",,,"C",0,1\n'
    '3,2,21,2150-06-02 00:00:00,2150-06-03 00:00:00,,"URGENT","CLINIC","HOME","Private",,,,"ASIAN",,,"D",0,0\n',
    "ICUSTAYS": "ROW_ID,SUBJECT_ID,HADM_ID,ICUSTAY_ID,DBSOURCE,FIRST_CAREUNIT,LAST_CAREUNIT,FIRST_WARDID,LAST_WARDID,"
    "INTIME,OUTTIME,LOS\n1,1,10,100,carevue,MICU,MICU,1,1,2101-02-04 00:00:00,2101-02-05 00:00:00,.5\n",
    "DIAGNOSES_ICD": "ROW_ID,SUBJECT_ID,HADM_ID,SEQ_NUM,ICD9_CODE\n1,1,10,1,4019\n",
    "PROCEDURES_ICD": "ROW_ID,SUBJECT_ID,HADM_ID,SEQ_NUM,ICD9_CODE\n1,2,20,1,9604\n",
}
EVENTS = {
    "CHARTEVENTS": "ROW_ID,SUBJECT_ID,HADM_ID,ICUSTAY_ID,ITEMID,CHARTTIME,STORETIME,CGID,VALUE,VALUENUM,VALUEUOM,"
    "WARNING,ERROR,RESULTSTATUS,STOPPED\n"
    "1,1,10,100,211,2101-02-04 01:00:00,,1,80,80,bpm,,,,NotStopd\n"
    "2,1,10,100,220045,2101-02-04 02:00:00,,1,100,100,bpm,0,0,,\n"
    "3,1,10,100,211,2101-02-04 03:00:00,,1,200,200,bpm,0,1,,\n"  # marked as an error
    "4,1,10,100,211,2101-02-04 03:00:00,,1,9000,9000,bpm,,,,\n"  # nobody's heart
    "5,1,10,100,678,2101-02-04 03:00:00,,1,98.6,98.6,F,,,,\n"
    "6,2,20,,223762,2150-06-01 03:00:00,,1,38.5,38.5,C,,,,\n"
    '7,2,20,,646,2150-06-01 03:00:00,,1,"a, b",,%,,,,\n'  # no number
    "8,2,20,,99999,2150-06-01 03:00:00,,1,1,1,x,,,,\n"
    "9,2,,,211,2150-06-01 03:00:00,,1,1,60,x,,,,\n",  # of no admission
    "LABEVENTS": "ROW_ID,SUBJECT_ID,HADM_ID,ITEMID,CHARTTIME,VALUE,VALUENUM,VALUEUOM,FLAG\n"
    "1,1,10,50983,2101-02-04 01:00:00,140,140,mEq/L,\n2,1,10,50824,2101-02-04 02:00:00,150,150,mEq/L,abnormal\n"
    "3,2,,50983,2101-02-04 02:00:00,120,120,mEq/L,\n4,2,21,51265,2101-02-04 02:00:00,250,250,K/uL,\n",
    "PRESCRIPTIONS": "ROW_ID,SUBJECT_ID,HADM_ID,ICUSTAY_ID,STARTDATE,ENDDATE,DRUG_TYPE,DRUG\n"
    "1,1,10,,2101-02-04 00:00:00,,MAIN,Heparin\n2,1,10,,2101-02-04 00:00:00,,MAIN,heparin\n"
    "3,1,10,,2101-02-04 00:00:00,,MAIN,Insulin\n4,2,20,,2101-02-04 00:00:00,,MAIN,Insulin\n",
    "INPUTEVENTS_MV": "ROW_ID,SUBJECT_ID,HADM_ID,ICUSTAY_ID,STARTTIME,ENDTIME,ITEMID,AMOUNT\n1,2,20,,x,y,225158,10\n",
    "D_ITEMS": "ROW_ID,ITEMID,LABEL\n1,225158,NaCl 0.9%\n",
}


@pytest.fixture
def shelf(monkeypatch, tmp_path):
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "shelf"))
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "shelf"


@pytest.fixture
def box(tmp_path):
    folder = tmp_path / "physionet.org" / "mimiciii" / "1.4"
    folder.mkdir(parents=True)
    for name, text in (TABLES | EVENTS).items():
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
    return folder


@pytest.mark.parametrize("few", [False, True])
def test_events_are_joined_to_admissions(shelf, box, monkeypatch, few):
    if few:  # chunks so small that an admission's events are in several
        monkeypatch.setattr(mimic_files, "CHUNK", 450)
        monkeypatch.setattr(hospital_events, "MANY", 2)
    done = prepare("mimic3", box.parent.parent)
    assert done.rows.startswith("3 admissions of 2 patients")
    assert not done.notes
    assert declarations()["mimic3"].present
    data = tacit.load_dataset("mimic3")
    X = data.X
    assert X[["HEART_RATE_MEAN", "HEART_RATE_MIN", "HEART_RATE_MAX"]].iloc[0].tolist() == [90, 80, 100]
    assert np.allclose(X["TEMPERATURE_MEAN"], [37, 38.5, np.nan], equal_nan=True)  # Fahrenheit and Celsius
    assert X["OXYGEN_SATURATION_MEAN"].isna().all()
    assert np.allclose(X["SODIUM_MEAN"], [145, np.nan, np.nan], equal_nan=True)
    assert np.allclose(X["PLATELETS_MAX"], [np.nan, np.nan, 250], equal_nan=True)
    assert X["N_DRUGS"].tolist() == [3, 1, 0]
    assert X["N_DIFFERENT_DRUGS"].tolist() == [2, 1, 0]
    assert X["DRUG_INSULIN"].tolist() == [1, 1, 0]
    assert X["DRUG_HEPARIN"].tolist() == [1, 0, 0]
    assert X["INPUT_NaCl 0.9%"].tolist() == [0, 1, 0]
    assert data.y["HOSPITAL_EXPIRE_FLAG"].tolist() == [1, 0, 0]
    assert data.sensitive["RACE"].tolist() == ["white", "other", "other"]
    assert data.units_of().tolist() == [1, 2, 2]
    assert not {"SUBJECT_ID", "HADM_ID", "GENDER", "RACE"} & set(X)


def test_tables_of_events_that_were_not_packed_are_told(shelf, box):
    shelf.mkdir()
    (shelf / "mimic3").symlink_to(box)
    with pytest.warns(tacit.TacitWarning, match=r"CHARTEVENTS, .* are not read .*; tacit data prepare mimic3"):
        data = tacit.load_dataset("mimic3")
    assert "HEART_RATE_MEAN" not in data.X


def test_without_events(shelf, box):
    for name in EVENTS:
        (box / f"{name}.csv.gz").unlink()
    done = prepare("mimic3", box)
    assert done.notes == (
        "without CHARTEVENTS, LABEVENTS, PRESCRIPTIONS, INPUTEVENTS_MV, which the folder does not have",
    )
    assert tacit.load_dataset("mimic3").X["AGE_YEARS"].tolist() == [50, 29, 30]


@pytest.mark.parametrize(
    ("table", "old", "new", "match"),
    [
        ("CHARTEVENTS", "1,80,80,bpm", "1,80,Wanda,bpm", r"line 2: one of .*VALUENUM.* is not a number"),
        ("CHARTEVENTS", "1,100,100,bpm,0,0,,", "1,100", r"line 3: 9 cells; expected 15"),
        ("CHARTEVENTS", "VALUENUM", "VALUE_NUM", r"has no column 'VALUENUM'"),
        ("LABEVENTS", "250,250,K/uL,", "250,250,K/uL,,,", r"line 5: 11 cells; expected 9"),
        ("PRESCRIPTIONS", ",DRUG\n", ",PILL\n", r"has no column 'DRUG'"),
        ("ADMISSIONS", "1,1,10,2101-02-03 12:00:00", "1,1,,2101-02-03 12:00:00", r"line 2: HADM_ID is empty"),
        ("ADMISSIONS", "2101-02-03 12:00:00", "Wanda", r"line 2: ADMITTIME is no time"),
        ("ADMISSIONS", "2150-06-01 00:00:00", "00:00:00", r"line 3: ADMITTIME is no time"),
        ("PATIENTS", '2,2,"M"', '2,Wanda,"M"', r"line 3: one of SUBJECT_ID is not a number"),
        ("DIAGNOSES_ICD", "1,1,10,1,4019", "1,1,10", r"line 2: 3 cells; expected 5"),
    ],
)
def test_damaged_tables_are_named_with_their_line(shelf, box, table, old, new, match):
    text = (TABLES | EVENTS)[table]
    assert old in text
    (box / f"{table}.csv.gz").write_bytes(gzip.compress(text.replace(old, new, 1).encode()))
    with pytest.raises(tacit.TacitError, match=rf"{table}\.csv\.gz.*{match}") as caught:
        prepare("mimic3", box)
    assert "Wanda" not in str(caught.value)
    assert not shelf.exists()


def test_a_cut_file_and_a_missing_one(shelf, box):
    path = box / "LABEVENTS.csv.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(tacit.TacitError, match=r"LABEVENTS\.csv\.gz cannot be read .*fetch it again"):
        prepare("mimic3", box)
    path.write_bytes(b"not gzip")
    with pytest.raises(tacit.TacitError, match=r"LABEVENTS\.csv\.gz cannot be read .*fetch it again"):
        prepare("mimic3", box)
    (box / "ICUSTAYS.csv.gz").unlink()
    with pytest.raises(tacit.TacitError, match=r"no file ICUSTAYS\.csv; get MIMIC-III of PhysioNet"):
        prepare("mimic3", box)
