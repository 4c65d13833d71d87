"""Files that are damaged, in another encoding or without an end; disks, links and kills where results are written."""

from __future__ import annotations

import gzip
import os
import re
import stat
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import tacit
from commands import tacit_command
from tacit.errors import InputError
from tacit.records import csv_files
from tacit.records.csv_files import CsvFile
from tacit.records.dataset import read_file
from tacit.release import apply

pytestmark = pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning")
posix = pytest.mark.skipif(os.name != "posix", reason="POSIX")
MARK = "SECRETVALUE"  # a cell that must never be in a message


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    rng = np.random.default_rng(0)
    s, y = rng.integers(2, size=(2, 300))
    X = pd.DataFrame({"a": rng.standard_normal(300) + s, "b": np.where(y, "x", "y")})
    f = tacit.baselines.LinearARL().fit(X, y, sensitive_features=s)
    return tacit.save(f, tmp_path_factory.mktemp("bundle") / "t.tacit")


BROKEN = {
    "ragged": (f"a,b\n1,x\n{MARK},x,4\n", r"row 3 has 3 cells, but its header names 2 columns"),
    "ragged, with late quotes": (f'a,b\n1, "x"\n{MARK},x,4\n', r"a row has 3 cells, but its header names 2 columns"),
    "a quote without an end": (f'a,b\n"{MARK},x\n3,y\n', r"row 2 has 1 cells"),
    "a name twice": (f"a,b,a\n1,x,{MARK}\n", r"the header names the column 'a' twice"),
    "empty": ("", "is empty"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_no_cell_is_in_a_message(name, bundle, tmp_path):
    content, said = BROKEN[name]
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for read in (lambda: read_file(path), lambda: apply(bundle, path, tmp_path / "out.csv")):
        with pytest.raises(InputError, match=said) as error:
            read()
        assert MARK not in str(error.value)
    ran = tacit_command("fit", path, "--target", "b", "--sensitive", "a", "--out", tmp_path / "out")
    assert ran.returncode == 2
    assert MARK not in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_cell_that_does_not_fit_is_named_by_its_place(bundle, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"a,b\n1,x\n{MARK},x\n")
    with pytest.raises(InputError, match=r"'a', row 1: text of 11 characters is not a number") as error:
        apply(bundle, path, tmp_path / "out.csv")
    assert MARK not in str(error.value)
    assert not (tmp_path / "out.csv").exists()


@posix
def test_rows_that_were_set_aside_are_the_owners_alone(bundle, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"a,b\n1,x\n{MARK},x\n")
    before = os.umask(0)
    try:
        done = apply(bundle, path, tmp_path / "out.csv", on_error="quarantine")
    finally:
        os.umask(before)
    assert MARK in done.quarantine.read_text()  # the control: raw rows are in it
    assert stat.S_IMODE(done.quarantine.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "out.csv").stat().st_mode) & 0o044  # the release is as ever


def test_encodings_are_found_or_asked_for(tmp_path, monkeypatch):
    table = pd.DataFrame({"ä": ["Müller", "Ångström"], "b": [1, 2]})
    for name in ("utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"):
        path = tmp_path / f"{name}.csv"
        table.to_csv(path, index=False, encoding=name)
        pd.testing.assert_frame_equal(read_file(path), table, check_dtype=False)
    far = tmp_path / "far.csv"
    far.write_bytes(b"a,b\n" + b"1,x\n" * 300_000 + "1,Müller\n".encode("latin-1"))  # beyond the first look
    assert read_file(far)["b"].iloc[-1] == "Müller"
    with pytest.raises(InputError, match="not in utf-8; say what it is in"):
        CsvFile(far, encoding="utf-8").columns()
    with pytest.raises(InputError, match="there is no encoding 'klingon'"):
        CsvFile(path, encoding="klingon")
    shown = tacit_command("--encoding", "cp1252", "data", "show", path, "--target", "b", "--sensitive", "ä")
    monkeypatch.delenv("TACIT_ENCODING", raising=False)  # of the command, which ran in this process
    assert "not in utf-8" not in shown.stderr


@posix
def test_a_line_without_an_end_is_not_held(tmp_path):
    """Half a gigabyte of header, and of a cell (compressed): each is refused within 200 MB more than nothing."""
    paths = tmp_path / "head.csv.gz", tmp_path / "cell.csv.gz"
    for path, start in zip(paths, (b"a,b", b"a,b\n1,"), strict=True):
        with gzip.open(path, "wb", 1) as file:
            file.write(start)
            for _ in range(512):
                file.write(b"x" * 2**20)
    code = """
import resource, sys
from pathlib import Path
from tacit.errors import InputError
from tacit.records.dataset import read_file
import pyarrow.csv
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    try:
        read_file(Path(path))
    except InputError as error:
        print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    ran = subprocess.run([sys.executable, "-c", code, *map(str, paths)], capture_output=True, text=True)
    *said, more = ran.stdout.splitlines()
    assert [re.search(r"a line of more than [\d,]+ characters", s) is not None for s in said] == [True, True], (
        ran.stderr
    )
    assert int(more) < 200 * 1024


def test_a_line_that_is_long_but_ends_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "LONGEST", 1000)
    monkeypatch.setattr(csv_files, "BLOCK", 512)
    (tmp_path / "t.csv").write_text("a,b\n" + f"{'x' * 300},1\n" * 20)
    assert len(read_file(tmp_path / "t.csv")) == 20
    (tmp_path / "t.csv").write_text("a,b\n" + f"{'x' * 1600},1\n" * 2)
    with pytest.raises(InputError, match="more than 1,000 characters"):
        read_file(tmp_path / "t.csv")


# -- where results are written -------------------------------------------------------------------------


def test_an_output_is_never_the_input_and_replaces_a_link_not_what_it_points_to(bundle, tmp_path):
    source, other = tmp_path / "t.csv", tmp_path / "other.csv"
    source.write_text("a,b\n1,x\n2,y\n")
    other.write_text("keep me")
    (tmp_path / "same.csv").symlink_to(source)
    os.link(source, tmp_path / "hard.csv")
    for target in ("t.csv", "same.csv", "hard.csv"):
        with pytest.raises(InputError, match="is the input itself"):
            apply(bundle, source, tmp_path / target)
    assert source.read_text() == "a,b\n1,x\n2,y\n"
    (tmp_path / "link.csv").symlink_to(other)
    apply(bundle, source, tmp_path / "link.csv")
    assert not (tmp_path / "link.csv").is_symlink()
    assert other.read_text() == "keep me"


@posix
def test_a_full_disk_leaves_what_was_there(bundle, tmp_path):
    """A limit on the size of files stands for the disk: writing fails midway, and says so in a line."""
    pd.DataFrame({"a": np.arange(20_000.0), "b": "x"}).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "out.csv").write_text("old")
    code = "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)); "
    code += "from tacit.cli import main; sys.argv = ['tacit', *sys.argv[1:]]; main()"
    asked = ["release", "apply", str(bundle), str(tmp_path / "t.csv"), str(tmp_path / "out.csv")]
    ran = subprocess.run([sys.executable, "-c", code, *asked], capture_output=True, text=True)
    assert ran.returncode == 1, ran.stderr
    assert "File too large" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert (tmp_path / "out.csv").read_text() == "old"
    apply(bundle, tmp_path / "t.csv", tmp_path / "out.csv")  # there is room again
    assert len(pd.read_csv(tmp_path / "out.csv")) == 20_000


WRITES = """
import os, random, signal, sys, time
from pathlib import Path
from tacit.files import write_whole
path, told = Path(sys.argv[1]), ["a" * 300_000, "b" * 300_000]
write_whole(path, told[0], private=True)
drawn = random.Random(0)
for kill in range(50):
    writers = []
    for text in told:  # two at a time, on one file
        if (pid := os.fork()) == 0:
            while True:
                write_whole(path, text, private=True)
        writers.append(pid)
    time.sleep(drawn.uniform(0, 0.03))
    for pid in writers:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert path.read_text() in told, kill
    assert path.stat().st_mode & 0o777 == 0o600
print("whole", kill + 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_two_writers_killed_at_fifty_random_moments_leave_a_whole_file(tmp_path):
    ran = subprocess.run([sys.executable, "-c", WRITES, str(tmp_path / "f.txt")], capture_output=True, text=True)
    assert ran.stdout == "whole 50\n", ran.stderr
