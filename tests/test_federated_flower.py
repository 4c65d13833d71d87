"""D-EIGAN between processes, on Flower, with TLS and registered keys: the encoder of `simulate`, and what fails closed.

Messages, answers and the equality with `simulate` are tested in one process; deployments, a short one and a full one
(a node killed mid-round, a server started again), are marked slow: they wait for processes.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.federated import Node, simulate
from tacit.federated.protocol import read_state

pytest.importorskip("flwr")
import contextlib

from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from tacit.federated.flower.client import answer_request, from_records, to_records
from tacit.federated.flower.config import algorithm_of, read_node
from tacit.federated.flower.launch import free_port
from tacit.federated.protocol import Message, ProtocolError

MARK = 1234.567890123  # one record has it: it must never travel
TRAINING = {"n_components": 2, "epochs": 1, "share": 0.5, "adversary_steps": 2, "random_state": 0}


def tables(folder: Path, n_nodes: int = 3, n: int = 60) -> list[Path]:
    paths = []
    for i, part in enumerate(tacit.load_dataset("gaussians", n=n, n_nodes=n_nodes).split("official")):
        table = pd.DataFrame(part.X, columns=["a", "b"]).assign(colour=part.y["colour"], shape=part.sensitive["shape"])
        table.loc[3, "a"] = MARK
        paths.append(folder / f"n{i + 1}.csv")
        table.to_csv(paths[-1], index=False)
    return paths


def make_keys(folder: Path, nodes, real: bool = True) -> None:
    """The folders server and nodes/NAME, by the commands of docs/federated.md; without `real`, empty files."""
    page = (Path(__file__).parent.parent / "docs" / "federated.md").read_text()
    commands = re.search(r"```bash title=[^\n]*keys\.sh[^\n]*\n(.*?)```", page, re.S)[1]
    folder.mkdir(parents=True, exist_ok=True)
    if real:
        text = commands.replace("north south west", " ".join(nodes)).replace("DNS:server.example", "IP:127.0.0.1")
        subprocess.run(["bash", "-e"], input=text, text=True, cwd=folder, check=True, capture_output=True)
        return
    for name in ("server.pem", "server.key", "authority.pem"):
        (folder / "server" / "allowed").mkdir(parents=True, exist_ok=True)
        (folder / "server" / name).touch()
    for node in nodes:
        (folder / "nodes" / node).mkdir(parents=True, exist_ok=True)
        for name in ("node.key", "authority.pem"):
            (folder / "nodes" / node / name).touch()


def write_files(folder: Path, n_nodes: int = 3, n: int = 60, real: bool = False, **settings) -> int:
    """Keys, data and configuration of a whole federation; returns the port."""
    make_keys(folder / "keys", [f"n{i + 1}" for i in range(n_nodes)], real)
    port = free_port()
    told = {"keys": "keys/server", "address": f"127.0.0.1:{port}", "min_nodes": n_nodes, "deadline": 240, "wait": 240}
    told |= {"log_messages": "log", "audit": False} | settings
    lines = [f"{k} = {json.dumps(v)}" for k, v in told.items()]
    lines += ["[training]", *(f"{k} = {json.dumps(v)}" for k, v in {**TRAINING}.items())]
    (folder / "server.toml").write_text("\n".join(lines))
    for i, path in enumerate(tables(folder, n_nodes, n)):
        node = {"name": f"n{i + 1}", "server": f"127.0.0.1:{port}", "keys": f"keys/nodes/n{i + 1}", "data": path.name,
                "target": "colour", "sensitive": "shape", "hold_out": 0, "state": f"state-n{i + 1}"}  # fmt: skip
        (folder / f"n{i + 1}.toml").write_text("\n".join(f"{k} = {json.dumps(v)}" for k, v in node.items()))
    return port


class Federation:
    """Processes of one federation, all ended at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, []

    def start(self, *words: str, log: str) -> subprocess.Popen:
        out = (self.folder / log).open("ab")
        process = subprocess.Popen(
            [sys.executable, "-c", "from tacit.cli import main; main()", "federated", *words],
            cwd=self.folder, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        self.processes.append(process)
        return process

    def submit(self, *more: str) -> None:
        ran = self.start("submit", "server.toml", *more, log="submit.log")
        assert ran.wait(600) == 0, (self.folder / "submit.log").read_text()

    def until(self, what, seconds: float = 900, log: str = "server.log"):
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, (self.folder / log).read_text()[-3000:]
            time.sleep(0.3)

    def said(self, log: str, words: str) -> bool:
        path = self.folder / log
        return path.exists() and words in path.read_text()

    def end(self, process: subprocess.Popen, how: int = signal.SIGTERM) -> None:
        """End a process and what it started: by killing its group's members one by one, never by name."""
        children = _descendants(process.pid) if how == signal.SIGKILL else []
        process.send_signal(how)
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)
        process.wait(600)

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                self.end(process)


def _descendants(pid: int) -> list[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
    found, new = [], [pid]
    while new:
        new = [p for p, parent in parents.items() if parent in new]
        found += new
    return found


@pytest.fixture
def federation(tmp_path):
    running = Federation(tmp_path)
    yield running
    running.close()


def nodes_of(folder: Path) -> list[Node]:
    parts = {f"n{i}": read_node(folder / f"n{i}.toml").parts()[0] for i in (1, 2, 3)}
    return [Node(d.X, d.y, sensitive_features=d.sensitive, name=name) for name, d in parts.items()]


def simulated(folder: Path, training=TRAINING) -> np.ndarray:
    state = simulate(nodes_of(folder), algorithm_of(training)).encoder_module_.state_dict()
    return np.concatenate([state[k].numpy().ravel() for k in sorted(state)])


def check_that_no_value_crossed(folder: Path) -> None:
    """Every message of both directions was written down: no value of a table is in any, in any precision."""
    logged = sorted((folder / "log").glob("*.safetensors"))
    assert len(logged) >= 12
    values = np.concatenate([pd.read_csv(p)[["a", "b"]].to_numpy().ravel() for p in sorted(folder.glob("n*.csv"))])
    for path in logged:
        arrays, facts = read_state(path, "message")["message"]
        kinds = {name.split("/")[0] for name in arrays}
        assert kinds <= {"values", "indices", "scaling", "count", "mean", "variance", "bundle"}
        for name, array in arrays.items():
            if not name.startswith("indices"):
                assert not np.isin(array, values).any()
                assert not np.isin(array.astype(np.float32), values.astype(np.float32)).any()
        assert str(MARK)[:8] not in json.dumps(facts)
        raw = path.read_bytes()
        assert all(np.array(MARK, dtype=t).tobytes() not in raw for t in (np.float64, np.float32))
    # the control: a log that held a record would be found out
    assert np.isin(values[:5], values).all()


# -- in one process ------------------------------------------------------------------------------------


def test_messages_survive_flowers_records():
    arrays = {"values/w": np.arange(6, dtype=np.float32).reshape(2, 3), "indices/w": np.array([], dtype=np.uint32)}
    message = Message("train", "n1", 3, {"a": [1, None, "x"]}, arrays)
    back = from_records(to_records(message))
    assert (back.kind, back.node, back.round, back.facts) == ("train", "n1", 3, message.facts)
    assert all(np.array_equal(back.arrays[k], v) and back.arrays[k].dtype == v.dtype for k, v in arrays.items())


@pytest.mark.parametrize(
    "message",
    [
        Message("trained", "n1", 0, {}, {"w": np.array(["text"])}),
        Message("trained", "n1", 0, {}, {"w": np.zeros(2, dtype=np.longdouble)}),  # cannot be kept in a state file
        Message(["trained"], "n1", 0, {}, {}),
        Message("trained", None, 0, {}, {}),
    ],
)
def test_what_is_no_message_is_refused_before_anything_is_done_with_it(message):
    with pytest.raises(ProtocolError):
        from_records(to_records(message))


def test_facts_that_have_no_names_are_refused():
    told = {"kind": "trained", "node": "n1", "round": 0, "facts": [1]}
    records = RecordDict({"arrays": ArrayRecord({}), "message": ConfigRecord({"json": json.dumps(told)})})
    with pytest.raises(ProtocolError):
        from_records(records)


def test_a_lost_answer_is_sent_again_and_nothing_is_trained_twice(tmp_path):
    """Also the equality of both engines without a network: each message is answered from the state on disk alone."""
    write_files(tmp_path)
    configs = {f"n{i}": read_node(tmp_path / f"n{i}.toml") for i in (1, 2, 3)}
    training = TRAINING | {"epochs": 3}
    server = algorithm_of(training).coordinator([])

    def carry(m):
        more = {"federation": "f", "settings": training}
        request = from_records(to_records(Message(m.kind, m.node, m.round, {**m.facts, **more}, m.arrays)))
        first, again = (answer_request(configs[m.node], request) for _ in range(2))
        assert all(np.array_equal(first.arrays[k], again.arrays[k]) for k in first.arrays)
        return first

    while not server.finished:
        server.receive([carry(m) for m in server.requests(sorted(configs))])
    found = np.concatenate([server.current[k].ravel() for k in sorted(server.current)])
    assert np.array_equal(found, simulated(tmp_path, training).astype(np.float32))


# -- between processes ---------------------------------------------------------------------------------


@pytest.mark.slow  # guards the road between processes: TLS, keys, Flower; what travels on it is tested above
@pytest.mark.parametrize("secure", [False, True])
def test_a_short_deployment_gives_the_encoder_of_the_simulation(federation, tmp_path, secure):
    write_files(tmp_path, real=True)
    if secure:
        with (tmp_path / "server.toml").open("a") as file:
            file.write("\nsecure = true\n")
        (tmp_path / "group.secret").write_bytes(b"the nodes know it, the server does not")
        for i in (1, 2, 3):
            with (tmp_path / f"n{i}.toml").open("a") as file:
                file.write('\nsecure = true\ngroup_secret = "group.secret"\n')
    federation.start("server", "server.toml", log="server.log")
    federation.until(lambda: federation.said("server.log", "listening on"))
    for i in (1, 2, 3):
        federation.start("node", f"n{i}.toml", log=f"n{i}.log")
    federation.submit()
    federation.until(lambda: (tmp_path / "state" / "last.safetensors").exists())
    X = pd.read_csv(tmp_path / "n1.csv")[["a", "b"]]
    found = tacit.load(tmp_path / "encoder.tacit").transform(X)
    expected = simulate(nodes_of(tmp_path), algorithm_of({**TRAINING, "secure": secure})).transform(X)
    assert np.allclose(found, expected, atol=1e-4)
    if not secure:
        check_that_no_value_crossed(tmp_path)


@pytest.mark.slow
def test_a_node_dies_and_comes_back_a_stranger_is_refused_the_server_is_restarted(federation, tmp_path):
    TRAINING_LONG = TRAINING | {"epochs": 5}
    port = write_files(tmp_path, n=400, real=True, min_nodes=2, deadline=60, audit=True)
    text = (tmp_path / "server.toml").read_text().replace("epochs = 1", "epochs = 5")
    (tmp_path / "server.toml").write_text(text)
    for i in (1, 2, 3):
        path = tmp_path / f"n{i}.toml"
        path.write_text(path.read_text().replace("hold_out = 0", "hold_out = 0.4"))
    # a stranger: the right authority, its own key, which nobody registered
    make_keys(tmp_path / "other", ["n9"])
    stranger = (tmp_path / "n1.toml").read_text().replace("keys/nodes/n1", "stranger").replace('"n1"', '"n9"')
    (tmp_path / "stranger").mkdir()
    (tmp_path / "stranger" / "node.key").write_bytes((tmp_path / "other/nodes/n9/node.key").read_bytes())
    (tmp_path / "stranger" / "authority.pem").write_bytes((tmp_path / "keys/server/authority.pem").read_bytes())
    (tmp_path / "n9.toml").write_text(stranger)

    server = federation.start("server", "server.toml", log="server.log")
    federation.until(lambda: federation.said("server.log", "listening on"))
    nodes = {i: federation.start("node", f"n{i}.toml", log=f"n{i}.log") for i in (1, 2, 3)}
    refused = federation.start("node", "n9.toml", log="n9.log")
    assert refused.wait(240) != 0
    federation.submit()

    def logged(way: str, kind: str, round_: int, node: str | None = None) -> bool:
        for path in (tmp_path / "log").glob(f"*-{way}.safetensors"):
            _, facts = read_state(path, "message")["message"]
            if facts["kind"] == kind and facts["round"] == round_ and node in (None, facts["node"]):
                return True
        return False

    federation.until(lambda: logged("down", "train", 1, "n3"))
    federation.end(nodes[3], signal.SIGKILL)  # in the middle of a round
    federation.until(lambda: logged("up", "trained", 2))
    federation.end(server, signal.SIGKILL)  # before the last round, however fast the rounds are
    time.sleep(75)  # Flower refuses a key that is in use, until a minute after the last heartbeat
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
    federation.start("server", "server.toml", log="server2.log")
    federation.until(lambda: federation.said("server2.log", "listening on"))
    nodes[3] = federation.start("node", "n3.toml", log="n3.log")
    federation.until(lambda: (tmp_path / "server2.log").read_text().count("Activated") > 0, log="server2.log")
    federation.submit()
    federation.until(lambda: (tmp_path / "encoder.audit.json").exists(), log="server2.log")
    rounds = json.loads((tmp_path / "encoder.rounds.json").read_text())
    assert [line["round"] for line in rounds if line["nodes"]][-1] == TRAINING_LONG["epochs"] - 1
    assert any("n3" in line["failed"] for line in rounds)
    assert "n3" in rounds[-1]["nodes"]
    assert not any("n9" in line["nodes"] for line in rounds)
    told = json.loads((tmp_path / "encoder.audit.json").read_text())
    assert sorted(told["nodes"]) == ["n1", "n2", "n3"]
    assert told["worst"]["shape"]["rows"] == 80
    X = pd.read_csv(tmp_path / "n1.csv")[["a", "b"]]
    assert np.isfinite(tacit.load(tmp_path / "encoder.tacit").transform(X)).all()
    check_that_no_value_crossed(tmp_path)
