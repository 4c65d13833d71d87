"""Sensor samples in, windows out: never across a recording, a gap in time or a change of label.

Samples are read from one table, a file per person, or a folder per activity.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tacit.errors import InputError, NoColumn, TacitWarning, check_number
from tacit.labels import looks_continuous
from tacit.records.dataset import Dataset, read_file
from tacit.records.table_files import ARROW, PARQUET, TEXT, open_table

TIME = re.compile(
    r"(?i)^(elapsed[ _.-]?)?(t|ts|time|times?tamps?|time[ _.-]?stamp.*|seconds?(_elapsed)?|sec|ms|date ?time|date"
    r"|loggingtime.*)([ _.-]?[(\[]?(s|secs?|seconds?|ms|millis(econds)?|us|µs|ns)[)\]]?)?$"
)
NUMBERED = re.compile(r"(?i)(sub|subject|user|person|participant|id|p|s)[_-]?(\d+)")  # names of files of people
PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
GAP = 5  # steps without a sample, after which a recording is cut
UNEVEN = 0.1  # of a step: more and samples are put on an even grid
FEW = 6  # recordings of a person: with fewer they are cut into blocks
RECORDING, BLOCK, SAMPLE = "recording", "block", "sample"


def read_windows(
    table: str | Path | pd.DataFrame,
    *,
    user: str,
    trial: str | None = None,
    time: str | None = None,
    channels: str | Sequence[str] | None = None,
    length: int = 128,
    stride: int = 64,
    target: str | Sequence[str] = (),
    sensitive: str | Sequence[str] | None = None,
    max_gap: float | None = None,
) -> Dataset:
    """Cut a table of sensor samples, one row per instant, into windows (n, channels, length).

    Parameters
    ----------
    table : CSV or Parquet file, or a DataFrame; rows of one recording follow each other in time
    user : column that names the person
    trial : column that numbers the recordings of a person; without it every uninterrupted stretch is one
    time : column of time stamps (numbers, or dates); without it samples are taken as evenly spaced
    channels : columns that are signals; by default every numeric column that has no other role
    length, stride : samples in a window, and between the beginnings of two
    target, sensitive : label columns; the user is the sensitive one by default
    max_gap : a longer step in `time` ends a stretch (in its own unit, seconds for dates);
        1.5 times the usual step by default

    A window never holds two recordings, two labels or a gap. What is dropped (ends, and stretches
    shorter than a window) is counted: `windows` returns the counts, and a `TacitWarning` tells of
    whole stretches. The unit of the user's identity is the recording; of any other label, the user.

    Examples
    --------
    >>> import pandas as pd, tacit
    >>> samples = pd.DataFrame({"who": ["a"] * 300 + ["b"] * 300, "ax": range(600), "ay": range(600)})
    >>> tacit.read_windows(samples, user="who", length=100, stride=50).X.shape
    (10, 2, 100)
    """
    check_number("length", length, 2, whole=True)
    check_number("stride", stride, 1, whole=True)
    check_number("max_gap", max_gap, 0, optional=True)
    source = "the table" if isinstance(table, pd.DataFrame) else Path(table).name
    frame = (table if isinstance(table, pd.DataFrame) else read_file(Path(table))).reset_index(drop=True)
    targets = [target] if isinstance(target, str) else list(target)
    secrets = [user] if sensitive is None else [sensitive] if isinstance(sensitive, str) else list(sensitive)
    roles = {user: "user", **({trial: "trial"} if trial else {}), **({time: "time"} if time else {})}
    roles |= {c: "target" for c in targets if c not in roles} | {c: "sensitive" for c in secrets if c not in roles}
    if channels is None:
        channels = [c for c in frame.select_dtypes("number").columns if c not in roles]
    channels = [channels] if isinstance(channels, str) else list(channels)
    both = [c for c in channels if c in roles]
    if both:
        raise InputError(
            f"column {both[0]!r} is the {roles[both[0]]} and a channel; a label must not be among the signals"
        )
    _check_columns(frame, {**roles, **dict.fromkeys(channels, "channel")}, source)
    if not len(frame) or not len(channels):
        raise InputError(
            f"{source} has {len(frame)} samples of {len(channels)} channels; at least one of each is needed"
        )

    recording = _recordings(frame, [user, *([trial] if trial else [])], source)
    where = _Place(frame, user, trial, time, source)
    seconds = None if time is None else _rising_times(frame[time], recording, where)
    samples = _signals(frame, channels, where)
    labels = [pd.factorize(frame[c])[0] for c in dict.fromkeys([*targets, *secrets])]
    cut = windows(samples, [recording, *labels], length, stride, seconds, max_gap)
    _check_found(frame[user], cut, length, user in secrets, where)
    if len(cut.short):
        stretches = "1 stretch is" if len(cut.short) == 1 else f"{len(cut.short):,} stretches are"
        warnings.warn(
            f"{source}: {stretches} shorter than length={length} samples and dropped, "
            f"the first at {where(cut.short[0])}; {cut.dropped:,} of {len(frame):,} samples are in no window",
            TacitWarning,
            stacklevel=2,
        )
    person = frame[user].to_numpy()[cut.start]
    bout = recording[cut.start] if trial else cut.stretch
    return Dataset(
        cut.X,
        frame[targets].iloc[cut.start],
        frame[secrets].iloc[cut.start],
        units={s: bout if s == user else person for s in secrets} or bout,
        name=None if isinstance(table, pd.DataFrame) else Path(table).stem.split(".")[0],
        modality="window",
    )


@dataclass(frozen=True)
class Windows:
    """Windows, and where they come from.

    Attributes
    ----------
    X : (n, channels, length), float32
    start : the row of each window's first sample
    stretch : the number of the uninterrupted stretch each window lies in
    short : the first rows of stretches that were shorter than a window
    longest : samples in the longest stretch
    dropped : how many samples are in no window
    """

    X: np.ndarray
    start: np.ndarray
    stretch: np.ndarray
    short: np.ndarray
    longest: int
    dropped: int


def windows(
    samples: np.ndarray,
    together: Sequence[np.ndarray],
    length: int = 128,
    stride: int = 64,
    time: np.ndarray | None = None,
    max_gap: float | None = None,
) -> Windows:
    """Every whole window of each stretch: from the stretch's first sample, then every `stride` samples.

    Parameters
    ----------
    samples : (rows, channels), in order
    together : columns; where one of them changes from a row to the next, a stretch ends
    time : rising inside a recording; a step longer than `max_gap` (1.5 times the median step) ends a stretch

    Examples
    --------
    >>> import numpy as np
    >>> cut = windows(np.arange(10.0)[:, None], [np.repeat([0, 1], [6, 4])], length=3, stride=2)
    >>> cut.start.tolist(), cut.dropped
    ([0, 2, 6], 2)
    """
    n = len(samples)
    breaks = np.zeros(n, dtype=bool)
    breaks[:1] = True
    for column in together:
        breaks[1:] |= column[1:] != column[:-1]
    if time is not None and n > 1:
        step = np.diff(time)
        inside = step[~breaks[1:]]
        limit = max_gap if max_gap is not None else 1.5 * float(np.median(inside)) if len(inside) else np.inf
        breaks[1:] |= step > limit
    first = np.flatnonzero(breaks)
    size = np.diff(np.append(first, n))
    count = np.maximum((size - length) // stride + 1, 0)
    stretch = np.repeat(np.arange(len(first)), count)
    nth = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    start = first[stretch] + nth * stride
    # windows farther apart than they are long leave samples between them
    covered = np.where(count > 0, length + (count - 1) * min(stride, length), 0)
    return Windows(
        cut_out(samples, start, length),
        start,
        stretch,
        short=first[count == 0],
        longest=int(size.max(initial=0)),
        dropped=int(n - covered.sum()),
    )


def cut_out(samples: np.ndarray, start: np.ndarray, length: int) -> np.ndarray:
    """The windows that begin at these rows, (n, channels, length) float32; one channel at a time, to save memory."""
    X = np.empty((len(start), samples.shape[1], length), dtype=np.float32)
    if len(start):
        for c in range(samples.shape[1]):
            channel = np.ascontiguousarray(samples[:, c], dtype=np.float32)
            X[:, c] = np.lib.stride_tricks.sliding_window_view(channel, length)[start]
    return X


def check_windows(X: Any, shortest: int = 1) -> Any:
    """The windows (n, channels, length); what is not an array of whole windows is refused, and where is said."""
    shape = np.shape(X)
    if len(shape) != 3:
        raise InputError(
            f"X has shape {shape}; sensor windows are (n, channels, length), so cut samples with tacit.read_windows"
            f"{' or pass X[:, None] for one channel' if len(shape) == 2 else ''}"
        )
    if shape[2] < shortest:
        raise InputError(
            f"windows have {shape[2]} samples, but this filter needs at least {shortest}; cut longer ones (length=)"
        )
    try:
        values = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"windows must hold numbers: {error}") from None
    bad = ~np.isfinite(values)
    if bad.any():
        window, channel, sample = (int(i) for i in np.argwhere(bad)[0])
        raise InputError(
            f"window {window}, channel {channel}, sample {sample}: found {values[window, channel, sample]}, and "
            f"{bad.sum()} such samples in all; interpolate them, or leave the windows out"
        )
    return X


@dataclass(frozen=True)
class _Place:
    """Says where a row is, in the caller's own words."""

    frame: pd.DataFrame
    user: str
    trial: str | None
    time: str | None
    source: str

    def __call__(self, row: Any) -> str:
        names = [c for c in (self.user, self.trial, self.time) if c is not None]
        return f"row {int(row)} (" + ", ".join(f"{c} {self.frame[c].iloc[int(row)]}" for c in names) + ")"


def _check_columns(frame: pd.DataFrame, roles: dict[str, str], source: str) -> None:
    for column, role in roles.items():
        if column not in frame.columns:
            raise NoColumn(source, column, list(frame.columns), f" ({role})")
        if role in ("user", "trial", "time") and frame[column].isna().any():
            row = int(np.flatnonzero(frame[column].isna())[0])
            raise InputError(f"{source}, column {column!r} ({role}), row {row}: missing; fill it in or drop the row")
        if role in ("target", "sensitive") and looks_continuous(frame[column]):
            raise InputError(
                f"{source}, column {column!r} ({role}) is numeric with {frame[column].nunique()} distinct values; a "
                f"window ends where a label changes, so cut it into classes first (pandas.qcut), or store it as text"
            )


def _recordings(frame: pd.DataFrame, columns: list[str], source: str) -> np.ndarray:
    """A number per recording; refuse one whose rows are scattered."""
    code = frame.groupby(columns, sort=False, observed=True).ngroup().to_numpy()
    begins = np.flatnonzero(np.append(True, code[1:] != code[:-1]))
    again = pd.Series(code[begins]).duplicated().to_numpy()
    if again.any():
        row = int(begins[again][0])
        name = ", ".join(f"{c} {frame[c].iloc[row]}" for c in columns)
        raise InputError(
            f"{source}, row {row}: {name} begins again after rows of another recording; "
            f"sort the table by {', '.join(columns)} and time"
        )
    return code


def _rising_times(column: pd.Series, recording: np.ndarray, where: _Place) -> np.ndarray:
    """Time as numbers (seconds for dates); refuse stamps that stand still or go back inside a recording."""
    if not pd.api.types.is_numeric_dtype(column):
        try:
            stamps = pd.to_datetime(column)
        except (ValueError, TypeError) as error:
            raise InputError(
                f"{where.source}, column {where.time!r}: neither numbers nor dates ({error}); pass one of these"
            ) from None
        column = (stamps - stamps.iloc[0]).dt.total_seconds()
    seconds = column.to_numpy(dtype=np.float64)
    wrong = (np.diff(seconds) <= 0) & (recording[1:] == recording[:-1])
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0]) + 1
        same = seconds[row] == seconds[row - 1]
        raise InputError(
            f"{where.source}, {where(row)}: the time stamp {'repeats' if same else 'is earlier than'} that of the row "
            f"before; {'keep one sample per instant' if same else 'sort each recording by time'}"
        )
    return seconds


def _signals(frame: pd.DataFrame, channels: list[str], where: _Place) -> np.ndarray:
    samples = np.empty((len(frame), len(channels)), dtype=np.float32)
    for i, channel in enumerate(channels):
        if not pd.api.types.is_numeric_dtype(frame[channel]):
            raise InputError(
                f"{where.source}, column {channel!r} (channel) has type {frame[channel].dtype}; signals are "
                f"numbers, so name them with channels=[...]"
            )
        samples[:, i] = frame[channel].to_numpy(dtype=np.float32, na_value=np.nan)
        bad = ~np.isfinite(samples[:, i])
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise InputError(
                f"{where.source}, column {channel!r}, {where(row)}: found {frame[channel].iloc[row]}, "
                f"and {bad.sum()} such samples in all; interpolate them, or drop the rows "
                f"(with time= the gap then ends a window)"
            )
    return samples


def _check_found(users: pd.Series, cut: Windows, length: int, secret: bool, where: _Place) -> None:
    """Windows at all, and two for every user whose identity is to be attacked."""
    if not len(cut.start):
        raise InputError(
            f"{where.source} has no window of length={length}: its longest stretch without a gap or a change of "
            f"recording or label has {cut.longest} samples; pass length={cut.longest} or less"
        )
    found = users.iloc[cut.start].value_counts()
    for name in users.unique() if secret else ():
        if found.get(name, 0) < 2:
            rows = int((users == name).sum())
            raise InputError(
                f"{where.source}: {where.user} {name} has {'one window' if found.get(name, 0) else 'no window'} of "
                f"length={length} from {rows:,} samples; two are needed to learn from one and test on another, "
                f"so pass a shorter length or stride, or leave that {where.user} out"
            )


# -- recordings as people have them: a table, a file per person, a folder per activity -------------------


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
    shared = [c for c in frames[0].columns if all(c in f and pd.api.types.is_numeric_dtype(f[c]) for f in frames)]
    stamps = next((c for c in samples.columns if TIME.match(str(c)) and c not in (person, *labels)), None)
    channels = [c for c in shared if c not in (person, RECORDING, *labels, stamps)]
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
        runs = (table[person] != table[person].shift()).cumsum().to_numpy()
        return [table.assign(**{RECORDING: runs})], []
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
                raise NoColumn(path.name, column, list(table.columns), ", and lies in no folder of that name")
            numbered = NUMBERED.fullmatch(path.stem)
            told = numbered[2] if numbered else path.stem
            if column != person:
                told = re.sub(r"[_-]\d+$", "", folder or "")
            by_name[column] = "file" if column == person else "folder"
            table = table.assign(**{column: told})
        frames.append(table.assign(**{RECORDING: number}))
    said = [f"{column!r} is told by the {place}'s name" for column, place in by_name.items()]
    return frames, said


def _is_counter(name: str, column: pd.Series) -> bool:
    """Whether a column without a name only numbers its rows."""
    if not name.startswith("Unnamed:") and name.lower() != "index":
        return False
    return pd.api.types.is_numeric_dtype(column) and bool((column.diff().dropna() == 1).all())


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
