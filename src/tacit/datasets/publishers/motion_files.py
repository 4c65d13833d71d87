"""MotionSense: A_DeviceMotion_data/dws_1/sub_1.csv and so on, and data_subjects_info.csv."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pandas as pd

from tacit.datasets.publishers.columns import number_in, rows, table, whole_in
from tacit.datasets.publishers.pack import Pack, npz
from tacit.datasets.publishers.source import Source
from tacit.datasets.where import WHERE
from tacit.errors import InputError

CODES = ("dws", "ups", "wlk", "jog", "sit", "std")
MOVEMENT = tuple(f"{s}.{axis}" for s in ("userAcceleration", "rotationRate") for axis in "xyz")
POSTURE = (*(f"gravity.{axis}" for axis in "xyz"), *(f"attitude.{axis}" for axis in ("roll", "pitch", "yaw")))
PEOPLE = ("code", "weight", "height", "age", "gender")
RECORDING = re.compile(r"(?:^|/)(dws|ups|wlk|jog|sit|std)_(\d+)/sub_(\d+)\.csv(?:\.gz)?$", re.IGNORECASE)

RAW = re.compile(r"(^|/)[BC]_(accel|gyro)", re.IGNORECASE)  # the same people's sensors, one by one


def pack_motionsense(source: Source) -> Pack:
    """All recordings one after the other: by activity, trial, person."""
    people = _people(source)
    found = [
        ((CODES.index(match[1].lower()), int(match[2]), int(match[3])), name)
        for name, match in source.matches(RECORDING)
        if not RAW.search(name)
    ]
    if not found:
        raise InputError(
            f"{source.path} has no recording such as A_DeviceMotion_data/dws_1/sub_1.csv; get {WHERE['motionsense']}"
        )
    found.sort()
    for (key, name), (other, again) in itertools.pairwise(found):
        if key == other:
            raise InputError(f"{source.where(again)} is a second copy of {source.where(name)}; pass a folder with one")
    movement, posture, recordings = [], [], []
    for (activity, trial, person), name in found:
        if person not in people["code"].to_numpy():
            raise InputError(
                f"{source.where(name)} is of a person whom data_subjects_info.csv does not list; fetch both again"
            )
        values = table(source, name, (*MOVEMENT, *POSTURE)).astype(np.float32)
        movement.append(values[:, :6])
        posture.append(values[:, 6:])
        recordings.append((activity, trial, person, len(values)))
    activity, trial, person, length = np.array(recordings).T
    return Pack(
        f"{len(found):,} recordings of {len(set(person)):,} people, {length.sum():,} samples",
        {
            "motionsense/motionsense_acc_gyro.npz": npz(
                signals=np.concatenate(movement),
                channel_names=np.array(MOVEMENT),
                trial_subject=person.astype(np.uint8),
                trial_activity=activity.astype(np.uint8),
                activity_names=np.array(CODES),
                trial_number=trial.astype(np.uint8),
                trial_start=(np.cumsum(length) - length).astype(np.int32),
                trial_length=length.astype(np.int32),
            ),
            "motionsense/motionsense_gravity_attitude.npz": npz(
                signals=np.concatenate(posture), channel_names=np.array(POSTURE)
            ),
            "motionsense/data_subjects_info.csv": lambda path: people.to_csv(path, index=False),
        },
        [] if len(found) == 360 else [f"the publisher's set has 360 recordings; {len(found)} are here"],
    )


def _people(source: Source) -> pd.DataFrame:
    name = source.need("data_subjects_info.csv", remedy=f"get {WHERE['motionsense']}")
    found = []
    for line, cells in rows(source, name, PEOPLE):
        code = whole_in(cells[0], source, name, line, 1, 255, "code")
        body = [number_in(c, source, name, line, what) for c, what in zip(cells[1:4], PEOPLE[1:4], strict=True)]
        found.append((code, *body, whole_in(cells[4], source, name, line, 0, 1, "gender")))
    if not found:
        raise InputError(f"{source.where(name)} lists nobody; fetch it again")
    return pd.DataFrame(found, columns=list(PEOPLE))
