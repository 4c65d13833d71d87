"""Emotional speech, read from the publisher's own recordings: enterface."""

from __future__ import annotations

import re
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.fft import dct
from scipy.io import wavfile

from tacit.datasets.declaration import choose_labels, declare
from tacit.datasets.publishers.wav import said_bytes
from tacit.datasets.store import locate, packed
from tacit.errors import InputError
from tacit.records.dataset import Dataset

EMOTIONS = ("anger", "disgust", "fear", "happiness", "sadness", "surprise")
PACKED = "enterface/enterface_mfcc.npz"
BANDS = 13
SUBJECT = re.compile(r"subject[ _-]?0*(\d+)", re.IGNORECASE)


@declare(
    "about 1,200",
    "table",
    "happy, emotion",
    "speaker",
    "research use, from its publisher only",
    (PACKED,),
    here=lambda: bool(clips(locate("enterface"))),
)
def enterface(target: str = "happy", sensitive: str = "speaker") -> Dataset:
    """English sentences by some 43 speakers in six emotions: keep happy or not, hide the speaker (Hamm 2015).

    Files: what ``tacit data prepare enterface FOLDER`` wrote, or ``enterface/subject N/EMOTION/.../*.avi`` as
    published, or .wav files in their place. 52 inputs: mean,
    maximum, minimum and standard deviation over a sentence of 13 MFCCs (20 ms frames that overlap by half).
    """
    features = locate(PACKED)
    if features is not None:
        file = np.load(features)
        X, emotion, speaker = file["features"], file["emotion"], file["speaker"]
    else:
        folder = locate("enterface")
        if not clips(folder):
            packed(PACKED, "enterface")
        X, emotion, speaker = sentences(folder)
    labels = {"emotion": emotion, "happy": np.where(emotion == "happiness", "happy", "other"), "speaker": speaker}
    return Dataset(
        pd.DataFrame(X.astype(float), columns=feature_names()),
        *choose_labels("enterface", labels, target, sensitive),
        name="enterface",
    )


def clips(root: Path | None) -> list[tuple[Path, str, str]]:
    """Every recording in a folder or below it, with its speaker and emotion; a .wav wins over the .avi beside it."""
    found: dict[Path, tuple[Path, str, str]] = {}
    for path in sorted(p for p in root.rglob("*") if p.suffix.lower() in (".avi", ".wav")) if root else []:
        parts = path.relative_to(root).parts if root else ()
        at = next((i for i, part in enumerate(parts) if SUBJECT.fullmatch(part)), None)
        if at is None:
            continue
        speaker, emotion = f"subject {SUBJECT.fullmatch(parts[at])[1]}", parts[at + 1].lower()  # type: ignore[index]
        if emotion not in EMOTIONS:
            raise InputError(f"{path}: expected a folder of {', '.join(EMOTIONS)} below {speaker!r}; move it there")
        found[path.with_suffix("")] = path, speaker, emotion
    return sorted(found.values())


def sentences(root: Path | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The 52 inputs of every recording, its emotion and its speaker."""
    found = clips(root)
    rows = []
    for path, _, _ in found:
        frames = mfcc(*read_sound(path))
        rows.append(np.concatenate([frames.mean(0), frames.max(0), frames.min(0), frames.std(0)]))
    return np.array(rows), np.array([e for _, _, e in found]), np.array([s for _, s, _ in found])


def feature_names() -> list[str]:
    """In the order of `sentences`."""
    return [f"{what} mfcc {i}" for what in ("mean", "max", "min", "std") for i in range(1, BANDS + 1)]


def mfcc(sound: np.ndarray, rate: int) -> np.ndarray:
    """Mel-frequency cepstral coefficients, (frames, 13): the cosine transform of the log of 13 Mel bands."""
    size = round(0.02 * rate)
    if len(sound) < size:
        raise InputError(f"a sound of {len(sound)} samples is shorter than one frame of {size}; leave it out")
    frames = np.lib.stride_tricks.sliding_window_view(sound, size)[:: size // 2] * np.hamming(size)
    power = np.abs(np.fft.rfft(frames)) ** 2
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + rate / 1400), BANDS + 2) / 2595) - 1)
    hertz = np.fft.rfftfreq(size, 1 / rate)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    triangles = np.clip(np.minimum((hertz - low) / (middle - low), (high - hertz) / (high - middle)), 0, None)
    return dct(np.log(power @ triangles.T + 1e-10), norm="ortho")


def read_sound(path: Path) -> tuple[np.ndarray, int]:
    """One channel from -1 to 1 and its samples per second, of a .wav file or of the sound of an .avi file."""
    try:
        if path.suffix.lower() == ".wav":
            data = path.read_bytes()
            if (said_bytes(data) or 0) > len(data):
                raise ValueError("it is cut")
            with warnings.catch_warnings():  # of chunks that say something about the recording
                warnings.simplefilter("ignore", wavfile.WavFileWarning)
                rate, values = wavfile.read(path)
            if values.dtype != np.int16:
                raise ValueError(f"its samples are {values.dtype}, not 16 bits")
            values = values / 32767.0
        else:
            values, rate = _avi_sound(path.read_bytes())
    except (ValueError, struct.error, EOFError, IndexError) as error:
        raise InputError(f"{path}: {error}; convert its sound to a .wav file (16 bits) beside it") from error
    return (values.mean(axis=1) if values.ndim == 2 else values), int(rate)


def _avi_sound(data: bytes) -> tuple[np.ndarray, int]:
    """The first uncompressed 16-bit sound stream of an AVI file, (samples, channels)."""
    if data[:4] != b"RIFF" or data[8:12] != b"AVI ":
        raise ValueError("not an AVI file")
    streams, kind, parts = 0, b"", []
    sound: tuple[int, int, int, int] | None = None  # stream, channels, rate, bits
    for name, start, size in _chunks(data, 12, len(data)):
        if name == b"strh":
            kind, streams = data[start : start + 4], streams + 1
        elif name == b"strf" and kind == b"auds" and sound is None:
            code, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", data, start)
            if (code, bits) != (1, 16):
                raise ValueError(f"its sound is coded as type {code} with {bits} bits, not as plain 16-bit samples")
            sound = (streams - 1, channels, rate, bits)
        elif sound is not None and name == b"%02dwb" % sound[0]:
            parts.append(data[start : start + size])
    if sound is None or not parts:
        raise ValueError("no sound in it")
    values = np.frombuffer(b"".join(parts), dtype="<i2").reshape(-1, sound[1])
    return values / 32767.0, sound[2]


def _chunks(data: bytes, start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Name, beginning and size of every chunk, those in lists included."""
    while start + 8 <= end:
        name, size = data[start : start + 4], struct.unpack_from("<I", data, start + 4)[0]
        if name in (b"LIST", b"RIFF"):
            yield from _chunks(data, start + 12, min(start + 8 + size, end))
        else:
            yield name, start + 8, size
        start += 8 + size + size % 2  # chunks begin at even places
