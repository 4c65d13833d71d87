"""Bundles: every filter is exported, agrees with itself, and runs without the training libraries."""

from __future__ import annotations

import json
import os
import stat
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from sklearn.base import clone

import tacit
from tacit.errors import BundleError
from tacit.release import signing
from tacit.release.bundle import HASHED, digest, read_bundle, write_bundle, write_members
from tacit.release.graph_check import check_graph
from tacit.release.onnx import GraphBuilder
from tacit.release.saving import coarse_range, compare, made_records

FIXTURES = Path(__file__).parent / "fixtures"
FILTERS = {
    "codebook": tacit.CodebookFilter(n_codes=4, n_folds=2, random_state=0),
    "codebook, three classes": tacit.CodebookFilter(n_codes=6, n_folds=2, output="onehot", random_state=0),
    "codebook, decoded": tacit.CodebookFilter(n_codes=4, n_folds=2, decode=True, random_state=0),
    "codebook, network": tacit.CodebookFilter(n_codes=4, features="raw", output="code", epochs=3, random_state=0),
    "EIGAN": tacit.EIGAN(n_components=2, epochs=2, random_state=0),
    "EIGAN, noise": tacit.EIGAN(n_components=2, epochs=2, noise=0.2, random_state=0),
    "minimax": tacit.MinimaxFilter(n_components=2, max_iter=3, random_state=0),
    "minimax, noise": tacit.MinimaxFilter(n_components=2, max_iter=3, noise=0.3, random_state=0),
    "minimax, exact": tacit.MinimaxFilter(n_components=4, max_iter=3, adversary="exact", random_state=0),
    "label only": tacit.baselines.LabelOnly(n_folds=2, random_state=0),
    "eraser": tacit.baselines.LinearEraser(random_state=0),
    "linear ARL": tacit.baselines.LinearARL(random_state=0),
    "kernel ARL": tacit.baselines.KernelARL(n_features=50, random_state=0),
    "PLS": tacit.baselines.PrivatePLS(random_state=0),
    "mask": tacit.baselines.DiscriminabilityMask(),
    "obfuscator": tacit.baselines.VariationalObfuscator(epochs=1, random_state=0),
    "obfuscator, no noise": tacit.baselines.VariationalObfuscator(epochs=1, noise=None, random_state=0),
    "autoencoder": tacit.baselines.Autoencoder(2, epochs=1, random_state=0),
    "Laplace": tacit.baselines.LaplaceMechanism(epsilon=5.0),
}


def people_table(n=300, seed=0):
    """Text, booleans, integers, floats and gaps."""
    rng = np.random.default_rng(seed)
    sex, rich = rng.integers(2, size=(2, n))
    job = np.where(rich + 0.5 * rng.standard_normal(n) > 0.5, "lawyer", np.where(sex == 1, "nurse", "cook"))
    return tacit.Dataset(
        pd.DataFrame(
            {
                "age": rng.integers(18, 80, n),
                "job": job,
                "height": 165 + 12 * sex + 7 * rng.standard_normal(n),
                "owner": rng.random(n) < 0.3,
                "hours": np.where(rng.random(n) < 0.2, np.nan, 30 + 10 * rich + rng.standard_normal(n)),
                "town": rng.choice(["north", "süd", "", None], n),
            }
        ),
        pd.DataFrame({"rich": rich}),
        pd.DataFrame({"sex": sex}),
    )


@pytest.fixture(scope="module")
def people():
    return people_table()


@pytest.fixture(scope="module")
def saved(people, tmp_path_factory):
    """Fitted filters and their bundles by name, made when they are first asked for."""
    folder, made = tmp_path_factory.mktemp("bundles"), {}

    def get(name):
        if name not in made:
            y = people.y
            if name == "codebook, three classes":
                y = pd.DataFrame({"job": people.X["job"].to_numpy()})
            f = clone(FILTERS[name]).fit(people.X, y, sensitive_features=people.sensitive)
            made[name] = f, tacit.save(f, folder / f"{len(made)}.tacit")
        return made[name]

    return get


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning")
def test_the_bundle_releases_what_the_filter_does(name, saved):
    f, path = saved(name)
    fresh = people_table(1200, seed=1).X
    fresh.loc[0, "job"] = "astronaut"  # unseen: "other"
    fresh.loc[1, "age"] = np.nan
    release = tacit.load(path, noise_key=f.noise_key)
    ours, theirs = f.transform(fresh), release.transform(fresh)
    if isinstance(ours, pd.DataFrame):
        assert theirs.equals(ours)
        return
    assert theirs.dtype == np.float64
    assert theirs.shape == ours.shape
    if f._finite:
        assert (theirs == ours).all(axis=1).mean() >= 0.999
    else:
        step = 0 if f._noise is None else 2.0**-12 * f._noise.scale  # a noisy sum is rounded to a grid
        apart = np.abs(theirs - ours) - 1e-5 * np.abs(ours).max(axis=0)
        assert (apart <= step * 1.001).all()
        assert (apart <= 0).mean() > 0.99
    # in the bits, too: the sign of a zero could be read
    assert not np.signbit(theirs[theirs == 0]).any()


RUN_ALONE = """
import json, sys
import numpy as np
from tacit.release.runtime import load
import warnings; warnings.simplefilter("ignore")
records = {k: [None if v != v else v for v in c] for k, c in json.load(open(sys.argv[1])).items()}
for path in sys.argv[2:]:
    out = load(path, noise_key=b"k" * 32).transform(records)
    assert len(out) == 5, path
heavy = [m for m in ("torch", "sklearn", "pandas", "scipy", "onnx", "lightgbm", "pyarrow") if m in sys.modules]
print(heavy)
"""


@pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning")
def test_bundles_run_without_the_training_libraries(saved, people, tmp_path):
    paths = [str(saved(name)[1]) for name in FILTERS]
    (tmp_path / "records.json").write_text(json.dumps(people.X.head().to_dict(orient="list")))
    arguments = [sys.executable, "-c", RUN_ALONE, str(tmp_path / "records.json"), *paths]
    out = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert out.stdout.strip() == "[]", out.stderr
