"""The two configuration files of a federation: the server's and a node's, both TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tacit.dataset import Dataset, read_table
from tacit.errors import InputError, check_number
from tacit.federated.eigan import DistributedEIGAN

# what may be set for all nodes: plain numbers and words, no code
TRAINING = (
    "n_components", "alpha", "share", "sync_every", "sync_unit", "aggregation", "categories", "target_weights",
    "sensitive_weights", "noise", "adversary_steps", "epochs", "batch_size", "learning_rate", "head_speed",
    "random_state",
)  # fmt: skip


@dataclass(frozen=True)
class ServerConfig:
    """`tacit federated server CONFIG`.

    Attributes
    ----------
    keys : folder ``server`` that `tacit federated keys` made
    address : host:port to listen on
    state : folder for what must survive a restart
    out : where the learned encoder goes, NAME.tacit
    min_nodes : nodes without which no round starts, and usable answers without which none is merged
    deadline : seconds a round waits for answers; who is late is left out, and gets the whole encoder next time
    wait : seconds to wait for enough nodes
    audit : let every node audit the encoder on rows it held out; only figures with counts come back
    log_messages : folder where every message is written, for inspection
    training : parameters of `DistributedEIGAN`
    """

    keys: Path
    address: str = "0.0.0.0:9092"
    state: Path = Path("state")
    out: Path = Path("encoder.tacit")
    min_nodes: int = 2
    deadline: float = 600.0
    wait: float = 600.0
    audit: bool = True
    log_messages: Path | None = None
    training: Mapping[str, Any] = field(default_factory=dict)

    def algorithm(self) -> DistributedEIGAN:
        return algorithm_of(self.training)


@dataclass(frozen=True)
class NodeConfig:
    """`tacit federated node CONFIG`.

    Attributes
    ----------
    name : as given to `tacit federated keys`
    server : host:port
    keys : folder ``nodes/NAME`` that `tacit federated keys` made
    data : CSV or Parquet file; it never leaves this machine
    target, sensitive : columns; a node may have its own
    unit, drop : as of `tacit fit`
    hold_out : share of the rows (whole units) that take no part in training, for the audit
    state : folder for this node's heads and optimisers
    """

    name: str
    server: str
    keys: Path
    data: Path
    target: tuple[str, ...]
    sensitive: tuple[str, ...]
    unit: str | None = None
    drop: tuple[str, ...] = ()
    hold_out: float = 0.4
    state: Path = Path("state")

    def parts(self) -> tuple[Dataset, Dataset | None, Dataset | None]:
        """Rows to train on, rows attackers learn from, rows they are measured on."""
        data = read_table(self.data, list(self.target), list(self.sensitive), self.unit, self.drop)
        if self.hold_out == 0:
            return data, None, None
        train, attack, test = data.split((1 - self.hold_out, self.hold_out / 2, self.hold_out / 2), seed=0)
        return train, attack, test


def algorithm_of(training: Mapping[str, Any]) -> DistributedEIGAN:
    """The algorithm of these settings; nothing but numbers and words is accepted."""
    for name in training:
        if name not in TRAINING:
            raise InputError(f"[training] has no setting {name!r}; it has {', '.join(TRAINING)}")
    f = DistributedEIGAN(**training)
    f._check_parameters()
    return f


def read_server(path: str | Path) -> ServerConfig:
    """Read and check the server's file; paths in it are relative to it."""
    config = _read(Path(path), ServerConfig)
    check_number("min_nodes", config.min_nodes, 1, whole=True)
    for name in ("deadline", "wait"):
        check_number(name, getattr(config, name), 0)
    if config.out.suffix != ".tacit":
        raise InputError(f"{path}: out is called NAME.tacit; found {config.out.name!r}")
    for name in ("server.pem", "server.key", "authority.pem", "allowed"):
        if not (config.keys / name).exists():
            raise InputError(f"{path}: {config.keys} has no {name}; make it with: tacit federated keys")
    config.algorithm()
    return config


def read_node(path: str | Path, data: str | Path | None = None) -> NodeConfig:
    """Read and check a node's file."""
    config = _read(Path(path), NodeConfig, {} if data is None else {"data": str(Path(data).resolve())})
    check_number("hold_out", config.hold_out, 0, 0.9)
    for name in ("node.key", "authority.pem"):
        if not (config.keys / name).exists():
            raise InputError(f"{path}: {config.keys} has no {name}; it is made by: tacit federated keys")
    return config


def _read(path: Path, kind: type, more: Mapping[str, Any] | None = None) -> Any:
    if not path.exists():
        raise InputError(f"no file {path}; check the path")
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8")) | dict(more or {})
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is no TOML: {error}") from None
    known = {f.name: f for f in fields(kind)}
    for name in found:
        if name not in known:
            raise InputError(f"{path} has no setting {name!r}; it has {', '.join(known)}")
    values: dict[str, Any] = {}
    for name, f in known.items():
        if name in found:
            value = found[name]
        elif f.default is not f.default_factory:  # both are MISSING where a value is needed
            continue
        else:
            raise InputError(f"{path} says nothing of {name!r}; add it")
        values[name] = value
    for name, f in known.items():
        if "Path" in str(f.type) and (name in values or f.default is not None):
            values[name] = (path.parent / str(values.get(name, f.default))).resolve()
        if "tuple" in str(f.type) and name in values:
            values[name] = (values[name],) if isinstance(values[name], str) else tuple(values[name])
    return kind(**values)
