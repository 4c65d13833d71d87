"""Run a bundle where the data lives: onnxruntime and numpy, nothing else.

Noise is not part of the bundle's graph where it is added to the code: the sum is rounded to a grid, which must be
done in double precision, and the graph alone can then be compared with the filter to the last digits. Where a filter
takes noise in beside the record, it is an input of the graph. Either way it is drawn here, keyed by the record and by
whose it is (`tacit.noise.keyed`).
"""

from __future__ import annotations

import base64
import copy
import dataclasses
import functools
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from tacit.errors import BundleError, InputError, OtherKeyWarning, TacitWarning
from tacit.files import onnx_session
from tacit.noise.keyed import (
    Bounded,
    Finite,
    Noise,
    Numbered,
    Numbers,
    Occurrences,
    Support,
    canonical,
    new_key,
    unit_name,
)
from tacit.records.cells import Problem, as_array
from tacit.records.fingerprints import fingerprints, looked, sketched, sketched_units
from tacit.records.schema import TIMES, columns_of, schema_of
from tacit.release.bundle import Bundle, parse_json, read_bundle
from tacit.release.keys import bound_noise, is_key_of_fit, read_key
from tacit.release.manifest import ENCODER, check_expiry, graph_inputs
from tacit.report.foreign import on_screen
from tacit.report.report import Report

CHUNK = 2**17  # numbers of raw records that are released at a time: what a network makes of them stays in the cache
MEMORY = 2**26  # bytes that the graph's values for them may take together, at most
CHUNK_ROWS = 4096  # records of them at most: hidden layers are wider than few columns are
NO_KEY = (
    "this release adds noise, and no noise_key was given: a fresh key was drawn. Within this session a record always "
    "gets the same noise; in another session it gets other noise, and whoever collects both can average them. Keep one "
    "key (tacit release key noise FILE) and pass it as noise_key"
)

OTHER_KEY = (
    "noise_key is not the key that {name} was fitted with, so its noise differs from the filter's own. A receiver who "
    "has releases of the same records under both keys can average them. Pass the key that was saved with the bundle "
    "if that was not meant"
)
STRANGE = "this combination was not in the fit, so nothing is known of how to hide it; leave such rows out"


def load(
    path: str | Path,
    trusted_key: str | Path | bytes | None = None,
    *,
    name: str | None = None,
    trust: bool = False,
    noise_key: bytes | str | Path | None = None,
    owner_key: bytes | str | Path | None = None,
    refuse_expired: bool = False,
    min_version: int | None = None,
) -> Release:
    """Load a bundle that you wrote on this machine, that a trusted key has signed, or that you trust.

    Sizes, hashes, format and schema are checked first.

    Parameters
    ----------
    path : the file NAME.tacit
    trusted_key : a public key (a file, or its 32 bytes); anything that this key has not signed is refused
    name : with a trusted key, the name that the bundle must be signed under; by default that of the file
    trust : load an unsigned bundle that another user or another machine wrote. It holds no code, and its graphs may
        use listed operators only. It can still release everything, and a hostile graph can end the process
    noise_key : the owner's secret, for releases with noise: bytes, or a file made by ``tacit release key``.
        The same key and record give the same noise. Without one a fresh key is drawn
    owner_key : the owner's secret, ``f.owner_key`` of the filter: with it the release has ``seen``, which tells the
        rows it was fitted on, and an audit of it on those very rows is noticed
    refuse_expired : raise where the bundle's last day of use is over, instead of a warning
    min_version : with a trusted key, refuse older versions of a signed bundle. Those older than one that was seen
        before are refused anyway, where the key is a file: FILE.seen next to it remembers

    Raises
    ------
    UntrustedBundle
        Where you have not written it, no trusted key was given, and `trust` is False
    BundleError
        Where it is damaged, not signed as expected, or not what its manifest says

    Examples
    --------
    >>> import tempfile, tacit
    >>> data = tacit.load_dataset("quadrants", n=400)
    >>> f = tacit.baselines.LinearARL().fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = tacit.save(f, f"{folder}/plane.tacit")
    ...     release = tacit.load(path)
    >>> release.transform(data.X).shape
    (400, 1)
    """
    bundle = read_bundle(path, trusted_key, name=name, min_version=min_version, trust=trust)
    check_expiry(bundle.manifest, bundle.name, refuse_expired)
    if owner_key is not None:
        release: Release = OwnRelease(bundle, noise_key, owner_key=read_key(owner_key, "owner_key"))
    else:
        release = Release(bundle, noise_key)
    if release.noise is not None and noise_key is not None and not is_key_of_fit(bundle.manifest, release._key or b""):
        warnings.warn(OTHER_KEY.format(name=bundle.name), OtherKeyWarning, stacklevel=2)
    return release


@dataclass(frozen=True)
class Quarantined:
    """A release of the records that fit the schema; the others are named.

    Attributes
    ----------
    release : of the good records
    rows : their positions among the records that came in
    problems : what is wrong with the others, by row and column
    """

    release: Any
    rows: np.ndarray
    problems: list[Problem]

    @property
    def bad_rows(self) -> np.ndarray:
        return np.unique([p.row for p in self.problems]).astype(np.int64)


class Release:
    """A bundle that is ready to release records. Has `transform`, so it can be audited like a filter.

    Attributes
    ----------
    manifest : what goes in, what comes out, how it was made
    audit : the audit that travels with the bundle, as plain data; None if there is none
    report : the same as a `tacit.report.Report`
    card : the model card, Markdown
    """

    def __init__(self, bundle: Bundle, noise_key: bytes | str | Path | None = None) -> None:
        self.manifest, self.name = bundle.manifest, bundle.name
        self.audit = parse_json(bundle.members["audit.json"], "audit.json")
        self.card = on_screen(bundle.members["card.md"].decode(errors="replace"))
        self._bundle = bundle
        self._schema = schema_of(self.manifest["input"])
        declared = self.manifest["noise"]
        self._noise: Noise | None = None
        self._radius: float | None = None
        if declared is not None:
            fields = {f.name: declared[f.name] for f in dataclasses.fields(Noise)}
            self._noise = Noise(**fields | {"mechanism": bytes.fromhex(declared["mechanism"])})
            self._radius = declared["radius"]
        self._key: bytes | None = None if noise_key is None else read_key(noise_key)
        self._bound: tuple[Noise, bytes] | None = None  # as it is drawn, and under which key; from the first draw on
        self._told_unusual = False
        self._session = self._open_graph()

    # -- releasing ------------------------------------------------------------------------------

    def transform(
        self,
        X: Any,
        units: Sequence[Any] | None = None,
        *,
        sensitive_features: Any = None,
        y: Any = None,
        on_error: str = "raise",
        file: Numbers | None = None,
    ) -> Any:
        """Release records.

        Parameters
        ----------
        X : an array, a dict of columns, a DataFrame or an Arrow table. Columns are found by name; others are not read
        units : for releases with noise, whose record each is: people's draws are then independent of each other's,
            and the same record of the same person always gets the same draw. Without units, equal records of one
            call are told apart by their order, but share their draws with equal records of another call
        sensitive_features, y : for releases that look at them (`sees_sensitive`), the sensitive columns and the
            targets, where X does not hold them
        file : for releases with noise and without units, counts equal records from one call to the next, so that
            several calls release one file (`tacit.release.Occurrences`)
        on_error : "raise" names the first record that does not fit; "quarantine" sets those aside, releases the
            others and returns both (`Quarantined`)
        """
        if on_error not in ("raise", "quarantine"):
            raise InputError(f"on_error must be 'raise' or 'quarantine'; found {on_error!r}")
        records = self._whole(X, sensitive_features, y)
        feeds, n, problems = self._schema.check(records)
        if units is not None and len(units) != n:
            raise InputError(f"units has {len(units)} entries but there are {n} records; pass one for each")
        if problems and on_error == "raise":
            more = len({p.row for p in problems}) - 1
            raise InputError(f"{problems[0]}" + (f" (and {more:,} more rows)" if more else ""))
        good = np.ones(n, dtype=bool)
        good[[p.row for p in problems]] = False
        if problems:
            feeds = {k: v[good] for k, v in feeds.items()}
        kept = None if units is None else [u for u, g in zip(units, good, strict=True) if g]
        self._note_unusual(feeds)
        numbers = self._run(feeds, kept, file)
        if strange := self._strange(numbers):
            if on_error == "raise":
                raise InputError(str(strange[0]))
            rows = np.flatnonzero(good)
            numbers = np.delete(numbers, [p.row for p in strange], axis=0)
            strange = [replace(p, row=int(rows[p.row])) for p in strange]
            good[[p.row for p in strange]] = False
            problems += strange
        out = self._with_names(numbers, records, X, good)
        if on_error == "raise":
            return out
        return Quarantined(out, np.flatnonzero(good), sorted(problems, key=lambda p: (p.row, p.column)))

    def numbers(
        self,
        X: Any,
        units: Sequence[Any] | None = None,
        file: Numbers | None = None,
        sensitive_features: Any = None,
        y: Any = None,
    ) -> np.ndarray:
        """The release as a service takes it: as `transform`, but rows and values of the bundle's table as numbers."""
        found = self._run(self._checked(self._whole(X, sensitive_features, y)), units, file)
        if problems := self._strange(found):
            raise InputError(str(problems[0]))
        return found

    def _strange(self, numbers: np.ndarray) -> list[Problem]:
        """Records of a table that the graph could not hide: it knows no law for their sensitive values."""
        if not self._columns_out or not len(numbers):
            return []
        who = ", ".join(self.sensitive_names)
        return [Problem(int(row), who, STRANGE) for row in np.flatnonzero(numbers.min(axis=1) < 0)]

    def draw_names(self, X: Any, units: Sequence[Any] | None = None) -> list[bytes] | None:
        """What names the noise of each record: two records of one name share their draw. None without noise."""
        return None if self._noise is None else self._noise.names(self._encoded(self._checked(X)), units)

    def count(self, X: Any, file: Occurrences) -> Numbered | None:
        """Numbers that `file` gives to those of these records that fit, for a process that releases them elsewhere."""
        if self._noise is None:
            return None
        feeds, n, problems = self._schema.check(X)
        good = np.setdiff1d(np.arange(n), [p.row for p in problems])
        if not len(good):
            return Numbered(good)
        encoded = self._encoded({k: v[good] for k, v in feeds.items()})
        return Numbered(file.number(canonical(encoded.reshape(len(good), -1), self._noise.resolution)))

    def _checked(self, X: Any) -> dict[str, np.ndarray]:
        feeds, _, problems = self._schema.check(X)
        if problems:
            raise InputError(str(problems[0]))
        return feeds

    def prints(self, X: Any, *, sensitive_features: Any = None, y: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Which records fit, and a 64-bit hash of each as this bundle reads and carries it, however it came."""
        whole = self._whole(X, sensitive_features, y)
        feeds, n, problems = self._schema.check(whole)
        good = np.setdiff1d(np.arange(n), [p.row for p in problems])
        flat = {name: values[good].reshape(len(good), -1) for name, values in feeds.items()}
        columns = {f"{name} {i}": column for name in sorted(flat) for i, column in enumerate(flat[name].T)}
        carried, named = self.manifest["output"].get("carried"), columns_of(whole)
        if not carried or named is None:
            return good, fingerprints(flat.get("X", columns))
        for name in sorted(carried):  # what is carried along is released as well
            columns[f"carried {name}"] = objects([unit_name(v).decode() for v in as_array(named[name])[good]])
        return good, fingerprints(columns)

    def noiseless(self, X: Any) -> np.ndarray:
        """The code before its noise: for certificates and comparisons, never for release."""
        return self._run(self._checked(X), None, None, noisy=False)

    def unusual(self, X: Any) -> dict[str, int]:
        """By column, how many records have a number far outside the fit, or a word that it did not have.

        They are released all the same, as far as the filter's learning reaches; whether what was certified holds for
        them nobody knows.
        """
        return self._schema.unusual(self._checked(X))

    def _note_unusual(self, feeds: dict[str, np.ndarray]) -> None:
        """Say once that records come which are unlike those of the fit; `unusual` counts them."""
        if self._told_unusual or not _length(feeds) or not (found := self._schema.unusual(feeds)):
            return
        self._told_unusual = True
        columns = ", ".join(f"{name} ({n:,})" for name, n in list(found.items())[:5])
        warnings.warn(
            f"records hold numbers far outside the fit, or words it did not have, in {columns}: they are released all "
            f"the same, but no claim about this release was tested on such records (count them by release.unusual)",
            TacitWarning,
            stacklevel=3,
        )

    @property
    def report(self) -> Report | None:
        """The audit that travels with the bundle; None if there is none."""
        try:
            return None if self.audit is None else Report.from_dict(self.audit)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise BundleError(f"{self.name}: audit.json is not a report of Tacit ({type(error).__name__})") from None

    @property
    def noise(self) -> Noise | None:
        """The noise that releases carry; None where they carry none."""
        return self._noise

    @property
    def support(self) -> Support:
        """What a release can be: finite, bounded under noise, or neither; certificates are chosen by it."""
        if self._noise is not None:
            return Bounded(self._radius) if self._noise.added else None
        codes = self.manifest["output"].get("codes")
        return None if codes is None else Finite(codes)

    @property
    def epsilon(self) -> float | None:
        """The local privacy of every release; its clipping is checked whenever a record is released."""
        return None if self._noise is None else Bounded(self._radius).epsilon(self._noise.scale)

    @property
    def sensitive_names(self) -> list[str]:
        """The sensitive columns that a release looks at; most look at none."""
        declared = self.manifest["input"].get("columns", [])
        return [c["name"] for c in declared if c.get("role") == "sensitive"]

    @property
    def sees_sensitive(self) -> bool:
        """Whether a release looks at the sensitive columns of its records."""
        return bool(self.sensitive_names)

    @property
    def _columns_out(self) -> bool:
        """Whether a release is a table, each column one of its own values."""
        return self.manifest["output"].get("types") is not None

    def _whole(self, X: Any, sensitive: Any, y: Any) -> Any:
        """Records with the columns that were passed beside them, as a dict of columns where there are any."""
        if not self.sees_sensitive:
            return X
        named = columns_of(X)
        roles = {c["name"]: c.get("role", "input") for c in self.manifest["input"]["columns"]}
        if named is None:
            plain = [n for n, role in roles.items() if role == "input"]
            table = np.asarray(X)
            if table.ndim != 2 or table.shape[1] not in (len(plain), len(roles)):
                raise InputError(f"the array has shape {table.shape}, but a record has the columns {', '.join(roles)}")
            named = dict(zip(plain if table.shape[1] == len(plain) else roles, table.T, strict=True))
        for role, beside in (("sensitive", sensitive), ("target", y)):
            wanted = [n for n, r in roles.items() if r == role]
            if beside is not None and wanted:
                named |= {n: v for n, v in _named(beside, wanted).items() if n in wanted}
        absent = [n for n in self.sensitive_names if n not in named]
        if absent:
            raise InputError(
                f"this release looks at the sensitive column {absent[0]!r}, and it is not there; pass it among the "
                f"columns of X, or as sensitive_features="
            )
        return named

    @property
    def noise_key(self) -> bytes | None:
        """The secret under which noise is drawn; None without noise. Whoever has it can take the noise off."""
        return self._key if self._noise is not None else None

    def with_key(self, noise_key: bytes | str | Path) -> Release:
        """The same release under another key."""
        other = copy.copy(self)
        other._key, other._bound = read_key(noise_key), None
        return other

    def redraw(self) -> Release:
        """The same under a fresh key: other noise for every record. Releasing both lets noise be averaged."""
        return self.with_key(new_key())

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the released columns."""
        return np.asarray(self.manifest["output"]["names"], dtype=object)

    def weights(self) -> dict[str, np.ndarray]:
        """The learned arrays by name, to look at or to continue training from."""
        import safetensors.numpy  # a device has none

        try:
            return safetensors.numpy.load(self._bundle.members["weights.safetensors"])
        except safetensors.SafetensorError as error:
            raise BundleError(f"{self.name}: weights.safetensors cannot be read ({error})") from None

    def __repr__(self) -> str:
        return f"<Release {self.name}: {self.manifest['filter']}>"

    # -- the graph ------------------------------------------------------------------------------

    def _open_graph(self) -> Any:
        noise, expected = self._noise, graph_inputs(self.manifest)
        if noise is not None and not noise.added:
            expected |= {"noise": (noise.columns,)}
        return _open(self._bundle, "model.onnx", expected, self._outputs)

    @property
    def _outputs(self) -> list[str]:
        """What the graph gives: the code before its noise, where noise is added to it, or the release."""
        added = self._noise is not None and self._noise.added
        return ["before_noise" if added else "release", "encoded"]

    @functools.cached_property
    def _encoder(self) -> Any:
        """The graph of a release with noise that gives ``encoded`` alone: noise is drawn by what it gives."""
        return _open(self._bundle, ENCODER, graph_inputs(self.manifest), ["encoded"])

    def _encoded(self, feeds: dict[str, np.ndarray]) -> np.ndarray:
        taken = {i.name: feeds[i.name] for i in self._encoder.get_inputs()}
        return _run_graph(self.name, self._encoder, ["encoded"], taken)[0]

    def _run(
        self, feeds: dict[str, np.ndarray], units: Sequence[Any] | None, file: Numbers | None, noisy: bool = True
    ) -> np.ndarray:
        n = _length(feeds)
        shape = tuple(self.manifest["output"]["shape"])
        if n == 0:
            return np.empty((0, *shape))
        width = sum(int(np.prod(v.shape[1:])) for v in feeds.values())
        step = min(CHUNK_ROWS, CHUNK // max(width, int(np.prod(shape))), MEMORY // self.manifest["record_bytes"])
        step = max(1, step)
        out = np.empty((n, *shape))
        file = file or Occurrences()
        for at in range(0, n, step):
            part = {k: v[at : at + step] for k, v in feeds.items()}
            found = self._chunk(part, None if units is None else units[at : at + step], file, noisy)
            # 0.0 and -0.0 are one number, and a receiver could tell them apart
            np.add(found, 0.0, out=out[at : at + step])
        return out

    def _chunk(
        self, feeds: dict[str, np.ndarray], units: Sequence[Any] | None, file: Numbers, noisy: bool
    ) -> np.ndarray:
        noise, shape = self._noise, (_length(feeds), *self.manifest["output"]["shape"])
        if noise is not None and not noise.added:
            drawn = np.zeros((_length(feeds), noise.columns))
            if noisy:
                drawn = self._draw(noise, noise.names(self._encoded(feeds), units, file))
            feeds = {**feeds, "noise": drawn}
        added = noise is not None and noise.added
        code, *encoded = _run_graph(self.name, self._session, self._outputs[: 1 + added], feeds)
        if code.shape != shape:
            raise BundleError(f"{self.name}: the graph gives {code.shape}, its manifest says {shape}")
        if noise is None or not noise.added:
            return code
        if self._radius is not None:
            largest = np.abs(code).reshape(len(code), -1).sum(axis=1).max()
            if largest > self._radius * (1 + 1e-9):
                raise BundleError(f"{self.name}: a code of norm {largest:g} leaves the ball of radius {self._radius:g}")
        return noise.add(code, self._draw(noise, noise.names(encoded[0], units, file))) if noisy else code

    def _draw(self, noise: Noise, names: Sequence[bytes]) -> np.ndarray:
        """The noise of records of these names: of this key, and of this bundle alone."""
        if self._bound is None:
            if self._key is None:
                warnings.warn(NO_KEY, TacitWarning, stacklevel=6)
            self._key = self._key or new_key()
            self._bound = bound_noise(noise, self.manifest, self._key), self._key
        drawn, key = self._bound
        return drawn.draw(key, names)

    def _with_names(self, out: np.ndarray, records: Any, X: Any, good: np.ndarray) -> Any:
        """Numbers as rows of the bundle's table, or as values of its columns, where it has them."""
        output = self.manifest["output"]
        if output["table"] is None:
            return out
        pandas = sys.modules.get("pandas")
        frame = X if pandas is not None and isinstance(X, pandas.DataFrame) else None
        if self._columns_out:
            return columns_out(output, out, columns_of(records) or {}, good, frame)
        cells = out[:, 0].astype(np.int64)
        if len(cells) and not 0 <= cells.min() <= cells.max() < len(output["table"][0]):
            raise BundleError(f"{self.name}: the graph names a cell that the manifest does not have")
        columns = {}
        for name, values in zip(output["names"], output["table"], strict=True):
            is_plain = all(isinstance(v, int | float) for v in values)
            columns[name] = (np.array(values) if is_plain else objects(values))[cells]
        if frame is not None:
            return type(frame)(columns)
        table = np.empty((len(cells), len(columns)), dtype=object)
        for i, values in enumerate(columns.values()):
            table[:, i] = values
        return table


class OwnRelease(Release):
    """A `Release` that tells, like the filter it came from, which records it has seen."""

    def __init__(self, bundle: Bundle, noise_key: Any = None, *, owner_key: bytes) -> None:
        super().__init__(bundle, noise_key)
        declared = self.manifest.get("sketch")
        if declared is None:
            raise InputError(
                f"{self.name} has no sketch of the rows it was fitted on, as filters learned on other machines; load "
                f"it without owner_key"
            )
        self._owner_key = owner_key
        self._sketch = base64.b64decode(declared["entries"])
        self._looks = [(int(digits), int(column)) for digits, column in declared["looks"]]

    def seen(self, X: Any, units: Any = None) -> np.ndarray:
        """Which of these records equal a record of the fit (but for rounding or a time stamp), or are of its units."""
        declared = self.manifest["input"]
        columns = declared.get("columns", [])
        names = [c["name"] for c in columns if c.get("role", "input") == "input"] or None
        prints = looked(X, names, self._looks)
        seen = np.zeros(len(prints[0]), dtype=bool)
        for look in prints:
            seen |= sketched(look, self._sketch, self._owner_key)
        if units is not None:
            seen |= sketched_units(list(np.asarray(units).astype(str)), self._sketch, self._owner_key)
        return seen


def _open(bundle: Bundle, member: str, inputs: Mapping[str, tuple[int, ...]], outputs: list[str]) -> Any:
    """A graph that is ready to run; raise unless it takes and gives, for each record, what the manifest says."""
    graph = bundle.graph(member)
    try:
        session = onnx_session(graph, int(os.environ.get("OMP_NUM_THREADS") or 0))
        found = {i.name: (i.type, tuple(i.shape[1:])) for i in session.get_inputs()}
        given = {o.name for o in session.get_outputs()}
    except Exception as error:  # onnxruntime's errors share no base of their own; names need not be text
        raise BundleError(f"{member} cannot be run ({str(error)[:300]})") from None
    kinds = {name: "tensor(string)" if name == "texts" else "tensor(double)" for name in inputs}
    said = {name: (kinds[name], shape) for name, shape in inputs.items()}
    if found != said and not (member == ENCODER and found.items() <= said.items()):
        raise BundleError(f"{member} takes {str(found)[:200]} for each record, the manifest says {str(said)[:200]}")
    if given != set(outputs):
        raise BundleError(f"{member} gives {str(sorted(given))[:200]}, the manifest asks for {sorted(outputs)}")
    return session


def _run_graph(name: str, session: Any, outputs: list[str], feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.RunOptions()
    options.log_severity_level = 4
    try:
        found = [np.asarray(f, dtype=np.float64) for f in session.run(outputs, feeds, options)]
    except Exception as error:  # onnxruntime's errors share no base of their own
        raise BundleError(f"{name}: the graph failed ({str(error)[:300]})") from None
    if any(f.ndim == 0 or len(f) != _length(feeds) for f in found):
        raise BundleError(f"{name}: the graph does not give one result a record")
    return found


def _named(values: Any, names: Sequence[str]) -> dict[str, Any]:
    """Columns that were passed beside the records, by name; one that has none is the one that is wanted."""
    found = columns_of(values)
    if found is not None:
        return found
    if hasattr(values, "name") and values.name is not None and len(names) > 1:
        return {str(values.name): values}
    array = np.asarray(values)
    return dict(zip(names, [array] if array.ndim == 1 else array.T, strict=True))


def _length(feeds: dict[str, np.ndarray]) -> int:
    return len(next(iter(feeds.values())))


# -- releases that are tables: numbers of values as cells, in the types in which the columns came ------

TEXTS, BOOLEANS = ("object", "string", "str", "category"), ("bool", "boolean")


def columns_out(
    output: Mapping[str, Any], codes: np.ndarray, records: Mapping[str, Any], good: np.ndarray, like: Any
) -> Any:
    """Released numbers (n, columns) as a table of cells, with the columns that are carried.

    Parameters
    ----------
    output : of the manifest
    records : raw columns, from which some are carried
    good : which of the records were released
    like : a DataFrame in whose types the columns leave; None: as an array of plain cells, times as text
    """
    cells = iter(zip(output["table"], output["types"], codes.T.astype(np.int64), strict=True))
    columns = {}
    for name in output["names"]:
        if name in output["carried"]:
            columns[name] = as_array(records[name])[good] if like is None else like[name].to_numpy()[good]
            continue
        values, kind, own = next(cells)
        if len(own) and not 0 <= own.min() <= own.max() < len(values):
            raise BundleError(f"the graph names a value of {name!r} that the manifest does not have")
        columns[name] = objects(values)[own] if like is None else _typed(values, kind, own, like, name)
    if like is not None:
        return sys.modules["pandas"].DataFrame(columns)
    table = np.empty((len(codes), len(columns)), dtype=object)
    for i, column in enumerate(columns.values()):
        table[:, i] = column
    return table


def _typed(values: list[Any], kind: str, codes: np.ndarray, like: Any, name: str) -> Any:
    """Values in the type of the column that came in; in their own where that cannot hold them."""
    pandas = sys.modules["pandas"]
    found = pandas.Series(values, dtype=object) if name in like or kind in TIMES else pandas.Series(values)
    if kind in TIMES:
        found = pandas.to_timedelta(found, unit="s") if kind == "duration" else pandas.to_datetime(found, utc=True)
    elif kind != "text":
        found = pandas.Series(values)
    dtype = like[name].dtype if name in like else found.dtype
    if (kind == "text") != (dtype.name in TEXTS) or (kind == "boolean") != (dtype.name in BOOLEANS):
        dtype = found.dtype
    if kind in ("day", "time"):
        zone = getattr(dtype, "tz", None)
        found = found.dt.tz_localize(None) if zone is None else found.dt.tz_convert(zone)
    try:
        typed = found.astype(dtype)
        found = typed if (typed.isna() == found.isna()).all() else found
    except (TypeError, ValueError):
        pass  # a column of integers that has a gap now, or came as text
    return found.iloc[codes].reset_index(drop=True)


def objects(values: list[Any]) -> np.ndarray:
    """Plain values as an array of objects."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
