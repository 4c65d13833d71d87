"""Sound in wav files."""

from __future__ import annotations

import io
import warnings

import numpy as np
from scipy.io import wavfile

from tacit.errors import InputError


def read_wav(data: bytes, where: str) -> tuple[np.ndarray, int]:
    """One channel from -1 to 1 and its rate."""
    try:
        with warnings.catch_warnings():  # of chunks that say something about the recording
            warnings.simplefilter("ignore", wavfile.WavFileWarning)
            rate, values = wavfile.read(io.BytesIO(data))
    except Exception as error:  # a damaged header may raise anything
        raise InputError(f"{where} is no whole wav file ({type(error).__name__}); fetch it again") from None
    if values.dtype == np.uint8:
        values = (values - 128.0) / 128
    elif values.dtype.kind == "i":
        values = values / float(np.iinfo(values.dtype).max + 1)
    if len(values) == 0 or not 1000 <= rate <= 768000 or not np.isfinite(values).all():
        raise InputError(f"{where} has no sound that can be read; fetch it again")
    said = said_bytes(data)
    if said is not None and said > len(data):
        raise InputError(f"{where} is cut: its header says {said:,} bytes, it has {len(data):,}; fetch it again")
    return (values.mean(axis=1) if values.ndim == 2 else values).astype(float), int(rate)


def said_bytes(data: bytes) -> int | None:
    """How long the file is by its own header."""
    return int.from_bytes(data[4:8], "little") + 8 if data[:4] == b"RIFF" else None
