"""Secure sums on Flower: the same filter, drop-outs, nodes that the server invents, and who refuses what."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.baselines import LinearARL
from tacit.federated import DistributedEIGAN, ProtocolError, fit_closed_form, simulate
from tacit.federated.protocol import Message
from tacit.federated.secure_sums import SumNode
from tacit.federated.states import read_state

pytest.importorskip("flwr")
from tacit.errors import InputError
from tacit.federated.flower.client_app import answer_request
from tacit.federated.flower.config import read_node, read_server
from tacit.federated.flower.trust import NodeIdentity, make_keys
from test_federated_flower_algorithms import (
    ARL,
    NAMES,
    Wire,
    log_of,
    nodes_of,
    plain_messages,  # noqa: F401
    records,
    run,
    write_files,
)

pytestmark = [
    pytest.mark.usefixtures("few_steps", "one_attacker"),
    pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning"),  # the games are short
]
EIGAN = {"algorithm": "DistributedEIGAN", "n_components": 2, "epochs": 2, "random_state": 0}


def test_a_closed_form_by_secure_sums(tmp_path):
    write_files(tmp_path, {**ARL, "secure": True}, {"secure": True})
    server = run(tmp_path)
    expected = fit_closed_form(LinearARL(lam=0.3), nodes_of(tmp_path))
    found, X = server.algorithm.conclude(server.coordinator), records(tmp_path)
    assert np.abs(found.transform(X) - expected.transform(X)).max() <= 1e-9
    assert [(line["round"], line["step"]) for line in log_of(tmp_path)] == [
        (r, step) for r in (-1, 0) for step in ("open", "share", "mask", "unmask")
    ]
    bundle = tacit.load(tmp_path / "out" / "common.tacit")
    assert np.allclose(bundle.transform(X), expected.transform(X), rtol=1e-4, atol=1e-4)
    sent = [read_state(p, "message")["message"] for p in sorted((tmp_path / "log").glob("*-up.safetensors"))]
    assert {facts["kind"] for _, facts in sent} == {"opened", "shared", "masked", "told"}
    assert all(a.dtype == np.uint64 for arrays, _ in sent for a in arrays.values())  # nothing but masked words
    states = list((tmp_path / "state-n1").glob("*.safetensors"))
    assert states
    assert {stat.S_IMODE(path.stat().st_mode) for path in states} == {0o600}  # they hold keys


def test_d_eigan_by_secure_sums_and_a_node_drops_out(tmp_path):
    write_files(tmp_path, {**EIGAN, "secure": True}, {"blur": 0.0})
    server = run(tmp_path)
    expected = simulate(nodes_of(tmp_path), DistributedEIGAN(n_components=2, epochs=2, random_state=0))
    found, X = server.algorithm.conclude(server.coordinator), records(tmp_path)
    assert np.abs(found.transform(X) - expected.transform(X)).max() <= 1e-6
    other = tmp_path / "dropping"
    other.mkdir()
    write_files(other, {**EIGAN, "secure": True})
    wire = Wire(other, lambda m: None if (m.node, m.kind, m.round) == ("n3", "masked", 1) else m)
    run(other, wire)
    masked = [line["nodes"] for line in log_of(other) if line["step"] == "mask"]
    assert masked == [list(NAMES), list(NAMES), ["n1", "n2"]]


def test_a_lost_answer_is_sent_again(tmp_path):
    write_files(tmp_path, {**ARL, "secure": True})
    config = read_node(tmp_path / "n1.toml")
    told = {"federation": "f", "settings": {**ARL, "secure": True}, "secure": {"step": "open"}, "categories": None}
    first, again = (answer_request(config, Message("describe", "n1", -1, told)) for _ in range(2))
    assert first.facts == again.facts


def test_nodes_and_server_must_both_be_secure(tmp_path):
    write_files(tmp_path, ARL, {"secure": True})
    with pytest.raises(ProtocolError, match="see the node's own log"):
        run(tmp_path)
    write_files(tmp_path, {**ARL, "secure": True})
    assert read_server(tmp_path / "server.toml", secure=True).training["secure"] is True
    assert read_node(tmp_path / "n1.toml", secure=True).secure
    folder = tmp_path / "personal"
    folder.mkdir()
    write_files(folder, {"algorithm": "PersonalMinimax", "rounds": 2})
    with pytest.raises(InputError, match="has no setting 'secure'"):
        read_server(folder / "server.toml", secure=True)


def identities(folder: Path) -> dict[str, NodeIdentity]:
    make_keys(folder / "keys", NAMES, [])
    return {name: NodeIdentity(folder / "keys" / "nodes" / name) for name in NAMES}


def test_a_server_cannot_invent_nodes(tmp_path):
    """With nodes of its own making among the three, it would know all masks of the third; signatures stop it."""
    known = identities(tmp_path)
    nodes = {name: SumNode(name) for name in NAMES}
    keys = {name: node.advertise(known[name]) for name, node in nodes.items()}
    assert set(nodes["n1"].share(keys, known["n1"])) == {"n2", "n3"}
    foreign = tmp_path / "other"
    stranger = identities(foreign)
    for invented in (SumNode("n2").advertise(), SumNode("n2").advertise(stranger["n2"]), keys["n3"]):
        node = SumNode("n1")
        told = {**keys, "n1": node.advertise(known["n1"]), "n2": invented}
        with pytest.raises(ProtocolError, match=r"not signed by it|two nodes with one key"):
            node.share(told, known["n1"])
    signed = json.loads(keys["n3"]["signature"])
    server = (tmp_path / "keys" / "server" / "server.pem").read_text()
    for certificate in (signed[0], server):  # another node's name, and a certificate that is no node's
        node = SumNode("n1")
        fake = SumNode("Tacit federation server").advertise() | {"signature": json.dumps([certificate, signed[1]])}
        told = {**keys, "n1": node.advertise(known["n1"]), "Tacit federation server": fake}
        with pytest.raises(ProtocolError, match="'Tacit federation server' are not signed by it"):
            node.share(told, known["n1"])


def test_keys_made_before_are_certified_now(tmp_path):
    identities(tmp_path)
    home = tmp_path / "keys" / "nodes" / "n1"
    (home / "node.pem").unlink()
    with pytest.raises(InputError, match=r"has no node\.pem"):
        NodeIdentity(home)
    before = (home / "node.key").read_bytes()
    identities(tmp_path)
    assert (home / "node.key").read_bytes() == before
