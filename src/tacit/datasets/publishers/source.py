"""What a publisher hands out: a folder, a zip or tar file, or a folder with such files in it; read, never unpacked."""

from __future__ import annotations

import contextlib
import gzip
import io
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from tacit.errors import InputError

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
LARGEST = 32 * 2**30  # bytes of an archive's content
INNER = 2**30  # bytes of what is held in memory: an archive inside another, a tar file that was compressed
RATIO, SMALL = 200, 2**20  # a file above SMALL that shrank by more is made to fill memory
LONGEST = 4 * 2**20  # characters of a line
BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError)

Opener = Callable[[], IO[bytes]]


class Source:
    """Files by name. Names are looked for without regard to case, at any depth.

    Parameters
    ----------
    path : a folder, or a .zip, .tar, .tar.gz or .tgz file
    name : of the data set, for messages

    Archives inside a folder (or inside an archive) are looked into when a file is not found beside them.
    """

    def __init__(self, path: str | Path, name: str) -> None:
        self.path, self.name = Path(path), name
        if not self.path.exists():
            raise InputError(f"no folder or file {self.path}; pass what the publisher of {name} hands out")
        self._files: dict[str, Opener] = {}
        self._looked_inside = False
        self._open = contextlib.ExitStack()  # archives, from which files are read as they are asked for
        if self.path.is_dir():
            for file in sorted(self.path.rglob("*")):
                if file.is_file():
                    self._add(file.relative_to(self.path).as_posix(), _opener(file))
        elif _is_archive(self.path.name):
            self._add_archive("", self.path.name, _opener(self.path), inner=False)
        else:
            self._add(self.path.name, _opener(self.path))

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def where(self, name: str) -> str:
        """How a message calls a file."""
        if name.startswith("../"):
            return str(self.path.parent / name[3:])
        if self.path.is_dir():
            return str(self.path / name)
        return str(self.path) if name == self.path.name else f"{self.path}: {name}"

    def matches(self, form: re.Pattern[str]) -> list[tuple[str, re.Match[str]]]:
        """Every file whose name has this form, in order of names."""
        found = [(name, match) for name in sorted(self._files) if (match := form.search(name))]
        return self.matches(form) if not found and self._look_inside() else found

    def find(self, *ends: str) -> str | None:
        """The file whose path ends in one of these (whole folder and file names; .gz may follow); first wish first."""
        for end in ends:
            for suffix in ("", ".gz"):
                found = [n for n in self._files if f"/{n}".lower().endswith(f"/{end}{suffix}".lower())]
                if found:
                    return min(found, key=lambda n: (n.count("/"), n))
        return self.find(*ends) if self._look_inside() else None

    def need(self, *ends: str, remedy: str) -> str:
        """As `find`, or what lies beside the folder or archive that was passed; an error where there is none."""
        found = self.find(*ends) or self._beside(ends)
        if found is None:
            raise InputError(f"{self.path} has no file {' or '.join(ends)}; {remedy}")
        return found

    def _beside(self, ends: tuple[str, ...]) -> str | None:
        wanted = [f"{end}{suffix}".lower() for end in ends for suffix in ("", ".gz")]
        for path in sorted(self.path.absolute().parent.iterdir()):
            if path.name.lower() in wanted and path.is_file():
                self._files[f"../{path.name}"] = _opener(path)
                return f"../{path.name}"
        return None

    def opened(self, name: str) -> IO[bytes]:
        """The file's bytes as they lie there."""
        return self._files[name]()

    def read(self, name: str) -> bytes:
        """All of a file that fits into memory."""
        with self.reading(name) as file:
            return file.read()

    def reading(self, name: str) -> Reading:
        """A file to read within `with`; what is wrong with its packing is said with its name."""
        return Reading(self, name)

    def lines(self, name: str) -> Generator[tuple[int, str], None, None]:
        """Number and text of every line that is not empty: any line ends, with or without a byte order mark."""
        with self.reading(name) as file:
            text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline=None)
            for number in range(1, 2**62):
                line = text.readline(LONGEST + 1)
                if not line:
                    return
                if len(line) > LONGEST:
                    raise InputError(f"{self.where(name)}, line {number}: it is longer than {LONGEST:,} characters")
                if line.strip():
                    yield number, line.rstrip("\n")

    def first_line(self, name: str) -> str:
        """The first line that is not empty."""
        with contextlib.closing(self.lines(name)) as lines:
            return next(lines, (0, ""))[1]

    # -- what is in it --------------------------------------------------------------------------

    def _add(self, name: str, opener: Opener) -> None:
        parts = PurePosixPath(name).parts
        if not any(p == "__MACOSX" or p.startswith(("._", ".DS_Store")) for p in parts):
            self._files[name] = opener

    def _look_inside(self) -> bool:
        """Also know what archives hold that lie among the files; False where there is nothing more."""
        inner = [] if self._looked_inside else [n for n in self._files if _is_archive(n)]
        self._looked_inside = True
        for name in inner:
            self._add_archive(f"{name}/", name, self._files[name], inner=not self.path.is_dir())
        return bool(inner)

    def _add_archive(self, prefix: str, name: str, opener: Opener, inner: bool) -> None:
        where = self.where(name)
        try:
            file = self._open.enter_context(opener())
            if inner:  # it must be searched at random
                file = io.BytesIO(_held(file, where))
            members = _zip(file, where) if name.lower().endswith(".zip") else _tar(file, where)
        except BROKEN as error:
            raise InputError(f"{where} is no whole archive ({_short(error)}); fetch it again") from None
        for member, open_member in members.items():
            self._add(prefix + member, open_member)


class Reading:
    """A file of a source within `with`; a broken packing is an error that names the file."""

    def __init__(self, source: Source, name: str) -> None:
        self.source, self.name = source, name

    def __enter__(self) -> IO[bytes]:
        try:
            self.packed = self.source.opened(self.name)
        except BROKEN as error:
            raise self._told(error) from None
        gz = self.name.lower().endswith(".gz")
        self.file = gzip.GzipFile(fileobj=self.packed) if gz else self.packed
        return self.file  # type: ignore[return-value]

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.file.close()
        self.packed.close()  # which a GzipFile leaves open
        if isinstance(error, BROKEN):
            raise self._told(error) from None

    def _told(self, error: Exception) -> InputError:
        return InputError(f"{self.source.where(self.name)} cannot be read ({_short(error)}); fetch it again")


def _zip(file: IO[bytes], where: str) -> dict[str, Opener]:
    archive = zipfile.ZipFile(file)
    members = [m for m in archive.infolist() if not m.is_dir()]
    for member in members:
        _check_path(member.filename, where)
        if member.flag_bits & 1:
            raise InputError(
                f"{where}: {member.filename} is encrypted; unpack it with its password and pass the folder"
            )
        if member.file_size > SMALL and member.file_size > RATIO * max(member.compress_size, 1):
            raise InputError(
                f"{where}: {member.filename} would grow to over {RATIO} times its size; no data does: refused"
            )
    _check_size(sum(m.file_size for m in members), where)
    return {m.filename: lambda m=m: archive.open(m) for m in members}  # type: ignore[misc]


def _tar(file: IO[bytes], where: str) -> dict[str, Opener]:
    if where.lower().endswith("gz"):  # held unpacked: to go back in it would be to unpack it anew
        file = io.BytesIO(_held(gzip.GzipFile(fileobj=file), where))
    archive = tarfile.open(fileobj=file, mode="r:")  # noqa: SIM115  (stays open as long as the source)
    found: dict[str, Opener] = {}
    total = 0
    for member in archive:
        _check_path(member.name, where)
        total += member.size
        _check_size(total, where)
        if member.isfile():  # links lead out
            found[str(PurePosixPath(member.name))] = lambda m=member: archive.extractfile(m)  # type: ignore[misc,assignment]
    return found


def _held(file: IO[bytes] | gzip.GzipFile, where: str) -> bytes:
    held = file.read(INNER + 1)
    if len(held) > INNER:
        raise InputError(f"{where} holds over {INNER:,} bytes; unpack it and pass the folder")
    return held


def _check_path(name: str, where: str) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or (path.parts and path.parts[0].endswith(":")):
        raise InputError(
            f"{where} has a file {name!r} whose path leads out of it; no publisher's archive does: refused"
        )


def _check_size(total: int, where: str) -> None:
    if total > LARGEST:
        raise InputError(f"{where} holds over {LARGEST:,} bytes, more than any set here; unpack it and pass the folder")


def _opener(path: Path) -> Opener:
    return lambda: open(path, "rb")


def _is_archive(name: str) -> bool:
    return name.lower().endswith(ARCHIVES)


def _short(error: object) -> str:
    return str(error) if isinstance(error, OSError | EOFError) else type(error).__name__
