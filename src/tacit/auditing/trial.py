"""A trial: one release of two parts, with all that is read of it, each computed once.

Attackers learn from the first part and are measured on the second. An audit, every point of a frontier, a noise curve
and the audit of a federation each make a `Trial` and hand it to an `AttackSuite`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from tacit.auditing.certificate import release_cells
from tacit.auditing.received import plain, plain_frame, received_pair, receiver_cells
from tacit.errors import InputError
from tacit.filters.mechanism import sees_sensitive, transformed
from tacit.labels import MISSING, Labels, stacked
from tacit.options import AuditOptions
from tacit.records.dataset import Dataset
from tacit.records.encoding import make_encoder

MIN_FRESH = 20  # rows of a part that were not seen before, to audit with
MIN_IN_SAMPLE = 60  # seen rows needed to say anything about them
Pair = tuple[Any, ...]  # of the part that attackers learn from, and of the part they are measured on


@dataclass(frozen=True, eq=False)
class TrialSettings(AuditOptions):
    """The settings of an audit; see `tacit.audit`."""

    level: float = 0.95
    seed: int = 0
    measurements: tuple[str, ...] = ("auto",)
    attacker_knows: tuple[Any, ...] | None = None
    alongside: tuple[str, ...] = ()
    views: tuple[Any, ...] = ()
    strong: bool = False  # the preset

    def wanted(self, measurement: str) -> bool | None:
        """Whether a measurement was named (True), left out (False), or follows its own rule (None)."""
        chosen = self.measurements
        if f"no-{measurement}" in chosen:
            return False
        return True if measurement in chosen or "all" in chosen else None if "auto" in chosen else False


@dataclass(frozen=True)
class Task:
    """One attribute to be read from one release: what attackers learn from, and what they are tested on."""

    attribute: str
    n_classes: int
    Xa: np.ndarray
    ya: np.ndarray
    ua: np.ndarray | None
    Xt: np.ndarray
    yt: np.ndarray
    ut: np.ndarray | None
    finite: bool
    shape: tuple[int, ...]  # of one released record: a row, a window or an image
    rows: np.ndarray  # of `test` whose label is known
    classes: tuple[str, ...]
    Ra: pd.DataFrame  # the released columns as a receiver holds them, bits and letters as they are
    Rt: pd.DataFrame


@dataclass(frozen=True)
class NumberTask:
    """One number to be read from one release."""

    attribute: str
    Xa: np.ndarray
    ya: np.ndarray
    ca: np.ndarray  # its class among those of about equal size, by which rows are spread over folds
    ua: np.ndarray | None
    Xt: np.ndarray
    yt: np.ndarray
    ut: np.ndarray | None
    finite: bool
    rows: np.ndarray  # of `test` whose value is known


@dataclass(frozen=True, eq=False)
class Trial:
    """Released records of two parts, their data, and which of them the filter has seen.

    Attributes
    ----------
    data, Z : of `attack` and of `test`: the data sets, and their releases as a receiver has them
    release : what released them: anything with ``transform``, a pair of arrays, or None for raw data
    seen : of both parts, the rows that the filter was fitted on
    outcomes : what attackers read from this very release, for attacks that go on from there

    Examples
    --------
    >>> import tacit
    >>> _, attack, test = tacit.load_dataset("quadrants", n=300).split()
    >>> [task.attribute for task in Trial.of(None, attack, test).tasks("sensitive")]
    ['shape']
    """

    data: tuple[Dataset, ...]
    Z: Pair
    release: Any = None
    seen: tuple[np.ndarray, ...] = ()
    settings: TrialSettings = TrialSettings()
    outcomes: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if not self.seen:
            object.__setattr__(self, "seen", tuple(np.zeros(len(d), dtype=bool) for d in self.data))

    @classmethod
    def of(
        cls,
        release: Any,
        attack: Dataset,
        test: Dataset,
        settings: TrialSettings | None = None,
        seen: tuple[np.ndarray, ...] | None = None,
    ) -> Trial:
        """Release both parts, once. `seen` says which rows the filter knows, where that was found out before."""
        settings, data = settings or TrialSettings(), (attack, test)
        check_pair(attack, test)
        Z = received_pair(*_released(release, data))
        for part, own, word in zip(Z, data, ("attack", "test"), strict=True):
            if len(part) != len(own):
                raise InputError(
                    f"the release of `{word}` has {len(part)} rows but the data has {len(own)}; release every row once"
                )
        Z = tuple(with_side_columns(part, own, settings.alongside) for part, own in zip(Z, data, strict=True))
        return cls(data, Z, release, seen or tuple(_seen(release, d) for d in data), settings)

    @property
    def attack(self) -> Dataset:
        return self.data[0]

    @property
    def test(self) -> Dataset:
        return self.data[1]

    @property
    def level(self) -> float:
        """Of each statement about a sensitive attribute: they hold together, so each spends its share of the error."""
        return 1 - (1 - self.settings.level) / max(1, self.test.sensitive.shape[1])

    # -- which rows -----------------------------------------------------------------------------

    def take(self, *rows: np.ndarray) -> Trial:
        """These rows of `attack` and of `test`."""
        return replace(
            self,
            data=tuple(d.take(r) for d, r in zip(self.data, rows, strict=True)),
            Z=tuple(take_rows(Z, r) for Z, r in zip(self.Z, rows, strict=True)),
            seen=tuple(s[r] for s, r in zip(self.seen, rows, strict=True)),
            outcomes=(),
        )

    @cached_property
    def n_seen(self) -> int:
        return int(sum(s.sum() for s in self.seen))

    @cached_property
    def fresh(self) -> bool:
        """Whether attackers can learn from rows that the filter never saw."""
        return all(_enough(d, ~s) for d, s in zip(self.data, self.seen, strict=True))

    def unseen(self) -> Trial:
        """The rows that the filter never saw."""
        return self.take(*(~s for s in self.seen)) if self.n_seen else self

    def versions(self) -> list[Trial]:
        """What a certificate must hold for: unseen rows; and all of them, where rows equal rows of the fit.

        Such rows may be other people's: the larger bound holds whichever they are.
        """
        return [self.unseen(), self] if self.n_seen else [self]

    def in_sample(self) -> Trial | None:
        """Rows of the fit, in two halves; None where there are too few."""
        train, release = self.settings.train, self.release
        if train is not None:
            if not hasattr(release, "transform"):
                raise InputError("train= needs a filter to release the rows; a pair of released arrays has none")
            Z = with_side_columns(transformed(release, train), train, self.settings.alongside)
            data: Dataset | None = train
        else:
            Z = stack_rows([take_rows(Z, s) for Z, s in zip(self.Z, self.seen, strict=True)])
            data = _joined([d.take(s) for d, s in zip(self.data, self.seen, strict=True) if s.any()])
        if data is None or len(data) < MIN_IN_SAMPLE:
            return None
        return Trial((data, data), (Z, Z), release, settings=self.settings).take(
            *data.split_rows((0.5, 0.5), random_state=self.settings.seed)
        )

    @property
    def crossing(self) -> int:
        """How many units stand in both parts, for the unit that separates them most finely."""
        a, t = (d.units for d in self.data)
        return 0 if a is None or t is None else min(len(np.intersect1d(a[k], t[k])) for k in a)

    # -- what is read of them -------------------------------------------------------------------

    def showing(self, Z: Sequence[Any]) -> Trial:
        """The same records with something else in the receiver's hands."""
        return replace(self, Z=tuple(Z), outcomes=())

    def asking(self, *sensitive: pd.DataFrame) -> Trial:
        """The same releases, with other labels to be read from them."""
        data = tuple(Dataset(d.X, None, s, d.units) for d, s in zip(self.data, sensitive, strict=True))
        other = replace(self, data=data, outcomes=())
        other.__dict__.update({name: getattr(self, name) for name in ("frames", "encoded", "finite", "_receiver")})
        return other

    @cached_property
    def frames(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        return plain_frame(self.Z[0]), plain_frame(self.Z[1])

    @cached_property
    def encoded(self) -> tuple[np.ndarray, ...]:
        """Both releases as standardized numbers, learned on the attackers' part."""
        encoder = make_encoder(plain(self.Z[0]))
        return tuple(encoder.transform(plain(Z)).reshape(len(Z), -1) for Z in self.Z)

    @cached_property
    def cells(self) -> np.ndarray | None:
        """The number of each record's release among the distinct ones, bit by bit; None where there are too many."""
        return release_cells(receiver_cells(*self.Z))

    @cached_property
    def labels(self) -> dict[str, Labels]:
        """By side ("y", "sensitive"), the labels of both parts, one after the other."""
        return {side: stacked(*(d.labels(side) for d in self.data)).present() for side in ("y", "sensitive")}

    def codes(self, side: str, column: int) -> tuple[np.ndarray, np.ndarray]:
        """The classes of one label column in both parts."""
        codes, n = self.labels[side].codes[:, column], len(self.attack)
        return codes[:n], codes[n:]

    @cached_property
    def _tasks(self) -> dict[str, list[Task]]:
        return {}

    def tasks(self, side: str) -> list[Task]:
        """One task for each column of `y` or of `sensitive` that has classes; numbers are `number_tasks`."""
        if side not in self._tasks:
            labels = self.labels[side]
            self._tasks[side] = [self.task(side, i) for i in range(len(labels)) if labels.number(i) is None]
        return self._tasks[side]

    def number_tasks(self, side: str) -> list[NumberTask]:
        """One task for each column of `y` or of `sensitive` that is a number."""
        labels = self.labels[side]
        return [self.number_task(side, i) for i in range(len(labels)) if labels.number(i) is not None]

    def number_task(self, side: str, i: int) -> NumberTask:
        """The task of one column of numbers."""
        name, values, n = getattr(self.attack, side).columns[i], self.labels[side].number(i), len(self.attack)
        assert values is not None
        ka, kt = ~np.isnan(values[:n]), ~np.isnan(values[n:])
        ya, yt = values[:n][ka], values[n:][kt]
        if len(np.unique(ya)) < 2 or len(np.unique(yt)) < 2:
            raise InputError(
                f"{name!r} has {len(np.unique(ya))} different values in `attack` and {len(np.unique(yt))} in `test`; "
                f"attackers need two in both: use larger parts"
            )
        (Xa, Xt), (ca, _) = self.encoded, self.codes(side, i)
        ua, ut = (None if (u := d.units_of(name)) is None else u[k] for d, k in zip(self.data, (ka, kt), strict=True))
        return NumberTask(name, Xa[ka], ya, ca[ka], ua, Xt[kt], yt, ut, self.finite, np.flatnonzero(kt))

    def task(self, side: str, i: int) -> Task:
        """The task of one column."""
        name, classes = getattr(self.attack, side).columns[i], self.labels[side].classes[i]
        ya, yt = self.codes(side, i)
        ka, kt = ya != MISSING, yt != MISSING
        if len(np.unique(ya[ka])) < 2 or kt.sum() < 2:
            raise InputError(
                f"{name!r} has {len(np.unique(ya[ka]))} classes in `attack` and {kt.sum()} known labels "
                f"in `test`; attackers need two classes and two rows: use larger parts"
            )
        Xa, Xt = self.encoded
        Ra, Rt = self._receiver
        ua, ut = (None if (u := d.units_of(name)) is None else u[k] for d, k in zip(self.data, (ka, kt), strict=True))
        return Task(
            name, len(classes), Xa[ka], ya[ka], ua, Xt[kt], yt[kt], ut, self.finite, np.shape(self.Z[1])[1:],
            np.flatnonzero(kt), tuple(map(str, classes)), Ra if ka.all() else Ra[ka], Rt if kt.all() else Rt[kt],
        )  # fmt: skip

    @cached_property
    def finite(self) -> bool:
        """Whether there are few distinct releases, so that they can be counted.

        Both as encoded and as received: the encoder gives all rare words of a column one value, a receiver does not.
        """
        return release_cells(np.concatenate(self.encoded)) is not None and self.cells is not None

    @cached_property
    def _receiver(self) -> Pair:
        """The tables that a receiver holds: columns by position, types and bits as they are."""
        return tuple(f.set_axis(range(f.shape[1]), axis=1) for f in self.frames)


def _released(release: Any, data: tuple[Dataset, ...]) -> Pair:
    if release is None:
        return data[0].X, data[1].X
    if isinstance(release, (tuple, list)):
        if len(release) != 2:
            raise InputError(
                f"pass a pair of released arrays, one for `attack` and one for `test`; found {len(release)}"
            )
        return release[0], release[1]
    if not hasattr(release, "transform"):
        raise InputError(
            f"{release!r} has no transform; pass a filter, a pair of released arrays, or None for raw data"
        )
    return released_parts(release, data)


def released_parts(release: Any, data: tuple[Dataset, ...]) -> Pair:
    """Both parts as they leave.

    A release that looks at the sensitive columns gets both as the one file that they are parts of: equal records of a
    file have draws of their own, those of two files share them, and shared draws are no independent observations.
    """
    if not sees_sensitive(release):
        return tuple(transformed(release, d) for d in data)
    Z = transformed(release, _joined(list(data)))  # type: ignore[arg-type]
    return Z.iloc[: len(data[0])].reset_index(drop=True), Z.iloc[len(data[0]) :].reset_index(drop=True)


def with_side_columns(Z: Any, data: Dataset, alongside: Sequence[str]) -> Any:
    """The release with the columns that travel beside it."""
    if not alongside:
        return Z
    if not isinstance(data.X, pd.DataFrame):
        raise InputError(
            f"alongside names {alongside[0]!r}, but X has no named columns; pass X as a DataFrame, or put the column "
            f"into the release yourself: tacit.audit((released_attack, released_test), ...)"
        )
    missing = [c for c in alongside if c not in data.X]
    if missing:
        label = next((s for s, f in (("a target", data.y), ("sensitive", data.sensitive)) if missing[0] in f), None)
        remedy = (
            f"it is {label}; to send it along, put it into the released tables and audit those: "
            f"tacit.audit((released_attack, released_test), ...)"
            if label
            else f"the columns are {', '.join(map(str, data.X.columns))}"
        )
        raise InputError(f"alongside names {missing[0]!r}, which is not a column of X: {remedy}")
    table = plain_frame(Z)
    beside = data.X[list(alongside)].reset_index(drop=True)
    beside = beside.set_axis([f"{c} (alongside)" if c in table else c for c in beside], axis=1)  # released as it is too
    return pd.concat([table, beside], axis=1)


def _seen(release: Any, data: Dataset) -> np.ndarray:
    """Rows (or whole units) that the filter was fitted on; a pipeline is settings through its filter."""
    X = data.X
    if hasattr(release, "named_steps"):
        for _, step in release.steps:
            if hasattr(step, "seen"):
                return step.seen(X, data.units_of())
            if hasattr(step, "transform"):
                X = step.transform(X)
    return release.seen(X, data.units_of()) if hasattr(release, "seen") else np.zeros(len(data), dtype=bool)


def can_tell(release: Any) -> bool:
    """Whether a release can say which rows it was fitted on."""
    return hasattr(release, "seen") or any(hasattr(step, "seen") for _, step in getattr(release, "steps", []))


def has_noise(release: Any) -> bool:
    """Whether releases carry noise: our filters have a key for it, others may say so by ``noise``."""
    if hasattr(release, "noise_key"):
        return release.noise_key is not None
    return bool(getattr(release, "noise", None))


def _enough(data: Dataset, fresh: np.ndarray) -> bool:
    """Whether attackers can learn from the fresh rows: all of them, or some with two classes of every label."""
    if fresh.all():
        return True
    labels = pd.concat([data.y, data.sensitive], axis=1)[fresh]
    return fresh.sum() >= MIN_FRESH and all(labels[c].nunique() > 1 for c in labels)


def take_rows(Z: Any, rows: np.ndarray) -> Any:
    rows = np.flatnonzero(rows) if rows.dtype == bool else rows
    return Z.iloc[rows] if isinstance(Z, pd.DataFrame) else np.asarray(Z)[rows]


def stack_rows(parts: list[Any]) -> Any:
    return pd.concat(parts, ignore_index=True) if isinstance(parts[0], pd.DataFrame) else np.concatenate(parts)


def _joined(parts: list[Dataset]) -> Dataset | None:
    if not parts:
        return None
    first = parts[0]
    units = None if first.units is None else {k: np.concatenate([p.units[k] for p in parts]) for k in first.units}
    return Dataset(
        stack_rows([p.X for p in parts]),
        pd.concat([p.y for p in parts]),
        pd.concat([p.sensitive for p in parts]),
        units,
        first.name,
        first.modality,
    )


def check_pair(attack: Dataset, test: Dataset) -> None:
    """Refuse parts that are not of one data set."""
    for part, word in ((attack, "attack"), (test, "test")):
        if not isinstance(part, Dataset):
            raise InputError(f"`{word}` is a {type(part).__name__}; pass a tacit.Dataset")
    if (attack.units is None) != (test.units is None):
        raise InputError(
            "only one of `attack` and `test` has units; give both the same kind, or records count as people"
        )
    for side in ("y", "sensitive"):
        a, t = list(getattr(attack, side).columns), list(getattr(test, side).columns)
        if a != t:
            raise InputError(f"`attack` has the {side} columns {a} but `test` has {t}; use parts of one data set")
