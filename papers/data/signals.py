"""Phones and voices: motionsense, uci_har, emodb, enterface."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.fft import dct
from scipy.io import wavfile
from scipy.signal import resample_poly

from papers.data.registry import Folder, Packed, dataset, pick_labels, require
from tacit.errors import InputError
from tacit.records.dataset import Dataset
from tacit.records.windows import cut_out, windows

MOTION = "A_DeviceMotion_data.zip and data_subjects_info.csv, in data/ of the repository mmalekzadeh/motion-sense"
HAR = "'Human Activity Recognition Using Smartphones' of the UCI Machine Learning Repository, the zip as it is"
EMODB = "download.zip of emodb.bilderbar.info (Burkhardt et al. 2005, TU Berlin)"
ENTERFACE = "eNTERFACE'05 EMOTION from enterface.net, the sound of each film as .wav (ffmpeg -i a.avi a.wav)"
SIGNALS = "motionsense/motionsense_acc_gyro.npz"
GRAVITY = "motionsense/motionsense_gravity_attitude.npz"
PEOPLE = "motionsense/data_subjects_info.csv"
HAR_FEATURES, HAR_SIGNALS = "uci_har/uci_har_features561.npz", "uci_har/uci_har_inertial.npz"
EMODB_FILE, ENTERFACE_FILE = "emodb_mfcc/emodb_mfcc.npz", "enterface/enterface_mfcc.npz"
ACTIVITIES = {
    "downstairs": "dws", "upstairs": "ups", "walking": "wlk", "jogging": "jog", "sitting": "sit", "standing": "std",
}  # fmt: skip
TEST_USERS = (5, 10, 12, 22)  # two women and two men; 4, 9, 11, 21 where users count from 0
TEST_TRIALS = range(11, 17)  # the short recordings
MOVEMENT = tuple(f"{s}.{axis}" for s in ("userAcceleration", "rotationRate") for axis in "xyz")
POSTURE = (*(f"gravity.{axis}" for axis in "xyz"), *(f"attitude.{axis}" for axis in ("roll", "pitch", "yaw")))
CHANNELS = tuple(f"{s}_{axis}" for s in ("body_acc", "body_gyro", "total_acc") for axis in "xyz")
EMOTIONS = {"W": "anger", "L": "boredom", "E": "disgust", "A": "fear", "F": "happiness", "N": "neutral", "T": "sadness"}
AGES = {3: 31, 8: 34, 9: 21, 10: 32, 11: 26, 12: 30, 13: 32, 14: 35, 15: 25, 16: 31}  # of the publisher's page
WOMEN = (8, 9, 13, 14, 16)
RATE = 16000


def prepare_motionsense(folder: Folder) -> Packed:
    """All recordings one after the other: by activity, trial, person."""
    codes = ["dws", "ups", "wlk", "jog", "sit", "std"]
    found = folder.matches(r"(?<![BC]_accel/)(?<![BC]_gyro/)(dws|ups|wlk|jog|sit|std)_(\d+)/sub_(\d+)\.csv(?:\.gz)?$")
    files = sorted(((codes.index(m[1].lower()), int(m[2]), int(m[3])), path) for path, m in found)
    values = [pd.read_csv(path)[[*MOVEMENT, *POSTURE]].to_numpy(np.float32) for _, path in files]
    activity, trial, person = np.array([key for key, _ in files]).T
    length = np.array([len(v) for v in values])
    signals = np.concatenate(values)
    return {
        SIGNALS: {
            "signals": signals[:, :6],
            "channel_names": np.array(MOVEMENT),
            "trial_subject": person.astype(np.uint8),
            "trial_activity": activity.astype(np.uint8),
            "activity_names": np.array(codes),
            "trial_number": trial.astype(np.uint8),
            "trial_start": (np.cumsum(length) - length).astype(np.int32),
            "trial_length": length.astype(np.int32),
        },
        GRAVITY: {"signals": signals[:, 6:], "channel_names": np.array(POSTURE)},
        PEOPLE: pd.read_csv(folder.need("data_subjects_info.csv")),
    }


def prepare_har(folder: Folder) -> Packed:
    """The publisher's own features and windows, train then test, in the publisher's order.

    A bout is a run of windows of one person in one activity: windows in it overlap by half, and halves that two
    windows share are kept once.
    """
    numbers = lambda name: pd.read_csv(folder.need(name), sep=r"\s+", header=None).to_numpy()  # noqa: E731
    parts = ("train", "test")
    X, activity, subject = (np.concatenate([numbers(f"{p}/{s}_{p}.txt") for p in parts]) for s in ("X", "y", "subject"))
    is_test = np.repeat([0, 1], [len(numbers(f"{p}/y_{p}.txt")) for p in parts])
    rows = np.column_stack([subject, activity, is_test])
    begins = np.r_[True, (rows[1:] != rows[:-1]).any(axis=1)]
    bout = np.cumsum(begins) - 1
    labels = {
        "activity": (activity.ravel() - 1).astype(np.uint8),
        "activity_names": numbers("activity_labels.txt")[:, 1].astype(str),
        "subject": subject.ravel().astype(np.uint8),
        "is_test": is_test.astype(np.uint8),
        "bout": bout.astype(np.int16),
        "window_in_bout": (np.arange(len(bout)) - np.flatnonzero(begins)[bout]).astype(np.int16),
    }
    names = numbers("features.txt")[:, 1].astype(str)
    files: Packed = {HAR_FEATURES: {"features": X.astype(np.float32), "feature_names": names, **labels}}
    if folder.find("body_acc_x_train.txt"):
        cut = np.stack([np.concatenate([numbers(f"{c}_{p}.txt") for p in parts]) for c in CHANNELS], axis=2)
        cut = cut.astype(np.float32)
        shares = np.r_[False, (cut[1:, :64] == cut[:-1, 64:]).all(axis=(1, 2))]
        start = np.cumsum(np.where(shares, 64, 128)) - 128
        signals = np.empty((start[-1] + 128, len(CHANNELS)), dtype=np.float32)
        for begin, window in zip(start, cut, strict=True):
            signals[begin : begin + 128] = window
        files[HAR_SIGNALS] = {"signals": signals, "window_start": start.astype(np.int32),
                              "channel_names": np.array(CHANNELS), **labels}  # fmt: skip
    return files


def prepare_emodb(folder: Folder) -> Packed:
    """Two seconds of every sentence (wav/03a01Fa.wav), as in the copies that the papers here measured."""
    found = folder.matches(r"/(\d\d)([ab]\d\d)([WLEAFNT])([a-z]?)\.wav$")
    found.sort(key=lambda pair: pair[0].name.lower())
    bands = [mel_bands(two_seconds(*read_sound(path)), RATE, 400, 160, 512, 40, 512) for path, _ in found]
    emotion, speaker = np.array([EMOTIONS[m[3].upper()] for _, m in found]), np.array([int(m[1]) for _, m in found])
    names = np.array(sorted(EMOTIONS.values()))
    return {
        EMODB_FILE: {
            "features": np.array([statistics(b) for b in bands], dtype=np.float32),
            "feature_names": np.array(statistics_names()),
            "logmel": np.array(bands, dtype=np.float16),
            "emotion": np.searchsorted(names, emotion).astype(np.uint8),
            "emotion_names": names,
            "speaker": speaker.astype(np.uint8),
            "female": np.isin(speaker, WOMEN).astype(np.uint8),
            "age": np.array([AGES[s] for s in speaker], dtype=np.uint8),
            "text": np.array([m[2].lower() for _, m in found]),
            "name": np.array([path.stem for path, _ in found]),
        }
    }


def prepare_enterface(folder: Folder) -> Packed:
    """52 statistics of every sentence: subject 1/anger/sentence 1/s1_an_1.wav and so on."""
    found = folder.matches(r"subject[ _-]?0*(\d+)/(anger|disgust|fear|happiness|sadness|surprise)/.*\.wav$")
    rows = []
    for path, _ in found:
        sound, rate = read_sound(path)
        size = round(0.02 * rate)
        frames = dct(mel_bands(sound, rate, size, size // 2, size, 13), norm="ortho")
        rows.append(np.concatenate([frames.mean(0), frames.max(0), frames.min(0), frames.std(0)]))
    return {
        ENTERFACE_FILE: {
            "features": np.array(rows),
            "emotion": np.array([m[2].lower() for _, m in found]),
            "speaker": np.array([f"subject {m[1]}" for _, m in found]),
        }
    }


@dataset(MOTION, SIGNALS, PEOPLE, prepare=prepare_motionsense)
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
    file = np.load(require(SIGNALS, MOTION))
    names = np.asarray(file["activity_names"])[file["trial_activity"]]
    chosen = np.flatnonzero(np.isin(names, [ACTIVITIES[a] for a in activities]))
    # less its last sample, so that no window ends with the recording
    size = file["trial_length"][chosen] - 1
    rows = np.concatenate([np.arange(s, s + n) for s, n in zip(file["trial_start"][chosen], size, strict=True)])
    samples = signals_of(file)[rows]
    if gravity:
        samples[:, :3] += signals_of(np.load(require(GRAVITY, MOTION)))[rows, :3]
    if signals == "magnitude":
        samples = np.column_stack([np.linalg.norm(samples[:, 3:], axis=1), np.linalg.norm(samples[:, :3], axis=1)])
    bout = np.repeat(chosen, size)
    cut = windows(samples, [bout], length, stride)
    bout = bout[cut.start]

    people = _people(require(PEOPLE, MOTION))
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


@dataset(HAR, HAR_FEATURES, HAR_SIGNALS, prepare=prepare_har)
def uci_har(features: str = "561", subjects: int | None = None) -> Dataset:
    """10,299 windows of a phone at the waist, 30 people, 6 activities: keep the activity, hide the person.

    `features` is "561" (the published statistics; computed anew in the shared copy) or "windows" (9 channels
    x 128, float32).
    Windows of one bout overlap, so the bout is the unit. `subjects` keeps the first n people.
    """
    if features not in ("561", "windows"):
        raise InputError(f"uci_har: features must be '561' or 'windows'; found {features!r}")
    file = np.load(require(HAR_FEATURES if features == "561" else HAR_SIGNALS, HAR))
    if features == "561":
        names = [str(c) for c in file["feature_names"]]
        # the publisher's own numbers, or the shared copy's, which were computed anew and rounded
        X: Any = pd.DataFrame(file["features"].astype(float) if "features" in file else file["features_i16"] / 32767.0)
        X.columns = names if len(set(names)) == len(names) else [f"{i} {c}" for i, c in enumerate(names)]
    else:
        X = cut_out(signals_of(file), file["window_start"], 128)
    activity = np.asarray(file["activity_names"])[file["activity"]].astype(str)
    data = Dataset(
        X,
        pd.DataFrame({"activity": activity}),
        pd.DataFrame({"subject": file["subject"]}),
        units=file["bout"],
        name="uci_har",
        official=np.where(file["is_test"] == 1, "test", "train"),
    )
    return data if subjects is None else data.take(file["subject"] <= subjects)


@dataset(EMODB, EMODB_FILE, prepare=prepare_emodb)
def emodb(target: str = "emotion", sensitive: str = "speaker") -> Dataset:
    """535 sentences of acted German speech, 10 speakers, 7 emotions: keep emotion, hide the speaker.

    240 inputs: statistics of MFCCs.
    """
    file = np.load(require(EMODB_FILE, EMODB))
    emotion = np.asarray(file["emotion_names"])[file["emotion"]].astype(str)
    labels = {
        "emotion": emotion,
        "happy": np.where(emotion == "happiness", "happy", "other"),
        "speaker": file["speaker"],
        "gender": np.where(file["female"] == 1, "female", "male"),
    }
    X = pd.DataFrame(file["features"].astype(np.float64), columns=[str(c) for c in file["feature_names"]])
    return Dataset(X, *pick_labels("emodb", labels, target, sensitive), name="emodb")


@dataset(ENTERFACE, ENTERFACE_FILE, prepare=prepare_enterface)
def enterface(target: str = "happy", sensitive: str = "speaker") -> Dataset:
    """1,200 English sentences by 43 speakers in six emotions: keep happy or not, hide the speaker (Hamm 2015).

    52 inputs: mean, maximum, minimum and standard deviation over a sentence of 13 MFCCs (20 ms frames that overlap
    by half).
    """
    file = np.load(require(ENTERFACE_FILE, ENTERFACE))
    happy = np.where(file["emotion"] == "happiness", "happy", "other")
    labels = {"emotion": file["emotion"], "happy": happy, "speaker": file["speaker"]}
    columns = [f"{what} mfcc {i}" for what in ("mean", "max", "min", "std") for i in range(1, 14)]
    X = pd.DataFrame(file["features"].astype(float), columns=columns)
    return Dataset(X, *pick_labels("enterface", labels, target, sensitive), name="enterface")


def signals_of(file: Any) -> np.ndarray:
    """Samples (n, channels): as the publisher has them, or from the shared copy's whole numbers."""
    return file["signals"] if "signals" in file else (file["signals_i16"] * file["scale"]).astype(np.float32)


def read_sound(path: Path) -> tuple[np.ndarray, int]:
    """One channel from -1 to 1 and its samples per second."""
    rate, values = wavfile.read(path)
    values = values / float(np.iinfo(values.dtype).max + 1) if values.dtype.kind == "i" else values.astype(float)
    return (values.mean(axis=1) if values.ndim == 2 else values), int(rate)


def two_seconds(sound: np.ndarray, rate: int) -> np.ndarray:
    """At 16 kHz, cut or followed by silence."""
    if rate != RATE:
        common = np.gcd(rate, RATE)
        sound = resample_poly(sound, RATE // common, rate // common)
    return np.pad(sound[: 2 * RATE], (0, max(0, 2 * RATE - len(sound))))


def mel_bands(
    sound: np.ndarray, rate: int, size: int, step: int, points: int, bands: int, scale: float = 1
) -> np.ndarray:
    """Log power in Mel bands, (frames, bands), of Hamming windows."""
    frames = np.lib.stride_tricks.sliding_window_view(sound, size)[::step] * np.hamming(size)
    power = np.abs(np.fft.rfft(frames, points)) ** 2 / scale
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + rate / 1400), bands + 2) / 2595) - 1)
    hertz = np.fft.rfftfreq(points, 1 / rate)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    triangles = np.clip(np.minimum((hertz - low) / (middle - low), (high - hertz) / (high - middle)), 0, None)
    return np.log(power @ triangles.T + 1e-10)


def statistics(bands: np.ndarray) -> np.ndarray:
    """Mean, deviation, 10 % and 90 % points of 20 MFCCs and of their first and second differences over time."""
    cepstrum = dct(bands, axis=1, norm="ortho")[:, :20]
    first = np.gradient(cepstrum, axis=0)
    all_three = np.concatenate([cepstrum, first, np.gradient(first, axis=0)], axis=1)
    return np.concatenate([all_three.mean(0), all_three.std(0), *np.percentile(all_three, (10, 90), axis=0)])


def statistics_names() -> list[str]:
    """In the order of `statistics`."""
    rows = [f"{d}mfcc{i}" for d in ("", "d_", "dd_") for i in range(20)]
    return [f"{row}_{what}" for what in ("mean", "std", "p10", "p90") for row in rows]


def _people(path: Path) -> pd.DataFrame:
    """Gender by name; weight, height and age cut at the median of the people, and as numbers."""
    table = pd.read_csv(path).set_index("code")
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
