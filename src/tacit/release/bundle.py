"""The file NAME.tacit: a zip of known members, each stored as it is and named with its hash in the manifest.

Nothing in it is code: the graphs are ONNX of known operators, weights are safetensors, the rest is JSON and text.
Members are not compressed, so that no file can be larger than it looks. A file is read once: sizes and names first,
then who vouches for it (`tacit.release.trust`), then hashes, format version and schema. Standard library alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import stat
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tacit.errors import BundleError, InputError, TacitError, UntrustedBundle
from tacit.files import strict_json, write_whole
from tacit.release.manifest import ANALYZER, ENCODER, FORMAT, check_manifest, hashed
from tacit.release.trust import check_graph, local_mac, written_here

MB = 2**20
# name -> most bytes
LIMITS = {
    "manifest.json": 12 * MB,
    "model.onnx": 128 * MB,
    "weights.safetensors": 256 * MB,
    "audit.json": 8 * MB,
    "card.md": MB,
    ENCODER: 128 * MB,
    ANALYZER: 128 * MB,
    "signature.json": 4096,
    "local.mac": 64,
}
MOST_BYTES = 384 * MB  # of all together
MOST_ENTRIES = 2**20  # of a member that is JSON: parsed, it takes up to a hundred times its bytes
VOUCHES = ("manifest.json", "signature.json", "local.mac")
OPTIONAL = (ENCODER, ANALYZER, "signature.json", "local.mac")
END = struct.Struct("<4s4H2LH")  # the end record of a zip without a comment


@dataclass(frozen=True)
class Bundle:
    """A bundle in memory. `trusted`: this user wrote it, or a trusted key has signed it."""

    manifest: Mapping[str, Any]
    members: Mapping[str, bytes]
    name: str = "bundle"
    trusted: bool = True

    @property
    def signature(self) -> Mapping[str, Any] | None:
        text = self.members.get("signature.json")
        return None if text is None else parse_json(text, "signature.json")

    def graph(self, member: str) -> bytes:
        """The bytes of a graph that may be run: one that nobody vouches for has allowed operators alone."""
        if not self.trusted:
            check_graph(self.members[member], member)
        return self.members[member]


def write_bundle(path: str | Path, manifest: Mapping[str, Any], members: Mapping[str, bytes]) -> Path:
    """Write the members and a manifest with their hashes, as a bundle of this user: the whole file or none."""
    full = {
        "format": FORMAT,
        **manifest,
        "members": {n: {"sha256": digest(members[n]), "bytes": len(members[n])} for n in hashed(manifest)},
    }
    check_manifest(full)
    text = json.dumps(full, indent=1, ensure_ascii=False, allow_nan=False).encode()
    mac = local_mac(text)
    return write_members(path, {"manifest.json": text, **members} | ({} if mac is None else {"local.mac": mac}))


def write_members(path: str | Path, members: Mapping[str, bytes]) -> Path:
    for name in LIMITS:
        if len(members.get(name, b"")) > LIMITS[name]:
            raise BundleError(f"{name} would have {len(members[name]):,} bytes; a bundle takes {LIMITS[name]:,}")
    return write_whole(path, members_zip(members))


def members_zip(members: Mapping[str, bytes]) -> bytes:
    """Members as the bytes of a bundle."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
        for name in (name for name in LIMITS if name in members):
            archive.writestr(zipfile.ZipInfo(name), members[name])  # no time stamp: same filter, same bytes
    return made.getvalue()


def read_bundle(
    path: str | Path,
    trusted_key: str | Path | bytes | None = None,
    *,
    name: str | None = None,
    min_version: int | None = None,
    trust: bool = False,
) -> Bundle:
    """Read a bundle that may be loaded; the way in for everything that runs one.

    Parameters
    ----------
    path, trusted_key, name, min_version, trust : as for `tacit.load`

    Raises
    ------
    UntrustedBundle
        Where this user has not written it, no trusted key was given, and `trust` is False
    BundleError
        Where it is damaged, not signed as expected, or not what its manifest says
    """
    with open_regular(Path(path)) as file:
        size = os.fstat(file.fileno()).st_size
        return parse_bundle(file, size, Path(path), trusted_key, name=name, min_version=min_version, trust=trust)


def read_manifest(path: str | Path) -> Mapping[str, Any]:
    """The manifest of a bundle, whoever wrote it: what it says of itself. Nothing else is read."""
    with open_regular(Path(path)) as file, _archive(file, os.fstat(file.fileno()).st_size, Path(path).name) as archive:
        return _manifest(_read(archive, archive.getinfo("manifest.json")), Path(path).name)


def parse_bundle(
    file: BinaryIO,
    size: int,
    path: Path,
    trusted_key: str | Path | bytes | None = None,
    *,
    name: str | None = None,
    min_version: int | None = None,
    trust: bool = False,
) -> Bundle:
    """The bundle in an open file of this size; see `read_bundle`."""
    called = path.name
    if trusted_key is None and (name is not None or min_version is not None):
        raise InputError("name and min_version are about signatures; pass trusted_key as well")
    with _archive(file, size, called) as archive:
        infos = {info.filename: info for info in archive.infolist()}
        # what is verified is what is parsed: nothing is read twice
        members = {n: _read(archive, infos[n]) for n in VOUCHES if n in infos}
        if trusted_key is not None:
            from tacit.release.signing import require_signature  # a device without signatures has no cryptography

            require_signature(members, called, trusted_key, path.stem if name is None else name, min_version)
        trusted = trusted_key is not None or written_here(members["manifest.json"], members.get("local.mac"))
        if not trusted and not trust:
            raise UntrustedBundle(called)
        members |= {n: _read(archive, info) for n, info in infos.items() if n not in members}
    manifest = _manifest(members["manifest.json"], called)
    if {n for n in members if n not in VOUCHES} != set(hashed(manifest)):
        raise BundleError(f"{called}: its members are not those that its manifest names")
    for member in hashed(manifest):
        declared = manifest["members"][member]
        if declared["bytes"] != len(members[member]) or declared["sha256"] != digest(members[member]):
            raise BundleError(f"{called}: {member} is not what the manifest says; the file is damaged or was changed")
    return Bundle(manifest, members, called, trusted)


def _manifest(data: bytes, called: str) -> Mapping[str, Any]:
    manifest = parse_json(data, "manifest.json")
    if not isinstance(manifest, dict):
        raise BundleError(f"{called}: manifest.json is not an object; this is not a bundle of Tacit")
    check_manifest(manifest)
    return manifest


def sign(
    path: str | Path, secret_key: str | Path, name: str | None = None, version: int = 1, *, trust: bool = False
) -> Path:
    """Sign a bundle, in place, as this version of this name; an earlier signature is replaced.

    Parameters
    ----------
    path : the bundle
    secret_key : the file that `tacit release key signing` wrote
    name : what those who load it expect it to be; the file's name, without its suffix, by default
    version : a reader who has seen a version of this name refuses all before it
    trust : sign a bundle that another user or another machine has written
    """
    from tacit.release.signing import signature  # a device without signatures has no cryptography

    bundle = read_bundle(path, trust=trust)
    signed = signature(bundle.members["manifest.json"], secret_key, Path(path).stem if name is None else name, version)
    return write_members(path, {**bundle.members, "signature.json": signed})


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


@contextlib.contextmanager
def _archive(file: BinaryIO, size: int, called: str) -> Iterator[zipfile.ZipFile]:
    """The zip in an open file, its directory checked."""
    if size > MOST_BYTES:
        raise BundleError(f"{called} has {size:,} bytes; a bundle has at most {MOST_BYTES:,}")
    _check_end(file, size, called)
    file.seek(0)
    try:
        with zipfile.ZipFile(file) as archive:
            _check_entries(archive.infolist(), size, called)
            yield archive
    except TacitError:
        raise
    # the zip may be anybody's bytes: whatever its parser stumbles on is a damaged bundle
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
