"""Phone recordings as people have them (one table, a file per person, a folder per activity) as one table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tacit.errors import InputError, NoColumn
from tacit.records.table_files import ARROW, PARQUET, TEXT, open_table

TIME = re.compile(
    r"(?i)^(elapsed[ _.-]?)?(t|ts|time|times?tamps?|time[ _.-]?stamp.*|seconds?(_elapsed)?|sec|ms|date ?time|date"
    r"|loggingtime.*)([ _.-]?[(\[]?(s|secs?|seconds?|ms|millis(econds)?|us|µs|ns)[)\]]?)?$"
)
PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
GAP = 5  # steps without a sample, after which a recording is cut
UNEVEN = 0.1  # of a step: more and samples are put on an even grid
FEW = 6  # recordings of a person: with fewer they are cut into blocks
RECORDING, BLOCK, SAMPLE = "recording", "block", "sample"


@dataclass(frozen=True)
class Recordings:
    """Samples of all people, one row an instant; in `said` what was found and done, one sentence each."""

    samples: pd.DataFrame
    channels: list[str]
    rate: float | None
    said: list[str]


def read_recordings(
    source: str | Path, person: str, labels: Sequence[str], rate: float | None = None, length: float = 2.56
) -> Recordings:
    """Read a table of samples, or a folder of such tables.

    Parameters
    ----------
    source : a file, or a folder of files (in folders)
    person : the column of the person; where no file has it, the file's name says it (``sub_3.csv``, ``anna.csv``)
    labels : other label columns, such as the activity; where no file has one, the folder's name says it
        (``wlk_7/sub_3.csv`` is MotionSense's way)
    rate : samples a second, where there are no time stamps, or to bring all to
    length : of a window in seconds, by which recordings are cut into blocks where a person has few
    """
    source = Path(source)
    frames, said = _read_all(source, person, labels)
    samples = pd.concat(frames, ignore_index=True)
    channels = _channels(frames, {person, RECORDING, *labels})
    stamps = next((c for c in samples.columns if TIME.match(str(c)) and c not in (person, *labels)), None)
    channels = [c for c in channels if c != stamps]
    if not channels:
        raise InputError(
            f"{source.name} has no column of numbers that all recordings share; at least one signal is needed"
        )
    keep = [person, RECORDING, *dict.fromkeys(labels)]
    if stamps is None:
        samples, found = samples[[*keep, *channels]], rate
        said.append(f"no time stamps; samples are taken as evenly spaced{f' at {rate:g} a second' if rate else ''}")
    else:
        samples, found = _even(samples, stamps, keep, channels, rate, said)
    samples = _blocks(samples, person, int(length * (found or 50)), said)
    who = samples[person].nunique()
    told = (
        f"{who} people, {samples[RECORDING].nunique()} recordings, {len(samples):,} samples of {len(channels)} channels"
    )
    return Recordings(samples.reset_index(drop=True), channels, found, [f"{told} ({', '.join(channels[:12])})", *said])


def _read_all(source: Path, person: str, labels: Sequence[str]) -> tuple[list[pd.DataFrame], list[str]]:
    if not source.exists():
        raise InputError(f"no file or folder {source}; check the path")
    if source.is_file():
        table = open_table(source, dates=True).table
        for column in (person, *labels):
            if column not in table.columns:
                raise NoColumn(source.name, column, list(table.columns))
        return [table.assign(**{RECORDING: _runs(table, person)})], []
    files = [p for p in sorted(source.rglob("*")) if p.is_file() and p.suffix.lower() in (*TEXT, *PARQUET, *ARROW)]
    files = [p for p in files if not p.name.startswith((".", "_"))]
    if not files:
        raise InputError(f"{source} holds no recording; put a CSV or Parquet file for each person (or recording) there")
    frames, by_name = [], dict[str, str]()
    for number, path in enumerate(files):
        table = open_table(path, dates=True).table
        table = table[[c for c in table.columns if not _is_counter(str(c), table[c])]]
        folder = path.parent.name if path.parent != source else None
        for column in dict.fromkeys((person, *labels)):
            if column in table.columns:
                continue
            if column != person and folder is None:
                raise NoColumn(path.name, column, list(table.columns),
                                           ", and lies in no folder of that name")  # fmt: skip
            told = _name(path.stem) if column == person else re.sub(r"[_-]\d+$", "", folder or "")
            by_name[column] = "file" if column == person else "folder"
            table = table.assign(**{column: told})
        frames.append(table.assign(**{RECORDING: number}))
    said = [f"{column!r} is told by the {place}'s name" for column, place in by_name.items()]
    return frames, said


def _name(stem: str) -> str:
    found = re.fullmatch(r"(?i)(sub|subject|user|person|participant|id|p|s)[_-]?(\d+)", stem)
    return found[2] if found else stem


def _is_counter(name: str, column: pd.Series) -> bool:
    """Whether a column without a name only numbers its rows."""
    if not name.startswith("Unnamed:") and name.lower() != "index":
        return False
    return pd.api.types.is_numeric_dtype(column) and bool((column.diff().dropna() == 1).all())


def _runs(table: pd.DataFrame, person: str) -> np.ndarray:
    return (table[person] != table[person].shift()).cumsum().to_numpy()


def _channels(frames: Sequence[pd.DataFrame], others: set[str]) -> list[str]:
    numeric = [{c for c in f.columns if pd.api.types.is_numeric_dtype(f[c])} - others for f in frames]
    return [c for c in frames[0].columns if all(c in n for n in numeric)]


def _even(
    samples: pd.DataFrame, stamps: str, keep: list[str], channels: list[str], rate: float | None, said: list[str]
) -> tuple[pd.DataFrame, float]:
    """Samples of all recordings at one rate; on an even grid where their times are not."""
    time = samples[stamps]
    if pd.api.types.is_datetime64_any_dtype(time):
        time = (time - time.min()).dt.total_seconds()
    elif not pd.api.types.is_numeric_dtype(time):
        raise InputError(f"the times in {stamps!r} are neither numbers nor dates; give seconds, or dates such as "
                         f"2024-05-31 10:00:00.02")  # fmt: skip
    steps = time.groupby(samples[RECORDING]).diff().dropna()
    usual = float(steps[steps > 0].median()) if (steps > 0).any() else np.nan
    if not usual > 0:
        raise InputError(f"the times in {stamps!r} do not rise inside a recording; sort them, or leave the column out")
    unit = next(u for u, limit in (("s", 1.5), ("ms", 1500.0), ("us", 1.5e6), ("ns", np.inf)) if usual < limit)
    found = PER_SECOND[unit] / usual
    pauses = ((steps > GAP * usual) | (steps <= 0)).reindex(samples.index, fill_value=False)
    pieces = pauses.groupby(samples[RECORDING]).cumsum().astype(int).astype(str)
    samples = samples.assign(**{RECORDING: samples[RECORDING].astype(str) + "." + pieces})
    own = PER_SECOND[unit] / steps[steps > 0].groupby(samples[RECORDING]).median()
    uneven = float(((steps - usual).abs() > UNEVEN * usual).mean()) > 0.02
    differ = float(own.max() / own.min()) > 1.05
    wanted = rate or float(np.round(found, 1))
    said.append(f"{found:.4g} samples a second by {stamps!r} (in {unit})")
    if not (uneven or differ or (rate and abs(rate / found - 1) > 0.02)):
        return samples[[*keep, *channels]], wanted
    why = "recordings differ in their rates" if differ else "as asked" if not uneven else "their times are uneven"
    said.append(f"samples were put on an even grid of {wanted:g} a second: {why}")
    parts = []
    seconds = time / PER_SECOND[unit]
    for _, rows in samples.groupby(RECORDING, sort=False):
        parts.append(_on_grid(rows, seconds.loc[rows.index].to_numpy(), wanted, keep, channels))
    return pd.concat(parts, ignore_index=True), wanted


def _on_grid(rows: pd.DataFrame, at: np.ndarray, rate: float, keep: list[str], channels: list[str]) -> pd.DataFrame:
    grid = np.arange(at[0], at[-1] + 1e-9, 1 / rate)
    latest = np.searchsorted(at, grid + 1e-9, side="right") - 1
    signals = {c: np.interp(grid, at, rows[c].to_numpy(dtype=float)) for c in channels}
    return pd.concat([rows[keep].iloc[latest].reset_index(drop=True), pd.DataFrame(signals)], axis=1)


def _blocks(samples: pd.DataFrame, person: str, window: int, said: list[str]) -> pd.DataFrame:
    """Recordings cut into blocks where a person has too few to learn from some and test on others.

    Of twelve windows, or fewer where a person would have less than eight of them, but of two at least.
    """
    number = samples[RECORDING].astype(str)
    fewest = int(samples.groupby(person)[RECORDING].nunique().min())
    if fewest >= FEW:
        return samples.assign(**{BLOCK: number})
    size = int(np.clip(samples.groupby(person).size().min() // 8, 2 * window, 12 * window))
    at = samples.groupby(RECORDING).cumcount() // size
    said.append(
        f"somebody has only {fewest} recording{'s' * (fewest > 1)}, so blocks of {size} samples count as recordings "
        f"of their own: attackers meet other blocks of the same recordings, and find people more easily than in others"
    )
    return samples.assign(**{BLOCK: number + "." + at.astype(str)})
