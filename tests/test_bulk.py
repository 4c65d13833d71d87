"""Whole folders and large files: images, several processes, kills, full disks and odd places."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image, PngImagePlugin

import tacit
from tacit.errors import InputError
from tacit.release.bulk import apply
from tacit.release.record_files import write_parts
from tacit.release.runtime import load

KEY = b"k" * 32
SIDE = 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bulk")


@pytest.fixture(scope="module")
def mask(folder):
    """A bundle that takes grey images and releases images."""
    rng = np.random.default_rng(0)
    y, s = rng.integers(2, size=(2, 60))
    X = np.clip(rng.random((60, 1, SIDE, SIDE)) * 0.5 + 0.4 * y[:, None, None, None], 0, 1)
    return tacit.save(
        tacit.TaskMask(0.25, epochs=1, random_state=0).fit(X, y, sensitive_features=s), folder / "m.tacit"
    )


@pytest.fixture(scope="module")
def rows(folder):
    """Three numbers in, three noisy numbers out."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 3)), rng.integers(2, size=300)
    return tacit.save(tacit.baselines.LaplaceMechanism(3.0).fit(X, y), folder / "rows.tacit")


@pytest.fixture(scope="module")
def text(folder):
    """Numbers and text in, two numbers out."""
    X, y, s = table(400)
    return tacit.save(tacit.baselines.PrivatePLS(2).fit(X, y, sensitive_features=s), folder / "text.tacit")


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    y, s = rng.integers(2, size=(2, n))
    job = np.where(y == 1, "cook", np.where(s == 1, "nurse", "clerk"))
    return pd.DataFrame({"job": job, "pay": 10 * s + rng.standard_normal(n)}), y, s


def pictures(folder, n=20, seed=0, side=SIDE):
    """Grey images in several formats, one folder deep; their pixels by name."""
    rng, made = np.random.default_rng(seed), {}
    for i in range(n):
        name = f"{'ann' if i % 2 else 'bob'}/{i:03d}.{('png', 'pgm', 'bmp', 'tif')[i % 4]}"
        made[name] = rng.integers(256, size=(side, side), dtype=np.uint8)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(made[name]).save(path)
    return made


def contents(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# -- images -------------------------------------------------------------------------------------


def test_a_folder_of_images_becomes_a_folder_of_images(mask, tmp_path):
    made = pictures(tmp_path / "in")
    (tmp_path / "in" / "labels.csv").write_text("not an image")
    done = apply(mask, tmp_path / "in", tmp_path / "out", rows=6)
    assert (done.rows, done.released) == (20, 20)
    assert sorted(contents(tmp_path / "out")) == sorted(made)
    names = sorted(made)
    expected = load(mask).transform(np.stack([made[n][None] / 255 for n in names]))
    for name, image in zip(names, expected, strict=True):
        found = np.asarray(Image.open(tmp_path / "out" / name))
        assert np.array_equal(found, np.rint(image[0] * 255))
        # nothing is lost on the way: what the mask lets through are the very pixels, a quarter of them
        assert (found == made[name]).mean() >= 0.25
        assert (found == made[name]).mean() < 0.3
    assert not [n for n in os.listdir(tmp_path) if n.startswith(".")]


def test_what_else_is_in_an_image_file_stays_behind(mask, tmp_path):
    (tmp_path / "in").mkdir()
    image = Image.fromarray(np.random.default_rng(0).integers(256, size=(SIDE, SIDE), dtype=np.uint8))
    more = PngImagePlugin.PngInfo()
    more.add_text("Author", "Ann Smith")
    image.save(tmp_path / "in" / "a.png", pnginfo=more)
    exif = Image.Exif()
    exif[0x013B] = "Ann Smith"
    image.save(tmp_path / "in" / "b.jpg", exif=exif)
    assert all(b"Ann Smith" in c for c in contents(tmp_path / "in").values())
    apply(mask, tmp_path / "in", tmp_path / "out")
    assert sorted(contents(tmp_path / "out")) == ["a.png", "b.png"]  # a jpeg would change the release
    assert not any(b"Ann Smith" in c for c in contents(tmp_path / "out").values())


def test_a_folder_of_images_becomes_a_table(mask, tmp_path):
    made = pictures(tmp_path / "in")
    names = sorted(made)
    expected = load(mask).transform(np.stack([made[n][None] / 255 for n in names])).reshape(20, -1)
    apply(mask, tmp_path / "in", tmp_path / "out.parquet", rows=6)
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert found["file"].tolist() == names
    assert found.drop(columns="file").to_numpy() == pytest.approx(expected, abs=1e-6)
    apply(mask, tmp_path / "in", tmp_path / "out.npz", rows=6)
    with np.load(tmp_path / "out.npz") as archive:
        assert archive["file"].tolist() == names
        assert archive["release"].shape == (20, 1, SIDE, SIDE)


def test_images_that_do_not_fit(mask, tmp_path):
    made = pictures(tmp_path / "in", 8)
    bad = {
        "large.png": (Image.new("L", (SIDE, SIDE + 1)), "17x16 pixels, but the bundle takes 16x16"),
        "red.png": (Image.new("RGB", (SIDE, SIDE)), r"has colour \(mode RGB\)"),
        "text.png": (b"no image", "not an image that Pillow reads"),
        "cut.png": (next(iter((tmp_path / "in").rglob("*.png"))).read_bytes()[:80], "cannot be read"),
    }
    for name, (content, message) in bad.items():
        path = tmp_path / "in" / name
        path.write_bytes(content) if isinstance(content, bytes) else content.save(path)
        with pytest.raises(tacit.TacitError, match=f"{name}: .*{message}.*Nothing was released"):
            apply(mask, tmp_path / "in", tmp_path / "out", rows=3)
        assert os.listdir(tmp_path) == ["in"]
        path.unlink()
    for name, (content, _) in bad.items():
        path = tmp_path / "in" / name
        path.write_bytes(content) if isinstance(content, bytes) else content.save(path)
    done = apply(mask, tmp_path / "in", tmp_path / "out", on_error="quarantine", rows=3)
    assert (done.rows, done.released, done.quarantined) == (12, 8, 4)
    assert sorted(contents(tmp_path / "out")) == sorted(made)
    lines = [json.loads(line) for line in done.quarantine.read_text().splitlines()]
    assert sorted(line["file"] for line in lines) == sorted(bad)


def test_folders_and_bundles_that_do_not_match(mask, rows, tmp_path):
    pictures(tmp_path / "in", 2)
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for source, target, message in (
        ("in", "full", "not an empty folder"),
        ("in", "link", "not an empty folder"),
        ("in", "in", "the input itself"),
        ("in", "in/out", "lies inside the input"),
        ("empty", "out", "has no images"),
        ("nothing", "out", "no file or folder"),
    ):
        with pytest.raises(tacit.TacitError, match=message):
            apply(mask, tmp_path / source, tmp_path / target)
    with pytest.raises(tacit.TacitError, match=r"images this bundle cannot take: it takes records of shape \(3,\)"):
        apply(rows, tmp_path / "in", tmp_path / "out", noise_key=KEY)
    assert (tmp_path / "full" / "x").read_text() == "mine"
    Image.new("L", (SIDE, SIDE)).save(tmp_path / "in" / "ann" / "001.jpg")
    Image.new("L", (SIDE, SIDE)).save(tmp_path / "in" / "ann" / "001.png")
    with pytest.raises(tacit.TacitError, match=r"001.jpg and ann/001.png would both be written as ann/001.png"):
        apply(mask, tmp_path / "in", tmp_path / "out")


@pytest.mark.filterwarnings("ignore:target .* a function of")
def test_releases_that_are_no_pixels(folder, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.random((50, 1, SIDE, SIDE)), rng.integers(2, size=50)
    noisy = tacit.save(tacit.baselines.LaplaceMechanism(3.0).fit(X, y), tmp_path / "noisy.tacit")
    code = tacit.save(tacit.MinimaxFilter(2, max_iter=2).fit(X, y, sensitive_features=y), tmp_path / "code.tacit")
    bright = tacit.save(tacit.baselines.LaplaceMechanism(3.0).fit(X * 255, y), tmp_path / "bright.tacit")
    pictures(tmp_path / "in", 3)
    for bundle, message in (
        (noisy, r"values from -.* which are no pixels .*\.npz instead"),
        (code, r"releases no images.*out.parquet or out.npz"),
        (bright, "fitted on pixels with a mean up to 1"),
    ):
        with pytest.raises(tacit.TacitError, match=message):
            apply(bundle, tmp_path / "in", tmp_path / "out", noise_key=KEY)
    apply(code, tmp_path / "in", tmp_path / "out.csv")
    assert list(pd.read_csv(tmp_path / "out.csv")) == ["file", *load(code).get_feature_names_out()]


# -- several processes, and kills ---------------------------------------------------------------


def sources(folder):
    """The same records in every format."""
    X = table(3000, seed=2)[0]
    X.to_csv(folder / "in.csv", index=False)
    X.to_parquet(folder / "in.parquet", row_group_size=3000)
    arrow = pa.Table.from_pandas(X, preserve_index=False)
    with pa.ipc.new_file(folder / "in.arrow", arrow.schema) as file:
        file.write_table(arrow)


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_several_processes_give_the_same_bytes(suffix, text, tmp_path):
    sources(tmp_path)
    told = []
    one = apply(text, tmp_path / f"in.{suffix}", tmp_path / "one.parquet", rows=250)
    two = apply(
        text,
        tmp_path / f"in.{suffix}",
        tmp_path / "two.parquet",
        rows=250,
        n_jobs=2,
        callback=lambda what, n, _: told.append(n),
    )
    assert one == two
    assert told == list(range(250, 3001, 250))
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()


def test_the_first_bad_row_is_named_by_several_processes_too(text, tmp_path):
    X = table(1000, seed=2)[0].astype({"pay": object})
    X.loc[[333, 777], "pay"] = "much"
    X.to_csv(tmp_path / "in.csv", index=False)
    arrow = pa.table({"job": X["job"].tolist(), "pay": X["pay"].astype(str).tolist()})
    pq.write_table(arrow, tmp_path / "in.parquet")
    with pytest.raises(tacit.TacitError, match=r"'pay', row 333: text of 4 characters is not a number"):
        apply(text, tmp_path / "in.parquet", tmp_path / "out.parquet", rows=100, n_jobs=2)
    assert sorted(os.listdir(tmp_path)) == ["in.csv", "in.parquet"]


def test_a_part_that_is_bad_as_a_whole(text, tmp_path):
    X = table(1000, seed=2)[0]
    X.loc[200:299, "pay"] = np.inf
    X.to_parquet(tmp_path / "in.parquet")
    done = apply(text, tmp_path / "in.parquet", tmp_path / "out.parquet", rows=100, on_error="quarantine")
    assert (done.released, done.quarantined) == (900, 100)
    assert len(done.quarantine.read_text().splitlines()) == 100
    good = load(text).transform(X.drop(index=range(200, 300)))
    assert np.array_equal(pd.read_parquet(tmp_path / "out.parquet").to_numpy(), good)


KILLED = """
import os, signal, sys
from tacit.release import bulk
def tell(what, now, total):
    if now >= int(sys.argv[4]):
        print(*[c.pid for c in __import__("multiprocessing").active_children()], flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
if __name__ == "__main__":
    bulk.apply(*sys.argv[1:4], rows=int(sys.argv[5]), n_jobs=int(sys.argv[6]), callback=tell)
"""


def killed(bundle, source, target, after, rows, jobs=1):
    """Start a run that kills itself; the processes it had."""
    arguments = [str(bundle), str(source), str(target), str(after), str(rows), str(jobs)]
    done = subprocess.run([sys.executable, "-c", KILLED, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return [int(pid) for pid in done.stdout.split()]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow", "npz"])
def test_a_killed_run_leaves_the_old_output_and_nothing_else(suffix, rows, tmp_path):
    """No part and, above all, no key: the run drew a noise key of its own."""
    np.savez(tmp_path / "in.npz", X=np.random.default_rng(0).standard_normal((3000, 3)))
    out = tmp_path / f"out.{suffix}"
    out.write_text("old")
    killed(rows, tmp_path / "in.npz", out, 1000, 250)
    assert out.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["in.npz", out.name]
    assert apply(rows, tmp_path / "in.npz", out, rows=250, noise_key=KEY).released == 3000
    assert sorted(os.listdir(tmp_path)) == ["in.npz", out.name]


def test_a_killed_run_of_several_processes_ends_them_and_runs_again(mask, tmp_path):
    pictures(tmp_path / "in", 60)
    out = tmp_path / "out"
    children = killed(mask, tmp_path / "in", out, 20, 5, jobs=2)
    assert len(children) == 2
    assert not out.exists()
    for _ in range(3000):  # on a busy machine, in a while
        if not any(Path(f"/proc/{pid}").exists() for pid in children):
            break
        time.sleep(0.1)
    else:
        pytest.fail("working processes outlive the first one")
    apply(mask, tmp_path / "in", out, rows=5)
    apply(mask, tmp_path / "in", tmp_path / "whole", rows=5)
    assert contents(out) == contents(tmp_path / "whole")
    assert sorted(os.listdir(tmp_path)) == ["in", "out", "whole"]


def test_a_disk_that_fills_up(rows, tmp_path):
    """Written files are held under a limit: nothing is left of the output."""
    X = np.random.default_rng(0).standard_normal((20_000, 3))
    np.savez(tmp_path / "in.npz", X=X)
    out = tmp_path / "out.npz"
    code = "import sys; from tacit.release.bulk import apply; apply(*sys.argv[1:], rows=2000, noise_key=b'k' * 32)"
    run = [sys.executable, "-c", code, str(rows), str(tmp_path / "in.npz"), str(out)]
    limit = 200_000  # bytes: the output is larger
    full = subprocess.run(
        run, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip
    assert "File too large" in full.stderr
    assert os.listdir(tmp_path) == ["in.npz"]


def test_working_processes_import_nothing_from_the_current_folder(text, tmp_path):
    """A folder that somebody handed over may hold files that are named like Python's own modules."""
    sources(tmp_path)
    (tmp_path / "multiprocessing.py").write_text("open('ran', 'w')")
    code = "import sys; sys.path.insert(0, sys.argv[4]); from tacit.release.bulk import apply\n"
    code += "apply(*sys.argv[1:4], rows=1000, n_jobs=2)"
    arguments = [str(text), "in.parquet", "out.parquet", str(Path(tacit.__file__).parents[1])]
    ran = subprocess.run([sys.executable, "-P", "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "out.parquet").exists()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("quote", [False, True])
def test_names_of_columns_are_formulas_too(quote, tmp_path):
    column, out = "=cmd|' /C calc'!A0", tmp_path / "out.csv"
    batch = pa.record_batch({column: [1.0, 2.0], "-1": ["=1", "x"]})
    with contextlib.nullcontext() if quote else pytest.warns(tacit.TacitWarning):
        write_parts(out, [batch], quote_formulas=quote)
    found = pd.read_csv(out)
    assert list(found) == ["'" * quote + column, "-1"]
    assert found["-1"].tolist() == ["'" * quote + "=1", "x"]


# -- odd places ---------------------------------------------------------------------------------


def test_odd_places(rows, tmp_path):
    source = tmp_path / "in.npz"
    np.savez(source, X=np.zeros((10, 3)))
    before = source.read_bytes()
    (tmp_path / "hard.npz").hardlink_to(source)
    (tmp_path / "soft.npz").symlink_to(source)
    (tmp_path / "folder.npz").mkdir()
    for target, message in (
        (source, "the input itself"),
        (tmp_path / "hard.npz", "the input itself"),
        (tmp_path / "soft.npz", "the input itself"),
        (tmp_path / "folder.npz", "is a folder"),
        (rows, "the bundle itself"),
    ):
        with pytest.raises(tacit.TacitError, match=message):
            apply(rows, source, target, noise_key=KEY)
    assert source.read_bytes() == before
    for name, content in (("a.npz", b"PK no"), ("b.parquet", b"PAR1 no"), ("c.arrow", b"no")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(tacit.TacitError, match=name):
            apply(rows, tmp_path / name, tmp_path / "out.npz", noise_key=KEY)


def test_two_runs_do_not_write_one_folder(mask, tmp_path):
    pictures(tmp_path / "in")
    arguments = (mask, tmp_path / "in", tmp_path / "out")

    def tell(what, now, total):
        if now == 10:
            with pytest.raises(InputError):
                apply(*arguments, rows=10)

    assert apply(*arguments, rows=10, callback=tell).released == 20
    (tmp_path / ".linked.part").symlink_to(tmp_path / "in")
    with pytest.raises(InputError):
        apply(mask, tmp_path / "in", tmp_path / "linked")


@pytest.mark.slow
def test_one_huge_row_group_is_read_in_little_memory(rows, tmp_path):
    """Of 20 million rows in a single row group (480 MB raw) the peak stays under .6 of that."""
    n, step = 20_000_000, 1_000_000
    rng = np.random.default_rng(0)
    columns = {f"x{i}": rng.standard_normal(step) for i in range(3)}
    block = pa.table(columns)
    pq.write_table(
        pa.concat_tables([block] * (n // step)), tmp_path / "in.parquet", row_group_size=n, use_dictionary=False
    )
    assert pq.ParquetFile(tmp_path / "in.parquet").num_row_groups == 1
    code = (
        "import re, sys; from tacit.release.bulk import apply; apply(*sys.argv[1:], noise_key=b'k' * 32); "
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    )
    run = [sys.executable, "-c", code, str(rows), str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet")]
    peak = int(subprocess.run(run, capture_output=True, text=True, check=True).stdout) * 1024
    assert peak < 0.6 * n * 24
