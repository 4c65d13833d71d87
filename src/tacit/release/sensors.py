"""Sensor samples in, a release for every window out: one buffer for each person, as in `tacit.read_windows`.

A window never holds a gap. With a time in every sample, a step longer than `max_gap` (1.5 times the usual step of the
window by default) ends a stretch, and the next window begins after it. Without time, a refused sample ends one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from tacit.errors import InputError, TacitError, check_number
from tacit.release.runtime import Release
from tacit.release.stream import number, records, released

GAP = 1.5  # times the usual step is a gap


@dataclass
class _Buffer:
    """The latest samples of one person, at most one window, and how many more are passed over before the next."""

    samples: list[np.ndarray] = field(default_factory=list)
    times: list[tuple[float, Any]] = field(default_factory=list)
    skip: int = 0
    last: float | None = None
    gap: float = np.inf  # a longer step ends a stretch, while samples are passed over

    def clear(self) -> None:
        self.samples.clear()
        self.times.clear()
        self.skip = 0


class Sensors:
    """Windows of a stream of samples, released as soon as they are full.

    Parameters
    ----------
    release : of windows, shape (channels, length)
    stride : samples from the beginning of one window to that of the next
    user : field that names the person; None where all samples are one person's
    time : field of the time stamp, a number or an ISO date; None where samples are evenly spaced
    channels : fields of the signals, in the order of the bundle; by default all other fields of the first sample
    max_gap : a longer step in `time` ends a stretch, in seconds for dates
    most_users : buffers kept; beyond, the person not heard of for longest is forgotten

    Attributes
    ----------
    counts : samples, windows, refused, gaps, forgotten
    """

    def __init__(
        self,
        release: Release,
        *,
        stride: int | None = None,
        user: str | None = "user",
        time: str | None = "time",
        channels: Sequence[str] = (),
        max_gap: float | None = None,
        most_users: int = 10_000,
    ) -> None:
        shape = tuple(release.manifest["input"].get("shape", ()))
        if len(shape) != 2:
            what = f"records of shape {shape}" if shape else "rows of a table"
            raise InputError(f"windows need a bundle that takes (channels, length); this one takes {what}")
        self.length = shape[1]
        stride = max(1, self.length // 2) if stride is None else stride
        check_number("stride", stride, 1, whole=True)
        check_number("max_gap", max_gap, 0, optional=True)
        check_number("most_users", most_users, 1, whole=True)
        if channels and len(channels) != shape[0]:
            raise InputError(f"the bundle takes {shape[0]} channels; found {len(channels)} ({', '.join(channels)})")
        self.release, self.stride, self.user, self.time = release, stride, user, time
        self.channels, self.n_channels = list(channels), shape[0]
        self.max_gap, self.most_users = max_gap, most_users
        self.counts = dict.fromkeys(("samples", "windows", "refused", "gaps", "forgotten"), 0)
        self._buffers: OrderedDict[Any, _Buffer] = OrderedDict()

    def lines(self, lines: Iterable[str], form: str = "json") -> Iterator[dict[str, Any]]:
        """For every full window ``{"user", "from", "to", "release"}``; ``{"error", "line"}`` for a sample refused."""
        for at, record in records(lines, form):
            self.counts["samples"] += 1
            try:
                if isinstance(record, TacitError):
                    raise record
                window = self.add(record)
            except TacitError as error:
                self.counts["refused"] += 1
                yield {"error": str(error), "line": at}
                continue
            if window is not None:
                self.counts["windows"] += 1
                yield window

    def add(self, sample: Any) -> dict[str, Any] | None:
        """Take one sample in; the release of a window, where this sample fills one."""
        if not isinstance(sample, dict):
            raise InputError(f"a sample is an object of named values; found {type(sample).__name__}")
        if not self.channels:
            found = [name for name in sample if name not in (self.user, self.time)]
            if len(found) != self.n_channels:
                raise InputError(
                    f"the bundle takes {self.n_channels} channels, but the first sample has {len(found)} fields beside "
                    f"user and time; name the channels in order"
                )
            self.channels = found
        who = None if self.user is None else sample.get(self.user)
        if self.user is not None and (not isinstance(who, str | int) or isinstance(who, bool)):
            raise InputError(f"the sample has no {self.user!r} that is text or a whole number")
        if who not in self._buffers:
            if len(self._buffers) >= self.most_users:
                self._buffers.popitem(last=False)
                self.counts["forgotten"] += 1
            self._buffers[who] = _Buffer()
        self._buffers.move_to_end(who)
        buffer = self._buffers[who]
        try:
            when = self._when(sample, buffer)
            values = np.array([number(sample.get(c)) for c in self.channels])
            bad = np.flatnonzero(np.isnan(values))
            if len(bad):
                raise InputError(f"the sample has no number for channel {self.channels[bad[0]]!r}")
        except InputError:
            buffer.clear()  # what follows does not adjoin what came before
            raise
        if when is not None:
            if buffer.skip and buffer.last is not None and when[0] - buffer.last > buffer.gap:
                buffer.skip = 0
                self.counts["gaps"] += 1
            buffer.last = when[0]
        if buffer.skip:
            buffer.skip -= 1
            return None
        buffer.samples.append(values)
        if when is not None:
            buffer.times.append(when)
        if len(buffer.samples) < self.length:
            return None
        return self._full(who, buffer)

    def _full(self, who: Any, buffer: _Buffer) -> dict[str, Any] | None:
        if buffer.times:
            steps = np.diff([t for t, _ in buffer.times])
            buffer.gap = self.max_gap if self.max_gap is not None else GAP * float(np.median(steps))
            wide = np.flatnonzero(steps > buffer.gap)
            if len(wide):
                self.counts["gaps"] += len(wide)
                del buffer.samples[: wide[-1] + 1], buffer.times[: wide[-1] + 1]
                return None
        window = {
            **({} if self.user is None else {"user": who}),
            **({"from": buffer.times[0][1], "to": buffer.times[-1][1]} if buffer.times else {}),
            "release": released(self.release, np.stack(buffer.samples, axis=1)[None], who),
        }
        buffer.skip = max(0, self.stride - self.length)
        del buffer.samples[: self.stride], buffer.times[: self.stride]
        return window

    def _when(self, sample: dict[str, Any], buffer: _Buffer) -> tuple[float, Any] | None:
        """The time in seconds (or its own unit), and as it was written."""
        if self.time is None:
            return None
        written = sample.get(self.time)
        when = number(written)
        if np.isnan(when) and isinstance(written, str):
            try:
                when = datetime.fromisoformat(written).timestamp()
            except ValueError:
                when = np.nan
        if np.isnan(when):
            raise InputError(f"the sample has no {self.time!r} that is a number or an ISO date")
        if buffer.last is not None and when <= buffer.last:
            raise InputError(f"{self.time!r} is not later than the sample before; samples of a person come in order")
        return when, written
