"""Which bundles are loaded: those of this user, signed ones under their name, and others on request, within limits."""

from __future__ import annotations

import json
import os
import pickle
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import pandas as pd
import pytest
from onnx import TensorProto, helper, numpy_helper

import tacit
from commands import tacit_command
from forged import forged
from tacit.errors import BundleError, InputError, OtherKeyWarning, UntrustedBundle
from tacit.release.bundle import read_bundle, sign, write_members
from tacit.release.keys import Key, read_key
from tacit.release.signing import new_signing_key
from tacit.release.trust import check_graph, config_folder

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((200, 3)), rng.integers(2, size=200)


@pytest.fixture(scope="module")
def noisy(rows):
    return tacit.baselines.LaplaceMechanism(3.0).fit(*rows)


@pytest.fixture(scope="module")
def saved(noisy, tmp_path_factory):
    return tacit.save(noisy, tmp_path_factory.mktemp("trust") / "own.tacit")


# -- who vouches for a bundle -----------------------------------------------------------------------


def test_a_bundle_of_this_user_loads_and_that_of_another_needs_trust(saved, noisy, rows, tmp_path, monkeypatch):
    key = config_folder() / "bundle.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    expected = tacit.load(saved, noise_key=noisy.noise_key).transform(rows[0])
    monkeypatch.setenv("TACIT_CONFIG", str(tmp_path / "another"))
    with pytest.raises(UntrustedBundle) as refused:
        tacit.load(saved)
    assert refused.value.code == "bundle.untrusted"
    assert not (tmp_path / "another").exists()  # loading makes no key
    assert np.array_equal(tacit.load(saved, trust=True, noise_key=noisy.noise_key).transform(rows[0]), expected)


@pytest.mark.parametrize("member", ["card_md", "audit_json", "model_onnx", "manifest"])
def test_a_bundle_that_was_changed_is_no_longer_ours(saved, tmp_path, member):
    """Its hashes are right; the MAC is that of the bundle before."""
    change = {"manifest": lambda m: m | {"min_people": 11}} if member == "manifest" else {member: b"null"}
    other = forged(saved, tmp_path / "x.tacit", ours=False, **change)
    mac = read_bundle(saved).members["local.mac"]
    write_members(other, {**read_bundle(other, trust=True).members, "local.mac": mac})
    with pytest.raises(UntrustedBundle):
        read_bundle(other)


def test_a_key_that_others_can_read_vouches_for_nothing(saved, tmp_path, monkeypatch):
    monkeypatch.setenv("TACIT_CONFIG", str(tmp_path))
    (tmp_path / "bundle.key").write_text("00" * 32)
    (tmp_path / "bundle.key").chmod(0o644)
    with pytest.raises(InputError):
        tacit.load(saved)


def test_two_first_saves_make_one_key(noisy, tmp_path, monkeypatch):
    monkeypatch.setenv("TACIT_CONFIG", str(tmp_path / "new"))
    threads = [threading.Thread(target=tacit.save, args=(noisy, tmp_path / f"{i}.tacit")) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [read_bundle(tmp_path / f"{i}.tacit").trusted for i in range(4)] == [True] * 4


def test_without_a_folder_for_the_key_a_bundle_is_saved_and_needs_trust(noisy, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TACIT_CONFIG", str(tmp_path / "file"))
    path = tacit.save(noisy, tmp_path / "f.tacit")
    with pytest.raises(UntrustedBundle):
        tacit.load(path)
    assert not tacit.load(path, trust=True)._bundle.trusted


# -- signatures -------------------------------------------------------------------------------------


@pytest.fixture
def versions(saved, tmp_path):
    """Two versions of one filter, both rightly signed by another machine; and the public key."""
    secret, public = new_signing_key(tmp_path / "officer")
    made = [forged(saved, tmp_path / f"v{v}.tacit", ours=False, card_md=f"version {v}".encode()) for v in (1, 2)]
    return *(sign(path, secret, "filter", v, trust=True) for v, path in enumerate(made, 1)), public, secret


def test_a_signed_bundle_loads_under_its_name_and_no_other(versions, tmp_path):
    """Another bundle of the same key, in place of the one that is expected, was loaded (F5)."""
    old, _, public, secret = versions
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert read_bundle(old, public, name="filter").trusted
    for expected in (None, "clinic"):  # None: the file's name, v1
        with pytest.raises(BundleError):
            tacit.load(old, trusted_key=public, name=expected)
    with pytest.raises(UntrustedBundle):
        tacit.load(old)
    _, stranger = new_signing_key(tmp_path / "stranger")
    for key in (stranger, stranger.read_bytes()):
        with pytest.raises(BundleError):
            tacit.load(old, trusted_key=key, name="filter", trust=True)  # trust does not stand in for a signature
    for missing in ({"name": "filter"}, {"min_version": 2}):
        with pytest.raises(InputError):
            tacit.load(old, **missing)


def test_an_older_version_is_refused_once_a_newer_one_was_seen(versions):
    old, new, public, secret = versions
    for path in (old, new, new):
        tacit.load(path, trusted_key=public, name="filter")
    with pytest.raises(BundleError):
        tacit.load(old, trusted_key=public, name="filter")
    assert json.loads(Path(f"{public}.seen").read_text()) == {"filter": 2}
    asked = ("--trusted-key", public, "--signed-name", "filter")
    assert tacit_command("release", "verify", old, *asked).returncode == 2
    tacit_command("release", "sign", old, "--signing-key", secret, "--name", "filter", "--version", "3", "--trust")
    assert tacit_command("release", "verify", old, *asked, "--min-version", "3").returncode == 0


def test_nothing_of_a_signature_may_be_changed(versions, tmp_path):
    old, _, public, secret = versions
    with pytest.raises(BundleError):
        tacit.load(old, trusted_key=public, name="filter", min_version=2)
    members = dict(read_bundle(old, trust=True).members)
    for change in ({"version": 3}, {"name": "other"}, {"name": None}, {"version": 1.0}):
        said = json.loads(members["signature.json"]) | change
        lying = write_members(tmp_path / "lying.tacit", members | {"signature.json": json.dumps(said).encode()})
        with pytest.raises(BundleError):
            tacit.load(lying, trusted_key=public, name=said["name"] or "filter")
    with pytest.raises(InputError):
        sign(old, secret, version=0, trust=True)


def test_bundles_that_are_verified_at_once_are_all_remembered(saved, tmp_path):
    """The file of seen versions was read and written without a lock: an entry was lost in 6 of 15 (F5)."""
    secret, public = new_signing_key(tmp_path / "me")
    paths = [sign(forged(saved, tmp_path / f"b{i}.tacit", card_md=bytes([65 + i])), secret) for i in range(8)]
    threads = [threading.Thread(target=read_bundle, args=(p, public)) for p in paths]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(json.loads(Path(f"{public}.seen").read_text())) == 8


def test_commands_name_the_remedy_for_a_bundle_of_another_machine(tmp_path, monkeypatch):
    """`tacit audit` took no public key, so that a signed bundle from another machine could only be trusted blindly."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200), "y": rng.integers(2, size=200)})
    table = table.assign(s=rng.choice(["f", "m"], 200))
    table.to_csv(tmp_path / "in.csv", index=False)
    f = tacit.baselines.LinearARL().fit(table[["a", "b"]], table["y"], sensitive_features=table[["s"]])
    secret, public = new_signing_key(tmp_path / "officer")
    path = sign(tacit.save(f, tmp_path / "plane.tacit"), secret)
    (tmp_path / "tacit.toml").write_text(
        '[data]\nfile = "in.csv"\ntargets = ["y"]\nsensitive = ["s"]\n[filter]\nname = "codebook"\n'
        'bundle = "plane.tacit"\n[limits]\nleakage = { s = 1.0 }\nattackers = "logistic"\n'
    )
    monkeypatch.setenv("TACIT_CONFIG", str(tmp_path / "another"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UntrustedBundle) as refused:
        tacit.load(path)
    for remedy in ("tacit release sign plane.tacit", "trusted_key=", "--trusted-key", "trust=True", "--trust"):
        assert remedy in str(refused.value)
    of = ("--data", "in.csv", "--target", "y", "--sensitive", "s", "--attackers", "logistic")
    for command in (("release", "apply", path, "in.csv", "out.csv"), ("audit", path, *of), ("check", "tacit.toml")):
        done = tacit_command(*command)
        assert done.returncode == 2
        assert "--trusted-key" in done.stdout + done.stderr
        done = tacit_command(*command, "--trusted-key", public)
        assert done.returncode == 0, done.stderr


# -- graphs of others -------------------------------------------------------------------------------


def model(nodes, constants=(), functions=(), domain=""):
    x = helper.make_tensor_value_info("X", TensorProto.DOUBLE, ["n", 3])
    z = helper.make_tensor_value_info("release", TensorProto.DOUBLE, ["n", 3])
    graph = helper.make_graph(nodes, "g", [x], [z], list(constants))
    opsets = [helper.make_opsetid("", 20)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=9).SerializeToString()


def node(op, inputs="X", outputs="release", **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def external():
    tensor = helper.make_tensor("w", TensorProto.DOUBLE, [1], [1.0])
    tensor.ClearField("double_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../secret")
    return tensor


BODY = helper.make_graph([node("Identity", "X", "y")], "b", [], [helper.make_tensor_value_info("y", 11, None)])
SPARSE = helper.make_sparse_tensor(numpy_helper.from_array(np.ones(1)), numpy_helper.from_array(np.zeros(1, int)), [3])
HOSTILE = {
    "operator": model([node("RandomNormalLike")]),
    "domain": model([node("Run", domain="evil")], domain="evil"),
    "external data": model([node("Add", "X w")], [external()]),
    "subgraph": model([node("If", then_branch=BODY, else_branch=BODY)]),
    "subgraph of an allowed operator": model([node("Identity", body=BODY)]),
    "function": model([node("Identity")], functions=[helper.make_function("f", "F", ["a"], ["b"], [], [])]),
    "sparse": model([node("Constant", "", "c", sparse_value=SPARSE), node("Identity")]),
    "no graph": b"",
    "endless number": b"\xff" * 100,
    "cut off": model([node("Identity")])[:-3],
    "unknown field": model([node("Identity")]) + b"\xa2\x06\x00",
    "many nodes": model([node("Relu", "X", f"r{i}") for i in range(5000)]),
    "large tensor": model([node("Identity")], [onnx.TensorProto(dims=[2**20, 2**20], data_type=11, name="w")]),
    # F2: 200,000 dimensions of 2 were multiplied with each other, 21 s; F4: 300 nodes of 16,384 inputs, 6 s
    "many dimensions": model([node("Identity")], [onnx.TensorProto(dims=[2] * 200_000, data_type=11, name="w")]),
    "many numbers in attributes": model([node("Identity", **{f"a{i}": [1] * 2**21 for i in range(4)})]),
    "many fields": model([node("Identity")]) + b"\x08\x09" * 10_000_000,
    "many inputs": model([node("Concat", " ".join(["X"] * 16_384), f"c{i}", axis=1) for i in range(300)]),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_graphs_are_refused_within_a_second(saved, tmp_path, case):
    path = forged(saved, tmp_path / "x.tacit", ours=False, model_onnx=HOSTILE[case])
    import onnx.checker  # noqa: F401  not part of what is measured

    for error, trust in ((UntrustedBundle, False), (BundleError, True)):
        began = time.process_time()
        with pytest.raises(error):
            tacit.load(path, trust=trust)
        assert time.process_time() - began < 1
    check_graph(model([node("Identity")]))  # the control: the same kind of graph without what is foreign


def test_a_header_of_weights_is_not_computed_with(saved, tmp_path):
    """F3: the product of a header's numbers took 56 s."""
    header = json.dumps({"w": {"dtype": "F64", "shape": [2**62] * 190_000, "data_offsets": [0, 8]}}).encode()
    weights = len(header).to_bytes(8, "little") + header + bytes(8)
    path = forged(saved, tmp_path / "x.tacit", ours=False, weights_safetensors=weights)
    with pytest.raises(UntrustedBundle):
        tacit.load(path)
    began = time.process_time()
    release = tacit.load(path, trust=True)
    with pytest.raises(BundleError):
        release.weights()
    assert time.process_time() - began < 1


# -- the current folder -----------------------------------------------------------------------------


@pytest.mark.parametrize("command", [("show",), ("apply", "--jobs", "2")], ids=lambda c: c[0])
def test_no_file_next_to_a_bundle_is_run(saved, rows, tmp_path, command):
    """F1: a json.py in the folder of a handover was run by `tacit release show`."""
    for name in ("json", "numpy", "resource", "multiprocessing", "tacit"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w'); raise SystemExit(0)")
    np.savez(tmp_path / "in.npz", X=np.tile(rows[0], (10, 1)))
    files = ["in.npz", "out.npz", "--rows", "500"] if command[0] == "apply" else []
    program = [sys.executable, "-P", "-c", "from tacit.cli import main; main()", "release", command[0], saved, *files]
    places = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    places["PYTHONPATH"] = os.pathsep.join(str(Path(p).resolve()) for p in (ROOT / "src",))
    done = subprocess.run(
        [*map(str, program), *command[1:]], cwd=tmp_path, env=places, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()


def test_the_module_tacit_does_not_look_into_the_current_folder(tmp_path):
    (tmp_path / "typer.py").write_text("open('ran', 'w')")
    places = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    run = [sys.executable, "-m", "tacit", "--help"]
    done = subprocess.run(run, cwd=tmp_path, env=places, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()


# -- keys -------------------------------------------------------------------------------------------


def test_a_key_is_in_no_message(saved, tmp_path):
    """F8: hexadecimal text was taken for a path, and repeated."""
    text = bytes(range(200, 232)).hex()
    for option in ("noise_key", "owner_key"):
        with pytest.raises(InputError) as refused:
            tacit.load(saved, **{option: text})
        assert text not in str(refused.value)
    done = tacit_command("release", "stream", saved, "--noise-key", text)
    assert done.returncode == 2
    assert text[:16] not in (done.stdout + done.stderr).replace("\n", "")
    (tmp_path / "k").write_text(text)
    key = read_key(tmp_path / "k")
    assert (key, repr(key), f"{key}", str([key])) == (bytes.fromhex(text), "Key(***)", "Key(***)", "[Key(***)]")
    assert isinstance(pickle.loads(pickle.dumps(key)), Key)  # workers get it


@pytest.mark.parametrize("key", [b"", b"short", bytes(16), b"x" * 65])
def test_what_is_no_secret_is_no_key(key):
    with pytest.raises(InputError):
        read_key(key)


def test_the_key_of_another_bundle_is_noticed(saved, noisy, recwarn):
    tacit.load(saved, noise_key=noisy.noise_key)
    assert not recwarn.list
    with pytest.warns(OtherKeyWarning) as noted:
        tacit.load(saved, noise_key=bytes(range(32)))
    assert noted[0].message.code == "noise_key.other"
