"""The two configuration files of a federation: the server's and a node's, both TOML."""

from __future__ import annotations

import functools
import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tacit.errors import InputError, check_number
from tacit.federated.flower.algorithms import DEFAULT, OLD, algorithm_of, name_of
from tacit.records.dataset import Dataset, read_table


@dataclass(frozen=True)
class PublicConfig:
    """`[public]` of the server's file: what the common initial filter of PersonalMinimax is learned from.

    Attributes
    ----------
    data : CSV or Parquet file with the nodes' columns. Everybody may see it: the filter is given to all nodes
    target, sensitive : columns; sensitive says who it is
    unit, drop : as of `tacit fit`
    n_components, rho, privacy_loss, max_iter, random_state : as of `MinimaxFilter`
    """

    data: Path
    target: tuple[str, ...]
    sensitive: tuple[str, ...]
    unit: str | None = None
    drop: tuple[str, ...] = ()
    n_components: int | None = None
    rho: float = 1.0
    privacy_loss: str = "multiclass"
    max_iter: int = 30
    random_state: int = 0

    def start(self) -> Any:
        """The common filter, fitted."""
        from tacit.filters.minimax import MinimaxFilter  # every message starts a new Python at a node

        data = read_table(self.data, list(self.target), list(self.sensitive), self.unit, self.drop)
        names = ("n_components", "rho", "privacy_loss", "max_iter", "random_state")
        f = MinimaxFilter(**{name: getattr(self, name) for name in names})
        return f.fit(data.X, data.y, sensitive_features=data.sensitive, units=data.units_of())


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
    training : the name of the `algorithm` (DistributedEIGAN by default) and its parameters
    public : for PersonalMinimax, what the common initial filter is learned from
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
    public: PublicConfig | None = None

    @functools.cached_property
    def identity(self) -> str:
        """What a federation that resumes after a restart must have in common with the one that was stopped."""
        told: dict[str, Any] = {"training": dict(self.training)}
        if self.public is not None:
            told["public"] = {k: str(v) for k, v in vars(self.public).items()}
            told["public"]["data"] = hashlib.sha256(self.public.data.read_bytes()).hexdigest()
        return json.dumps(told, sort_keys=True)


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
    algorithm : the one this node takes part in. What travels depends on it, so the server alone does not choose it
    min_count : how many values a number column must have for its mean to travel; for the closed forms also the smallest
        class whose mean may, and how many records must have a word for it to count
    out : for PersonalMinimax, where this node's own filter goes, NAME.tacit
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
    algorithm: str = DEFAULT
    min_count: int = 5
    out: Path = Path("filter.tacit")

    def parts(self) -> tuple[Dataset, Dataset | None, Dataset | None]:
        """Rows to train on, rows attackers learn from, rows they are measured on."""
        data = read_table(self.data, list(self.target), list(self.sensitive), self.unit, self.drop)
        if self.hold_out == 0:
            return data, None, None
        train, attack, test = data.split((1 - self.hold_out, self.hold_out / 2, self.hold_out / 2), random_state=0)
        return train, attack, test


def read_server(path: str | Path) -> ServerConfig:
    """Read and check the server's file; paths in it are relative to it."""
    config = _read(Path(path), ServerConfig)
    check_number("min_nodes", config.min_nodes, 1, whole=True)
    for name in ("deadline", "wait"):
        check_number(name, getattr(config, name), 0)
    _check_out(path, config.out)
    for name in ("server.pem", "server.key", "authority.pem", "allowed"):
        if not (config.keys / name).exists():
            raise InputError(f"{path}: {config.keys} has no {name}; make it with: tacit federated keys")
    personal = name_of(config.training) == "PersonalMinimax"
    algorithm_of(config.training)
    if personal and config.public is None:
        raise InputError(f"{path}: PersonalMinimax begins with a filter of public data; add [public] with data, target "
                         f"and sensitive")  # fmt: skip
    if config.public is not None and not (personal and config.public.data.exists()):
        raise InputError(
            f"{path}: there is no file {config.public.data}; check data of [public]"
            if personal
            else f"{path}: [public] is for PersonalMinimax alone; take it out"
        )
    return config


def read_node(path: str | Path, data: str | Path | None = None) -> NodeConfig:
    """Read and check a node's file."""
    config = _read(Path(path), NodeConfig, {} if data is None else {"data": str(Path(data).resolve())})
    check_number("hold_out", config.hold_out, 0, 0.9)
    check_number("min_count", config.min_count, 1, whole=True)
    name_of({"algorithm": config.algorithm})
    _check_out(path, config.out)
    for name in ("node.key", "authority.pem"):
        if not (config.keys / name).exists():
            raise InputError(f"{path}: {config.keys} has no {name}; it is made by: tacit federated keys")
    return config


def _check_out(path: str | Path, out: Path) -> None:
    if out.suffix != ".tacit":
        raise InputError(f"{path}: out is called NAME.tacit; found {out.name!r}")


def _read(path: Path, kind: type, more: Mapping[str, Any] | None = None) -> Any:
    if not path.exists():
        raise InputError(f"no file {path}; check the path")
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8")) | dict(more or {})
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    return _build(found, path, kind)


KINDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("text in quotes", lambda v: isinstance(v, str)),
    "Path": ("a path in quotes", lambda v: isinstance(v, str)),
    "bool": ("true or false", lambda v: isinstance(v, bool)),
    "int": ("a number", lambda v: isinstance(v, int | float) and not isinstance(v, bool)),
    "float": ("a number", lambda v: isinstance(v, int | float) and not isinstance(v, bool)),
    "tuple": (
        "a name in quotes, or a list of names",
        lambda v: isinstance(v, str) or (isinstance(v, list) and all(isinstance(c, str) for c in v)),
    ),
    "Mapping": ("a section of settings, written [training]", lambda v: isinstance(v, dict)),
    "PublicConfig": ("a section of settings, written [public]", lambda v: isinstance(v, dict)),
}


def _build(found: Mapping[str, Any], path: Path, kind: type) -> Any:
    known = {f.name: f for f in fields(kind)}
    found = {OLD.get(name, name): value for name, value in found.items()}
    for name, value in found.items():
        if name not in known:
            raise InputError(f"{path} has no setting {name!r}; it has {', '.join(known)}")
        expected, fits = KINDS[str(known[name].type).split(" |")[0].split("[")[0]]
        if not fits(value):
            raise InputError(f"{path}: {name} must be {expected}; found {value!r}")
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
        if name == "public" and name in values:
            values[name] = _build(values[name], path, PublicConfig)
        if str(f.type).startswith("Path") and (name in values or f.default is not None):
            values[name] = (path.parent / str(values.get(name, f.default))).resolve()
        if "tuple" in str(f.type) and name in values:
            values[name] = (values[name],) if isinstance(values[name], str) else tuple(values[name])
    return kind(**values)
