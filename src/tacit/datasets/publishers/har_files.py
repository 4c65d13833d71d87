"""UCI HAR: `UCI HAR Dataset.zip` or its folder (train/X_train.txt, train/Inertial Signals/body_acc_x_train.txt)."""

from __future__ import annotations

import numpy as np

from tacit.datasets.publishers.columns import matrix, same_length, whole_numbers
from tacit.datasets.publishers.pack import Pack, counted, npz
from tacit.datasets.publishers.source import Source
from tacit.datasets.where import WHERE
from tacit.errors import InputError

CHANNELS = tuple(f"{s}_{axis}" for s in ("body_acc", "body_gyro", "total_acc") for axis in "xyz")
LENGTH, HALF = 128, 64


def pack_har(source: Source) -> Pack:
    """The publisher's own features and windows, train then test, in the publisher's order.

    A bout is a run of windows of one person in one activity: windows in it overlap by half.
    """
    columns = _listed(source, "features.txt", "features")
    activities = _listed(source, "activity_labels.txt", "activities")
    parts = [_part(source, part, len(columns), len(activities)) for part in ("train", "test")]
    X, activity, subject = (np.concatenate([p[i] for p in parts]) for i in range(3))
    is_test = np.repeat([0, 1], [len(p[0]) for p in parts])
    bout, within = runs(subject, activity, is_test)
    labels = {
        "activity": activity.astype(np.uint8),
        "activity_names": np.array(activities),
        "subject": subject.astype(np.uint8),
        "is_test": is_test.astype(np.uint8),
        "bout": bout,
        "window_in_bout": within,
    }
    files = {
        "uci_har/uci_har_features561.npz": npz(features=X.astype(np.float32), feature_names=np.array(columns), **labels)
    }
    notes = []
    windows = [_windows(source, part, len(p[0])) for part, p in zip(("train", "test"), parts, strict=True)]
    if all(w is not None for w in windows):
        signals, start = laid_out(np.concatenate(windows))  # type: ignore[arg-type]
        files["uci_har/uci_har_inertial.npz"] = npz(
            signals=signals, window_start=start, channel_names=np.array(CHANNELS), **labels
        )
    else:
        notes.append("no folder 'Inertial Signals': load_dataset('uci_har', features='windows') will not work")
    return Pack(
        f"{len(X):,} windows of {len(set(subject)):,} people in {bout.max() + 1:,} bouts: "
        f"{counted(np.array(['train', 'test'])[is_test])}",
        files,
        notes,
    )


def runs(*columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number of the run of equal rows that a row is in, and its place there.

    Examples
    --------
    >>> [a.tolist() for a in runs(np.array([1, 1, 2, 1]))]
    [[0, 0, 1, 2], [0, 1, 0, 0]]
    """
    table = np.column_stack(columns)
    new = np.r_[True, (table[1:] != table[:-1]).any(axis=1)]
    run = np.cumsum(new) - 1
    return run.astype(np.int16), (np.arange(len(run)) - np.flatnonzero(new)[run]).astype(np.int16)


def laid_out(windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Windows (n, length, channels) as one signal and where each begins; halves that two share are kept once."""
    shares = np.r_[False, (windows[1:, :HALF] == windows[:-1, HALF:]).all(axis=(1, 2))]
    step = np.where(shares, HALF, LENGTH)
    step[0] = 0
    start = np.cumsum(step)
    signals = np.empty((start[-1] + LENGTH, windows.shape[2]), dtype=np.float32)
    for begin, window in zip(start, windows, strict=True):
        signals[begin : begin + LENGTH] = window
    return signals, start.astype(np.int32)


def _part(source: Source, part: str, columns: int, activities: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y, people = (
        source.need(f"{part}/{stem}_{part}.txt", f"{stem}_{part}.txt", remedy=f"get {WHERE['uci_har']}")
        for stem in ("X", "y", "subject")
    )
    values = matrix(source, X, columns)
    activity = whole_numbers(source, y, 1, activities) - 1
    subject = whole_numbers(source, people, 1, 255)
    same_length(source, {X: len(values), y: len(activity), people: len(subject)})
    return values, activity, subject


def _windows(source: Source, part: str, count: int) -> np.ndarray | None:
    found = [source.find(f"Inertial Signals/{c}_{part}.txt", f"{c}_{part}.txt") for c in CHANNELS]
    if not any(found):
        return None
    for name, channel in zip(found, CHANNELS, strict=True):
        if name is None:
            raise InputError(
                f"{source.path} has no file Inertial Signals/{channel}_{part}.txt beside the others; fetch it again"
            )
    values = [matrix(source, str(name), LENGTH).astype(np.float32) for name in found]
    for name, array in zip(found, values, strict=True):
        same_length(source, {f"X_{part}.txt": count, str(name): len(array)})
    return np.stack(values, axis=2)


def _listed(source: Source, file: str, what: str) -> list[str]:
    """Lines "1 WALKING", numbered from 1."""
    name = source.need(file, remedy=f"get {WHERE['uci_har']}")
    found: list[str] = []
    for line, text in source.lines(name):
        number, _, word = text.strip().partition(" ")
        if number != str(len(found) + 1) or not word.strip():
            raise InputError(
                f"{source.where(name)}, line {line}: expected {len(found) + 1} and a name, as it numbers its {what}; "
                f"fetch it again"
            )
        found.append(word.strip())
    if not found:
        raise InputError(f"{source.where(name)} is empty; fetch it again")
    return found
