"""What Tacit is made of: every package is locked with its hash, and the browser's runtime is checked before use."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

from tacit.errors import InputError
from tacit.serve import browser

ROOT = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location("supply", ROOT / "tools" / "supply.py")
supply = importlib.util.module_from_spec(spec)
spec.loader.exec_module(supply)


def locked():
    return supply.read_lock((ROOT / "requirements.lock").read_text())


def test_every_line_of_the_lock_has_a_hash_and_none_an_address():
    lines = [x for x in (ROOT / "requirements.lock").read_text().splitlines() if x and not x.startswith("#")]
    assert len(locked()) == len(lines) > 100
    assert "://" not in "".join(lines)


def test_the_lock_is_what_constraints_say():
    pins = dict(re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M))
    found = locked()
    for name, version in pins.items():
        if supply.normal(name) in found:  # engines and peers are not part of a release
            assert found[supply.normal(name)][0].partition("+")[0] == version, name
    assert found["torch"][0].endswith("+cpu")


def test_everything_that_tacit_needs_is_locked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    told = [n for name, needs in extras.items() if name not in ("engines", "peers") for n in needs]
    needed = [*project["dependencies"], *told]
    names = {supply.normal(re.match(r"[\w.-]+", n)[0]) for n in needed} - {"tacit"}
    assert names - locked().keys() == set()


def test_a_lock_is_made_from_what_pip_reports():
    item = {"metadata": {"name": "A_b", "version": "1"}, "download_info": {"url": "https://registry.example/x"}}
    with pytest.raises(KeyError):
        supply.lock({"install": [item]})  # a package without a hash is no lock
    item["download_info"]["archive_info"] = {"hashes": {"sha256": "0" * 64}}
    made = supply.lock({"install": [item, {"metadata": {"name": "tacit"}, "download_info": {}}]})
    assert supply.read_lock(made) == {"a-b": ("1", "0" * 64)}
    assert "registry" not in made


def test_the_list_of_parts():
    made = supply.sbom()
    assert (made["bomFormat"], made["metadata"]["component"]["name"]) == ("CycloneDX", "tacit")
    names = {c["name"] for c in made["components"]}
    assert {"numpy", "torch", "onnxruntime", "cryptography", "onnxruntime-web"} <= names
    assert all(c["purl"].startswith(("pkg:pypi/", "pkg:npm/")) for c in made["components"])
    web = next(c for c in made["components"] if c["name"] == "onnxruntime-web")
    assert len(web["hashes"][0]["content"]) == 128


def test_a_changed_runtime_is_not_served(tmp_path, monkeypatch):
    monkeypatch.setattr(browser, "FOLDER", tmp_path)
    assert not browser.present()
    (tmp_path / next(iter(browser.FILES))).write_text("alert(1)")
    with pytest.raises(InputError):
        browser.check_files()
