"""Options that the command line, `tacit.toml` and Python share: one dataclass for each command.

A field is an option of the command line where its metadata say so, and always a name of the table in `tacit.toml`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from tacit.callback import Callback, silent
from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.records.dataset import Dataset  # pandas is slow to import

NAME = "tacit.toml"
Options = TypeVar("Options")


@dataclass(frozen=True, eq=False)
class AuditOptions:
    """Hold the settings of an audit that are rarely changed.

    Parameters
    ----------
    name : str, optional
        Name of the release in the report
    train : Dataset, optional
        The rows the filter was fitted on: measures how much more they leak, and membership inference
    pooled : tuple of int
        Numbers of releases of one group of rows that an attacker reads together
    groups : tuple of str
        Columns of X by which leakage is also shown, next to the label columns
    embed : callable, optional
        Maps images to (n, d) embeddings; then the similarity of releases to their originals is measured
    examples : int
        How many windows or images the report shows next to their reconstructions. They are real records of `test`
    candidates : int
        How many releases, fixed beforehand, are certified on these rows to choose among; they share the error
    per : str
        "unit" gives everyone the same weight where people have several records, "record" every record
    max_unit_size : int, optional
        The most records that a unit can have, known beforehand; a certificate per record needs it
    few_columns : int
        How many released columns an attacker of the measurement "few_columns" sees
    callback : callable
        Called with (what, done, total) whenever an attacker starts, to show progress

    Examples
    --------
    >>> AuditOptions(candidates=20).per
    'unit'
    """

    name: str | None = None
    train: Dataset | None = None
    pooled: tuple[int, ...] = (5, 20)
    groups: tuple[str, ...] = ()
    embed: Callable[[Any], Any] | None = None
    examples: int = 0
    candidates: int = 1
    per: str = "unit"
    max_unit_size: int | None = None
    few_columns: int = 2
    callback: Callback = silent


def option(default: Any, help: str, *flags: str, records: str | None = None, **limits: Any) -> Any:
    """Declare an option.

    Parameters
    ----------
    default : its value where nothing is said
    help : one line for `--help` and for the schema
    *flags : how the command line calls it, such as ``--out``; nowhere: it is set in tacit.toml or by ``--set``
    records : "tables", or "recordings and images", where it goes with these alone
    **limits : least value, as ``min``
    """
    more = {"help": help, "flags": flags, "records": records, **limits}
    if isinstance(default, Mapping):
        return field(default_factory=dict, metadata=more)
    return field(default=default, metadata=more)


TABLES, OTHERS = "tables", "recordings and images"


@dataclass(frozen=True)
class FitOptions:
    """Options of `tacit fit`: what is preserved and hidden, by which filter, and what is written."""

    target: tuple[str, ...] = option((), "Column to preserve (repeat for several).", "--target")
    sensitive: tuple[str, ...] = option((), "Column to hide (repeat for several).", "--sensitive")
    unit: str | None = option(None, "Column of the person that a row belongs to.", "--unit")
    drop: tuple[str, ...] = option((), "Column to leave out (repeat for several).", "--drop", records=TABLES)
    filter: str | None = option(
        None, "coupling (default) returns the table; codebook, eigan, minimax, ... return codes or numbers.", "--filter"
    )
    weight: float | None = option(
        None, "Strength of the protection: the filter's main parameter, such as strength or alpha.", "--weight"
    )
    sensors: bool = option(False, "Recordings: a file, or a folder with a CSV per person.", "--sensors")
    images: bool = option(False, "A folder of photos with labels.csv.", "--images")
    preview: int | None = option(
        None, "Show this many rows before and after; write nothing.", "--preview", records=TABLES, min=1
    )
    quick: bool = option(False, "Audit in seconds with two attackers; tacit audit OUT does the rest.", "--quick")
    out: Path = option(Path("tacit-out"), "Folder for the release, the report and the bundle; tacit-out.", "--out")
    seed: int = option(0, "Same seed, same split and filter; 0.", "--seed")
    settings: Mapping[str, Any] = option({}, "Parameters of the filter, such as max_odds = 3 of codebook.")
    bins: int | None = option(
        None, "Cut numeric targets and sensitive columns into this many classes.", records=TABLES, min=2
    )
    numeric: tuple[str, ...] = option((), "Targets or sensitive columns that are numbers; zip=no: is not.")
    sql: str | None = option(None, "Query of an SQLite or DuckDB file.", records=TABLES)
    analyzer: bool = option(False, "Also fit what tacit serve answers with.", records=TABLES)
    shuffle: bool | None = option(
        None, "Shuffle the rows; by default where their order leaks something sensitive.", records=TABLES
    )
    sample_rows: int = option(
        1_000_000, "Of a larger table, fit and audit on this many rows and release all.", records=TABLES, min=10
    )
    jobs: int = option(1, "Processes that release a larger table.", records=TABLES, min=1)
    ledger: Path | None = option(None, "Ledger that records the release first.", records=TABLES)
    ledger_key: Path | None = option(None, "Key of the ledger.", records=TABLES)
    to: str | None = option(None, "Receiver, by its name in the policy.", records=TABLES)
    labels: Path | None = option(None, "Images: table of file names and labels.", records=OTHERS)
    rate: float | None = option(None, "Recordings: samples a second; by their times without it.", records=OTHERS)
    small: bool = option(False, "Smaller settings, for two cores.", records=OTHERS)
    all: bool = option(False, "Release the records of the fit too, by a second filter.", records=OTHERS)
    expires: str = option("365d", "The bundle's last day of use: a date, days such as 90d, or never.")
    keys: Path | None = option(None, "Folder of the keys; OUT-keys beside it by default.")

    def __post_init__(self) -> None:
        """Refuse options that do not go together."""
        if self.sensors and self.images:
            raise InputError("--sensors and --images do not go together; name one")
        others = self.sensors or self.images
        for f in fields(self):
            only, value = f.metadata["records"], getattr(self, f.name)
            if value != f.default and only not in (None, OTHERS if others else TABLES):
                named = f.metadata["flags"][0] if f.metadata["flags"] else f"the option {f.name}"
                kind = f"--{'sensors' if self.sensors else 'images'} was given" if others else "this is a table"
                raise InputError(f"{named} is for {only}, and {kind}")
            if value is not None and "min" in f.metadata and value < f.metadata["min"]:
                raise InputError(f"the option {f.name} must be at least {f.metadata['min']}; found {value}")


# -- from tacit.toml and the command line ----------------------------------------------------------


def read_options(
    kind: type[Options], table: str, file: Path | None, settings: Sequence[str], typed: Mapping[str, Any]
) -> Options:
    """Make options from `tacit.toml`, from ``--set NAME=VALUE`` and from what was typed; the later one wins.

    Parameters
    ----------
    kind : their dataclass
    table : its table in the file, such as "fit"
    file : the file, or its folder; without it tacit.toml of the current folder, where there is one
    settings : as ``NAME=VALUE``; a name that is no option is a parameter of the filter
    typed : options of the command line, None or False where they were not typed
    """
    place = Path(NAME) if file is None else file / NAME if file.is_dir() else file
    values: dict[str, Any] = {}
    if file is not None or place.exists():
        values = read_section(kind, load_toml(place).get(table, {}), place, table)
    names = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    added: dict[str, Any] = {}
    for text in settings:
        name, sign, value = text.partition("=")
        parts = name.strip().replace("-", "_").split(".")
        if not sign or not all(parts):
            raise InputError(f"--set takes NAME=VALUE, such as expires=90d; found {text!r}")
        parts = parts if parts[0] in names or "settings" not in names else ["settings", *parts]
        inner = added
        for part in parts[:-1]:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise InputError(f"--set {text}: {part!r} has a value and cannot hold another")
        value = _parsed(value.strip())
        old = inner.get(parts[-1])
        inner[parts[-1]] = value if old is None else [*(old if isinstance(old, list) else [old]), value]
    added = read_section(kind, added, Path("--set"), "")
    if "settings" in values and "settings" in added:
        added["settings"] = {**values["settings"], **added["settings"]}
    given = {
        name: tuple(v) if isinstance(v, list) else v
        for name, v in typed.items()
        if v is not None and v is not False and v != []  # 0 was typed
    }
    return kind(**{**values, **added, **given})


def _parsed(text: str) -> Any:
    """Read a value as TOML writes it; else it is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def load_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} cannot be read as TOML: {error}") from None


def read_section(kind: type, section: Any, path: Path, table: str, required: Sequence[str] = ()) -> dict[str, Any]:
    """Check the values of a table by the fields of a dataclass; paths are beside the file."""
    need(isinstance(section, dict), path, table, "a table")
    hints = get_type_hints(kind)
    known = {f.name.rstrip("_"): f.name for f in fields(kind)}
    values = {}
    for word, value in section.items():
        where = f"{table}.{word}" if table else word
        if word not in known:
            raise InputError(f"{path.name}: {where} is not known; there are {', '.join(known)}")
        value = checked_value(hints[known[word]], value, path, where)
        values[known[word]] = path.parent / value if isinstance(value, Path) else value
    for word in required:
        need(word in values, path, f"{table}.{word}" if table else word, "there")
    return values


def checked_value(hint: Any, value: Any, path: Path, where: str) -> Any:
    """Check a value of a TOML file by the type of its field."""
    kind = next((k for k in get_args(hint) if k is not type(None)), hint) if type(None) in get_args(hint) else hint
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if get_origin(kind) is Mapping:
        numbers = get_args(kind)[1] is float
        need(isinstance(value, dict), path, where, "a table")
        if numbers:
            good = all(isinstance(v, int | float) and v >= 0 for v in value.values())
            need(good, path, where, "numbers by name, such as { sex = 0.58 }")
        return {str(k): float(v) if numbers else v for k, v in value.items()}
    if get_origin(kind) is tuple:
        value = [value] if isinstance(value, str) else value
        need(isinstance(value, list) and all(isinstance(v, str) for v in value), path, where, "a list of names")
        return tuple(value)
    if kind is bool:
        need(isinstance(value, bool), path, where, "true or false")
    elif kind is int:
        need(number and value == int(value), path, where, "a whole number")
    elif kind is float:
        need(number, path, where, "a number")
    else:
        need(isinstance(value, str), path, where, "text")
    return Path(value) if kind is Path else value


def need(good: bool, path: Path, where: str, what: str) -> None:
    """Raise an error that names the file and the table's word, unless `good`."""
    if not good:
        raise InputError(f"{path.name}: {where} must be {what}")


# -- the published schema --------------------------------------------------------------------------


def json_schema(kind: type) -> dict[str, Any]:
    """Write the JSON schema of a table of `tacit.toml`."""
    hints = get_type_hints(kind)
    names = {bool: "boolean", int: "integer", float: "number", str: "string", Path: "string"}
    properties: dict[str, Any] = {}
    for f in fields(kind):
        hint = hints[f.name]
        inner = next((k for k in get_args(hint) if k is not type(None)), hint) if type(None) in get_args(hint) else hint
        if get_origin(inner) is Mapping:
            found: dict[str, Any] = {"type": "object"}
            if get_args(inner)[1] is float:
                found["additionalProperties"] = {"type": "number", "minimum": 0}
        elif get_origin(inner) is tuple:
            found = {"type": ["array", "string"], "items": {"type": "string"}}
        else:
            found = {"type": names[inner]}
        if help := f.metadata.get("help"):
            found["description"] = help
        if "min" in f.metadata:
            found["minimum"] = f.metadata["min"]
        properties[f.name.rstrip("_")] = found
    return {"type": "object", "additionalProperties": False, "properties": properties}
