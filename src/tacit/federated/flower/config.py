"""The two configuration files of a federation (TOML), the server's and a node's, and the algorithm they name.

Algorithms are built from plain settings and arrays alone.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tacit.errors import InputError, check_number
from tacit.federated.node import Grants, Node, private_settings
from tacit.federated.protocol import Arrays, over, under
from tacit.options import load_toml, read_section
from tacit.records.dataset import Dataset, read_table

# what may be set for all nodes: plain numbers and words, no code
CLOSED = ("categories", "min_count", "secure")
CERTIFICATE = "Certificate"
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "DistributedEIGAN": (
        "n_components", "alpha", "share", "sync_every", "sync_unit", "aggregation", "robust", "max_norm", "categories",
        "target_weights", "sensitive_weights", "noise", "adversary_steps", "epochs", "batch_size", "learning_rate",
        "head_lr_factor", "random_state", "secure", "dp",
    ),
    "LinearARL": ("n_components", "lam", "dp", *CLOSED),
    "LinearEraser": ("min_frequency", "dp", *CLOSED),
    CERTIFICATE: ("n_cells", "candidates", "confidence_level", "secure"),
    "PersonalMinimax": ("rho", "rounds", "steps", "order", "exchange", "loss", "ridge"),
}  # fmt: skip
DEFAULT = "DistributedEIGAN"
START = "start/"


def name_of(settings: Mapping[str, Any]) -> str:
    """The algorithm that settings name; all settings must be its own."""
    name = settings.get("algorithm", DEFAULT)
    if name not in SETTINGS:
        raise InputError(f"[training] algorithm is one of {', '.join(SETTINGS)}; found {name!r}")
    for setting in settings:
        if setting not in ("algorithm", *SETTINGS[name]):
            raise InputError(f"[training] has no setting {setting!r}; {name} has {', '.join(SETTINGS[name])}")
    return str(name)


def algorithm_of(settings: Mapping[str, Any], start: Any = None) -> Any:
    """The algorithm of these settings, checked; `start` is PersonalMinimax's common filter.

    Examples
    --------
    >>> algorithm_of({"algorithm": "LinearARL", "lam": 0.3})
    ClosedForm(estimator=LinearARL(lam=0.3))
    """
    name = name_of(settings)
    own = {k: v for k, v in settings.items() if k != "algorithm"}
    if "dp" in own:
        own["dp"] = private_settings(own["dp"])
    f: Any
    if name == CERTIFICATE:
        from tacit.federated.certificate import Counting  # every message starts a new Python at a node

        f = Counting(None, own, own.pop("secure", False))
    elif name == "DistributedEIGAN":
        from tacit.federated.distributed_eigan import DistributedEIGAN  # every message starts a new Python at a node

        f = DistributedEIGAN(**own)
    elif name == "PersonalMinimax":
        from tacit.federated.personal import PersonalMinimax  # every message starts a new Python at a node

        f = PersonalMinimax(start, **own)
        if start is None:
            f.check_settings()
            return f
    else:
        from tacit import baselines  # every message starts a new Python at a node
        from tacit.federated.closed_form import ClosedForm

        more = {k: own.pop(k) for k in CLOSED if k in own}
        f = ClosedForm(getattr(baselines, name)(**own), **more)
    f.check_parameters()
    return f


def pack_algorithm(settings: Mapping[str, Any], start: Any = None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Facts and arrays that go along with every message, from which a node builds the algorithm."""
    if start is None:
        return {"settings": dict(settings)}, {}
    from tacit.federated.personal import tell_start  # every message starts a new Python at a node

    told, arrays = tell_start(start)
    return {"settings": dict(settings), "start": told}, over(START, arrays)


def unpack_algorithm(facts: Mapping[str, Any], arrays: Arrays) -> Any:
    """The algorithm that `pack_algorithm` told of."""
    if "start" not in facts:
        return algorithm_of(facts["settings"])
    from tacit.federated.personal import start_of  # every message starts a new Python at a node

    return algorithm_of(facts["settings"], start_of(facts["start"], under(START, arrays)))


@dataclass(frozen=True, kw_only=True)
class TableConfig:
    """A table, and what its columns are for."""

    data: Path
    target: tuple[str, ...]
    sensitive: tuple[str, ...]
    unit: str | None = None
    drop: tuple[str, ...] = ()

    def read(self) -> Dataset:
        return read_table(self.data, list(self.target), list(self.sensitive), self.unit, self.drop)


@dataclass(frozen=True, kw_only=True)
class PublicConfig(TableConfig):
    """`[public]` of the server's file: what the common initial filter of PersonalMinimax is learned from.

    Attributes
    ----------
    data : CSV or Parquet file with the nodes' columns. Everybody may see it: the filter is given to all nodes
    target, sensitive : columns; sensitive says who it is
    unit, drop : as of `tacit fit`
    n_components, rho, privacy_loss, max_iter, random_state : as of `MinimaxFilter`
    """

    n_components: int | None = None
    rho: float = 1.0
    privacy_loss: str = "multiclass"
    max_iter: int = 30
    random_state: int = 0

    def start(self) -> Any:
        """The common filter, fitted."""
        from tacit.filters.minimax import MinimaxFilter  # every message starts a new Python at a node

        data = self.read()
        names = ("n_components", "rho", "privacy_loss", "max_iter", "random_state")
        f = MinimaxFilter(**{name: getattr(self, name) for name in names})
        return f.fit(data.X, data.y, sensitive_features=data.sensitive, units=data.units_of())


@dataclass(frozen=True)
class ServerConfig:
    """`tacit federated server CONFIG`.

    Attributes
    ----------
    keys : folder with server.pem and server.key (the certificate), authority.pem (which signed it), and the folder
        ``allowed`` with the public key of every node, NAME.pub
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
    address: str = "127.0.0.1:9092"
    state: Path = Path("state")
    out: Path = Path("encoder.tacit")
    min_nodes: int = 2
    deadline: float = 600.0
    wait: float = 600.0
    audit: bool = True
    log_messages: Path | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    public: PublicConfig | None = None

    @property
    def certifies(self) -> bool:
        """Whether counts are asked for, and no filter is learned."""
        return self.training.get("algorithm") == CERTIFICATE

    @functools.cached_property
    def identity(self) -> str:
        """What a federation that resumes after a restart must have in common with the one that was stopped."""
        told: dict[str, Any] = {"training": dict(self.training)}
        if self.public is not None:
            told["public"] = {k: str(v) for k, v in vars(self.public).items()}
            told["public"]["data"] = hashlib.sha256(self.public.data.read_bytes()).hexdigest()
        return json.dumps(told, sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class NodeConfig(TableConfig, Grants):
    """`tacit federated node CONFIG`.

    Attributes
    ----------
    name : as of NAME.pub at the server
    server : host:port
    keys : folder with node.key (this node's private key) and authority.pem (which signed the server's certificate)
    data : CSV or Parquet file; it never leaves this machine
    target, sensitive : columns; a node may have its own
    unit, drop : as of `tacit fit`
    hold_out : share of the rows (whole units) that take no part in training, for the audit
    state : folder for this node's heads and optimisers
    algorithm : the one this node takes part in. What travels depends on it, so the server alone does not choose it
    out : for PersonalMinimax, where this node's own filter goes, NAME.tacit
    secure : answer by masked sums alone, of which the server sees nothing but the sum
    group_secret : a file that all nodes have and the server does not: then it cannot replace the nodes' public keys
    bundle : for Certificate, the release that is certified: this node's own copy, whatever the server says
    min_people, min_count, ... : what the server may ask at most, see `Grants`
    """

    name: str
    server: str
    keys: Path
    hold_out: float = 0.4
    state: Path = Path("state")
    algorithm: str = DEFAULT
    out: Path = Path("filter.tacit")
    secure: bool = False
    group_secret: Path | None = None
    bundle: Path | None = None

    def certified_node(self) -> Node:
        """The rows that took no part in training here; all of them where none are held out."""
        trained, *held = self.parts()
        parts = [d for d in held if d is not None] or [trained]
        X, y, sensitive = (pd.concat([getattr(d, word) for d in parts]) for word in ("X", "y", "sensitive"))
        units = None if parts[0].units is None else np.concatenate([d.units_of() for d in parts])
        return Node(X.reset_index(drop=True), y, sensitive, units, self.name)

    def training_node(self) -> Node:
        """The rows to train on."""
        rows = self.parts()[0]
        return Node(rows.X, rows.y, rows.sensitive, rows.units_of(), self.name)

    def parts(self) -> tuple[Dataset, Dataset | None, Dataset | None]:
        """Rows to train on, rows attackers learn from, rows they are measured on."""
        data = self.read()
        if self.hold_out == 0:
            return data, None, None
        train, attack, test = data.split((1 - self.hold_out, self.hold_out / 2, self.hold_out / 2), random_state=0)
        return train, attack, test


def read_server(path: str | Path) -> ServerConfig:
    """Read and check the server's file; paths in it are relative to it."""
    path = Path(path)
    told = load_toml(path)
    public = told.pop("public", None)
    config = ServerConfig(**_read(ServerConfig, told, path))
    if public is not None:
        config = replace(config, public=PublicConfig(**_read(PublicConfig, public, path, "public")))
    check_number("min_nodes", config.min_nodes, 1, whole=True)
    for name in ("deadline", "wait"):
        check_number(name, getattr(config, name), 0)
    _check_files(path, config, ("server.pem", "server.key", "authority.pem", "allowed"))
    algorithm_of(config.training)
    if (name_of(config.training) == "PersonalMinimax") != (config.public is not None):
        raise InputError(f"{path}: PersonalMinimax, and no other algorithm, begins with a filter of public data; it "
                         f"needs [public] with data, target and sensitive")  # fmt: skip
    if config.public is not None and not config.public.data.exists():
        raise InputError(f"{path}: there is no file {config.public.data}; check data of [public]")
    return config


def read_node(path: str | Path) -> NodeConfig:
    """Read and check a node's file."""
    config = NodeConfig(**_read(NodeConfig, load_toml(Path(path)), Path(path)))
    check_number("hold_out", config.hold_out, 0, 0.9)
    config.check()
    name_of({"algorithm": config.algorithm})
    if config.algorithm == CERTIFICATE and (config.bundle is None or not config.bundle.is_file()):
        raise InputError(f"{path}: Certificate counts the releases of a bundle that lies here; set bundle to its path")
    _check_files(path, config, ("node.key", "authority.pem"))
    return config


def _read(kind: type, told: Any, path: Path, table: str = "") -> dict[str, Any]:
    """The settings of a file or of one of its tables; paths are beside the file."""
    required = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    paths = {f.name: path.parent / f.default for f in fields(kind) if isinstance(f.default, Path)}
    values = paths | read_section(kind, told, path, table, required)
    return {name: v.resolve() if isinstance(v, Path) else v for name, v in values.items()}


def _check_files(path: str | Path, config: ServerConfig | NodeConfig, keys: Sequence[str]) -> None:
    if config.out.suffix != ".tacit":
        raise InputError(f"{path}: out is called NAME.tacit; found {config.out.name!r}")
    for name in keys:
        if not (config.keys / name).exists():
            raise InputError(f"{path}: {config.keys} has no {name}; docs/federated.md says how to make it")
