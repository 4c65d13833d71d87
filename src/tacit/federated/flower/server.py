"""The server's app, started by Flower for every submitted run: asks the coordinator what to send, sends it, hands it
what came back in time."""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.app import Message as FlowerMessage
from flwr.serverapp import Grid, ServerApp
from flwr.supercore import log

from tacit.errors import InputError
from tacit.federated.flower.client import from_records, to_records
from tacit.federated.flower.config import ServerConfig, pack_algorithm, read_server, unpack_algorithm
from tacit.federated.protocol import Message, ProtocolError, printable, read_state, write_state
from tacit.files import write_whole
from tacit.filters.base import Filter

ASK = "train"  # Flower's word for the one kind of message that nodes answer
POLL = 1.0
LAST = "last.safetensors"  # the state of the federation that was finished last

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    told = context.run_config
    config = read_server(str(told["config"]))
    # Flower keeps an app's log in its database; who runs the server wants a file
    log_file = logging.FileHandler(config.state / "federation.log")
    log_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.getLogger("flwr").addHandler(log_file)
    Server(config, registered_names(config.keys / "allowed")).run(grid)


class Server:
    """Runs a coordinator between machines.

    State is written after every finished round; a server that was killed resumes from there. Nodes are known by the
    names under which their keys were registered, whatever they call themselves.
    """

    def __init__(self, config: ServerConfig, names: dict[bytes, str]) -> None:
        self.config, self.names = config, names
        self.path = config.state / "server.safetensors"
        self.ids: dict[str, int] = {}
        # what a federation left that was stopped before its end
        parts = read_state(self.path, config.identity) if self.path.exists() else None
        self.federation = parts["server app"][1]["federation"] if parts else secrets.token_hex(16)
        self.told, self.given = parts["algorithm"][::-1] if parts else self._begin()
        self.algorithm = unpack_algorithm(self.told, self.given)
        self.coordinator = self.algorithm.coordinator([], config.min_nodes)
        if parts:
            self.coordinator.restore(*parts["server"])
            log(logging.INFO, "going on after round %s", self.coordinator.round - 1)

    def _begin(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        public = self.config.public
        if public is not None:
            log(logging.INFO, "learning the common filter from %s", public.data)
        return pack_algorithm(self.config.training, None if public is None else public.start())

    def _keep(self) -> None:
        mine = {"federation": self.federation}
        parts = {"server": self.coordinator.state(), "server app": ({}, mine), "algorithm": (self.given, self.told)}
        write_state(self.path, parts, self.config.identity)

    def run(self, grid: Grid) -> None:
        """All rounds, then the encoder, then the nodes' audit."""
        log(logging.INFO, "federation of at least %s nodes", self.config.min_nodes)
        while not self.coordinator.finished:
            self.ids = self._wait_for_nodes(grid)
            self.coordinator.receive(*self._exchange(grid, self.coordinator.requests(sorted(self.ids))))
            line = self.coordinator.log[-1]
            told = line["round"], ", ".join(line["nodes"]) or "nobody", line["bytes_up"]
            log(logging.INFO, "round %s: %s; %s bytes up", *told)
            for node, why in (line["rejected"] | line["failed"]).items():
                log(logging.WARNING, "round %s: left out %s: %s", line["round"], node, printable(why, 1000))
            self._keep()
        common = self._finish()
        if self.config.audit and not self.config.certifies:
            self._audit(grid, common)

    def _finish(self) -> bool:
        """Write what was learned; whether it is one filter for all."""
        from tacit.release.saving import save  # slow, needed once

        try:
            f = self.algorithm.conclude(self.coordinator)
        except Exception:  # what came cannot be used, and never will: submitted again, it begins afresh
            self.path.replace(self.path.with_name(LAST))
            raise
        out, common = self.config.out, isinstance(f, Filter)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.with_suffix(".rounds.json").write_text(json.dumps(self.coordinator.log, indent=1))
        if self.config.certifies:
            write_whole(out.with_suffix(".certificate.json"), json.dumps(f.to_dict(), indent=1))
            for text in str(f).splitlines():
                log(logging.INFO, "%s", text)
        elif common:
            save(f, out)
        ends = {True: f"the filter is in {out}", False: "every node has its own filter"}[common]
        log(logging.INFO, "%s", "the certificate is written" if self.config.certifies else ends)
        self.path.replace(self.path.with_name(LAST))  # the next federation begins afresh, with any settings
        return common

    def _audit(self, grid: Grid, common: bool) -> None:
        """Every node attacks the common filter (or its own) on rows that it held out."""
        from tacit.federated.node_audit import FederatedReport, readable_figures  # slow, needed once

        self.ids = self._wait_for_nodes(grid)
        given = {"bundle": np.frombuffer(self.config.out.read_bytes(), dtype=np.uint8)} if common else {}
        asked = [Message("audit", n, self.coordinator.round, {}, given) for n in sorted(self.ids)]
        answers, failures = self._exchange(grid, asked)
        figures = {m.node: m.facts.get("figures") for m in answers if m.kind == "audited"}
        readable = {node: told for node, told in sorted(figures.items()) if readable_figures(told)}
        failures |= {m.node: f"answered {m.kind!r} with figures that cannot be read" for m in answers
                     if m.node not in readable}  # fmt: skip
        report = FederatedReport(readable, failures)  # type: ignore[arg-type]
        report.to_json(self.config.out.with_suffix(".audit.json"))
        for text in str(report).splitlines():
            log(logging.INFO, "%s", text)

    # -- carrying -------------------------------------------------------------------------------

    def _exchange(self, grid: Grid, asked: list[Message]) -> tuple[list[Message], dict[str, str]]:
        """Answers by the names of the keys they came with, and why others gave none.

        Every message carries besides: which federation, and the algorithm.
        """
        more = {"federation": self.federation, **self.told}
        asked = [replace(m, facts={**m.facts, **more}, arrays={**m.arrays, **self.given}) for m in asked]
        names = {node_id: name for name, node_id in self.ids.items()}
        answers: list[Message] = []
        failures = {m.node: f"gone, or no answer within {self.config.deadline:g} s" for m in asked}
        wrapped = [self._wrap(m) for m in asked]
        for reply in grid.send_and_receive(wrapped, timeout=self.config.deadline) if asked else ():
            name = names.get(reply.metadata.src_node_id)
            if name is None:  # Flower itself says that a node is gone, and not which
                continue
            if reply.has_error():
                failures[name] = printable(f"Flower: {reply.error.reason or reply.error.code}")
                continue
            try:
                answer = from_records(reply.content)
            except Exception as error:  # whatever a node sends must not stop the others
                failures[name] = f"sent what cannot be read ({type(error).__name__})"
                continue
            self._log_message(answer, "up")
            failures.pop(name, None)
            if answer.kind == "failed":
                failures[name] = printable(answer.facts.get("why"))
            else:
                answers.append(replace(answer, node=name))
        return answers, failures

    def _wrap(self, message: Message) -> FlowerMessage:
        self._log_message(message, "down")
        return FlowerMessage(
            to_records(message), dst_node_id=self.ids[message.node], message_type=ASK, group_id=str(message.round)
        )

    def _wait_for_nodes(self, grid: Grid, clock: Callable[[], float] = time.monotonic) -> dict[str, int]:
        """Names and ids of the nodes that can be reached, once there are enough."""
        until = clock() + self.config.wait
        told = False
        while True:
            there = {self.names[n.public_key]: n.node_id for n in grid.get_nodes() if n.public_key in self.names}
            members = self.coordinator.members or there  # after the first exchange nobody new takes part
            found = {name: node_id for name, node_id in there.items() if name in members}
            if len(found) >= self.config.min_nodes:
                return found
            if clock() > until:
                raise ProtocolError(
                    f"{len(found)} of at least {self.config.min_nodes} nodes are here after {self.config.wait:g} s "
                    f"({', '.join(found) or 'none'}); start the others, or lower min_nodes"
                )
            if not told:
                log(logging.INFO, "waiting for nodes: %s of %s", len(found), self.config.min_nodes)
                told = True
            time.sleep(POLL)

    def _log_message(self, message: Message, way: str) -> None:
        folder: Path | None = self.config.log_messages
        if folder is None:
            return
        number = len(list(folder.glob("*.safetensors"))) if folder.exists() else 0
        facts = {"kind": message.kind, "node": message.node, "round": message.round, "facts": dict(message.facts)}
        write_state(folder / f"{number:05d}-{way}.safetensors", {"message": (message.arrays, facts)}, "message")


def registered_names(folder: Path) -> dict[bytes, str]:
    """Public keys (as Flower tells them) -> names, from the folder of allowed keys."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    names: dict[bytes, str] = {}
    for path in sorted(folder.glob("*.pub")):
        try:
            key = serialization.load_ssh_public_key(path.read_bytes())
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise InputError(f"{path} is not an elliptic-curve key; docs/federated.md says how to make it")
        told = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        if told in names:
            raise InputError(f"{path} is the key of {names[told]!r} too; every node has its own: delete one")
        names[told] = path.stem
    if not names:
        raise InputError(f"{folder} allows no node; add NAME.pub of every node")
    return names
