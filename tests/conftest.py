"""Shared pieces of the tests: one thread, seeded data, and real data where it is present."""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
import os
from types import SimpleNamespace

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("SCIPY_ARRAY_API", "1")  # so that scikit-learn runs its array-API check too

import pytest
import torch
from hypothesis import settings

import tacit
from browser import driven, find
from papers.data import REGISTRY
from tacit.auditing import attackers
from tacit.auditing.measurements import breadth, linkability, singling_out
from tacit.filters import codes
from tacit.noise import keyed
from tacit.serve import browser as runtime
from tacit.solvers import exact

torch.set_num_threads(1)
# The same made-up cases in every run, so that a red run tells of a change; HYPOTHESIS_PROFILE=search makes up others.
settings.register_profile("same", derandomize=True, deadline=None)  # no test depends on speed
settings.register_profile("search", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Keys of noise are other ones in every test and the same in every run, so that no test fails by chance."""
    number = itertools.count()
    draw = lambda n: hashlib.blake2b(f"{item.nodeid} {next(number)}".encode(), digest_size=n).digest()  # noqa: E731
    keyed.secrets = SimpleNamespace(token_bytes=draw)


@pytest.fixture(scope="session")
def real():
    """Load a real data set, or skip with a message where it is not on this machine."""

    def load(name: str, **options):
        if name in REGISTRY and not REGISTRY[name].present:
            pytest.skip(f"data set {name} is not here; set TACIT_DATA to the folder that has it")
        return tacit.load_dataset(name, **options)

    return load


@pytest.fixture(scope="session")
def digits():
    return tacit.load_dataset("digits").split((0.5, 0.2, 0.3), random_state=0)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """One browser for the tests of a module, where bundles can run in it; each opens what it needs."""
    find()
    if not runtime.present():
        pytest.skip("the browser's runtime is not here; fetch it with: python -m tacit.serve.browser (needs npm)")
    with driven(tmp_path_factory.mktemp("chromium")) as page:
        yield page


@pytest.fixture
def breadths():
    """Ask for this where an audit's breadth is what is tested; elsewhere it is measured only where it is asked for."""


@pytest.fixture(autouse=True)
def _measure_no_breadth(request, monkeypatch):
    """A model a column costs as much as a quick attacker."""
    if "breadths" not in request.fixturenames:
        monkeypatch.setattr(breadth, "MAX_COLUMNS", 0)


@pytest.fixture
def two_questions():
    """Ask for this where linking or singling out unasked is what is tested; elsewhere they are measured where asked."""


@pytest.fixture(autouse=True)
def _ask_no_questions(request, monkeypatch):
    """Scores of pairs cost as much as an attacker."""
    if "two_questions" not in request.fixturenames:
        monkeypatch.setattr(linkability, "MAX_VALUES", 0)
        monkeypatch.setattr(singling_out, "MAX_COLUMNS", 0)


LEARNERS = ((codes, "learn_linear_codes"), (codes, "closed_code"), (exact, "closed_code"))


def _few_steps(patch):
    def short(learn):
        return functools.wraps(learn)(lambda *given, **options: learn(*given, **{**options, "steps": 5}))

    for home, name in LEARNERS:
        patch.setattr(home, name, short(getattr(home, name)))


def _one_attacker(patch):
    patch.setitem(attackers.PRESETS, "quick", {"logistic": attackers.ATTACKERS["logistic"]})


@pytest.fixture(scope="module")
def few_steps():
    """Of a whole module: codebooks and limits learn for a moment only; for the door, not how well one learns."""
    with pytest.MonkeyPatch.context() as patch:
        _few_steps(patch)
        yield


@pytest.fixture
def all_steps(monkeypatch):
    """Of one test of such a module: codes learn as they do for users, in other processes too."""
    for home, name in LEARNERS:
        monkeypatch.setattr(home, name, inspect.unwrap(getattr(home, name)))


@pytest.fixture(scope="module")
def one_attacker():
    """Of a whole module: the preset "quick" is one attacker; for what is done with an audit, not what it finds."""
    with pytest.MonkeyPatch.context() as patch:
        _one_attacker(patch)
        yield


@pytest.fixture
def quickly(monkeypatch):
    """Both, of one test."""
    _few_steps(monkeypatch)
    _one_attacker(monkeypatch)
