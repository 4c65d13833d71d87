"""Practice on one machine, and what the files of a federation tell of its state."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

import tacit
from tacit.cli.federated import federated_app

pytest.importorskip("flwr")
from tacit.federated.flower.config import read_node, read_server
from test_federated_flower_algorithms import ARL, Wire, plain_messages, run, table, write_files  # noqa: F401

pytestmark = [
    pytest.mark.usefixtures("one_attacker"),
    pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning"),  # short games
]
TOLD = ["--target", "act", "--sensitive", "sex"]


def practise(folder, *more, n=400):
    for seed, name in enumerate(("north", "south", "west")):
        table(n, seed).to_csv(folder / f"{name}.csv", index=False)
    files = [str(folder / f"{name}.csv") for name in ("north", "south", "west")]
    out = ["--out", str(folder / "federation"), "--epochs", "2"]
    return CliRunner().invoke(federated_app, ["try", *files, *TOLD, *out, *more])


@pytest.mark.parametrize("more", [(), ("--secure",)])
def test_one_command_runs_a_whole_federation(tmp_path, more):
    told = practise(tmp_path, *more)
    assert told.exit_code == 0, told.output
    for words in (
        "3 nodes: north (240 rows",
        "bytes went up",
        "worst: sex leaks most at",
        "tacit federated node north",
    ):
        assert words in told.output
    released = tacit.load(tmp_path / "federation" / "encoder.tacit")
    rows = pd.read_csv(tmp_path / "north.csv").drop(columns=["act", "sex"])
    assert released.transform(rows).shape == (400, 4)


def test_its_files_are_those_of_the_real_one(tmp_path):
    """After `keys`, server and nodes read them as they are."""
    assert practise(tmp_path, "--secure").exit_code == 0
    home = tmp_path / "federation"
    made = CliRunner().invoke(federated_app, ["keys", str(home / "keys"), "--node", "north", "--node", "south"])
    assert made.exit_code == 0, made.output
    server, node = read_server(home / "server.toml"), read_node(home / "north.toml")
    assert server.training["secure"] is True
    assert (node.name, node.target, node.sensitive, node.secure) == ("north", ("act",), ("sex",), True)


def test_practice_refuses_what_a_node_would_refuse(tmp_path):
    told = practise(tmp_path, n=20)
    assert "this node answers for at least 20" in str(told.exception)
    alone = CliRunner().invoke(federated_app, ["try", str(tmp_path / "north.csv"), *TOLD])
    assert "at least two tables" in str(alone.exception)


def test_status_says_who_is_missing_and_what_was_sent(tmp_path):
    write_files(tmp_path, ARL)
    server = str(tmp_path / "server.toml")
    before = CliRunner().invoke(federated_app, ["status", server])
    assert "no round has ended yet" in before.output
    wire = Wire(tmp_path)
    wire.gone.add("n3")
    run(tmp_path, wire)
    after = CliRunner().invoke(federated_app, ["status", server]).output
    assert "finished" in after
    assert "missing: n3" in after
    rounds = json.loads((tmp_path / "out" / "common.rounds.json").read_text())
    assert f"{sum(line['bytes_up'] for line in rounds):,} bytes went up" in after
    node = CliRunner().invoke(federated_app, ["status", str(tmp_path / "n1.toml")]).output
    assert "1 federations began here" in node
    assert "0 of 10" in node
