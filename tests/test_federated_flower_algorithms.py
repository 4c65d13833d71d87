"""The closed forms and PersonalMinimax on Flower: what `simulate` gives, and nodes that do not fit in are left out.

Most of it runs the server and the nodes' app without a network: every message is packed, and answered from what the
node has on its disk. A real deployment of each is marked slow.
"""

from __future__ import annotations

import json
import re
import stat
import subprocess
import tomllib
import warnings
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.baselines import LinearARL, LinearEraser
from tacit.errors import InputError, TacitWarning
from tacit.federated import Node, PersonalMinimax, ProtocolError, fit_closed_form, simulate
from tacit.federated.personal import start_of, tell_start
from tacit.federated.protocol import read_state

pytest.importorskip("flwr")
from flwr.app import RecordDict

from tacit.federated.flower.client import answer_request, from_records, to_records, train
from tacit.federated.flower.config import NodeConfig, PublicConfig, ServerConfig, algorithm_of, read_node, read_server
from tacit.federated.flower.server import Server
from tacit.federated.protocol import Message
from test_federated_flower import Federation, free_port, make_keys

pytestmark = pytest.mark.usefixtures("few_steps", "one_attacker")  # what is done, not what is found

ARL = {"algorithm": "LinearARL", "lam": 0.3}
ERASER = {"algorithm": "LinearEraser"}
PERSONAL = {"algorithm": "PersonalMinimax", "rounds": 2}
NAMES = ("n1", "n2", "n3")


def table(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    act, sex = rng.integers(3, size=n), rng.integers(2, size=n)
    X = rng.normal(size=(n, 4)) + np.random.default_rng(90 + seed).normal(size=4)
    X[:, :2] += 2 * np.array([(0, 0), (0, 1), (1, 0)])[act]
    X[:, 2] += sex
    data = pd.DataFrame(X, columns=list("abcd")).assign(job=rng.choice(["nurse", "cook"], n))
    return data.assign(act=np.array(["sit", "walk", "run"])[act], sex=np.array(["m", "f"])[sex])


def write_files(
    folder: Path, training: dict, node: dict | None = None, n: int = 60, real: bool = False, **settings
) -> int:
    """Keys, tables and configuration of a whole federation; returns the port."""
    make_keys(folder / "keys", NAMES, real)
    port = free_port()
    told = {"keys": "keys/server", "address": f"127.0.0.1:{port}", "min_nodes": 2, "deadline": 240, "wait": 240}
    told |= {"log_messages": "log", "audit": False, "out": "out/common.tacit"} | settings
    lines = [f"{k} = {json.dumps(v)}" for k, v in told.items()]
    lines += ["[training]", *(f"{k} = {json.dumps(v)}" for k, v in training.items())]
    if training["algorithm"] == "PersonalMinimax":
        public = [table(100, seed).assign(who=f"p{seed}") for seed in (7, 8)]
        pd.concat(public).to_csv(folder / "public.csv", index=False)
        lines += ["[public]", 'data = "public.csv"', 'target = "act"', 'sensitive = "who"', 'drop = ["sex"]']
        lines += ["n_components = 3", "max_iter = 3"]
    (folder / "server.toml").write_text("\n".join(lines))
    for seed, name in enumerate(NAMES):
        table(n + 10 * seed, seed).to_csv(folder / f"{name}.csv", index=False)
        told = {"name": name, "server": f"127.0.0.1:{port}", "keys": f"keys/nodes/{name}", "data": f"{name}.csv",
                "target": "act", "sensitive": "sex", "hold_out": 0, "state": f"state-{name}",
                "algorithm": training["algorithm"], "out": f"{name}.tacit"} | (node or {})  # fmt: skip
        (folder / f"{name}.toml").write_text("\n".join(f"{k} = {json.dumps(v)}" for k, v in told.items()))
    return port


class Wire:
    """In the place of Flower's grid: answers come from the nodes' app, in this process.

    `change` may alter an answer on its way, or lose it (None); nodes in `gone` cannot be reached.
    """

    def __init__(self, folder: Path, change=lambda m: m) -> None:
        self.folder, self.change, self.gone, self.answered = folder, change, set(), []

    def get_nodes(self):
        return [SimpleNamespace(public_key=n.encode(), node_id=i) for i, n in enumerate(NAMES) if n not in self.gone]

    def send_and_receive(self, messages, timeout):
        replies = []
        for message in messages:
            name = NAMES[message.metadata.dst_node_id]
            context = SimpleNamespace(node_config={"config": str(self.folder / f"{name}.toml")})
            answer = self.change(from_records(train(message, context).content))
            self.answered.append((name, answer))
            if answer is not None:
                metadata = SimpleNamespace(src_node_id=message.metadata.dst_node_id)
                content = to_records(answer)
                replies.append(SimpleNamespace(metadata=metadata, has_error=lambda: False, content=content))
        return replies


@pytest.fixture(autouse=True)
def plain_messages(monkeypatch):
    """Flower's messages know which task made them; here there is none."""

    def message(content: RecordDict, dst_node_id=None, message_type=None, group_id=None, reply_to=None):
        return SimpleNamespace(content=content, metadata=SimpleNamespace(dst_node_id=dst_node_id))

    monkeypatch.setattr("tacit.federated.flower.server.FlowerMessage", message)
    monkeypatch.setattr("tacit.federated.flower.client.FlowerMessage", message)


def run(folder: Path, wire: Wire | None = None) -> Server:
    wire = wire or Wire(folder)
    server = Server(read_server(folder / "server.toml"), {n.encode(): n for n in NAMES})
    server.run(wire)
    return server


def nodes_of(folder: Path, *names: str) -> list[Node]:
    parts = [read_node(folder / f"{name}.toml").parts()[0] for name in names or NAMES]
    return [Node(d.X, d.y, sensitive_features=d.sensitive, name=n) for d, n in zip(parts, names or NAMES, strict=True)]


def records(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "n1.csv")[["a", "b", "c", "d", "job"]]


def log_of(folder: Path) -> list[dict]:
    return json.loads((folder / "out" / "common.rounds.json").read_text())


def state_of(folder: Path, name: str) -> Path:
    (path,) = (p for p in (folder / f"state-{name}").glob("*.safetensors") if p.stem != "start")
    return path


def alter(folder: Path, name: str, change) -> None:
    change(pd.read_csv(folder / f"{name}.csv")).to_csv(folder / f"{name}.csv", index=False)


# -- closed forms ---------------------------------------------------------------------------------


@pytest.mark.parametrize("training, estimator", [(ARL, LinearARL(lam=0.3)), (ERASER, LinearEraser())])
def test_a_closed_form_is_that_of_one_process_and_ends_as_a_bundle(tmp_path, training, estimator):
    write_files(tmp_path, training)
    server = run(tmp_path)
    nodes = nodes_of(tmp_path)
    expected = fit_closed_form(estimator, nodes)
    found = server.algorithm.conclude(server.coordinator)
    X = records(tmp_path)
    assert np.allclose(found.transform(X), expected.transform(X), atol=1e-6)
    pooled = [pd.concat(part, ignore_index=True) for part in zip(*[(n.X, n.y, n.sensitive_features) for n in nodes])]  # noqa: B905
    central = type(estimator)(**estimator.get_params()).fit(pooled[0], pooled[1], sensitive_features=pooled[2])
    assert np.allclose(found.transform(X), central.transform(X), atol=1e-6)
    two = fit_closed_form(estimator, nodes[:2])
    assert not np.allclose(found.transform(X), two.transform(X), atol=1e-3)  # the control
    bundle = tacit.load(tmp_path / "out" / "common.tacit")
    assert np.allclose(bundle.transform(X), expected.transform(X), rtol=1e-4, atol=1e-4)
    assert not found.seen(X).any()  # nobody at the server knows the rows
    assert [line["round"] for line in log_of(tmp_path)] == [-1, -1, 0, 0]
    assert log_of(tmp_path)[-1]["nodes"] == list(NAMES)


def test_every_node_audits_the_bundle(tmp_path):
    write_files(tmp_path, ARL, {"hold_out": 0.8}, n=200, audit=True)
    run(tmp_path)
    told = json.loads((tmp_path / "out" / "common.audit.json").read_text())
    assert sorted(told["nodes"]) == list(NAMES)
    assert {f["attribute"] for f in told["nodes"]["n1"]} == {"act", "sex"}
    sent = [read_state(p, "message")["message"] for p in sorted((tmp_path / "log").glob("*-down.safetensors"))]
    audits = [arrays for arrays, facts in sent if facts["kind"] == "audit"]
    assert len(audits) == 3
    assert all(set(arrays) == {"bundle"} for arrays in audits)  # not the sums of the others


def changed(kind, **arrays):
    """Alter n3's answers of this kind."""

    def change(m):
        if (m.node, m.kind) != ("n3", kind):
            return m
        return Message(
            m.kind, m.node, m.round, m.facts, {k: arrays.get(k, lambda a: a)(a) for k, a in m.arrays.items()}
        )

    return change


def told(kind, **facts):
    def change(m):
        return (
            Message(m.kind, m.node, m.round, {**m.facts, **facts}, m.arrays) if (m.node, m.kind) == ("n3", kind) else m
        )

    return change


def lose(kind):
    return lambda m: None if (m.node, m.kind) == ("n3", kind) else m


def outline(**facts):
    """Alter what n3 tells of its columns."""
    return lambda m: (
        told("opened", outline={**m.facts["outline"], **facts})(m) if m.kind == "opened" and m.round < 0 else m
    )


RUBBISH = {
    "numbers of any size": changed("masked", words=lambda a: a ^ np.uint64(0x5555555555555555)),
    "too few numbers": changed("masked", words=lambda a: a[:, :-1]),
    "no words": changed("masked", words=lambda a: a.astype(float)),
    "no records": told("opened", records=0),
    "endless records": told("opened", records=10**400),
    "an outline that is none": told("opened", outline=7),
    "columns that are none": outline(columns=7),
    "an endless range": outline(columns=[{"name": "a", "kind": "number", "range": [0, 10**400]}]),
    "no answer": lose("masked"),
    "no beginning": lose("opened"),
}


@pytest.mark.parametrize("how", RUBBISH)
def test_a_node_that_sends_rubbish_is_named_and_the_others_go_on(tmp_path, how):
    write_files(tmp_path, ARL)
    check_that_n3_was_left_out(tmp_path, Wire(tmp_path, RUBBISH[how]))


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.drop(columns="a"),
        lambda t: t.assign(job="pilot"),
        lambda t: t[:0],
        lambda t: t.assign(sex=["x"] + ["m", "f"] * 39 + ["m"]),  # a class of 1
    ],
    ids=["no column", "other words", "no record", "a class of one"],
)
def test_a_node_whose_table_does_not_fit_in_is_named_and_the_others_go_on(tmp_path, change):
    write_files(tmp_path, ARL)
    alter(tmp_path, "n3", change)
    check_that_n3_was_left_out(tmp_path, Wire(tmp_path))


def check_that_n3_was_left_out(folder: Path, wire: Wire) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        server = run(folder, wire)
        f = server.algorithm.conclude(server.coordinator)
    reasons = {n: why for line in log_of(folder) for n, why in (line["rejected"] | line["failed"]).items()}
    assert list(reasons) == ["n3"]
    assert log_of(folder)[-1]["nodes"] == ["n1", "n2"]
    without = fit_closed_form(LinearARL(lam=0.3), nodes_of(folder, "n1", "n2"))
    assert np.allclose(f.transform(records(folder)), without.transform(records(folder)), atol=1e-6)


def test_steps_and_tables_of_few_people_are_refused(tmp_path):
    """Batches of one record made every answer a record."""
    training = {"algorithm": "DistributedEIGAN", "n_components": 1, "epochs": 1, "adversary_steps": 1}
    for node, more in (({}, {"batch_size": 1}), ({"min_people": 100}, {})):
        write_files(tmp_path, training | more, node)
        wire = Wire(tmp_path)
        with pytest.raises(ProtocolError):
            run(tmp_path, wire)
        assert not any(k.startswith("values/") for _, m in wire.answered for k in m.arrays)
        (tmp_path / "state" / "server.safetensors").unlink(missing_ok=True)
    write_files(tmp_path, training | {"batch_size": 20})  # the control
    for name in NAMES:
        for path in (tmp_path / f"state-{name}").glob("*"):
            path.unlink()
    run(tmp_path)


def test_a_question_is_answered_once_and_under_the_agreed_settings(tmp_path):
    training = {"algorithm": "DistributedEIGAN", "n_components": 1, "epochs": 2, "adversary_steps": 1}
    write_files(tmp_path, training)
    config, server = read_node(tmp_path / "n1.toml"), algorithm_of(training).coordinator([])

    def ask(m, **more):
        facts = {**m.facts, "federation": "f", "settings": training, **more}
        return answer_request(config, Message(m.kind, m.node, m.round, facts, m.arrays))

    (describe,) = server.requests(["n1"])
    server.receive([ask(describe)])
    (first,) = server.requests(["n1"])
    answer = ask(first)
    other = Message(first.kind, "n1", 0, first.facts, {k: a + np.float32(1) for k, a in first.arrays.items()})
    assert all(np.array_equal(a, answer.arrays[k]) for k, a in ask(other).arrays.items())
    with pytest.raises(ProtocolError):
        ask(first, settings=training | {"alpha": 0.9})
    server.receive([answer])
    (second,) = server.requests(["n1"])
    ask(second)
    with pytest.raises(ProtocolError):
        ask(first)


@pytest.mark.parametrize(
    "training, tolerance",
    [(ARL, 1e-9), ({"algorithm": "DistributedEIGAN", "n_components": 2, "epochs": 2, "random_state": 0}, 1e-6)],
)
def test_masked_sums_give_the_same_filter_and_a_node_that_drops_out_is_left_out(tmp_path, training, tolerance):
    X = []
    for secure in (False, True):
        write_files(tmp_path, {**training, "secure": secure}, {"secure": secure})
        wire = Wire(tmp_path)
        server = run(tmp_path, wire)
        X.append(server.algorithm.conclude(server.coordinator).transform(records(tmp_path)))
    assert np.abs(X[0] - X[1]).max() <= tolerance
    assert {a.dtype.str for _, m in wire.answered for a in m.arrays.values()} == {"<u8"}  # nothing but masked words
    for path in tmp_path.glob("state-*/*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600  # states hold keys
        path.unlink()
    wire = Wire(tmp_path, lambda m: None if (m.node, m.kind, m.round) == ("n3", "masked", 0) else m)
    run(tmp_path, wire)
    lines = [(line["step"], line["nodes"]) for line in log_of(tmp_path) if line["round"] == 0]
    assert lines[1:4] == [("mask", ["n1", "n2"]), ("open", ["n1", "n2"]), ("mask", ["n1", "n2"])]


def test_a_node_of_masked_sums_answers_nothing_in_the_clear(tmp_path):
    write_files(tmp_path, ARL, {"secure": True})
    wire = Wire(tmp_path)
    with pytest.raises(ProtocolError):
        run(tmp_path, wire)
    assert {m.kind for _, m in wire.answered} == {"failed"}


def test_a_column_of_few_values_does_not_leave(tmp_path):
    write_files(tmp_path, ARL)
    alter(tmp_path, "n3", lambda t: t.assign(a=t["a"].where(np.arange(len(t)) < 2)))  # their mean and variance are both
    wire = Wire(tmp_path)
    run(tmp_path, wire)
    assert log_of(tmp_path)[0]["failed"] == {"n3": "InputError: see the node's own log"}
    assert not any(m.arrays for n, m in wire.answered if n == "n3")


FORGED = "gone\n2026-01-01 INFO round 0: n1, n2, n3\x1b[2J"


@pytest.mark.parametrize("kind", ["failed", FORGED, "audited"])
def test_a_node_cannot_forge_lines_of_the_servers_log(tmp_path, monkeypatch, kind):
    write_files(tmp_path, ARL, {"hold_out": 0.8}, n=200, audit=True)
    lines = []
    monkeypatch.setattr(
        "tacit.federated.flower.server.log", lambda level, text, *args: lines.append(text % args if args else text)
    )

    def forge(m):
        if m.node != "n3" or m.kind != ("audited" if kind == "audited" else "masked"):
            return m
        if kind == "audited":
            return told("audited", figures=[f | {"attacker": FORGED} for f in m.facts["figures"]])(m)
        return Message(kind, m.node, m.round, {"why": FORGED})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        run(tmp_path, Wire(tmp_path, forge))
    assert any("n3" in line for line in lines)
    assert all(line.isprintable() for line in lines)


def test_sums_that_give_no_filter_are_not_taken_up_again(tmp_path):
    write_files(tmp_path, ARL)
    for name in NAMES:
        alter(tmp_path, name, lambda t: t.assign(sex="m"))
    with pytest.raises(InputError, match="'sex' has one class at all nodes together"):
        run(tmp_path)
    for i, name in enumerate(NAMES):  # what the message says to do
        alter(tmp_path, name, lambda t, i=i: t.assign(sex=table(60 + 10 * i, i)["sex"]))
    run(tmp_path)
    assert (tmp_path / "out" / "common.tacit").exists()


def test_no_text_of_an_error_leaves_a_node(tmp_path, monkeypatch):
    """Also not of errors that nobody thought of: Flower would send the server the text of whatever is raised."""
    write_files(tmp_path, ARL)

    def stumble(*args):
        raise ValueError("could not convert string to float: 'Alice Smith'")

    with monkeypatch.context() as patch:
        patch.setattr("tacit.federated.flower.client.answer_request", stumble)
        wire = Wire(tmp_path)
        with pytest.raises(ProtocolError):
            run(tmp_path, wire)
    assert "Alice" not in str(wire.answered)
    context = SimpleNamespace(node_config={"config": str(tmp_path / "no.toml")})
    told = from_records(train(SimpleNamespace(content=to_records(Message("describe", "n1"))), context).content)
    assert told.facts == {"why": "InputError: see the node's own log"}


def test_too_few_usable_answers_end_the_federation_by_name(tmp_path):
    write_files(tmp_path, ARL, min_nodes=3)
    with pytest.raises(ProtocolError, match=r"n3"):
        run(tmp_path, Wire(tmp_path, RUBBISH["too few numbers"]))


def test_a_node_takes_part_in_what_its_own_file_names_and_keeps_its_own_limit(tmp_path):
    write_files(tmp_path, {**ARL, "min_count": 1})
    path = tmp_path / "n2.toml"
    path.write_text(path.read_text().replace("LinearARL", "DistributedEIGAN"))
    alter(tmp_path, "n3", lambda t: t.assign(sex=["x"] + ["m", "f"] * 39 + ["m"]))
    wire = Wire(tmp_path)
    with pytest.raises(ProtocolError):
        run(tmp_path, wire)  # the server asks for classes of 1; n3 gives none below 5
    assert {m.round for n, m in wire.answered if n == "n1" and m.kind != "opened"} <= {-1}  # no sum of records
    assert {m.kind for n, m in wire.answered if n == "n2"} == {"failed"}
    assert not any(m.arrays for n, m in wire.answered if n == "n2")


def test_a_server_killed_before_the_bundle_was_written_writes_it_when_started_again(tmp_path, monkeypatch):
    write_files(tmp_path, ARL)

    def killed(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tacit.release.saving.save", killed)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path)
    wire = Wire(tmp_path)
    run(tmp_path, wire)
    assert wire.answered == []  # nobody was asked again
    assert (tmp_path / "out" / "common.tacit").exists()
    for path in [tmp_path / "server.toml", *(tmp_path / f"{n}.toml" for n in NAMES)]:
        path.write_text(path.read_text().replace('"LinearARL"', '"LinearEraser"').replace("lam = 0.3", ""))
    run(tmp_path, wire)
    assert len(wire.answered) == 12  # but the next federation begins afresh, with any algorithm
    assert tacit.load(tmp_path / "out" / "common.tacit").transform(records(tmp_path)).shape == (60, 8)


# -- PersonalMinimax ------------------------------------------------------------------------------


def personal(folder: Path, *names: str, **settings) -> PersonalMinimax:
    """The same in one process."""
    training = {**tomllib.loads((folder / "server.toml").read_text())["training"], **settings}
    return simulate(
        nodes_of(folder, *names), algorithm_of(training, read_server(folder / "server.toml").public.start())
    )


def check_that_filters_are_those_of(folder: Path, f: PersonalMinimax, names=NAMES) -> None:
    X = records(folder)
    for name in names:
        found = tacit.load(folder / f"{name}.tacit").transform(X)
        assert np.allclose(found, f.transform(X, name), atol=1e-6)
        assert not np.allclose(found, f.start.transform(X), atol=1e-3)  # the control: it was learned


@pytest.mark.parametrize(
    "settings", [{}, {"order": "parallel"}, {"exchange": "statistics"}, {"exchange": "statistics", "loss": "squared"}]
)
def test_personal_filters_are_those_of_one_process_and_stay_at_the_nodes(tmp_path, settings):
    write_files(tmp_path, PERSONAL | settings)
    wire = Wire(tmp_path)
    server = run(tmp_path, wire)
    check_that_filters_are_those_of(tmp_path, personal(tmp_path))
    assert not (tmp_path / "out" / "common.tacit").exists()
    allowed = {"samples", "labels"} if "exchange" not in settings else {"counts", "means", "scatter"}
    assert {name for _, m in wire.answered for name in m.arrays} == allowed
    assert server.coordinator.members == {"n1": 60, "n2": 70, "n3": 80}
    values = np.concatenate([pd.read_csv(tmp_path / f"{n}.csv")[list("abcd")].to_numpy().ravel() for n in NAMES])
    for path in (tmp_path / "log").glob("*.safetensors"):
        arrays, _ = read_state(path, "message")["message"]
        assert not any(np.isin(a, values).any() for a in arrays.values())


def test_a_node_without_its_state_comes_back_and_one_that_is_gone_loses_its_turn(tmp_path):
    write_files(tmp_path, PERSONAL | {"rounds": 4})
    wire = Wire(tmp_path)
    begin, rounds = Wire.send_and_receive, iter(range(100))

    def send(messages, timeout):
        turn = next(rounds)  # 0 is the beginning, then three turns a round
        if turn == 4:
            wire.gone = {"n3"}
        if turn == 6:
            wire.gone = set()
            state_of(tmp_path, "n2").unlink()
        return begin(wire, messages, timeout)

    wire.send_and_receive = send
    run(tmp_path, wire)
    log = log_of(tmp_path)
    failed = [(line["round"], n, why) for line in log for n, why in line["failed"].items()]
    assert (1, "n3", "cannot be reached") in failed
    assert (2, "n2", "ProtocolError: see the node's own log") in failed
    assert [line["nodes"] for line in log if line["round"] == 3] == [["n1"], ["n2"], ["n3"]]
    assert all(np.isfinite(tacit.load(tmp_path / f"{n}.tacit").transform(records(tmp_path))).all() for n in NAMES)


def test_a_server_that_is_killed_goes_on_to_the_same_filters(tmp_path, monkeypatch):
    write_files(tmp_path, PERSONAL)
    wire = Wire(tmp_path)
    before = Server._keep

    def killed(self):
        if len(wire.answered) == 6:
            raise KeyboardInterrupt  # the turn was answered, and not yet written down
        before(self)

    with monkeypatch.context() as patch:
        patch.setattr(Server, "_keep", killed)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, wire)
    text = (tmp_path / "public.csv").read_text()
    (tmp_path / "public.csv").write_text(text + "1,1,1,1,cook,sit,m,p7\n")
    with pytest.raises(InputError, match="other settings or other data"):
        run(tmp_path)
    (tmp_path / "public.csv").write_text(text)
    run(tmp_path)
    check_that_filters_are_those_of(tmp_path, personal(tmp_path))


PERSONAL_RUBBISH = {
    "NaN": changed("filtered", samples=lambda a: a * np.nan),
    "other shape": changed("filtered", samples=lambda a: a[:, :2]),
    "labels of no class": changed("filtered", labels=lambda a: a + 50),
    "no target": changed("filtered", labels=lambda a: 0 * a - 1),
    "no row": changed("filtered", samples=lambda a: a[:0], labels=lambda a: a[:0]),
    "no classes": told("filtered", classes=None),
    "too large later": changed("improved", samples=lambda a: 0 * a + 1e300),
    "no answer": lose("improved"),
}


@pytest.mark.parametrize("how", PERSONAL_RUBBISH)
def test_a_contributor_that_sends_rubbish_is_named_and_the_others_go_on(tmp_path, how):
    write_files(tmp_path, PERSONAL)
    run(tmp_path, Wire(tmp_path, PERSONAL_RUBBISH[how]))
    left_out = {n for line in log_of(tmp_path) for n in line["rejected"] | line["failed"]}
    assert left_out == {"n3"}
    assert {n for line in log_of(tmp_path) if line["round"] == 1 for n in line["nodes"]} == {"n1", "n2"}
    if "n3" in log_of(tmp_path)[0]["rejected"]:
        check_that_filters_are_those_of(tmp_path, personal(tmp_path, "n1", "n2"), ("n1", "n2"))


@pytest.mark.parametrize("count", [np.nan, np.inf, 1e308])
def test_counts_that_are_none_are_named_and_the_others_go_on(tmp_path, count):
    write_files(tmp_path, PERSONAL | {"exchange": "statistics"})
    run(tmp_path, Wire(tmp_path, changed("filtered", counts=lambda a: np.full(a.shape, count))))
    assert list(log_of(tmp_path)[0]["rejected"]) == ["n3"]


@pytest.mark.filterwarnings("ignore:n_components is 5")
def test_a_common_filter_that_can_be_undone_is_refused_by_the_nodes(tmp_path):
    write_files(tmp_path, PERSONAL)
    facts, _ = tell_start(read_server(tmp_path / "server.toml").public.start())
    for weight in (np.eye(8), np.full((2, 8), np.nan)):
        with pytest.raises(InputError):
            start_of(facts, {"weight": weight})
    start_of(facts, {"weight": np.eye(8)[:2]})  # the control


def test_a_node_takes_no_second_common_filter(tmp_path):
    write_files(tmp_path, PERSONAL)
    run(tmp_path)
    run(tmp_path)  # another federation with the same one
    config, began = read_node(tmp_path / "n1.toml"), []
    start = tell_start(read_server(tmp_path / "server.toml").public.start())
    for i in range(2):  # near the first, and never the same: the differences would be new projections of the records
        weight = start[1]["weight"] * (1 + 1e-6 * np.random.default_rng(i).normal(size=start[1]["weight"].shape))
        facts = json.loads(json.dumps({"settings": PERSONAL, "start": start[0], "federation": str(i)}))
        began.append(answer_request(config, Message("begin", "n1", -1, facts, {"start/weight": weight})))
    assert np.array_equal(began[0].arrays["samples"], began[1].arrays["samples"])
    text = (tmp_path / "server.toml").read_text()
    (tmp_path / "server.toml").write_text(text.replace("n_components = 3", "n_components = 2"))
    wire = Wire(tmp_path)
    with pytest.raises(ProtocolError, match=r"0 of at least 2 .*n1: ProtocolError"):
        run(tmp_path, wire)
    assert not any(m.arrays for _, m in wire.answered)
    for name in NAMES:
        (tmp_path / f"state-{name}" / "start.safetensors").unlink()
    (tmp_path / "state" / "server.safetensors").unlink()
    run(tmp_path)
    assert tacit.load(tmp_path / "n1.tacit").transform(records(tmp_path)).shape == (60, 2)


def test_the_documentations_files_are_right():
    text = (Path(__file__).parent.parent / "docs" / "federated.md").read_text()
    found = [tomllib.loads(block) for block in re.findall(r"```toml[^\n]*\n(.*?)```", text, re.S)]
    servers = [b for b in found if "training" in b]
    assert {b["training"].get("algorithm", "DistributedEIGAN") for b in servers} == {
        "DistributedEIGAN",
        "LinearARL",
        "PersonalMinimax",
        "Certificate",
    }
    for block in servers:
        algorithm_of(block["training"])
        assert set(block) <= {f.name for f in fields(ServerConfig)}
        assert set(block.get("public", {})) <= {f.name for f in fields(PublicConfig)}
    nodes = [b for b in found if "training" not in b]
    assert nodes
    assert all(set(b) <= {f.name for f in fields(NodeConfig)} for b in nodes)


@pytest.mark.parametrize(
    "old, new",
    [
        ("PersonalMinimax", "Magic"),
        ("rounds", "epochs"),
        ("rounds = 2", "rounds = 0"),
        ("[public]", "[private]"),
        ("public.csv", "none.csv"),
        ("max_iter", "iterations"),
        ('"PersonalMinimax"\nrounds = 2', '"LinearARL"'),  # which begins with nothing public
        ("min_nodes = 2", "min_nodes = 0"),
        ('"keys/server"', '"nowhere"'),
        ("deadline = 240", "deadline = true"),
        ("audit = false", 'audit = "no"'),
        ("[training]", "[training"),
    ],
)
def test_a_server_file_with_a_fault_is_refused(tmp_path, old, new):
    write_files(tmp_path, PERSONAL)
    good = (tmp_path / "server.toml").read_text()
    assert old in good
    (tmp_path / "bad.toml").write_text(good.replace(old, new))
    with pytest.raises(InputError):
        read_server(tmp_path / "bad.toml")


@pytest.mark.parametrize(
    "change", [("PersonalMinimax", "Magic"), ("n1.tacit", "n1.onnx"), ("hold_out", "min_count"), ('"n1"', "1")]
)
def test_a_node_file_with_a_fault_is_refused(tmp_path, change):
    write_files(tmp_path, PERSONAL)
    text = (tmp_path / "n1.toml").read_text()
    assert change[0] in text
    (tmp_path / "bad.toml").write_text(text.replace(*change, 1))
    with pytest.raises(InputError):
        read_node(tmp_path / "bad.toml")
    with pytest.raises(InputError):
        read_node(tmp_path / "none.toml")


# -- between processes ----------------------------------------------------------------------------


@pytest.fixture
def processes(tmp_path):
    running = Federation(tmp_path)
    yield running
    running.close()


def deploy(processes: Federation) -> dict[str, subprocess.Popen]:
    processes.start("server", "server.toml", log="server.log")
    processes.until(lambda: processes.said("server.log", "listening on"))
    nodes = {name: processes.start("node", f"{name}.toml", log=f"{name}.log") for name in NAMES}
    processes.submit()
    return nodes


@pytest.mark.slow
def test_a_closed_form_between_processes(processes, tmp_path):
    write_files(tmp_path, ARL, {"hold_out": 0.8}, n=200, real=True, min_nodes=3, audit=True)
    deploy(processes)
    processes.until(lambda: (tmp_path / "out" / "common.audit.json").exists())
    f, X = fit_closed_form(LinearARL(lam=0.3), nodes_of(tmp_path)), records(tmp_path)
    assert np.allclose(tacit.load(tmp_path / "out" / "common.tacit").transform(X), f.transform(X), atol=1e-5)
    assert sorted(json.loads((tmp_path / "out" / "common.audit.json").read_text())["nodes"]) == list(NAMES)


@pytest.mark.slow
def test_personal_filters_between_processes(processes, tmp_path):
    write_files(tmp_path, PERSONAL | {"order": "parallel"}, real=True, min_nodes=3)
    deploy(processes)
    processes.until(lambda: (tmp_path / "out" / "common.rounds.json").exists())
    assert [line["nodes"] for line in log_of(tmp_path) if len(line["nodes"]) < 3] == []
    check_that_filters_are_those_of(tmp_path, personal(tmp_path))
