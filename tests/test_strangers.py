"""Bundles from strangers: what they cannot do to the owner's noise, to the machine that loads them, to the screen."""

from __future__ import annotations

import io
import os
import zipfile

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pyarrow as pa
import pytest
from onnx import TensorProto, helper
from rich.table import Table

import tacit
from commands import tacit_command
from forged import forged
from tacit.errors import BundleError
from tacit.release.bundle import read_bundle
from tacit.release.record_files import write_parts
from tacit.report.foreign import ODD
from tacit.report.screen import Console

KEY = b"k" * 32


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((400, 3)), rng.integers(2, size=400)


@pytest.fixture(scope="module")
def noisy(rows):
    return tacit.baselines.LaplaceMechanism(3.0).fit(*rows)


@pytest.fixture(scope="module")
def saved(noisy, tmp_path_factory):
    return tacit.save(noisy, tmp_path_factory.mktemp("strangers") / "own.tacit")


def changed_noise(**changes):
    return lambda manifest: manifest | {"noise": manifest["noise"] | changes}


def doubled(path):
    """The graph of a bundle whose code is twice as large."""
    model = onnx.load_model_from_string(read_bundle(path).members["model.onnx"])
    last = next(n for n in model.graph.node if "before_noise" in n.output)
    last.output[0] = "once"
    model.graph.initializer.append(helper.make_tensor("two", TensorProto.DOUBLE, [], [2.0]))
    model.graph.node.append(helper.make_node("Mul", ["once", "two"], ["before_noise"]))
    return model.SerializeToString()


# -- noise that is taken off without the key ------------------------------------------------------


@pytest.mark.parametrize("key", ["the filter's", "another"])
def test_noise_does_not_come_off_by_a_second_bundle_under_the_same_key(saved, noisy, rows, tmp_path, key):
    """Before: 2 z1 - z2, or z2 - z1, was the code to a few parts in ten thousand of the noise."""
    key = noisy.noise_key if key == "the filter's" else KEY
    own = tacit.load(saved, noise_key=key)
    scale, code, z1 = own.noise.scale, own.noiseless(rows[0]), own.transform(rows[0])
    twice = forged(saved, tmp_path / "a.tacit", changed_noise(scale=2 * scale))
    z2 = tacit.load(twice, noise_key=key).transform(rows[0])
    wider = forged(saved, tmp_path / "b.tacit", changed_noise(radius=1e9), model_onnx=doubled(saved))
    z3 = tacit.load(wider, noise_key=key).transform(rows[0])
    for guess in (2 * z1 - z2, z3 - z1):
        assert np.std(guess - code) > scale  # laplace noise of this scale has a deviation of 1.4 scale


def test_a_bundle_that_is_only_copied_or_audited_again_keeps_its_draws(saved, noisy, rows, tmp_path):
    copy = forged(saved, tmp_path / "copy.tacit", card_md=b"another card")
    for key in (noisy.noise_key, KEY):
        expected = tacit.load(saved, noise_key=key).transform(rows[0])
        assert np.array_equal(tacit.load(copy, noise_key=key).transform(rows[0]), expected)
    assert np.array_equal(tacit.load(copy, noise_key=noisy.noise_key).transform(rows[0]), noisy.transform(rows[0]))


def test_redraws_refits_and_versions_draw_apart(noisy, rows, tmp_path):
    """Correlations of 1,200 draws lie within 5 standard errors; a false alarm in 100,000 runs."""
    X = rows[0]
    filters = [noisy, tacit.baselines.LaplaceMechanism(3.0).fit(2 * X, rows[1])]
    bundles = [tacit.save(f, tmp_path / f"{i}.tacit") for i, f in enumerate(filters)]
    releases = [tacit.load(b, noise_key=KEY) for b in bundles]
    releases.append(releases[0].redraw())
    drawn = [(r.transform(X) - r.noiseless(X)).ravel() for r in releases]
    assert np.abs(np.corrcoef(drawn) - np.eye(3)).max() < 5 / np.sqrt(X.size)


def test_members_are_small_and_paths_are_files(saved, tmp_path):
    huge = forged(saved, tmp_path / "a.tacit", audit_json=b"[" + b"0," * (3 * 2**20) + b"0]")
    with pytest.raises(BundleError, match=r"audit.json has more than 1,048,576 entries"):
        tacit.load(huge)
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(tmp_path / "b.tacit", "w") as new:
        for name in old.namelist():
            new.writestr(name, b'"' + b"x" * 60_000_000 + b'"' if name == "audit.json" else old.read(name))
    with pytest.raises(BundleError, match=r"audit.json has 60,000,002 bytes"):
        tacit.load(tmp_path / "b.tacit")
    os.mkfifo(tmp_path / "pipe.tacit")
    for odd in (tmp_path / "pipe.tacit", tmp_path, "/dev/zero"):
        with pytest.raises(BundleError, match="a pipe or a device"):
            tacit.load(odd)


def test_an_audit_that_is_no_report_is_said_to_be_none(saved, tmp_path):
    for audit in (b"[]", b'{"leakage": 3}', b'"x"', b"7"):
        release = tacit.load(forged(saved, tmp_path / "a.tacit", audit_json=audit))
        with pytest.raises(BundleError, match=r"audit.json is not a report"):
            _ = release.report


def test_wide_layers_are_released_a_few_records_at_a_time(saved, tmp_path, monkeypatch):
    from tacit.release import runtime

    release, sizes = tacit.load(saved, noise_key=KEY), []
    chunk = release._chunk
    monkeypatch.setattr(runtime, "MEMORY", 10 * release.manifest["record_bytes"])
    monkeypatch.setattr(release, "_chunk", lambda f, *rest: sizes.append(len(f["X"])) or chunk(f, *rest))
    release.transform(np.zeros((25, 3)))
    assert sizes == [10, 10, 5]


def test_old_runtimes_are_refused(saved, monkeypatch):
    monkeypatch.setattr(onnxruntime, "__version__", "1.24.1")
    with pytest.raises(BundleError, match=r"1.24.1 is installed; versions before 1.27"):
        tacit.load(saved)


# -- words that do more than stand there ------------------------------------------------------------------------


EVIL = "\x1b[2J\x1b]0;owned\x07age\u202e"


def test_no_word_of_a_bundle_moves_the_cursor(saved, tmp_path):
    """Before: a card could clear the screen and write "signed" there."""

    def evil(manifest):
        return manifest | {"filter": EVIL, "output": manifest["output"] | {"meaning": EVIL}}

    said = forged(saved, tmp_path / "evil.tacit", evil, card_md=f"# A card\n{EVIL}".encode())
    shown = tacit_command("release", "show", said, FORCE_COLOR="1", TERM="xterm")
    assert shown.returncode == 0
    assert "# A card" in shown.stdout
    assert r"\x1b[2J" in shown.stdout
    wrong = tacit_command("release", "show", forged(saved, tmp_path / "odd.tacit", lambda m: m | {EVIL: 1}))
    assert wrong.returncode == 2
    assert not ODD.search(shown.stdout + shown.stderr + wrong.stdout + wrong.stderr)


def test_a_console_keeps_its_own_colors():
    out = io.StringIO()
    Console(file=out, force_terminal=True, color_system="standard").print(f"[red]{EVIL}[/red]")
    assert out.getvalue().startswith("\x1b[31m")
    assert "\x1b[2J" not in out.getvalue()
    table = Table()
    table.add_column(EVIL)
    table.add_row(EVIL)
    console = Console(file=(out := io.StringIO()), width=200)
    console.print(table)
    assert not ODD.search(out.getvalue())


def test_markdown_of_a_report_has_no_tags_and_no_links_of_others(noisy, rows):
    name = "<img src=x onerror=alert(1)>[a](javascript:1)\n```\n# b"
    data = tacit.Dataset(rows[0], pd.DataFrame({"y": rows[1]}), pd.DataFrame({name: rows[1]}), units="rows")
    report = tacit.audit(
        noisy, *data.split((0.5, 0.5), random_state=0), attackers="logistic", measurements="no-baseline"
    )
    before, block, after = report.to_markdown().split("```")  # a name cannot end the block
    assert "alert(1)" in block
    assert "alert(1)" not in before + after


def test_formulas_in_a_csv_file_are_told_of_and_quoted_on_request(tmp_path):
    words = ["=1+1", "@x", "-cmd|' /C calc'!A0", "+44", "-5.2e3", "nurse", None]
    parts = [pa.record_batch({"job": words, "n": list(range(7))})]
    with pytest.warns(tacit.TacitWarning, match="'job' begin with =, .*--quote-formulas"):
        write_parts(tmp_path / "a.csv", iter(parts))
    write_parts(tmp_path / "b.csv", iter(parts), quote_formulas=True)
    kept = pd.read_csv(tmp_path / "b.csv", dtype=str)["job"].tolist()
    assert kept[:6] == ["'=1+1", "'@x", "'-cmd|' /C calc'!A0", "+44", "-5.2e3", "nurse"]
    assert pd.read_csv(tmp_path / "a.csv", dtype=str)["job"].tolist()[:6] == words[:6]


# -- what one person alone has ----------------------------------------------------------------------------------


def test_what_one_person_alone_has_is_not_in_the_bundle_however_often_they_came(tmp_path):
    """Rows were counted once, not people: a word of one person with five visits was in the manifest."""
    rng, person = np.random.default_rng(0), np.repeat(np.arange(80), 5)
    job = np.where(person == 7, "king", rng.choice(["nurse", "cook"], 400))
    X = pd.DataFrame({"job": job, "debt": np.where(person == 7, 417.38, 0.0)})
    y, s = rng.integers(2, size=(2, 400))
    f = tacit.baselines.LinearARL().fit(X, y, sensitive_features=s, units=person)
    bundle = read_bundle(tacit.save(f, tmp_path / "x.tacit"))
    content = b"".join(bundle.members.values())
    assert b"nurse" in content
    assert b"king" not in content
    assert bundle.manifest["input"]["columns"][1]["range"] == [0.0, 0.0]
