"""The file NAME.tacit: a zip of known members, each stored as it is and named with its hash in the manifest.

Nothing in it is code: the graph is ONNX of known operators, weights are safetensors, the rest is JSON and text.
Members are not compressed, so that no file can be larger than it looks. Reading trusts nothing: sizes,
names, hashes, format version and schema are checked before anything is parsed further. Standard library alone.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from tacit.errors import BundleError
from tacit.files import strict_json, write_whole
from tacit.release.graph_check import Graph, check_graph
from tacit.release.manifest import ANALYZER, FORMAT, check_answers, check_fit, check_manifest, hashed
from tacit.release.weights import check_header

MB = 2**20
# name -> most bytes
LIMITS = {
    "manifest.json": 12 * MB,
    "model.onnx": 128 * MB,
    "weights.safetensors": 256 * MB,
    "audit.json": 8 * MB,
    "card.md": MB,
    "analyzer.onnx": 128 * MB,
    "signature.json": 4096,
}
MOST_BYTES = 384 * MB  # of all together
MOST_ENTRIES = 2**20  # of a member that is JSON: parsed, it takes up to a hundred times its bytes
OPTIONAL = (ANALYZER, "signature.json")
END = struct.Struct("<4s4H2LH")  # the end record of a zip without a comment


@dataclass(frozen=True)
class Bundle:
    """A bundle in memory, checked."""

    manifest: Mapping[str, Any]
    members: Mapping[str, bytes]
    name: str = "bundle"
    graph: Graph = field(default_factory=Graph)

    @property
    def signature(self) -> Mapping[str, Any] | None:
        text = self.members.get("signature.json")
        return None if text is None else parse_json(text, "signature.json")


def write_bundle(path: str | Path, manifest: Mapping[str, Any], members: Mapping[str, bytes]) -> Path:
    """Write the members and a manifest with their hashes: the whole file or none."""
    full = {
        "format": FORMAT,
        **manifest,
        "members": {n: {"sha256": digest(members[n]), "bytes": len(members[n])} for n in hashed(manifest)},
    }
    check_manifest(full)
    text = json.dumps(full, indent=1, ensure_ascii=False, allow_nan=False).encode()
    return write_members(path, {"manifest.json": text, **members})


def write_members(path: str | Path, members: Mapping[str, bytes]) -> Path:
    kept = [name for name in LIMITS if name in members]
    for name in kept:
        if len(members[name]) > LIMITS[name]:
            raise BundleError(f"{name} would have {len(members[name]):,} bytes; a bundle takes {LIMITS[name]:,}")
    return write_whole(path, members_zip(members))


def members_zip(members: Mapping[str, bytes]) -> bytes:
    """Members as the bytes of a bundle."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
        for name in (name for name in LIMITS if name in members):
            archive.writestr(zipfile.ZipInfo(name), members[name])  # no time stamp: same filter, same bytes
    return made.getvalue()


def read_bundle(path: str | Path) -> Bundle:
    """Read and check a bundle; raises `BundleError` that says what is wrong with it."""
    with open_regular(Path(path)) as file:
        return parse_bundle(file, os.fstat(file.fileno()).st_size, Path(path).name)


def parse_bundle(file: BinaryIO, size: int, called: str) -> Bundle:
    """The bundle in an open file of this size, checked."""
    members = _members(file, size, called)
    manifest = parse_json(members["manifest.json"], "manifest.json")
    if not isinstance(manifest, dict):
        raise BundleError(f"{called}: manifest.json is not an object; this is not a bundle of Tacit")
    check_manifest(manifest)
    if (ANALYZER in members) != (manifest.get("analyzer") is not None):
        raise BundleError(f"{called}: the manifest does not tell of {ANALYZER} as it is")
    for name in hashed(manifest):
        declared = manifest["members"][name]
        if declared["bytes"] != len(members[name]) or declared["sha256"] != digest(members[name]):
            raise BundleError(f"{called}: {name} is not what the manifest says; the file is damaged or was changed")
    graph = check_graph(members["model.onnx"])
    check_fit(manifest, graph.inputs, graph.outputs)
    if ANALYZER in members:
        answers = check_graph(members[ANALYZER], ANALYZER)
        check_answers(manifest, answers.inputs, answers.outputs)
    check_header(members["weights.safetensors"])
    parse_json(members["audit.json"], "audit.json")
    try:
        members["card.md"].decode()
    except UnicodeDecodeError:
        raise BundleError(f"{called}: card.md is not text") from None
    return Bundle(manifest, members, called, graph)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def parse_json(data: bytes, name: str) -> Any:
    """A member of a bundle that is strict JSON, of so many entries at most."""
    if sum(data.count(mark) for mark in (b",", b"[", b"{")) > MOST_ENTRIES:
        raise BundleError(f"{name} has more than {MOST_ENTRIES:,} entries; it is refused")
    try:
        return strict_json(data)
    except ValueError as error:
        raise BundleError(f"{name} cannot be read as JSON ({str(error)[:200]})") from None


def _members(file: BinaryIO, size: int, called: str) -> dict[str, bytes]:
    if size > MOST_BYTES:
        raise BundleError(f"{called} has {size:,} bytes; a bundle has at most {MOST_BYTES:,}")
    _check_end(file, size, called)
    file.seek(0)
    try:
        with zipfile.ZipFile(file) as archive:
            infos = archive.infolist()
            _check_entries(infos, size, called)
            return {info.filename: _read(archive, info) for info in infos}
    except BundleError:
        raise
    # the zip is a stranger's bytes: whatever its parser stumbles on is a damaged bundle
    except Exception as error:
        raise BundleError(f"{called} is damaged ({type(error).__name__}: {str(error)[:200]})") from None


def open_regular(path: Path) -> Any:
    """A file to read; a pipe or a device, which may never end, is refused."""
    # without O_NONBLOCK, opening a pipe waits for its writer
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BundleError(f"{path.name} is not a file but a folder, a pipe or a device; name a bundle, NAME.tacit")
    return os.fdopen(descriptor, "rb")


def _check_end(file: Any, size: int, name: str) -> None:
    """The directory of the zip must be small, and end the file: no comment, no zip64, no thousands of entries."""
    if size < END.size:
        raise BundleError(f"{name} is not a bundle: it has {size} bytes")
    file.seek(size - END.size)
    signature, disk, first, here, entries, length, offset, comment = END.unpack(file.read(END.size))
    if signature != b"PK\x05\x06":
        raise BundleError(f"{name} is not a bundle, or it is cut off: there is no zip directory at its end")
    fits = offset + length + END.size == size
    if disk or first or comment or here != entries or entries > len(LIMITS) or length > 4096 or not fits:
        raise BundleError(f"{name} has an unusual zip directory ({entries} entries, {length} bytes); it is refused")


def _check_entries(infos: list[zipfile.ZipInfo], size: int, name: str) -> None:
    names = [info.orig_filename for info in infos]
    unknown = [n for n in names if n not in LIMITS]
    if unknown:
        raise BundleError(f"{name} has a member {unknown[0][:80]!r}; a bundle has {', '.join(LIMITS)}")
    if len(set(names)) != len(names):
        raise BundleError(f"{name} has two members of one name")
    missing = [n for n in LIMITS if n not in names and n not in OPTIONAL]
    if missing:
        raise BundleError(f"{name} has no {missing[0]}; it is not a bundle of Tacit, or damaged")
    for info in infos:
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 0x1 or info.file_size != info.compress_size:
            raise BundleError(f"{name}: {info.filename} is compressed or encrypted; members of a bundle are stored")
        if info.file_size > LIMITS[info.filename]:
            raise BundleError(f"{name}: {info.filename} has {info.file_size:,} bytes, too many")
    if sum(info.file_size for info in infos) > size:
        raise BundleError(f"{name}: members overlap")


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with archive.open(info) as member:
        data = member.read(info.file_size + 1)
    if len(data) != info.file_size:
        raise BundleError(f"{info.filename} has {len(data)} bytes, its entry says {info.file_size}")
    return data
