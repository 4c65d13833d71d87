"""What was measured and given during an admission, summed over a stream of events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

COMMON = 40  # drugs or inputs that get a column of their own: those of most admissions

MANY = 100  # chunks whose sums are kept apart

# Items of both record systems of the hospital (CareVue, MetaVision) with the values that a living person can have,
# as the public mimic-code has them. Fahrenheit is turned into Celsius.
Measure = tuple[tuple[int, ...], float, float]
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
FAHRENHEIT = (223761, 678)
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


class Measured:
    """Mean, least and greatest value of each measure in each admission."""

    def __init__(self, measures: Mapping[str, Measure]) -> None:
        items = [(item, name, low, high) for name, (of, low, high) in measures.items() for item in of]
        self.items = pd.DataFrame(items, columns=["ITEMID", "measure", "low", "high"])
        self.names = list(measures)
        self.found: list[pd.DataFrame] = []

    def add(self, events: pd.DataFrame) -> None:
        """Some rows of CHARTEVENTS or LABEVENTS; those marked as errors or out of all bounds do not count."""
        known = events[events["ITEMID"].isin(self.items["ITEMID"])].dropna(subset=["HADM_ID", "VALUENUM"])
        if "ERROR" in known:
            known = known[known["ERROR"] != 1]
        known = known.merge(self.items, on="ITEMID")
        value = known["VALUENUM"].where(~known["ITEMID"].isin(FAHRENHEIT), (known["VALUENUM"] - 32) / 1.8)
        known = known.assign(value=value)[(value > known["low"]) & (value <= known["high"])]
        groups = known.groupby(["HADM_ID", "measure"])["value"]
        self.found.append(groups.agg(["sum", "count", "min", "max"]))
        if len(self.found) >= MANY:
            self.found = [self._together()]

    def _together(self) -> pd.DataFrame:
        how = {"sum": "sum", "count": "sum", "min": "min", "max": "max"}
        return pd.concat(self.found).groupby(level=[0, 1]).agg(how)

    def columns(self) -> pd.DataFrame:
        """One row per admission that has any."""
        total = self._together()
        total["mean"] = total["sum"] / total["count"]
        wide = total[["mean", "min", "max"]].rename(columns=str.upper).unstack()
        out = pd.DataFrame(index=wide.index.astype(int) if len(wide) else pd.Index([], dtype=int))
        for name in self.names:
            for what in ("MEAN", "MIN", "MAX"):
                there = (what, name) in wide.columns
                out[f"{name}_{what}"] = wide[what, name].round(3).to_numpy() if there else np.nan
        return out


class Taken:
    """How many were given in each admission, how many different ones, and which of the most common."""

    def __init__(self, prefix: str, names: Mapping[Any, str]) -> None:
        self.prefix, self.names = prefix, names
        self.found: list[pd.DataFrame] = []

    def add(self, admission: pd.Series, what: pd.Series) -> None:
        """Some rows of PRESCRIPTIONS or INPUTEVENTS_MV."""
        pairs = pd.DataFrame({"HADM_ID": admission, "what": what}).dropna()
        if self.prefix == "DRUG":
            pairs["what"] = pairs["what"].str.strip().str.upper()
        self.found.append(pairs.groupby(["HADM_ID", "what"]).size().rename("count").reset_index())

    def columns(self) -> pd.DataFrame:
        """One row per admission that has any."""
        total = pd.concat(self.found).groupby(["HADM_ID", "what"])["count"].sum().reset_index()
        by = total.groupby("HADM_ID")["count"]
        out = pd.DataFrame({f"N_{self.prefix}S": by.sum(), f"N_DIFFERENT_{self.prefix}S": by.size()})
        often = total["what"].value_counts().rename_axis("what").reset_index()
        for value in often.sort_values(["count", "what"], ascending=[False, True])["what"][:COMMON]:
            has = total.loc[total["what"] == value, "HADM_ID"]
            name = self.names.get(value, value if isinstance(value, str) else f"{value:g}")
            out[f"{self.prefix}_{name}"] = out.index.isin(has).astype(int)
        out.index = out.index.astype(int)
        return out
