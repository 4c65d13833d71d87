"""`tacit fit --sensors` and `--images`: recordings or photos in, transformed windows or photos out.

Windows keep the target and hide the person; photos show only what the target needs.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

import tacit
from tacit.auditing.trial import transformed
from tacit.cli.console import Console, checked_places, clear, note, print_comparison, tell_files, tell_keys, working
from tacit.errors import InputError, NoColumn, NotInstalled, installed
from tacit.files import replacing
from tacit.options import FitOptions
from tacit.records.images import load_images
from tacit.records.pixels import image_names, open_image
from tacit.records.table_files import open_table
from tacit.records.windows import BLOCK, RECORDING, read_recordings
from tacit.release.manifest import expiry_date
from tacit.release.pictures import write_pictures
from tacit.report import write_page
from tacit.report.report import Report
from tacit.report.results import shown

TRIED = 192  # records and one epoch, by which the time to the end is estimated
AUDIT, AUDIT_EACH = 10.0, 3.2e-6  # seconds of a small audit; and for a number of a record, times classes
WINDOWS_APART = ["no-baseline", "no-breadth", "no-linkability", "no-singling_out"]
IN_PARTS = 0.98  # of each part's statements, so that those of both hold together at 96 %
SECONDS, SAMPLES, LEAST = 2.56, 128, 16  # of a window: its length, its samples where no rate is known, and at least
LARGEST, SMALLEST = 64, 32  # height and width of images; with small


@dataclass(frozen=True)
class Preset:
    """The filter of one kind of records: its settings by the names of --filter (the first is the default).

    `filter` is its class in `tacit`, by name, since the class needs torch; `small` are the settings of small=true, and
    `cost` says what they cost.
    """

    records: str
    filter: str
    filters: Mapping[str, Mapping[str, Any]]
    small: Mapping[str, Any]
    cost: str

    def checked_name(self, o: FitOptions) -> str:
        """The filter's name, if there is one of that name and what it needs is installed."""
        name = o.filter or next(iter(self.filters))
        if name not in self.filters:
            raise InputError(f"--filter {name} is not for {self.records}; there is {' and '.join(self.filters)}")
        if not installed("torch"):
            raise NotInstalled(f"a filter of {self.records}", "torch")
        return name

    def chosen(self, console: Console, name: str, o: FitOptions) -> Any:
        """The filter with the options; what small=true costs is printed."""
        settings = {**self.filters[name], **(self.small if o.small else {}), **o.settings}
        made = getattr(tacit, self.filter)(**settings, random_state=o.seed)
        if o.small:
            console.print(self.cost, highlight=False, markup=False)
        return made if o.weight is None else made.set_params(**{made.frontier_parameter: o.weight})


SENSORS = Preset(
    "recordings",
    "AnonymizingAutoencoder",
    {"waveforms": {"codes": 16}, "autoencoding": {}},
    {"epochs": 8, "n_maps": 16},
    "small: 8 epochs, not 24 (and with --filter autoencoding 16 maps, not 100). It keeps less of the target; figures "
    "are in docs/how-to/sensors.md",
)
IMAGES = Preset(
    "images",
    "TaskMask",
    {"mask": {}},
    {"epochs": 12},
    "small: 32 pixels and 12 epochs, not 64 and 30. Small details are lost, to the task as well; figures are in "
    "docs/how-to/images.md",
)


# -- recordings ------------------------------------------------------------------------------------


def fit_recordings(console: Console, source: Path, o: FitOptions) -> None:
    """Release the windows of recordings."""
    if not o.target or not (o.sensitive or o.unit):
        raise InputError("say what must keep working and who must stay hidden, such as --target activity --sensitive "
                         "person; both are columns of the recordings, or the names of folders and files")  # fmt: skip
    name, person = SENSORS.checked_name(o), o.unit or o.sensitive[0]
    columns = [c for c in (*o.target, *o.sensitive) if c != person]
    recordings = read_recordings(source, person, columns, o.rate, SECONDS)
    for line in recordings.said:
        console.print(line, highlight=False, markup=False)
    length = SAMPLES if recordings.rate is None else max(LEAST, round(SECONDS * recordings.rate))
    longest = int(recordings.samples.groupby(BLOCK).size().max())
    if longest < length:
        raise InputError(f"the longest recording has {longest} samples, and a window needs {length}; record longer, or "
                         f"set the rate (--set rate=50) if it was detected wrongly")  # fmt: skip
    console.print(f"Windows of {length} samples, each half over the next", highlight=False)
    data = tacit.read_windows(
        recordings.samples.drop(columns=[RECORDING]), user=person, trial=BLOCK, channels=recordings.channels,
        length=length, stride=max(1, length // 2), target=o.target, sensitive=o.sensitive or [person],
    )  # fmt: skip
    by = person if person in data.sensitive.columns else None
    _fit_shaped(console, data, SENSORS.chosen(console, name, o), name, source, by, "windows", _write_windows, o)


def _write_windows(released: np.ndarray, rows: np.ndarray, parts: np.ndarray | None, out: Path) -> Path:
    """Windows as an npz, in the form of `tacit release apply`: the array ``release``; and ``part``, where two left."""
    place, arrays = out / "release.npz", {"release": released} | ({} if parts is None else {"part": parts})
    with replacing(place) as partial, open(partial, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    return place


# -- images ----------------------------------------------------------------------------------------


def fit_images(console: Console, source: Path, o: FitOptions) -> None:
    """Release the photos of a folder."""
    if not source.is_dir():
        raise InputError(
            f"--images takes a folder of photos; {source} is {'a file' if source.exists() else 'not there'}"
        )
    if not o.target:
        raise InputError("say what must keep working: --target COLUMN of the labels, such as --target smile")
    name = IMAGES.checked_name(o)
    table = _labels(console, source, o.labels, {*o.target, *o.sensitive, *([o.unit] if o.unit else [])})
    table, X = _read_images(console, source, table, SMALLEST if o.small else LARGEST)
    units = None if o.unit is None else table[o.unit].to_numpy()
    y, sensitive = table[list(o.target)], table[list(o.sensitive)]
    data = tacit.Dataset(X, y, sensitive, units, name=source.name, modality="image")
    names = list(table["file"])

    def write(released: np.ndarray, rows: np.ndarray, parts: np.ndarray | None, out: Path) -> Path:
        folder = out / "released"
        folder.mkdir()
        of = [""] * len(rows) if parts is None else [f"part-{part}/" for part in parts]
        # names of files often are names of people
        called = [f"{part}{i:06d}{Path(names[r]).suffix}" for i, (r, part) in enumerate(zip(rows, of, strict=True))]
        write_pictures(folder, called, released)
        return folder

    _fit_shaped(console, data, IMAGES.chosen(console, name, o), name, source, None, "images", write, o)


def _labels(console: Console, folder: Path, labels: Path | None, wanted: set[str]) -> pd.DataFrame:
    """The table of labels with the column ``file``: which column holds names of files is detected."""
    there = image_names(folder)
    if not there:
        raise InputError(f"{folder} holds no image; expected .png, .jpg, .bmp, .gif, .tif or .webp files")
    place = labels or next((p for p in (folder / "labels.csv", folder / "labels.parquet") if p.exists()), None)
    if place is None:
        raise InputError(
            f"--images: there is no {folder / 'labels.csv'}; write it, a table of file names and {', '.join(wanted)}, "
            f"or name another: --set labels=FILE"
        )
    table = open_table(place).table
    for column in sorted(wanted - set(table.columns)):
        raise NoColumn(place.name, column, list(table.columns))
    known = {n: n for n in there} | {Path(n).name: n for n in there} | {Path(n).stem: n for n in there}
    named = [c for c in table.columns if c not in wanted and table[c].astype(str).isin(known).any()]
    if not named:
        raise InputError(f"no column of {place.name} holds names of files in {folder}, such as {there[0]!r}")
    names = table[named[0]].astype(str).map(known)
    unknown, unlabelled = int(names.isna().sum()), len(set(there) - set(names.dropna()))
    if unknown or unlabelled:
        note(
            console,
            f"left out: rows of {place.name} that name no image: {unknown}; images that have no row: {unlabelled}",
        )
    kept = table.assign(file=names).dropna(subset=["file"]).drop_duplicates("file")
    return kept.reset_index(drop=True)


def _read_images(console: Console, folder: Path, table: pd.DataFrame, most: int) -> tuple[pd.DataFrame, np.ndarray]:
    """The images that can be read, at one size, and their rows; damaged ones are named and left out."""
    shapes, images, damaged = dict[int, tuple[int, int]](), dict[int, np.ndarray](), dict[str, None]()
    paths = [folder / name for name in table["file"]]

    @contextlib.contextmanager
    def leaving_out(path: Path) -> Iterator[None]:
        try:
            yield
        except Exception:  # Pillow's readers fail in many ways on a damaged file
            damaged[path.name] = None

    for row, path in enumerate(paths):  # headers only
        with leaving_out(path), open_image(path) as image:
            shapes[row] = (image.height, image.width)
    size = _size(console, list(shapes.values()), most) if shapes else (0, 0)
    for row in shapes:
        with leaving_out(paths[row]):
            images[row] = load_images([paths[row]], size)[0]
    if not images:
        raise InputError(f"none of the {len(paths)} images in {folder} can be read; save them as PNG or JPEG")
    if damaged:
        named = ", ".join(list(damaged)[:3]) + (", ..." if len(damaged) > 3 else "")
        note(console, f"{len(damaged)} of {len(paths)} images cannot be read and are left out: {named}")
    channels = max(len(image) for image in images.values())  # grey among coloured ones: the same in every channel
    X = np.stack([np.broadcast_to(image, (channels, *image.shape[1:])) for image in images.values()])
    return table.iloc[list(images)].reset_index(drop=True), X


def _size(console: Console, shapes: list[tuple[int, int]], most: int) -> tuple[int, int]:
    """One size for all: the usual shape, its longer side at most `most` pixels, in steps of four."""
    height, width = np.median(np.array(shapes), axis=0)
    scale = min(1.0, most / max(height, width))
    size = max(8, 4 * round(height * scale / 4)), max(8, 4 * round(width * scale / 4))
    different = len(set(shapes))
    if different > 1 or shapes[0] != size:
        told = f"{len(shapes):,} images of {different} sizes, scaled to {size[0]} x {size[1]} pixels"
        console.print(told, highlight=False)
    return size


# -- both ------------------------------------------------------------------------------------------


def _fit_shaped(
    console: Console,
    data: tacit.Dataset,
    chosen: Any,
    name: str,
    source: Path,
    by: str | None,
    what: str,
    # released records, their numbers, the part each came from (None where all came from one), the folder -> where
    write: Callable[[np.ndarray, np.ndarray, np.ndarray | None, Path], Path],
    o: FitOptions,
) -> None:
    """Fit on half of the records, attack the others, release those, and write the three files.

    With the option `all` a second filter, fitted on the other half, releases the first, and is attacked there: what is
    released, is released by a filter that has not seen it and was measured. `by` is the attribute whose units decide
    the split; `what` the records' name; `write` writes what is released.
    """
    last_day = expiry_date(o.expires)  # a wrong one is said before the work
    keys = checked_places(source, o.out, o.keys)
    train, attack, test = data.split((0.5, 0.2, 0.3), random_state=o.seed, by=by)
    rest = data.take(np.concatenate([attack.rows, test.rows]))
    _tell_time(console, chosen, train, what, 2 if o.all else 1)
    o.out.mkdir(parents=True, exist_ok=True)
    second = clone(chosen) if o.all else None
    reports = _fit_and_attack(console, (chosen, second), name, (train, rest, attack, test), what, by, o)
    own, reports = reports[1], [reports[0], *sorted(reports[1:], key=_most_leakage)]  # the last one is the headline
    print_comparison(console, reports)
    if not reports[-1].leakage:
        kept = ", ".join(f"{t} {shown(u.value)} (guessing {shown(u.guessing)})" for t, u in reports[-1].utility.items())
        console.print(
            f"Kept, as accuracy: {kept}. Nothing was named with --sensitive, so no leakage was measured",
            highlight=False,
            markup=False,
        )
    for attribute in reports[-1].leakage:
        console.print(reports[-1].sentence(attribute), highlight=False, markup=False)
    clear(o.out)
    page = write_page(reports, o.out / "report.html", f"{source.name}: {name}")
    reports[-1].to_json(o.out / "audit.json")
    # the bundle carries the audit of its own filter
    bundle = tacit.save(chosen, o.out / "filter.tacit", own, expires=last_day, keys=keys)
    tell_keys(console, bundle, keys)
    leaves = [(chosen, rest)] + ([] if second is None else [(second, train)])
    order = np.random.default_rng().permutation(sum(len(part) for _, part in leaves))
    released = np.concatenate([np.asarray(transformed(f, part)) for f, part in leaves])[order]
    rows = np.concatenate([part.rows for _, part in leaves])[order]
    parts = np.repeat(np.arange(1, 1 + len(leaves)), [len(part) for _, part in leaves])[order]
    place = write(released, rows, None if second is None else parts, o.out)
    first, every = len(rest), len(rest) + len(train)
    if o.all:
        told = (
            f"Released all {every:,} {what}, in random order: [bold]{place}[/bold]\n"
            f"Part 1: {first:,} by the filter of the bundle. Part 2: {len(train):,}, which it was fitted on, by a "
            f"second filter that was fitted on part 1"
        )
    else:
        told = (
            f"Released {first:,} of {every:,} {what}, in random order: [bold]{place}[/bold]\n"
            f"[yellow]Left out: {len(train):,} {what} that the filter was fitted on[/yellow]; what was measured does "
            f"not hold for them. --set all=true releases them too, by a second filter, in about twice the time"
        )
    tell_files(console, told, bundle, last_day, page)


def _fit_and_attack(
    console: Console,
    filters: tuple[Any, Any],
    name: str,
    parts: tuple[tacit.Dataset, ...],
    what: str,
    by: str | None,
    o: FitOptions,
) -> list[Report]:
    """Audit the raw records and what the filter releases; with a second filter also what that one releases.

    The second report is of the first filter.
    """
    (chosen, second), (train, rest, attack, test) = filters, parts
    asked: dict[str, Any] = {"measurements": WINDOWS_APART, "random_state": o.seed}
    asked |= {"attackers": ["trees", "logistic"]} if o.quick else {}
    asked |= {} if second is None else {"confidence_level": IN_PARTS}
    called = name if second is None else f"{name}, part 1"

    def audit(release: Any, part: tacit.Dataset, rows: tacit.Dataset, named: str) -> Report:
        return tacit.audit(release, part, rows, **asked, options=tacit.AuditOptions(name=named))

    steps: list[tuple[str, Callable[[], Report | None]]] = [
        (f"fitting {name} on {len(train):,} {what}", lambda: _fit(chosen, train, by)),
        (f"attacking {called}", lambda: audit(chosen, attack, test, called)),
        ("attacking raw data", lambda: audit(None, attack, test, "raw data")),
    ]
    if second is not None:
        learn, look = train.split((0.4, 0.6), random_state=o.seed, by=by)
        steps += [
            (f"fitting {name} on the other {len(rest):,}", lambda: _fit(second, rest, by)),
            (f"attacking {name}, part 2", lambda: audit(second, learn, look, f"{name}, part 2")),
        ]
    reports = []
    with working(console) as doing:
        for done, (step, work) in enumerate(steps):
            doing(step, done, len(steps))
            if (report := work()) is not None:
                reports.append(report)
    own, raw, *other = reports
    return [raw, own, *other]


def _most_leakage(report: Report) -> float:
    """How far above chance the most exposed attribute may be, by the upper end of its bound or interval."""
    upper = {s: report.bound.get(s) or r.high for s, r in report.leakage.items()}
    return max((upper[s] - r.guessing for s, r in report.leakage.items()), default=0.0)


def _fit(chosen: Any, part: tacit.Dataset, by: str | None) -> None:
    sensitive = part.sensitive if part.sensitive.shape[1] else None
    chosen.fit(part.X, part.y, sensitive_features=sensitive, units=part.units_of(by))


def _tell_time(console: Console, chosen: Any, train: tacit.Dataset, what: str, times: int) -> None:
    """Estimate the time, by one epoch on some records and by how many numbers attackers will read."""
    some = train.take(np.random.default_rng(0).permutation(len(train))[:TRIED])  # of all classes, not the first ones
    few = clone(chosen).set_params(epochs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _fit(few, some, None)  # what is loaded at the first fit is not counted
            start = time.perf_counter()
            _fit(few, some, None)
        except tacit.TacitError:
            return  # too few of some class among them; the fit itself says what is wrong
    fitting = (time.perf_counter() - start) * len(train) / len(some) * chosen.epochs
    classes = max(len(train.classes_of(c)) for c in (*train.y.columns, *train.sensitive.columns))
    seconds = fitting * times + (AUDIT + AUDIT_EACH * train.X.size * classes) * (1 + times)
    told = f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{max(10, round(seconds, -1)):.0f} seconds"
    console.print(
        f"{len(train):,} {what} to learn from, {chosen.epochs} epochs at most, then the attacks: about {told}",
        highlight=False,
    )
