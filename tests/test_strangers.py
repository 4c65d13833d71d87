"""Bundles from strangers: what they cannot do to the owner's noise, to the machine that loads them, to the screen."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pyarrow as pa
import pytest
from onnx import TensorProto, helper, numpy_helper
from rich.table import Table

import fuzz
import tacit
from commands import tacit_command
from forged import forged
from tacit.errors import BundleError
from tacit.release import first_load, signing
from tacit.release.bundle import read_bundle, write_members
from tacit.release.graph_check import check_graph
from tacit.release.record_files import write_parts
from tacit.release.signing import new_signing_key, read_secret_key, sign
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


# -- graphs that end, hang or fill the process that loads them ----------------------------------------


def graph(nodes, constants=(), shape=(3,), outputs=("release", "encoded")):
    """A model over records X of this shape, in double precision and as floats (F)."""
    made = {
        "inputs": [helper.make_tensor_value_info("X", TensorProto.DOUBLE, ["n", *shape])],
        "outputs": [helper.make_tensor_value_info(o, TensorProto.DOUBLE, None) for o in outputs],
        "initializer": [numpy_helper.from_array(np.asarray(v), name) for name, v in constants],
    }
    first = [helper.make_node("Cast", ["X"], ["F"], to=1), helper.make_node("Identity", ["X"], ["encoded"])]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([*first, *nodes], "g", **made)
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def node(op, inputs="F", outputs="z", **attributes):
    domain = "ai.onnx.ml" if op in ("TreeEnsembleRegressor", "LabelEncoder") else ""
    return helper.make_node(op, inputs.split(), outputs.split(), domain=domain, **attributes)


def tree(features, yes, no, modes=None, **changes):
    """A node that decides along one tree; nodes without children are leaves."""
    n = len(features)
    modes = modes or ["BRANCH_LEQ" if yes[i] or no[i] else "LEAF" for i in range(n)]
    leaves = [i for i in range(n) if modes[i] == "LEAF"]
    said = {
        "nodes_treeids": [0] * n, "nodes_nodeids": list(range(n)), "nodes_featureids": features, "nodes_modes": modes,
        "nodes_values_as_tensor": numpy_helper.from_array(np.zeros(n)), "nodes_truenodeids": yes, "n_targets": 1,
        "nodes_falsenodeids": no, "target_treeids": [0] * len(leaves), "target_nodeids": leaves,
        "target_ids": [0] * len(leaves), "target_weights_as_tensor": numpy_helper.from_array(np.ones(len(leaves))),
    }  # fmt: skip
    return node("TreeEnsembleRegressor", "X", **(said | changes))


def chain(depth):
    """A tree of two children a node, the second of which goes on."""
    n = 2 * depth + 1
    inner = range(0, n - 1, 2)
    return tree([0] * n, [i + 1 if i in inner else 0 for i in range(n)], [i + 2 if i in inner else 0 for i in range(n)])


WEIGHTS = np.ones((3, 3, 3), np.float32)
WIDE, TALL = np.ones((3, 20_000), np.float32), np.ones((20_000, 20_000 // 16), np.float32)
I = np.int64  # noqa: E741
HOSTILE = {  # reason -> nodes, constants, shape of a record
    "ConvTranspose has group=0": (
        [node("ConvTranspose", "F w", kernel_shape=[3], group=0)], [("w", WEIGHTS)], (3, 8)),
    "more than 1,000 deep": ([chain(15_000)], [], (3,)),
    "AveragePool has kernel_shape=.*2147483648": ([node("AveragePool", kernel_shape=[2**31])], [], (3, 8)),
    "a kernel or pads larger than its record": ([node("MaxPool", kernel_shape=[9])], [], (3, 8)),
    "a value that is too large": ([node("MatMul", "F w", "a"), node("Unsqueeze", "a i", "b"),
        node("Unsqueeze", "a j", "c"), node("MatMul", "b c")], [("w", WIDE), ("i", I([2])), ("j", I([1]))], (3,)),
    "multiply-adds on constants": ([node("MatMul", "w v", "a")], [("w", WIDE), ("v", TALL)], (3,)),
    "multiply-adds a record": (
        [node("MatMul", "F w", "a0"), *[node("MatMul", f"a{i} v", f"a{i + 1}") for i in range(1100)]],
        [("w", np.ones((3, 1000), np.float32)), ("v", np.ones((1000, 1000), np.float32))], (3,)),
    "grows faster than the number of records": (
        [node("Transpose", "F", "t"), node("MatMul", "F t")], [], (3,)),
    "Conv pads more than its kernel": (
        [node("Conv", "F w", kernel_shape=[3], pads=[4000, 4000])], [("w", WEIGHTS)], (3, 8)),
    "Div is given a type": ([node("Cast", "X", "k", to=7), node("Div", "k k")], [], (3,)),
    "shapes that depend on records": ([node("Cast", "X", "k", to=7), node("Reshape", "F k")], [], (3,)),
    "asks for column 3 of 3": ([tree([3, 0, 0], [1, 0, 0], [2, 0, 0])], [], (3,)),
    "nodes_featureids=.*-1": ([tree([-1, 0, 0], [1, 0, 0], [2, 0, 0])], [], (3,)),
    "two parents": ([tree([0, 0, 0], [1, 0, 0], [1, 0, 0])], [], (3,)),
    "no record reaches": ([tree([0] * 5, [1, 0, 0, 4, 3], [2, 0, 0, 4, 3], ["BRANCH_LEQ", "LEAF", "LEAF"] +
        ["BRANCH_LEQ"] * 2)], [], (3,)),
    "weighs what is not a leaf": ([tree([0] * 3, [1, 0, 0], [2, 0, 0], target_nodeids=[0, 2])], [], (3,)),
    "names target 1 of 1": ([tree([0] * 3, [1, 0, 0], [2, 0, 0], target_ids=[0, 1])], [], (3,)),
    "decides by 'BRANCH_EQ'": ([tree([0] * 3, [1, 0, 0], [2, 0, 0], ["BRANCH_EQ", "LEAF", "LEAF"])], [], (3,)),
    "attribute 'auto'": ([node("Relu", auto=1)], [], (3,)),
    "ArgMax has a axis of another kind": ([node("ArgMax", axis=[1])], [], (3,)),
    "a dimension of 0": ([node("Slice", "F i i j")], [("i", I([1])), ("j", I([1]))], (3,)),
    "too large .*67,108,864 at most": ([node("Identity")], [], (2**27,)),
    "operator :Loop": ([node("Loop", "F")], [], (3,)),
    "which no node before it gives": ([node("Relu", "later")], [], (3,)),
    "two values of one name": ([node("Relu", "F", "z"), node("Relu", "F", "z")], [], (3,)),
}  # fmt: skip


@pytest.mark.parametrize("reason", HOSTILE)
def test_hostile_graphs_are_refused_before_any_runtime_sees_them(reason):
    """The first three ended or hung the process that loaded them, as did the deep tree."""
    nodes, constants, shape = HOSTILE[reason]
    model = graph([*nodes, node("Cast", "F", "release", to=11)], constants, shape)
    with pytest.raises(BundleError, match=reason):
        check_graph(model)


def test_what_is_like_them_and_sound_is_run():
    """The control: the same operators in their ranges pass, at the cost that is counted by hand."""
    sound = [
        node("ConvTranspose", "F w", "a", kernel_shape=[3], group=3), node("AveragePool", "a", "b", kernel_shape=[2]),
        node("Flatten", "b", "c"), node("MatMul", "c v", "d"), node("Cast", "d", "release", to=11),
    ]  # fmt: skip
    constants = [("w", np.ones((3, 1, 3), np.float32)), ("v", np.ones((27, 5), np.float32))]
    model = graph(sound, constants, (3, 8))
    cost = check_graph(model)
    assert cost.parameters == 9 + 135
    # casts 24, identity 24, transposed 24 * 3, pool 27 * 2, flat 27, product 27 * 5, cast 5
    assert cost.multiply_adds == 24 + 24 + 72 + 54 + 27 + 135 + 5
    assert onnxruntime.InferenceSession(model).run(["release"], {"X": np.ones((7, 3, 8))})[0].shape == (7, 5)
    check_graph(graph([chain(900), node("Cast", "z", "release", to=11)]))


def test_one_field_under_two_readings_is_refused():
    """A reader that skips what it does not know, and one that takes the last of two, would see other graphs."""
    model = graph([node("Cast", "F", "release", to=11)])
    check_graph(model)
    for more, reason in (
        (b"\x3a\x00", "field graph twice"),
        (b"\x38\x01", "wire type 0"),
        (b"\xa2\x06\x00", "field 100"),
    ):
        with pytest.raises(BundleError, match=reason):
            check_graph(model + more)


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


def test_many_small_things_are_refused_too():
    """Each of these is small; reading a million of them, or a runtime's own, takes a minute."""
    done = node("Cast", "F", "release", to=11)
    many = [(f"c{i}", np.float32(1)) for i in range(2**14 + 1)]
    words = {"keys_strings": [str(i) for i in range(2**18 + 1)], "values_int64s": [0] * (2**18 + 1)}
    for model, reason in (
        (graph([done], many), "16,385 entries of initializer"),
        (graph([node("Concat", " ".join(["F"] * (2**14 + 1)), axis=1), done]), "takes more than 16,384 values"),
        (graph([node("LabelEncoder", "X", default_int64=0, **words), done]), "262,145 keys_strings"),
        (graph([node("Relu", "F", f"r{i}") for i in range(4096)] + [done]), "4,099 nodes"),
    ):
        with pytest.raises(BundleError, match=reason):
            check_graph(model)


def test_an_audit_that_is_no_report_is_said_to_be_none(saved, tmp_path):
    for audit in (b"[]", b'{"leakage": 3}', b'"x"', b"7"):
        release = tacit.load(forged(saved, tmp_path / "a.tacit", audit_json=audit), trust="known")
        with pytest.raises(BundleError, match=r"audit.json is not a report"):
            _ = release.report


def test_wide_layers_are_released_a_few_records_at_a_time(saved, tmp_path, monkeypatch):
    from tacit.release import runtime

    release, sizes = tacit.load(saved, noise_key=KEY), []
    chunk = release._chunk
    monkeypatch.setattr(runtime, "MEMORY", 10 * release._bundle.graph.memory)
    monkeypatch.setattr(release, "_chunk", lambda f, *rest: sizes.append(len(f["X"])) or chunk(f, *rest))
    release.transform(np.zeros((25, 3)))
    assert sizes == [10, 10, 5]


def test_old_runtimes_are_refused(saved, monkeypatch):
    monkeypatch.setattr(onnxruntime, "__version__", "1.24.1")
    with pytest.raises(BundleError, match=r"1.24.1 is installed; versions before 1.27"):
        tacit.load(saved)


# -- loaded elsewhere first -------------------------------------------------------------------------------


@pytest.fixture
def tried(monkeypatch):
    """The bundles that were tried elsewhere."""
    seen, run = [], first_load.subprocess.run
    monkeypatch.setattr(first_load.subprocess, "run", lambda c, **more: seen.append(c[3]) or run(c, **more))
    monkeypatch.setattr(first_load, "_known", set())
    return seen


def test_a_strangers_bundle_is_loaded_elsewhere_first_and_once(saved, noisy, tried, tmp_path):
    tacit.load(saved)
    tacit.load(saved)
    tacit.load(forged(saved, tmp_path / "same.tacit"), trust="known")
    assert tried == ["own.tacit"]
    tacit.load(tacit.save(noisy, tmp_path / "made-here.tacit"))
    secret, public = new_signing_key(tmp_path / "me")
    tacit.load(sign(forged(saved, tmp_path / "signed.tacit", card_md=b"x"), secret), trusted_key=public)
    assert tried == ["own.tacit"]
    with pytest.raises(tacit.TacitError, match="trust must be"):
        tacit.load(saved, trust="yes")


@pytest.mark.parametrize(
    "name, value, reason",
    [
        ("PROGRAM", ("-c", "import os; os.abort()"), r"own.tacit ended the process that loaded it first \(SIGABRT\)"),
        ("PROGRAM", ("-c", "import sys; sys.exit(9)"), r"ended the process that loaded it first \(exit 9\)"),
        ("PROGRAM", ("-c", "import time; time.sleep(60)"), "not loaded in 1 s"),
        ("MEMORY", 2**20, "takes more than 1 MB|cannot be run|ended the process"),
    ],
)
def test_a_bundle_that_ends_fills_or_holds_its_process_is_refused(saved, tried, monkeypatch, name, value, reason):
    monkeypatch.setattr(first_load, name, value)
    if "1 s" in reason:
        monkeypatch.setattr(first_load, "SECONDS", 1)
    with pytest.raises(BundleError, match=reason):
        tacit.load(saved)
    assert len(tried) == 1


# -- mutants ------------------------------------------------------------------------------------------------


def test_the_bundles_that_are_mutated_are_sound():
    for manifest, members in fuzz.corpus():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tacit.TacitWarning)
            fuzz.use(fuzz.packed(manifest, members))


def test_two_thousand_mutated_bundles_neither_crash_nor_hang_nor_fill_the_memory():
    """`make fuzz SECONDS=3600` runs more of them; a case is a function of its number."""
    done = subprocess.run(
        [sys.executable, fuzz.__file__, "--cases", "2000"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2,000 mutated bundles" in done.stdout
    loaded = int(re.search(r"([\d,]+) loaded", done.stdout)[1].replace(",", ""))
    assert 100 < loaded < 1500  # some changes are harmless: the runtime sees those; most are not


# -- yesterday's bundle -------------------------------------------------------------------------------------


@pytest.fixture
def versions(saved, tmp_path):
    """Two versions of one filter, both rightly signed; and the public key."""
    secret, public = new_signing_key(tmp_path / "officer")
    made = [forged(saved, tmp_path / f"v{v}.tacit", card_md=f"version {v}".encode()) for v in (1, 2)]
    return *(sign(path, secret, "filter", v) for v, path in enumerate(made, 1)), public, secret


def test_a_signed_older_bundle_is_refused_once_a_newer_one_was_seen(versions):
    old, new, public, _ = versions
    tacit.load(old, trusted_key=public)
    tacit.load(new, trusted_key=public)
    with pytest.raises(BundleError, match=r"v1.tacit is version 1 of 'filter', and version 2 was seen before"):
        tacit.load(old, trusted_key=public)
    tacit.load(new, trusted_key=public)
    assert json.loads(Path(f"{public}.seen").read_text()) == {"filter": 2}
    tacit.load(old)  # whoever trusts no key is told nothing by a signature


def test_a_version_may_be_asked_for_and_nothing_of_a_signature_may_be_changed(versions, tmp_path):
    old, new, public, secret = versions
    with pytest.raises(BundleError, match="version 1 of 'filter', and version 2 is asked for"):
        tacit.load(old, trusted_key=public, min_version=2)
    members = dict(read_bundle(old).members)
    for change in ({"version": 3}, {"name": "other"}, {"name": None}, {"version": 1.0}):
        said = json.loads(members["signature.json"]) | change
        lying = write_members(tmp_path / "lying.tacit", members | {"signature.json": json.dumps(said).encode()})
        with pytest.raises(BundleError, match="not signed by the trusted key"):
            tacit.load(lying, trusted_key=public)
    with pytest.raises(tacit.TacitError, match="a version from 1 on"):
        sign(old, secret, version=0)
    with pytest.raises(tacit.TacitError, match="pass trusted_key as well"):
        tacit.load(new, min_version=2)


def test_signatures_without_a_version_count_until_one_with_it_was_seen(versions, tmp_path):
    old, new, public, secret = versions
    bundle = read_bundle(old)
    told = {"algorithm": "ed25519", "signature": read_secret_key(secret).sign(signing._message(bundle, {})).hex()}
    path = write_members(tmp_path / "before.tacit", {**bundle.members, "signature.json": json.dumps(told).encode()})
    tacit.load(path, trusted_key=public)
    tacit.load(new, trusted_key=public)
    with pytest.raises(BundleError, match="signed without a version, and version 2 was seen"):
        tacit.load(path, trusted_key=public)


def test_versions_on_the_command_line(versions):
    old, new, public, secret = versions
    seen = tacit_command("release", "verify", new, "--trusted-key", public)
    assert "as version 2 of filter" in seen.stdout.replace("\n", " ")
    refused = tacit_command("release", "verify", old, "--trusted-key", public)
    assert refused.returncode == 2
    assert "was seen before" in refused.stderr.replace("\n", " ")
    tacit_command("release", "sign", old, "--key", secret, "--name", "filter", "--version", "3")
    assert tacit_command("release", "verify", old, "--trusted-key", public, "--min-version", "3").returncode == 0


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
    name = "<img src=x onerror=alert(1)>[a](javascript:1)\n# b"
    data = tacit.Dataset(rows[0], pd.DataFrame({"y": rows[1]}), pd.DataFrame({name: rows[1]}), units="rows")
    report = tacit.audit(noisy, *data.split((0.5, 0.5), random_state=0), attackers="logistic", floor=False)
    text = report.to_markdown()
    assert "alert(1)" in text
    assert "<img" not in text
    assert "](" not in text
    assert "\n# b" not in text


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
