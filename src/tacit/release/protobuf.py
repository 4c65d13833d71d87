"""Protocol-buffer messages read strictly: known fields alone, each of its own wire type, single ones once.

What one reader skips and another takes is how a file means two things. So whatever this reader does not know is
refused. Numpy alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tacit.errors import BundleError

# kind of a field -> its wire types: whole number, eight bytes, bytes, four bytes; capitals may repeat, and be packed
WIRES = {"int": (0,), "INTS": (0, 2), "bytes": (2,), "BYTES": (2,), "float": (5,), "FLOATS": (5, 2), "DOUBLES": (1, 2)}
RUN = rb"[\x80-\xff]{0,9}[\x00-\x7f]"  # a whole number
MOST_BYTES = 2**22  # of a list of whole numbers
MOST_FIELDS = 2**21  # of one message and all inside it: reading them takes seconds at most

Known = Mapping[int, tuple[str, str]]
Field = tuple[str, str, int | memoryview]


def message(data: memoryview, known: Known, where: str) -> dict[str, Any]:
    """The fields of a message by name: whole numbers, views of bytes, lists of them, and numpy arrays of numbers."""
    found: dict[str, Any] = {}
    for name, kind, value in fields(data, known, where):
        if kind.islower():
            if name in found:
                raise BundleError(f"a {where} has its field {name} twice")
            found[name] = value
        else:
            found.setdefault(name, []).append(value)
    kinds = dict(known.values())
    return {name: _joined(value, kinds[name]) for name, value in found.items()}


def fields(data: memoryview, known: Known, where: str) -> Iterator[Field]:
    """Name, kind and value of every field of a message: whole numbers, or views of bytes."""
    at, end, count = 0, len(data), 0
    while at < end:
        tag, at = (data[at], at + 1) if data[at] < 128 else _varint(data, at)
        wire, (name, kind) = tag & 7, known.get(tag >> 3, ("", ""))
        if not name:
            raise BundleError(f"a {where} has field {tag >> 3}, which is not allowed in a bundle")
        if wire not in WIRES[kind]:
            raise BundleError(f"a {where} has a field {name} of wire type {wire}; it is damaged")
        count += 1
        if count > MOST_FIELDS:
            raise BundleError(f"a {where} has more than {MOST_FIELDS:,} entries")
        if kind == "INTS" and wire == 0:  # thousands of them, one by one: taken together
            run = re.compile(b"(?:" + re.escape(_number(tag)) + RUN + b")+").match(data, at - len(_number(tag)))
            if run is None or run.end() - at > MOST_BYTES:
                raise BundleError(f"a {where} has a {name} that does not end, or of more than {MOST_BYTES:,} bytes")
            at = run.end()
            yield name, kind, memoryview(b"".join(re.findall(re.escape(_number(tag)) + b"(" + RUN + b")", run[0])))
            continue
        if wire == 0:
            value, at = (data[at], at + 1) if data[at] < 128 else _varint(data, at)
            yield name, kind, value
            continue
        if wire == 2:
            length, at = (data[at], at + 1) if data[at] < 128 else _varint(data, at)
        else:
            length = 8 if wire == 1 else 4
        if at + length > end:
            raise BundleError(f"a {where} is cut off")
        yield name, kind, data[at : at + length]
        at += length


def encoded(known: Known, name: str, value: int | memoryview | bytes) -> bytes:
    """A field of a message as bytes."""
    number = next(n for n, (said, _) in known.items() if said == name)
    if isinstance(value, int):
        return _number(number << 3) + _number(value)
    return _number(number << 3 | 2) + _number(len(value)) + bytes(value)


def text(value: memoryview) -> str:
    return bytes(value).decode()


def signed(value: int) -> int:
    """A whole number of 64 bits with its sign."""
    return value - 2**64 if value >= 2**63 else value


def _joined(value: Any, kind: str) -> Any:
    if kind == "int":
        return signed(value)
    if kind == "float":
        return float(np.frombuffer(value, "<f4")[0])
    if kind == "INTS":
        return [n for v in value for n in _packed(v)]
    if kind in ("FLOATS", "DOUBLES"):
        return np.frombuffer(b"".join(value), "<f4" if kind == "FLOATS" else "<f8")
    return value


def _packed(view: memoryview) -> list[int]:
    """Whole numbers one after the other, each of one to ten bytes."""
    data = np.frombuffer(view, np.uint8)
    ends = np.flatnonzero(data < 128)
    if len(ends) > MOST_FIELDS:
        raise BundleError(f"a list has more than {MOST_FIELDS:,} entries")
    if not len(data) or ends[-1:] != len(data) - 1:
        raise BundleError("a number does not end")
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths, values = ends - starts + 1, np.zeros(len(ends), np.uint64)
    if lengths.max() > 10 or (data[ends[lengths == 10]] > 1).any():
        raise BundleError("a number has more than 64 bits")
    for k in range(lengths.max()):
        has = lengths > k
        values[has] |= (data[starts[has] + k] & 127).astype(np.uint64) << np.uint64(7 * k)
    return list(values.view(np.int64).tolist())


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = view[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value >= 2**64:
                raise BundleError("a number has more than 64 bits")
            return value, at
        shift += 7
        if shift > 63:
            raise BundleError("a number does not end")


def _number(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
