"""`tacit federated try` and `status`: a whole federation on one machine for practice, and how far a real one is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tacit
from tacit.errors import InputError
from tacit.federated.grants import Grants
from tacit.federated.node import Node
from tacit.files import write_whole
from tacit.records.dataset import Dataset

HOLD_OUT = 0.4
NODE_FILE = """name = {name}
server = {server}                # where the nodes reach the server
keys = {keys}
data = {data}
target = {target}
sensitive = {sensitive}
{more}hold_out = {hold_out}                # rows for this node's own audit
"""
SERVER_FILE = """keys = "keys/server"
address = "0.0.0.0:9092"
min_nodes = {nodes}
out = "encoder.tacit"

[training]
n_components = {n_components}
noise = {noise}
epochs = {epochs}
sync_every = 2
random_state = 0
{secure}"""


def practise(
    say: Any,
    tables: Sequence[Path],
    target: list[str],
    sensitive: list[str],
    unit: str | None,
    drop: list[str],
    out: Path,
    secure: bool,
    epochs: int,
    n_components: int,
    noise: float,
    verbose: bool,
) -> None:
    """Learn one encoder from these tables as a federation would, audit it at each, and say what comes next."""
    from tacit.federated import DistributedEIGAN, audit_nodes  # every command starts quickly

    names = node_names(tables)
    files = dict(zip(names, tables, strict=True))
    data = {name: tacit.read_table(path, target, sensitive, unit, drop) for name, path in files.items()}
    held = {name: d.split((1 - HOLD_OUT, HOLD_OUT / 2, HOLD_OUT / 2), random_state=0) for name, d in data.items()}
    nodes = [_node(name, parts[0]) for name, parts in held.items()]
    for node in nodes:
        Grants().check_node(node)  # what a real node would refuse is refused here too
    say(f"{len(nodes)} nodes: " + ", ".join(f"{n.name} ({len(n):,} rows to train on)" for n in nodes))
    f = DistributedEIGAN(
        n_components=n_components, noise=noise, epochs=epochs, sync_every=2, secure=secure, random_state=0,
        verbose=verbose,
    )  # fmt: skip
    f.fit(nodes)
    say(traffic(f.rounds_))
    say(str(audit_nodes(f, {name: (parts[1], parts[2]) for name, parts in held.items()})))
    out.mkdir(parents=True, exist_ok=True)
    bundle = tacit.save(f, out / "encoder.tacit")
    settings = {"n_components": n_components, "noise": noise, "epochs": epochs}
    write_files(out, files, target, sensitive, unit, drop, secure, settings)
    say(f"Nothing left this machine. The encoder of this practice: {bundle}")
    say(next_steps(out, names, secure))


def node_names(tables: Sequence[Path]) -> list[str]:
    """A node for each file, called after it."""
    names = [p.stem for p in tables]
    if len(names) < 2:
        raise InputError(f"a federation needs at least two tables; found {len(names)}: pass three/*.csv, say")
    twice = [n for n in names if names.count(n) > 1]
    if twice:
        raise InputError(f"two files are called {twice[0]!r}, and nodes are called after them; rename one")
    return names


def _node(name: str, part: Dataset) -> Node:
    return Node(part.X, part.y, part.sensitive, part.units_of(), name)


def write_files(
    out: Path,
    tables: Mapping[str, Path],
    target: list[str],
    sensitive: list[str],
    unit: str | None,
    drop: list[str],
    secure: bool,
    settings: Mapping[str, Any],
) -> None:
    """The files of the real federation, ready but for the server's name."""
    told = {"nodes": max(2, len(tables) - 1), "secure": "secure = true\n" if secure else "", **settings}
    write_whole(out / "server.toml", SERVER_FILE.format(**told))
    more = "".join(f"{k} = {json.dumps(v)}\n" for k, v in {"unit": unit, "drop": drop, "secure": secure}.items() if v)
    for name, path in tables.items():
        words = {"name": name, "server": "server.example:9092", "keys": f"keys/nodes/{name}", "data": path.name}
        quoted = {k: json.dumps(v) for k, v in {**words, "target": target, "sensitive": sensitive}.items()}
        write_whole(out / f"{name}.toml", NODE_FILE.format(**quoted, more=more, hold_out=HOLD_OUT))


def next_steps(out: Path, names: Sequence[str], secure: bool) -> str:
    """The commands of the real federation."""
    nodes = " ".join(f"--node {n}" for n in names)
    flag = " --secure" if secure else ""
    return (
        f"For the real one, each hospital on its own machine (files in {out}; set `server` to the server's name):\n"
        f"  on the server:     tacit federated keys keys {nodes} --host server.example\n"
        f"                     tacit federated server server.toml    (and: tacit federated submit server.toml)\n"
        f"  at each hospital:  tacit federated node {names[0]}.toml{flag}"
    )


def traffic(rounds: Sequence[Mapping[str, Any]]) -> str:
    """How many rounds, and what travelled."""
    up, down = (sum(int(line.get(k, 0)) for line in rounds) for k in ("bytes_up", "bytes_down"))
    n = len({line["round"] for line in rounds if line["round"] >= 0})
    return f"{n} rounds; {up:,} bytes went up to the server, {down:,} came down"


# -- how far a real one is --------------------------------------------------------------------------


def status(config_path: Path) -> list[str]:
    """What a server's or a node's files tell of its federation; nothing is asked of a running process."""
    from tacit.federated.flower.config import ServerConfig, read_config  # every command starts quickly

    config = read_config(config_path)
    return _server_status(config) if isinstance(config, ServerConfig) else _node_status(config)


def _server_status(config: Any) -> list[str]:
    from tacit.federated.states import read_state  # every command starts quickly

    allowed = sorted(p.stem for p in (config.keys / "allowed").glob("*.pub"))
    lines = [f"allowed: {', '.join(allowed) or 'nobody'}"]
    path, ended = config.state / "server.safetensors", config.out.with_suffix(".rounds.json")
    rounds: list[Mapping[str, Any]] = []
    if path.exists():
        facts = read_state(path, config.identity)["server"][1]
        rounds = facts["log"]
        lines.append(f"running, or stopped midway: round {_last(rounds)} was the last that ended")
    elif ended.exists():
        rounds = json.loads(ended.read_text(encoding="utf-8"))
        lines.append(f"finished: {config.out if config.out.exists() else ended}")
    else:
        return [*lines, "no round has ended yet: are the server, the nodes and `tacit federated submit` started?"]
    here = set(rounds[-1]["nodes"]) if rounds else set()
    lines.append(f"in the last exchange: {', '.join(sorted(here)) or 'nobody'}")
    missing = [n for n in allowed if n not in here]
    why = rounds[-1].get("failed", {}) | rounds[-1].get("rejected", {}) if rounds else {}
    lines += [f"missing: {n}: {why.get(n, 'it has not come')}" for n in missing]
    return [*lines, traffic(rounds)]


def _last(rounds: Sequence[Mapping[str, Any]]) -> int:
    return max((int(line["round"]) for line in rounds), default=-1)


def _node_status(config: Any) -> list[str]:
    path = config.state / "granted.json"
    granted = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    begun = len(granted.get("federations", {}))
    lines = [f"node {config.name}: {begun} federations began here within a day (at most {config.max_federations})"]
    lines.append(f"audits have spent an epsilon of {granted.get('epsilon', 0.0):g} of {config.audit_budget:g}")
    if config.fit_budget is not None:
        lines.append(f"fits have spent an epsilon of {granted.get('fits', 0.0):g} of {config.fit_budget:g}")
    sent = sorted(config.state.glob("*.safetensors"))
    kept = [p for p in sent if p.name not in ("tables.safetensors", "start.safetensors")]
    return [*lines, f"{len(kept)} federations kept in {config.state}" if kept else "it has answered nothing yet"]
