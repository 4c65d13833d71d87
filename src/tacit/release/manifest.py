"""The manifest of a bundle: what goes in, what comes out, and how it was made. Every field is checked."""

from __future__ import annotations

import base64
import binascii
import datetime
import math
import re
import warnings
from collections.abc import Mapping
from typing import Any

from tacit.errors import BundleError, InputError, TacitWarning

FORMAT = 1
MAX_COLUMNS = 100_000
MEMBERS = ("model.onnx", "weights.safetensors", "audit.json", "card.md")
TOP = {
    "format", "filter", "parameters", "input", "output", "noise", "versions", "members", "analyzer", "sketch",
    "min_people", "expires", "record_bytes",
}  # fmt: skip
ENCODER, ANALYZER = "encoder.onnx", "analyzer.onnx"
NUMBERS, TIMES = ("float", "integer", "boolean"), ("day", "time", "duration")


def check_manifest(m: Mapping[str, Any]) -> None:
    """Raise unless the manifest is complete and means something."""
    version = m.get("format")
    if not isinstance(version, int) or isinstance(version, bool):
        raise BundleError("manifest: there is no format version; this is not a bundle of Tacit")
    if version != FORMAT:
        raise BundleError(f"manifest: the bundle has format {version}, this Tacit reads format {FORMAT}; save it again")
    _keys(m, TOP, "")
    _text(m["filter"], "filter", 200)
    _need(isinstance(m["parameters"], dict), "parameters", "is not an object")
    _input(m["input"])
    _output(m["output"])
    if m["noise"] is not None:
        _noise(m["noise"])
        added, width = m["noise"]["added"], math.prod(m["output"]["shape"])
        _need(not added or m["noise"]["columns"] == width, "noise.columns", "is not one number for each released")
    _sketch(m["sketch"])
    _whole(m["min_people"], "min_people", 1, 2**40)
    _whole(m["record_bytes"], "record_bytes", 1, 2**40)
    if m["expires"] is not None:
        _day(m["expires"], "expires")
    _need(isinstance(m["versions"], dict), "versions", "is not an object")
    for k, v in m["versions"].items():
        _text(v, f"versions.{k}", 100)
    if m["analyzer"] is not None:
        _analyzer(m["analyzer"])
    members = hashed(m)
    _keys(m["members"], set(members), "members")
    for name in members:
        entry = m["members"][name]
        _keys(entry, {"sha256", "bytes"}, f"members.{name}")
        _hex(entry["sha256"], f"members.{name}.sha256")
        _whole(entry["bytes"], f"members.{name}.bytes", 0, 2**40)


def hashed(m: Mapping[str, Any]) -> tuple[str, ...]:
    """The members whose hashes the manifest holds."""
    return MEMBERS + (ENCODER,) * (m["noise"] is not None) + (ANALYZER,) * (m["analyzer"] is not None)


def graph_inputs(m: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """What the graph takes: the shape of one record's part by name, without the noise."""
    if m["input"]["kind"] == "array":
        return {"X": tuple(m["input"]["shape"])}
    kinds = [c["kind"] for c in m["input"]["columns"]]
    counts = {"numbers": kinds.count("number"), "texts": kinds.count("category")}
    return {name: (n,) for name, n in counts.items() if n}


def _input(value: Any) -> None:
    _need(isinstance(value, dict) and value.get("kind") in ("table", "array"), "input", "is neither table nor array")
    if value["kind"] == "array":
        _keys(value, {"kind", "shape", "ranges"}, "input")
        _shape(value["shape"], "input.shape")
        ranges = value["ranges"]
        _need(isinstance(ranges, list) and len(ranges) == value["shape"][0], "input.ranges", "is not a list")
        for ends in ranges:
            _range(ends, "input.ranges")
        return
    _keys(value, {"kind", "columns"}, "input")
    _need(isinstance(value["columns"], list) and 0 < len(value["columns"]) <= MAX_COLUMNS, "input.columns", "is empty")
    for i, column in enumerate(value["columns"]):
        where = f"input.columns[{i}]"
        _need(isinstance(column, dict) and column.get("kind") in ("number", "category"), where, "has no known kind")
        more = _role(column, where) if "role" in column else set()
        if column["kind"] == "number":
            _keys(column, {"name", "kind", "type", "gaps", "range"} | more, where)
            _need(column["type"] in (*NUMBERS, *TIMES), where, "has no known type")
            _need(isinstance(column["gaps"], bool), where, "does not say whether it had gaps")
            _range(column["range"], where)
        else:
            _keys(column, {"name", "kind", "categories"} | more, where)
            _names(column["categories"], f"{where}.categories")
    _names([c["name"] for c in value["columns"]], "names of input columns")


def _role(column: Any, where: str) -> set[str]:
    """A column that is more than an input: the fields by which it says so."""
    _need(column["role"] in ("target", "sensitive"), where, "has no known role")
    _need(isinstance(column.get("gaps"), bool), where, "does not say whether it may have gaps")
    levels = column.get("levels")
    _need(isinstance(levels, list) and len(levels) <= MAX_COLUMNS, where, "has no list of levels")
    for level in levels or []:
        _number(level, f"{where}.levels")
    return {"role", "levels", "gaps"}


def _columns_out(value: Any) -> None:
    """Each column is released as one of its own values, or carried along as it came."""
    table, types, carried = value["table"], value["types"], value["carried"]
    _need(
        isinstance(types, list) and all(t in ("text", *NUMBERS, *TIMES) for t in types), "output.types", "is not known"
    )
    _need(isinstance(carried, dict) and all(t in ("text", *NUMBERS, *TIMES) for t in carried.values()),
          "output.carried", "is not known")  # fmt: skip
    left = [n for n in value["names"] if n not in carried]
    _need(len(left) + len(carried) == len(value["names"]), "output.carried", "names a column that is not released")
    _need(isinstance(table, list) and len(table) == len(types) == len(left), "output.table", "does not fit")
    _need(value["shape"] == [len(table)] and value["codes"] is None, "output.shape", "is not one number a column")
    for column in table:
        _need(isinstance(column, list) and 0 < len(column) <= 2**16, "output.table", "has a column without values")
        for cell in column:
            _need(cell is None or isinstance(cell, str | int | float | bool), "output.table", "holds more than values")


def _output(value: Any) -> None:
    _keys(value, {"shape", "names", "meaning", "table", "codes", "types", "carried"}, "output")
    _shape(value["shape"], "output.shape")
    _names(value["names"], "output.names")
    _text(value["meaning"], "output.meaning", 10_000)
    width = math.prod(value["shape"])
    if value["types"] is not None:
        return _columns_out(value)
    _need(not value["carried"], "output.carried", "is for releases that are tables")
    if value["codes"] is not None:  # each record is released as a whole number from 0 to codes - 1
        _whole(value["codes"], "output.codes", 1, 2**24)
        _need(value["shape"] == [1], "output.shape", "of code numbers must be [1]")
    if value["table"] is None:
        _need(len(value["names"]) == width, "output.names", f"has {len(value['names'])} names for {width} numbers")
        return
    # each cell is released as a row of this table
    _need(
        isinstance(value["table"], list) and len(value["table"]) == len(value["names"]), "output.table", "does not fit"
    )
    _need(value["shape"] == [1], "output.shape", "of a table of cells must be [1]")
    lengths = set()
    for column in value["table"]:
        _need(isinstance(column, list), "output.table", "has a column that is not a list")
        lengths.add(len(column))
        for cell in column:
            _need(cell is None or isinstance(cell, str | int | float | bool), "output.table", "holds more than values")
    _need(len(lengths) == 1 and 0 not in lengths, "output.table", "has columns of different lengths")
    _need(lengths == {value["codes"]}, "output.codes", "is not the length of the table")


def _noise(value: Any) -> None:
    _keys(
        value,
        {"distribution", "scale", "columns", "added", "mechanism", "grid", "radius", "resolution", "proof"},
        "noise",
    )
    _hex(value["proof"], "noise.proof")
    _number(value["resolution"], "noise.resolution")
    _need(0 < value["resolution"] <= 1, "noise.resolution", "is not between 0 and 1")
    _need(value["distribution"] in ("normal", "laplace", "uniform"), "noise.distribution", "is not known")
    _number(value["scale"], "noise.scale")
    _need(value["scale"] > 0, "noise.scale", "is not positive")
    _number(value["grid"], "noise.grid")
    _need(0 < value["grid"] <= 1, "noise.grid", "is not between 0 and 1")
    _whole(value["columns"], "noise.columns", 1, 2**21)
    _need(isinstance(value["added"], bool), "noise.added", "is neither true nor false")
    _hex(value["mechanism"], "noise.mechanism")
    if value["radius"] is not None:
        _number(value["radius"], "noise.radius")
        _need(value["radius"] > 0, "noise.radius", "is not positive")


def _sketch(value: Any) -> None:
    """The rows of the fit under the owner's key; None where the filter knows of none."""
    if value is None:
        return
    _keys(value, {"looks", "entries"}, "sketch")
    _need(isinstance(value["looks"], list) and len(value["looks"]) <= 100, "sketch.looks", "is not a list, or too long")
    for look in value["looks"]:
        _need(isinstance(look, list) and len(look) == 2, "sketch.looks", "holds more than pairs")
        for number in look:
            _whole(number, "sketch.looks", -1, 2**24)
    _text(value["entries"], "sketch.entries", 2**23)
    try:
        base64.b64decode(value["entries"], validate=True)
    except (binascii.Error, ValueError):
        _need(False, "sketch.entries", "is not base64")


def _analyzer(value: Any) -> None:
    """What a service answers: per target its classes, and how often it was right where that was measured."""
    _keys(value, {"targets"}, "analyzer")
    targets = value["targets"]
    _need(isinstance(targets, list) and 0 < len(targets) <= 1000, "analyzer.targets", "is not a list, or too long")
    for i, target in enumerate(targets):
        where = f"analyzer.targets[{i}]"
        _keys(target, {"name", "classes", "accuracy", "guessing", "rows"}, where)
        classes = target["classes"]
        _need(isinstance(classes, list) and 1 < len(classes) <= MAX_COLUMNS, where, "has no classes")
        for c in classes:
            _need(isinstance(c, str | int | float | bool), where, "has a class that is not a value")
        for share in ("accuracy", "guessing"):
            if target[share] is not None:
                _number(target[share], f"{where}.{share}")
                _need(0 <= target[share] <= 1, f"{where}.{share}", "is not a share")
        if target["rows"] is not None:
            _whole(target["rows"], f"{where}.rows", 1, 2**60)
    _names([t["name"] for t in targets], "names of targets")


def _range(value: Any, where: str) -> None:
    _need(isinstance(value, list) and len(value) == 2, where, "has no range")
    for end in value:
        _number(end, f"{where}.range")


def _need(condition: Any, where: str, what: str) -> None:
    if not condition:
        raise BundleError(f"manifest: {where} {what}")


def _keys(value: Any, known: set[str], where: str) -> None:
    _need(isinstance(value, dict), where, "is not an object")
    found = set(value)
    if found != known:
        odd = sorted(found ^ known)[0][:80]
        raise BundleError(f"manifest: {where} {'has an unknown' if odd in found else 'lacks the'} field {odd!r}")


def _text(value: Any, where: str, most: int) -> None:
    _need(isinstance(value, str) and len(value) <= most, where, "is not text, or too long")


def _names(value: Any, where: str) -> None:
    _need(isinstance(value, list) and len(value) <= MAX_COLUMNS, where, "is not a list, or too long")
    for name in value:
        _text(name, where, 10_000)
        try:
            name.encode()
        except UnicodeEncodeError:
            _need(False, where, "has a name that is not text")
    _need(len(set(value)) == len(value), where, "has one name twice")


def _hex(value: Any, where: str) -> None:
    _need(isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value), where, "is no 256-bit hash")


def _day(value: Any, where: str) -> None:
    _need(isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value), where, "is not a day such as 2027-02-01")
    try:
        datetime.date.fromisoformat(value)
    except ValueError:
        _need(False, where, "is not a day such as 2027-02-01")


def _number(value: Any, where: str) -> None:
    _need(isinstance(value, int | float) and not isinstance(value, bool), where, "is not a number")
    _need(abs(value) < 1e300, where, "is not a usable number")


def _whole(value: Any, where: str, low: int, high: int) -> None:
    _need(isinstance(value, int) and not isinstance(value, bool) and low <= value <= high, where, "is out of range")


def _shape(value: Any, where: str) -> None:
    _need(isinstance(value, list) and 0 < len(value) <= 4, where, "is not a shape")
    for n in value:
        _whole(n, where, 1, 2**24)
    _need(math.prod(value) <= 2**21, where, "is too large")


def today() -> datetime.date:
    """The day it is, by this machine's clock."""
    return datetime.date.today()


def expiry_date(asked: str | datetime.date | None) -> str | None:
    """The last day of use, of a date or of a number of days from now.

    Examples
    --------
    >>> expiry_date("2999-02-01"), expiry_date(None)
    ('2999-02-01', None)
    """
    if asked is None or asked == "never":
        return None
    if isinstance(asked, datetime.datetime):
        asked = asked.date()
    days = re.fullmatch(r"(\d{1,5})d", str(asked).strip())
    try:
        last = today() + datetime.timedelta(int(days[1])) if days else datetime.date.fromisoformat(str(asked).strip())
    except (ValueError, OverflowError):
        raise InputError(
            f"expires must be a date such as 2027-02-01, days such as 90d, or never; found {asked!r}"
        ) from None
    if last < today():
        raise InputError(f"expires is {last}, which is over already; name a day from {today()} on")
    return last.isoformat()


def is_expired(manifest: Mapping[str, Any]) -> bool:
    """Whether a bundle's last day is over; one without a date never expires."""
    last = manifest.get("expires")
    return last is not None and today() > datetime.date.fromisoformat(last)


def check_expiry(manifest: Mapping[str, Any], name: str, refuse: bool = False) -> None:
    """Warn where a bundle's last day is over; raise where that was asked for."""
    if not is_expired(manifest):
        return
    said = (
        f"{name} expired on {manifest['expires']} (today is {today()}): its figures belong to the people of its audit, "
        f"and nobody has said since that they still hold. Audit it on new rows and save it again"
    )
    if refuse:
        raise BundleError(said)
    warnings.warn(said, TacitWarning, stacklevel=3)
