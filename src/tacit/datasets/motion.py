"""Phones in trouser pockets: motionsense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tacit.datasets.declaration import declare
from tacit.datasets.store import packed
from tacit.datasets.where import WHERE
from tacit.errors import InputError
from tacit.records.dataset import Dataset
from tacit.records.windows import windows

ACTIVITIES = {
    "downstairs": "dws", "upstairs": "ups", "walking": "wlk", "jogging": "jog", "sitting": "sit", "standing": "std",
}  # fmt: skip
TEST_USERS = (5, 10, 12, 22)  # two women and two men; 4, 9, 11, 21 where users count from 0
TEST_TRIALS = range(11, 17)  # the short recordings
SIGNALS = "motionsense/motionsense_acc_gyro.npz"
GRAVITY = "motionsense/motionsense_gravity_attitude.npz"
PEOPLE = "motionsense/data_subjects_info.csv"
SOURCE = WHERE["motionsense"]


@declare("73,498", "window", "activity", "identity, gender", "MIT (Malekzadeh et al.)", (SIGNALS, PEOPLE))
def motionsense(
    split: str = "trial",
    signals: str = "magnitude",
    gravity: bool = False,
    activities: Sequence[str] = ("downstairs", "upstairs", "walking", "jogging"),
    sensitive: str | Sequence[str] = ("identity", "gender"),
    length: int = 128,
    stride: int = 10,
) -> Dataset:
    """Phone in the pocket at 50 Hz, 24 people: keep the activity, hide who walks (Malekzadeh et al. 2019).

    Parameters
    ----------
    split : what ``split("official")`` gives: "trial" (test: each person's trials 11 to 16) or "subject"
        (test: persons 5, 10, 12 and 22)
    signals : "magnitude" (lengths of rotation rate and acceleration, 2 channels) or "axes" (6 channels)
    gravity : add gravity to the acceleration, as the authors' published runs do
    activities : also "sitting" and "standing" (the posture, "std" in the files)
    sensitive : of identity (1 to 24), gender, weight, height, age (each cut at the people's median), and
        weight_kg, height_cm, age_years (as numbers)

    Windows never straddle recordings. As in the published runs a window that would end exactly with
    its recording is left out: 60,117 and 13,381 windows by trial. The unit of identity is the recording
    ("bout"); that of gender, weight, height and age is the person. Not scaled: filters do that.
    """
    secrets = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    _check("split", [split], ["trial", "subject"])
    _check("signals", [signals], ["magnitude", "axes"])
    _check("activities", activities, list(ACTIVITIES))
    file = np.load(packed(SIGNALS, "motionsense"))
    names = np.asarray(file["activity_names"])[file["trial_activity"]]
    chosen = np.flatnonzero(np.isin(names, [ACTIVITIES[a] for a in activities]))
    # less its last sample, so that no window ends with the recording
    size = file["trial_length"][chosen] - 1
    rows = np.concatenate([np.arange(s, s + n) for s, n in zip(file["trial_start"][chosen], size, strict=True)])
    samples = signals_of(file)[rows]
    if gravity:
        other = np.load(packed(GRAVITY, "motionsense"))
        samples[:, :3] += signals_of(other)[rows, :3]
    if signals == "magnitude":
        samples = np.column_stack([np.linalg.norm(samples[:, 3:], axis=1), np.linalg.norm(samples[:, :3], axis=1)])
    bout = np.repeat(chosen, size)
    cut = windows(samples, [bout], length, stride)
    bout = bout[cut.start]

    people = _people(packed(PEOPLE, "motionsense"))
    _check("sensitive", secrets, ["identity", *people.columns])
    person = file["trial_subject"][bout].astype(int)
    about = people.loc[person].reset_index(drop=True).assign(identity=person)
    test = np.isin(person, TEST_USERS) if split == "subject" else np.isin(file["trial_number"][bout], TEST_TRIALS)
    words = {code: word for word, code in ACTIVITIES.items()}
    return Dataset(
        cut.X,
        pd.DataFrame({"activity": [words[str(code)] for code in names[bout]]}),
        about[secrets],
        units={s: bout if s == "identity" else person for s in secrets} or bout,
        name="motionsense",
        official=np.where(test, "test", "train"),
    )


def signals_of(file: Any) -> np.ndarray:
    """Samples (n, channels): as the publisher has them, or from the shared copy's whole numbers."""
    return file["signals"] if "signals" in file else (file["signals_i16"] * file["scale"]).astype(np.float32)


def _people(path: object) -> pd.DataFrame:
    """Gender by name; weight, height and age cut at the median of the people, and as numbers."""
    table = pd.read_csv(str(path)).set_index("code")
    out = pd.DataFrame({"gender": np.where(table["gender"] == 1, "male", "female")}, index=table.index)
    for column, unit in (("weight", "kg"), ("height", "cm"), ("age", "years")):
        middle = table[column].median()
        out[column] = np.where(table[column] > middle, f"above {middle:g} {unit}", f"up to {middle:g} {unit}")
        out[f"{column}_{unit}"] = table[column].astype(float)
    return out


def _check(option: str, found: Sequence[str], known: list[str]) -> None:
    for word in found:
        if word not in known:
            raise InputError(f"motionsense: {option} must be of {', '.join(known)}; found {word!r}")
