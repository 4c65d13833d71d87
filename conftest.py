"""For tests and the examples in docstrings: every test is a project of its own, with no earlier looks at its rows."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def _looks_of_a_module(tmp_path_factory):
    """What fixtures of a module certify must not meet looks of an earlier run, which the folder remembers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACIT_LOOKS", str(tmp_path_factory.mktemp("looks") / "looks.json"))
        yield


@pytest.fixture(autouse=True, scope="session")
def _own_configuration(tmp_path_factory):
    """Bundles of the tests are written by a user of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACIT_CONFIG", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(autouse=True)
def _own_looks(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("TACIT_LOOKS", str(tmp_path_factory.mktemp("looks") / "looks.json"))
