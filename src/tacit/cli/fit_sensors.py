"""`tacit fit RECORDINGS --sensors`: phone recordings in, windows that tell the activity and not the person out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import tacit
from tacit.cli.shaped_fit import Preset, fit_shaped
from tacit.errors import InputError
from tacit.records.recordings import BLOCK, RECORDING, read_recordings
from tacit.report.screen import Console

SECONDS = 2.56  # of a window
SAMPLES = 128  # where no rate is known
LEAST = 16
PRESET = Preset(
    "recordings",
    "AnonymizingAutoencoder",
    {"waveforms": {"codes": 16}, "autoencoding": {}},
    {"epochs": 8, "n_maps": 16},
    "--small: 8 epochs, not 24 (and with --filter autoencoding 16 maps, not 100). It keeps less of the target; figures "
    "are in docs/how-to/sensors.md",
)


def run(
    console: Console,
    source: Path,
    target: list[str],
    sensitive: list[str],
    filter_name: str | None,
    rate: float | None,
    small: bool,
    unit: str | None,
    seed: int,
    weight: float | None,
    **options: Any,
) -> None:
    if not target or not (sensitive or unit):
        raise InputError("say what must keep working and who must stay hidden, such as --target activity --sensitive "
                         "person; both are columns of the recordings, or the names of folders and files")  # fmt: skip
    name = PRESET.checked_name(filter_name)
    person = unit or sensitive[0]
    found = read_recordings(source, person, [c for c in (*target, *sensitive) if c != person], rate, SECONDS)
    for line in found.said:
        console.print(line, highlight=False, markup=False)
    length = SAMPLES if found.rate is None else max(LEAST, round(SECONDS * found.rate))
    longest = int(found.samples.groupby(BLOCK).size().max())
    if longest < length:
        raise InputError(f"the longest recording has {longest} samples, and a window needs {length}; record longer, or "
                         f"say the rate (--rate) if it was found wrongly")  # fmt: skip
    console.print(f"Windows of {length} samples, each half over the next", highlight=False)
    data = tacit.read_windows(
        found.samples.drop(columns=[RECORDING]), user=person, trial=BLOCK, channels=found.channels,
        length=length, stride=max(1, length // 2), target=target, sensitive=sensitive or [person],
    )  # fmt: skip
    chosen = PRESET.chosen(console, name, small, weight, seed)
    by = person if person in data.sensitive.columns else None
    fit_shaped(console, data, chosen, name, source, by, "windows", _write, seed=seed, **options)


def _write(released: np.ndarray, rows: np.ndarray, parts: np.ndarray | None, out: Path) -> Path:
    """Windows as an npz, in the form of `tacit release apply`: the array ``release``; and ``part``, where two left."""
    from tacit.files import replacing  # only here

    place = out / "release.npz"
    with replacing(place) as partial, open(partial, "wb") as file:
        if parts is None:
            np.savez(file, release=released)
        else:
            np.savez(file, release=released, part=parts)
    return place
