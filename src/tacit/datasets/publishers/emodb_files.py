"""EMO-DB, the Berlin database of emotional speech: wav/03a01Fa.wav and so on -> 240 statistics of MFCCs a sentence."""

from __future__ import annotations

import re

import numpy as np
from scipy.fft import dct
from scipy.signal import resample_poly

from tacit.datasets.publishers.pack import Pack, counted, npz
from tacit.datasets.publishers.source import Source
from tacit.datasets.publishers.wav import read_wav
from tacit.datasets.where import WHERE
from tacit.errors import InputError

FORM = re.compile(r"(?:^|/)(\d\d)([ab]\d\d)([A-Z])([a-z]?)\.wav$", re.IGNORECASE)
EMOTIONS = {"W": "anger", "L": "boredom", "E": "disgust", "A": "fear", "F": "happiness", "N": "neutral", "T": "sadness"}
AGES = {3: 31, 8: 34, 9: 21, 10: 32, 11: 26, 12: 30, 13: 32, 14: 35, 15: 25, 16: 31}  # of the publisher's page
WOMEN = (8, 9, 13, 14, 16)
RATE, SECONDS = 16000, 2.0
FRAME, STEP, POINTS = 400, 160, 512  # 25 ms, every 10 ms
BANDS, COEFFICIENTS, FLOOR = 40, 20, 1e-10


def pack_emodb(source: Source) -> Pack:
    """Two seconds of every sentence, cut or followed by silence as in the copies that the papers here measured."""
    found = source.matches(FORM)
    if not found:
        raise InputError(
            f"{source.path} has no recording such as wav/03a01Fa.wav; get {WHERE['emodb']}, and pass its folder"
        )
    found.sort(key=lambda pair: pair[0].rsplit("/", 1)[-1].lower())
    bands, labels = [], []
    for name, match in found:
        number, letter = int(match[1]), match[3].upper()
        if letter not in EMOTIONS or number not in AGES:
            raise InputError(
                f"{source.where(name)}: its name must begin with a speaker ({', '.join(f'{s:02d}' for s in AGES)}) and "
                f"have a letter of {', '.join(EMOTIONS)} at the sixth place; rename it, or move it away"
            )
        bands.append(log_mel(two_seconds(*read_wav(source.read(name), source.where(name)))))
        labels.append((EMOTIONS[letter], number, match[2].lower(), name.rsplit("/", 1)[-1][:-4]))
    emotion, speaker, text, stem = (np.array(column) for column in zip(*labels, strict=True))
    names = np.array(sorted(EMOTIONS.values()))
    return Pack(
        f"{len(found):,} sentences of {len(set(speaker)):,} speakers: {counted(emotion)}",
        {
            "emodb_mfcc/emodb_mfcc.npz": npz(
                features=np.array([statistics(b) for b in bands], dtype=np.float32),
                feature_names=np.array(feature_names()),
                logmel=np.array(bands, dtype=np.float16),
                emotion=np.searchsorted(names, emotion).astype(np.uint8),
                emotion_names=names,
                speaker=speaker.astype(np.uint8),
                female=np.isin(speaker, WOMEN).astype(np.uint8),
                age=np.array([AGES[int(s)] for s in speaker], dtype=np.uint8),
                text=text,
                name=stem,
            )
        },
    )


def two_seconds(sound: np.ndarray, rate: int) -> np.ndarray:
    """At 16 kHz, cut or followed by silence."""
    if rate != RATE:
        common = np.gcd(rate, RATE)
        sound = resample_poly(sound, RATE // common, rate // common)
    wanted = np.zeros(int(RATE * SECONDS))
    part = sound[: len(wanted)]
    wanted[: len(part)] = part
    return wanted


def log_mel(sound: np.ndarray) -> np.ndarray:
    """Log power in 40 Mel bands, (frames, 40)."""
    frames = np.lib.stride_tricks.sliding_window_view(sound, FRAME)[::STEP] * np.hamming(FRAME)
    power = np.abs(np.fft.rfft(frames, POINTS)) ** 2 / POINTS
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + RATE / 1400), BANDS + 2) / 2595) - 1)
    hertz = np.fft.rfftfreq(POINTS, 1 / RATE)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    triangles = np.clip(np.minimum((hertz - low) / (middle - low), (high - hertz) / (high - middle)), 0, None)
    return np.log(power @ triangles.T + FLOOR)


def statistics(bands: np.ndarray) -> np.ndarray:
    """Mean, deviation, 10 % and 90 % points of 20 MFCCs and of their first and second differences over time."""
    cepstrum = dct(bands, axis=1, norm="ortho")[:, :COEFFICIENTS]
    first = np.gradient(cepstrum, axis=0)
    all_three = np.concatenate([cepstrum, first, np.gradient(first, axis=0)], axis=1)
    return np.concatenate(
        [
            all_three.mean(0),
            all_three.std(0),
            np.percentile(all_three, 10, axis=0),
            np.percentile(all_three, 90, axis=0),
        ]
    )


def feature_names() -> list[str]:
    """In the order of `statistics`."""
    rows = [f"{d}mfcc{i}" for d in ("", "d_", "dd_") for i in range(COEFFICIENTS)]
    return [f"{row}_{what}" for what in ("mean", "std", "p10", "p90") for row in rows]
