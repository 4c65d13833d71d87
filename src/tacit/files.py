"""Files that are whole or not there, states that are never pickles, JSON without surprises, graphs that can be run.

Devices have numpy and onnxruntime only, so nothing else is imported at the top.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tacit.errors import InputError

OLDEST_RUNTIME = (1, 27)  # 1.20 to 1.24 give one record's numbers to another at a negative column


@contextlib.contextmanager
def replacing(path: str | Path, private: bool = False, folder: Path | None = None) -> Iterator[Path]:
    """A file to write to, which takes the name `path` when the block ends; whatever stops it leaves the old file.

    Parameters
    ----------
    private : readable by its owner alone, from the first byte on, and on the disk before it has its name
    folder : where it lies until then, on the same disk; beside `path` without it

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> with replacing(target) as partial:
    ...     _ = partial.write_text("1 2 3")
    >>> target.read_text(), len(list(target.parent.iterdir()))
    ('1 2 3', 1)
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # two processes may write one file; some writers go by the suffix
    partial = (folder or path.parent) / f".{path.stem}.{os.getpid()}.part{path.suffix}"
    try:
        if private:
            partial.unlink(missing_ok=True)  # it may be another's, or readable by others
            os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield partial
        if private:
            with open(partial, "rb") as file:
                os.fsync(file)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing_stream(path: str | Path) -> Iterator[BinaryIO]:
    """An open file that takes the name `path` when the block ends; whatever stops it leaves the old file.

    Where the system has files without a name (Linux), nothing is left of it even if the process is killed.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        file = open(os.open(path.parent, os.O_TMPFILE | os.O_RDWR, 0o666), "w+b")  # noqa: SIM115
    except (AttributeError, OSError):  # another system, or a file system that has none
        with replacing(path) as partial, open(partial, "w+b") as named:
            yield named
        return
    with file:
        yield file
        file.flush()
        partial = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
        partial.unlink(missing_ok=True)
        # a folder is named although the path is absolute: only then does Python ask for the link to be followed
        os.link(f"/proc/self/fd/{file.fileno()}", partial, src_dir_fd=file.fileno(), follow_symlinks=True)
        os.replace(partial, path)


@contextlib.contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which takes the name `path` when the block ends. What a killed run left there is removed."""
    made = path.with_name(f".{path.name}.part")
    made.mkdir(parents=True, exist_ok=True)
    if made.is_symlink():
        raise InputError(f"{made} is a link; remove it first")
    descriptor = os.open(made, os.O_RDONLY) if os.name == "posix" else None
    try:
        if descriptor is not None:
            import fcntl  # not on Windows

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # it ends with this process
        for old in made.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        try:
            yield made
            made.replace(path)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    except BlockingIOError:
        raise InputError(f"another run is writing {path}; wait for it, or stop it first") from None
    finally:
        if descriptor is not None:
            os.close(descriptor)


@contextlib.contextmanager
def locked(path: str | Path) -> Iterator[None]:
    """One at a time, of all processes and threads: others wait. The lock ends with the process, however that ends.

    `path` is an empty file that stays; a file that is replaced cannot be its own lock.
    """
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if os.name == "posix":
            import fcntl  # each system has its own

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        else:
            import msvcrt  # each system has its own

            msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined]
        yield
    finally:
        os.close(descriptor)


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files of a folder and its folders, in order, without those that engines hide; else none."""
    found = sorted(folder.rglob("*.parquet")) if folder.is_dir() else []
    return [p for p in found if not any(part.startswith(("_", ".")) for part in p.relative_to(folder).parts)]


def write_whole(path: str | Path, data: Any, private: bool = False) -> Path:
    """Write text, or bytes, as a file that is either complete or not there."""
    with replacing(path, private) as partial:
        partial.write_bytes(data.encode() if isinstance(data, str) else data)
    return Path(path)


def write_state(
    path: str | Path, arrays: Mapping[str, Any], facts: Any, kind: str, identity: str = "", private: bool = False
) -> None:
    """Arrays and JSON as one safetensors file; `identity` says whose state it is (settings and data)."""
    from safetensors.numpy import save_file

    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    with replacing(path, private) as partial:
        save_file(plain, partial, {"format": kind, "identity": identity, "facts": json.dumps(facts)})


def read_state(path: str | Path, kind: str, of: str, identity: str = "") -> tuple[dict[str, np.ndarray], Any]:
    """The arrays and facts that `write_state` wrote; a file of another kind or identity is refused."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            header = file.metadata() or {}
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise InputError(f"{path} is not a checkpoint of Tacit ({error}); delete it or name another file") from None
    if header.get("format") != kind or header.get("identity") != identity:
        raise InputError(f"{path} belongs to {of} with other settings or other data; delete it, or name another file")
    return arrays, json.loads(header["facts"])


def strict_json(data: bytes) -> Any:
    """JSON as it is written down: no key twice, no NaN, no depth that exhausts the stack; else a ValueError.

    Examples
    --------
    >>> strict_json(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: a key occurs twice
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key occurs twice")
        return found

    def no_constant(word: str) -> Any:
        raise ValueError(f"{word} is not JSON")

    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_constant=no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def onnx_session(model: bytes, threads: int = 1, optimise: bool = True) -> Any:
    """A graph ready to run on the processor; `threads` 0 takes all cores. Raises what onnxruntime raises."""
    import onnxruntime

    version = tuple(int(n) for n in onnxruntime.__version__.split(".")[:2])
    if version < OLDEST_RUNTIME:
        raise InputError(
            f"onnxruntime {onnxruntime.__version__} is installed; versions before {'.'.join(map(str, OLDEST_RUNTIME))} "
            f"read outside of records that a graph asks for wrongly: pip install --upgrade onnxruntime"
        )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # others use this machine too
    if not optimise:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
