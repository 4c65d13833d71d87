"""The one way to write a file: whole or not there, private where it must be, and never a pickle."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import InputError
from tacit.files import read_state, replacing, strict_json, write_state, write_whole

SOURCE = Path(__file__).parent.parent / "src" / "tacit"


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "notes.txt"
    assert write_whole(path, "first") == path

    def stop_half_way() -> None:
        with replacing(path) as partial:
            partial.write_text("half")
            assert path.read_text() == "first"  # nobody ever reads half a file
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        stop_half_way()
    assert [p.name for p in path.parent.iterdir()] == ["notes.txt"]
    write_whole(path, "zweite: ä".encode())
    assert path.read_text(encoding="utf-8") == "zweite: ä"


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_a_private_file_is_private_from_its_first_byte_on(tmp_path: Path) -> None:
    path = write_whole(tmp_path / "open.txt", "for all")
    assert stat.S_IMODE(path.stat().st_mode) & 0o044  # the control: others may read an ordinary one
    with replacing(path, private=True) as partial:
        assert stat.S_IMODE(partial.stat().st_mode) == 0o600
        partial.write_text("mine")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_only_one_place_gives_files_their_names() -> None:
    assert [p.name for p in SOURCE.rglob("*.py") if "os.replace" in p.read_text()] == ["files.py"]


def test_a_state_comes_back_and_anothers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    arrays = {"step": np.array(3.0), "weights": np.arange(6.0).reshape(2, 3)[:, ::-1], "seen": np.array([True, False])}
    write_state(path, arrays, {"round": 2, "why": [None, "x"]}, "test-1", "mine")
    found, facts = read_state(path, "test-1", "a test", "mine")
    assert facts == {"round": 2, "why": [None, "x"]}
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].shape == array.shape
        assert found[name].dtype == array.dtype
    for kind, identity in (("test-2", "mine"), ("test-1", "another")):
        with pytest.raises(InputError, match="belongs to a test with other settings or other data"):
            read_state(path, kind, "a test", identity)
    path.write_bytes(b"rubbish")
    with pytest.raises(InputError, match="is not a checkpoint of Tacit"):
        read_state(path, "test-1", "a test", "mine")


@pytest.mark.parametrize("text", [b'{"a": 1, "a": 1}', b"[NaN]", b"[-Infinity]", b"\xff", b"[" * 100_000, b"", b"1 2"])
def test_json_with_surprises_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        strict_json(text)


@given(st.binary(max_size=40))
def test_no_bytes_raise_anything_but_a_value_error(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        strict_json(data)
