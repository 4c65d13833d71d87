"""A data set with its targets, its sensitive attributes and its units, and how to split it."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tacit.errors import InputError, NoColumn
from tacit.labels import (
    Labels,
    as_said,
    declared_number,
    encode_labels,
    in_pandas,
    joint_codes,
    label_frame,
    looks_continuous,
    said_numeric,
)

PRODUCT = " x "  # the name, among the classes of a data set, of all sensitive columns together


@dataclass(frozen=True, eq=False)
class Dataset:
    """Records, what must keep working (`y`), what must not be recoverable (`sensitive`).

    Parameters
    ----------
    X : DataFrame or array; rows (n, columns), windows (n, channels, length) or images (n, c, h, w)
    y, sensitive : one column or a table of named columns; NaN or None means unknown
    units : the independent thing each record belongs to (a person, a bout). One label per record,
        or a mapping from attribute name to such labels where the unit differs per attribute; "rows" says that
        every record is another person's
    name, modality : for reports; modality is "table", "window" or "image"
    official : the part each record belongs to from the start ("train", "test", "node 3"),
        for ``split("official")``
    rows : positions of the records in the data set this one was taken from
    classes : mapping from a target or sensitive column to all classes it can have, also those that no record here
        has. Parts of a data set know the classes of the whole
    numeric : names of target and sensitive columns that are numbers, or a mapping from names to whether they are.
        Without it a column of many different numbers is one. A number's column has pandas' type "Float64" here

    Examples
    --------
    >>> import tacit
    >>> data = tacit.load_dataset("digits")
    >>> train, attack, test = data.split((.5, .2, .3), random_state=0)
    >>> len(train) + len(attack) + len(test) == len(data)
    True
    """

    X: Any
    y: Any
    sensitive: Any
    units: Any = None
    name: str | None = None
    modality: str | None = None
    official: Any = None
    rows: Any = None
    classes: Any = None
    numeric: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", in_pandas(self.X))
        X = self.X.reset_index(drop=True) if isinstance(self.X, pd.DataFrame) else np.asarray(self.X)
        if X.ndim < 2:
            raise InputError(f"X has {X.ndim} dimensions; pass rows (n, columns), windows or images")
        n = len(X)
        if n == 0:
            raise InputError(f"data set {self.name or ''!s} has no record; pass at least one row")
        object.__setattr__(self, "X", X)
        for field, what in (("y", "target"), ("sensitive", "sensitive")):
            given = getattr(self, field)
            frame = pd.DataFrame(index=range(n)) if given is None else label_frame(given, what)
            _check_length(len(frame), n, field)
            if self.classes is None or self.rows is None:  # a part of a data set has the types of the whole
                frame = _typed(frame, self.numeric or (), what)
            object.__setattr__(self, field, frame)
        units = np.arange(n) if isinstance(self.units, str) and self.units == "rows" else self.units
        object.__setattr__(self, "units", unit_columns(units, n))
        if self.official is not None:
            _check_length(len(self.official), n, "official")
            object.__setattr__(self, "official", np.asarray(self.official))
        object.__setattr__(self, "rows", np.arange(n) if self.rows is None else np.asarray(self.rows))
        if self.modality is None:
            kind = {2: "table", 3: "window", 4: "image"}.get(np.ndim(X), "table")
            object.__setattr__(self, "modality", kind)

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        parts = [f"{len(self):,} records", f"X {tuple(self.X.shape)}", f"targets {list(self.y.columns)}"]
        parts.append(f"sensitive {list(self.sensitive.columns)}")
        if self.units is not None:
            first = next(iter(self.units.values()))
            parts.append(f"{len(np.unique(first)):,} units")
        return f"Dataset({self.name or 'unnamed'}: {', '.join(parts)})"

    def _repr_html_(self) -> str:
        """What a notebook shows: what is kept and hidden, and the first rows of a table."""
        labels = pd.concat([self.y, self.sensitive], axis=1)
        role = ["target"] * self.y.shape[1] + ["sensitive"] * self.sensitive.shape[1]
        about = pd.DataFrame({"": role, "values": labels.nunique(), "missing": labels.isna().sum()})
        rows = self.X.head(3).to_html(index=False, max_cols=12) if isinstance(self.X, pd.DataFrame) else ""
        return f"<p><b>{html.escape(repr(self))}</b></p>{about.to_html()}{rows}"

    def take(self, rows: np.ndarray) -> Dataset:
        """The records at these positions, or where the mask is true."""
        rows = np.asarray(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        part = replace(
            self,
            X=self.X.iloc[rows] if isinstance(self.X, pd.DataFrame) else self.X[rows],
            y=self.y.iloc[rows],
            sensitive=self.sensitive.iloc[rows],
            units=None if self.units is None else {k: v[rows] for k, v in self.units.items()},
            official=None if self.official is None else self.official[rows],
            rows=self.rows[rows],
            classes={c: self.classes_of(c) for c in [*self.y.columns, *self.sensitive.columns, PRODUCT]},
        )
        encoded, own = self._encoded()
        part.__dict__["_shared"] = encoded, rows if own is None else own[rows]
        return part

    def labels(self, side: str) -> Labels:
        """The codes of `y` or of `sensitive`, with the classes of the whole that this is a part of.

        A column is encoded once, for a data set and all parts taken from it.
        """
        encoded, rows = self._encoded()
        if not isinstance(encoded[side], Labels):
            encoded[side] = encode_labels(
                encoded[side], side, len(encoded[side]), min_classes=0, numbers=True, looked=True
            )
        return encoded[side] if rows is None else encoded[side].take(rows)

    def _encoded(self) -> tuple[dict[str, Any], np.ndarray | None]:
        """Labels by side, as a table until somebody asks, of the data set this was taken from; and its rows there."""
        return self.__dict__.setdefault("_shared", ({"y": self.y, "sensitive": self.sensitive}, None))

    def classes_of(self, column: str) -> list[Any]:
        """All classes of a target or sensitive column: those declared, and those that occur here.

        `PRODUCT` stands for the combinations of all sensitive columns, as tuples.
        """
        declared = list((self.classes or {}).get(column, []))
        found = observed_classes(self.by_class("sensitive") if column == PRODUCT else self._labels_of(column))
        return [*declared, *(c for c in found if c not in set(declared))]

    def _labels_of(self, column: str) -> pd.DataFrame:
        return self.by_class("y" if column in self.y else "sensitive", column)

    def is_number(self, column: str) -> bool:
        """Whether a target or sensitive column is a number."""
        return declared_number((self.y if column in self.y else self.sensitive)[column])

    def by_class(self, side: str, *columns: str) -> pd.DataFrame:
        """The columns of `y` or of `sensitive`, or some of them; numbers as their classes of about equal size."""
        frame = getattr(self, side)
        frame = frame[list(columns)] if columns else frame
        numbers = [c for c in frame if declared_number(frame[c])]
        if not numbers:
            return frame
        labels = self.labels(side)
        words = {}
        for c in numbers:
            i = labels.names.index(str(c))
            known: list[Any] = [*labels.classes[i].tolist(), None]  # -1, missing, is the last
            words[str(c)] = np.array(known, dtype=object)[labels.codes[:, i]]
        return frame.assign(**words)

    def units_of(self, attribute: str | None = None) -> np.ndarray | None:
        """The unit of each record, for one attribute where units differ; None without units."""
        if self.units is None:
            return None
        return self.units.get(attribute, next(iter(self.units.values())))

    def split(
        self, parts: Sequence[float] | str = (0.5, 0.2, 0.3), random_state: int = 0, by: str | None = None
    ) -> tuple[Dataset, ...]:
        """Cut into parts of these sizes; no unit ever crosses, labels are spread evenly.

        Parameters
        ----------
        parts : fractions, one per part (they are normalized), or ``"official"``
        random_state : same seed, same parts
        by : where units differ per attribute, the attribute whose units decide (the first by default)
        """
        if isinstance(parts, str):
            return self._official_parts(parts)
        return tuple(self.take(rows) for rows in self.split_rows(parts, random_state, by))

    def split_rows(self, parts: Sequence[float], random_state: int = 0, by: str | None = None) -> list[np.ndarray]:
        """The positions of the records in each part of a `split`."""
        try:
            fractions = np.asarray(parts, dtype=float)
        except (TypeError, ValueError):
            fractions = np.empty(0)
        if fractions.ndim != 1 or len(fractions) < 1 or not (fractions > 0).all():
            raise InputError(f"split needs positive fractions, one per part, such as (.5, .2, .3); found {parts!r}")
        both = [self.by_class("y"), self.by_class("sensitive")]
        labels = joint_codes(
            np.column_stack([pd.factorize(c)[0] for _, c in pd.concat(both, axis=1).items()])
            if self.y.shape[1] + self.sensitive.shape[1]
            else np.zeros((len(self), 1), dtype=int)
        )
        part = allot(labels, fractions, random_state, units=self.units_of(by))
        return [np.flatnonzero(part == i) for i in range(len(fractions))]

    def _official_parts(self, word: str) -> tuple[Dataset, ...]:
        if word != "official":
            raise InputError(f"split takes fractions or 'official'; found {word!r}")
        if self.official is None:
            raise InputError(f"data set {self.name} has no official split; pass fractions such as (.5, .2, .3)")
        usual = ["train", "validation", "test"]
        names = sorted(pd.unique(self.official), key=lambda n: usual.index(n) if n in usual else len(usual))
        return tuple(self.take(self.official == name) for name in names)


def observed_classes(labels: pd.DataFrame) -> list[Any]:
    """The classes of one label column, or the combinations of several as tuples; of rows that miss none."""
    known = labels.dropna().drop_duplicates()
    return known.iloc[:, 0].tolist() if labels.shape[1] == 1 else list(known.itertuples(index=False, name=None))


def allot(labels: np.ndarray, fractions: np.ndarray, seed: int, units: np.ndarray | None = None) -> np.ndarray:
    """Give every record a part number: shuffled, by whole units, labels spread over the parts.

    Units are visited label by label; each goes to the part that is furthest behind its share.
    """
    rng = np.random.default_rng(seed)
    fractions = np.asarray(fractions, dtype=float) / np.sum(fractions)
    unit = np.arange(len(labels)) if units is None else pd.factorize(np.asarray(units))[0]
    n_units = int(unit.max()) + 1
    if n_units < len(fractions):
        raise InputError(f"cannot cut {n_units} units into {len(fractions)} parts; pass more units or fewer parts")
    size = np.bincount(unit, minlength=n_units)
    first = np.full(n_units, -1)
    first[unit[::-1]] = labels[::-1]  # a unit's label is that of its first record
    order = np.lexsort((rng.permutation(n_units), first))
    part = np.empty(n_units, dtype=np.int64)
    have, due = np.zeros(len(fractions)), 0.0
    for u in order:
        due += size[u]
        behind = fractions * due - have
        part[u] = best = int(np.argmax(behind))
        have[best] += size[u]
    if len(np.unique(part)) < len(fractions):  # very uneven units: give every part one
        part[rng.permutation(n_units)[: len(fractions)]] = np.arange(len(fractions))
    return part[unit]


def cross_folds(codes: np.ndarray, n_folds: int, seed: int, units: np.ndarray | None) -> np.ndarray:
    """A fold number per record, for parts that must not see it (nor its unit); label columns are spread over folds."""
    n_units = len(codes) if units is None else len(np.unique(units))
    return allot(joint_codes(codes), np.ones(max(2, min(n_folds, n_units))), seed, units)


def read_table(
    path: str | Path,
    target: str | Sequence[str],
    sensitive: str | Sequence[str],
    unit: str | None = None,
    drop: Sequence[str] = (),
    bins: Mapping[str, int] | int | None = None,
    keep_sensitive: bool = False,
    numeric: Any = None,
) -> Dataset:
    """Read a file as a data set: CSV, Parquet, Arrow, Excel, a folder of Parquet, SQLite or DuckDB.

    Parameters
    ----------
    target, sensitive : column names
    unit : column that says which records belong together (a person, a household); not an input
    drop : columns that are no inputs (names, identifiers)
    bins : cut numeric target and sensitive columns into this many classes of equal size; a mapping from
        column to number, or one number for all that have more values than that
    keep_sensitive : leave the sensitive columns among the inputs as well
    numeric : target and sensitive columns that are numbers, or a mapping from names to whether they are; without it a
        column of many different numbers is one, and a whole number of up to 64 values is a class
    """
    path = Path(path)
    return as_dataset(read_file(path), path.name, target, sensitive, unit, drop, bins, keep_sensitive, numeric=numeric)


def as_dataset(
    table: pd.DataFrame,
    file: str,
    target: str | Sequence[str],
    sensitive: str | Sequence[str],
    unit: str | None = None,
    drop: Sequence[str] = (),
    bins: Mapping[str, int] | int | None = None,
    keep_sensitive: bool = False,
    rows: np.ndarray | None = None,
    numeric: Any = None,
) -> Dataset:
    """The same of a table that was read from a file of this name; `rows` says where its rows stand there."""
    targets = [target] if isinstance(target, str) else list(target)
    secrets = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    wanted = {**dict.fromkeys(targets, "target"), **dict.fromkeys(secrets, "sensitive")}
    wanted |= {unit: "unit"} if unit else {}
    wanted |= dict.fromkeys(drop, "drop")
    for column, role in wanted.items():
        if column not in table.columns:
            raise NoColumn(file, column, list(table.columns), f" ({role})")
    _bin(table, [*targets, *secrets], bins, file)
    for column in said_numeric(numeric):
        if column not in (*targets, *secrets):
            raise InputError(f"numeric names {column!r}, which is not a target or sensitive column of {file}")
    out = {*targets, *drop, *([unit] if unit else []), *([] if keep_sensitive else secrets)}
    X = table[[c for c in table.columns if c not in out]]
    if X.shape[1] == 0:
        raise InputError(f"{file} has no input column left; every column is a target, sensitive or dropped")
    units = table[unit].to_numpy() if unit else None
    name = file.split(".")[0]
    return Dataset(X, table[targets], table[secrets], units, name=name, modality="table", rows=rows, numeric=numeric)


def _bin(table: pd.DataFrame, columns: list[str], bins: Mapping[str, int] | int | None, file: str) -> None:
    """Cut the numeric ones of these columns into classes, as asked."""
    named = bins if isinstance(bins, Mapping) else {}
    for column, count in [*named.items(), *([("bins", bins)] if isinstance(bins, int) else [])]:
        if not isinstance(count, int) or count < 2:
            raise InputError(f"bins must be whole numbers of at least 2; found {count!r} for {column!r}")
        if column in named and (column not in columns or not pd.api.types.is_numeric_dtype(table[column])):
            raise InputError(f"bins names {column!r}, which is not a numeric target or sensitive column of {file}")
    for column in columns:
        values = table[column]
        numeric = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
        every = bins if isinstance(bins, int) and numeric and values.nunique() > bins else None
        classes = named.get(column) or every
        if classes is not None:
            table[column] = pd.qcut(values, classes, duplicates="drop").astype(str).where(values.notna())


def read_file(path: Path) -> pd.DataFrame:
    """A file as a table; see `tacit.records.table_files`."""
    from tacit.records.table_files import open_table  # what reads files is not loaded by `import tacit`

    return open_table(path).table


def _typed(frame: pd.DataFrame, numeric: Any, what: str) -> pd.DataFrame:
    """Label columns whose types say which are numbers, also of a part that has few of their values."""
    if frame.columns.has_duplicates:
        return frame  # refused where it is encoded
    frame = as_said(frame, numeric, what)
    found = [c for c in frame if not declared_number(frame[c]) and looks_continuous(frame[c])]
    return frame.assign(**{str(c): frame[c].infer_objects().astype("Float64") for c in found}) if found else frame


def _check_length(found: int, expected: int, what: str) -> None:
    if found != expected:
        raise InputError(f"{what} has {found} rows but X has {expected}; pass one value per record")


def unit_columns(units: Any, n: int) -> dict[str, np.ndarray] | None:
    """Checked units by attribute; "*" where they are the same for all."""
    if units is None:
        return None
    if isinstance(units, pd.DataFrame):
        units = {str(c): units[c] for c in units.columns}
    columns = units if isinstance(units, Mapping) else {"*": units}
    out = {}
    for name, values in columns.items():
        if np.ndim(values) != 1:
            raise InputError("units must be one label per record (or a mapping from attribute to such labels)")
        _check_length(len(values), n, f"units {name!r}" if name != "*" else "units")
        array = np.asarray(values)
        missing = pd.isna(array)
        if missing.any():
            raise InputError(f"units, row {int(np.flatnonzero(missing)[0])}: missing; every record needs its unit")
        out[name] = array
    return out
