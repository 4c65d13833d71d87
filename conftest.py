"""For tests and the examples in docstrings: every test is a project of its own, with no earlier looks at its rows."""

import pytest


@pytest.fixture(autouse=True)
def _own_looks(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("TACIT_LOOKS", str(tmp_path_factory.mktemp("looks") / "looks.json"))
