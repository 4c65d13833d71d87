"""The device install: the wheel without its dependencies, numpy and onnxruntime. Nothing else can be imported there."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import tacit
from tacit.filters.registry import registered_filters
from tacit.noise.keyed import Finite

pytestmark = pytest.mark.usefixtures("few_steps")  # any code will do

ROOT = Path(__file__).parents[1]
NEEDED = ("numpy", "onnxruntime")
ABSENT = ("torch", "sklearn", "scipy", "pandas", "lightgbm", "onnx", "pyarrow", "typer", "rich", "PIL", "safetensors",
          "cryptography", "pip", "setuptools", "google", "flatbuffers", "packaging")  # fmt: skip
KEY = b"k" * 32
KINDS = {"table": "text", "people": "people", "windows": (3, 32), "images": (1, 16, 16)}
FILTERS = {
    f"{name}, {i}": (f, KINDS[registered.modality])
    for name, registered in registered_filters().items()
    for i, f in enumerate(registered.example_filters(random_state=0))
}


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    """A fresh environment with the wheel, built from this tree, and what the device install names."""
    folder = tmp_path_factory.mktemp("device")
    source = folder / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--quiet"]
    run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder, source])
    (wheel,) = folder.glob("tacit-*.whl")
    run([sys.executable, "-P", "-m", "venv", "--without-pip", folder / "env"])
    python = folder / "env" / "bin" / "python"
    run([*pip, "--python", python, "install", "--no-deps", "--no-index", wheel])
    # taken from this environment instead of the package index: tests need no network
    there = Path(run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip())
    here = Path(sysconfig.get_path("purelib"))
    for package in NEEDED:
        for top in {
            f.parts[0] for f in importlib.metadata.files(package) or [] if f.parts[0] not in ("..", "__pycache__")
        }:
            if not (there / top).exists():
                (there / top).symlink_to(here / top)
    return python


def run(arguments, **options):
    done = subprocess.run(
        list(map(str, arguments)), capture_output=True, text=True, check=False, env=alone(), **options
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def alone():
    """No path of ours: the environment must stand by itself."""
    return {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}


def text_table(n, seed):
    rng = np.random.default_rng(seed)
    rich, sex = rng.integers(2, size=(2, n))
    X = pd.DataFrame(
        {
            "job": np.where(rich == 1, "lawyer", np.where(sex == 1, "nurse", "cook")),
            "hours": np.where(rng.random(n) < 0.2, np.nan, 30 + 10 * rich + rng.standard_normal(n)),
            "town": rng.choice(["north", "süd", None], n),
        }
    )
    return X, rich, sex


def records(kind, n, seed):
    if kind == "people":  # a release that looks at the sensitive column is given it, and the target
        X, y, s = text_table(n, seed)
        return X.assign(y=y, sensitive_features=s), y, s
    if kind == "text":
        return text_table(n, seed)
    rng = np.random.default_rng(seed)
    y, s = rng.integers(2, size=(2, n))
    return rng.standard_normal((n, *kind)) + y.reshape(-1, *[1] * len(kind)), y, s


THERE = """
import json, sys, warnings
import numpy as np
import tacit
folder, jobs = sys.argv[1], json.load(open(sys.argv[1] + "/jobs.json"))
for i, job in enumerate(jobs):
    X = job["text"] if job["text"] is not None else np.load(f"{folder}/{i}.in.npy")
    out = tacit.load(f"{folder}/{i}.tacit", noise_key=bytes.fromhex(job["key"])).transform(X)
    np.save(f"{folder}/{i}.out.npy", out.astype(str) if out.dtype == object else out)
"""


@pytest.mark.slow  # guards every kind of bundle in a fresh environment without torch
def test_bundles_release_the_same_where_torch_cannot_be_imported(device, tmp_path):
    find = "import sys, importlib.util as u; print([n for n in sys.argv[1:] if u.find_spec(n) is not None])"
    assert run([device, "-c", find, *ABSENT]).strip() == "[]"
    assert run([device, "-c", find, "numpy"]).strip() == "['numpy']"
    fitted, jobs = {}, []
    for name, (f, kind) in FILTERS.items():
        i = len(jobs)
        X, y, s = records(kind, 200, 0)
        f = clone(f).fit(X, y, sensitive_features=s)
        try:
            tacit.save(f, tmp_path / f"{i}.tacit")
        except tacit.TacitError as refused:
            assert "learns nothing, so there is nothing to carry in a bundle" in str(refused)  # noqa: PT017
            continue
        fresh = records(kind, 1000, 1)[0]
        fitted[name] = f, fresh
        rows = None
        if kind in ("text", "people"):
            rows = {c: [None if pd.isna(v) else v for v in fresh[c]] for c in fresh}
        else:
            np.save(tmp_path / f"{i}.in.npy", fresh)
        jobs.append({"text": rows, "key": (f.noise_key or KEY).hex()})
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    run([device, "-c", THERE, tmp_path])
    for i, (name, (f, fresh)) in enumerate(fitted.items()):
        ours, theirs = f.transform(fresh), np.load(tmp_path / f"{i}.out.npy")
        if isinstance(ours, pd.DataFrame):
            words = [[str(None if pd.isna(v) else v) for v in row] for row in ours.to_numpy(dtype=object)]
            assert (np.array(words) == theirs).all(axis=1).mean() >= 0.999, name
            continue
        assert theirs.shape == ours.shape, name
        noise = f.mechanism_.noise
        step = 0 if noise is None or not noise.added else 2.0**-12 * noise.scale  # a noisy sum is on a grid
        near = np.abs(theirs - ours) <= 1e-5 * np.abs(ours).max() + 1.001 * step
        if isinstance(f.mechanism_.support, Finite):  # a mask by its pixels, a code by its records
            assert (near if near.ndim == 4 else near.reshape(len(near), -1).all(axis=1)).mean() >= 0.999, name
        else:
            assert near.all(), name


def test_what_is_not_there_is_said(device, tmp_path):
    command = subprocess.run(
        [device.parent / "tacit", "demo"], capture_output=True, text=True, check=False, env=alone()
    )
    assert command.returncode == 1
    assert command.stderr.startswith("tacit: the command line needs typer, which is not installed here.")
    for name, package in (("release.apply", "pyarrow"), ("EIGAN", "torch"), ("save", "pandas")):
        code = f"import tacit; tacit.{name}"
        asked = subprocess.run([device, "-c", code], capture_output=True, text=True, check=False, env=alone())
        last = asked.stderr.strip().splitlines()[-1]
        assert f"tacit.{name} needs" in last, last
        assert "get it with: pip install" in last
        assert package in last, last


def test_streams_need_no_more(device, tmp_path):
    """Windows of sensor samples, on numpy and onnxruntime."""
    X, y, s = records((3, 32), 100, 0)
    bundle = tacit.save(tacit.baselines.LinearEraser().fit(X, y, sensitive_features=s), tmp_path / "w.tacit")
    lines = [json.dumps({"user": "a", "time": t, "x": t % 3, "y": t % 5, "z": 1}) for t in range(64)]
    code = (
        "import sys, json, tacit\nfrom tacit.release.sensors import Sensors\n"
        "for w in Sensors(tacit.load(sys.argv[1])).lines(sys.stdin): print(json.dumps(w))"
    )
    found = [json.loads(line) for line in run([device, "-c", code, bundle], input="\n".join(lines)).splitlines()]
    assert [(w["from"], w["to"]) for w in found] == [(0, 31), (16, 47), (32, 63)]
