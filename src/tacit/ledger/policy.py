"""The policy: tacit.toml beside the data says what may be released to whom. It is reviewed like code.

[data]
file = "people.csv"
targets = ["income"]
sensitive = ["sex"]
unit = "person"              # which rows belong together; without it each row is a person
drop = []                    # columns that are not inputs
alongside = []               # columns that travel with the release

[filter]
name = "codebook"            # or: bundle = "filter.tacit"
weight = 3.0

[limits]
leakage = { sex = 0.58 }     # of any attacker where certified = true, else of ours
odds = { sex = 3.0 }         # no single release moves anyone's odds further; certified
utility = { income = 0.80 }
linkability = 0.05
least_breadth = 0.5
certified = true

[receivers.analyst]          # for all that one receiver holds of one person
leakage = { sex = 0.60 }

[ledger]
file = "ledger.jsonl"
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tacit.errors import InputError

NAME = "tacit.toml"


@dataclass(frozen=True)
class DataPolicy:
    """What is released: the table and its columns."""

    file: str
    targets: tuple[str, ...]
    sensitive: tuple[str, ...]
    unit: str | None = None
    drop: tuple[str, ...] = ()
    alongside: tuple[str, ...] = ()
    bins: int | None = None
    numeric: tuple[str, ...] = ()  # columns that are numbers, or "zip=no"


@dataclass(frozen=True)
class FilterPolicy:
    """By what: a filter to fit, with its settings, or a bundle."""

    name: str = "coupling"
    weight: float | None = None
    seed: int = 0
    bundle: str | None = None
    owner_key: str | None = None
    noise_key: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Limits:
    """How much may be given away, and how much must be kept.

    Attributes
    ----------
    leakage : most balanced accuracy, by sensitive column
    odds : how far a single release may move anyone's odds at most, certified
    utility : least accuracy, by target
    linkability : most true positives at 1 % false positives
    least_breadth, most_breadth : how much of every column must, and may, still be told
    certified : whether only certificates count for leakage
    attackers : "quick" or "strong"
    """

    leakage: Mapping[str, float] = field(default_factory=dict)
    odds: Mapping[str, float] = field(default_factory=dict)
    utility: Mapping[str, float] = field(default_factory=dict)
    linkability: float | None = None
    least_breadth: float | None = None
    most_breadth: float | None = None
    certified: bool = False
    attackers: str = "quick"


@dataclass(frozen=True)
class Receiver:
    """What one receiver may hold of one person, all releases together.

    Attributes
    ----------
    leakage, odds : as of `Limits`, for all that they hold
    certified : whether a first release may pass on its audit alone; several together never do
    independent : take different releases as independent given the sensitive value, where they were not counted together
    with_ : other receivers who may put their releases together with these
    """

    leakage: Mapping[str, float] = field(default_factory=dict)
    odds: Mapping[str, float] = field(default_factory=dict)
    certified: bool = False
    independent: bool = False
    with_: tuple[str, ...] = ()


@dataclass(frozen=True)
class LedgerPolicy:
    """Where releases are recorded."""

    file: str = "ledger.jsonl"


@dataclass(frozen=True)
class Policy:
    """What may be released, to whom; `read_policy` reads it from tacit.toml."""

    folder: Path
    data: DataPolicy | None = None
    filter: FilterPolicy = FilterPolicy()
    limits: Limits = Limits()
    receivers: Mapping[str, Receiver] = field(default_factory=dict)
    ledger: LedgerPolicy | None = None
    text: str = ""

    def place(self, name: str) -> Path:
        """A file that the policy names, beside it."""
        return self.folder / name

    def receiver(self, name: str) -> Receiver:
        """What this receiver may hold; one that the policy does not know may hold nothing."""
        if name not in self.receivers:
            known = ", ".join(self.receivers) or "none"
            raise InputError(
                f"the policy knows no receiver {name!r} (it knows {known}); add [receivers.{name}] to {NAME}, "
                f"which is reviewed, or name another"
            )
        return self.receivers[name]


def read_policy(path: str | Path) -> Policy:
    """Read tacit.toml. A word that is not known is an error: a limit that is misspelt would not be kept."""
    path = Path(path)
    path = path / NAME if path.is_dir() else path
    try:
        text = path.read_text()
        told = tomllib.loads(text)
    except FileNotFoundError:
        raise InputError(f"there is no policy {path}; `tacit check --help` shows how one begins") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} cannot be read as TOML: {error}") from None
    parts: dict[str, Any] = {"folder": path.parent, "text": text}
    kinds: dict[str, type] = {"data": DataPolicy, "filter": FilterPolicy, "limits": Limits, "ledger": LedgerPolicy}
    for name, section in told.items():
        if name == "receivers":
            _need(isinstance(section, dict), path, "receivers", "a table of tables, such as [receivers.analyst]")
            parts[name] = {who: _read(Receiver, s, path, f"receivers.{who}") for who, s in section.items()}
        elif name in kinds:
            parts[name] = _read(kinds[name], section, path, name)
        else:
            raise InputError(f"{path.name}: [{name}] is not known; there are {', '.join(kinds)} and receivers")
    policy = Policy(**parts)
    _check_names(policy, path)
    return policy


def _read(kind: type, section: Any, path: Path, name: str) -> Any:
    _need(isinstance(section, dict), path, name, "a table")
    known = {f.name.rstrip("_"): f for f in fields(kind)}
    out = {}
    for word, value in section.items():
        where = f"{name}.{word}"
        if word not in known:
            raise InputError(f"{path.name}: {where} is not known; [{name}] has {', '.join(known)}")
        out[known[word].name] = _value(str(known[word].type), value, path, where)
    missing = [f.name for f in fields(kind) if f.name in ("file", "targets", "sensitive") and kind is DataPolicy]
    for word in missing:
        _need(word in out, path, f"{name}.{word}", "there")
    return kind(**out)


def _value(kind: str, value: Any, path: Path, where: str) -> Any:
    """A value of the kind that the field declares."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind.startswith("Mapping[str, float]"):
        good = isinstance(value, dict) and all(isinstance(v, int | float) and v >= 0 for v in value.values())
        _need(good, path, where, "numbers by name, such as { sex = 0.58 }")
        return {str(k): float(v) for k, v in value.items()}
    if kind.startswith("Mapping"):
        _need(isinstance(value, dict), path, where, "a table of settings")
        return value
    if kind.startswith("tuple"):
        value = [value] if isinstance(value, str) else value
        _need(isinstance(value, list) and all(isinstance(v, str) for v in value), path, where, "a list of names")
        return tuple(value)
    if kind.startswith("bool"):
        _need(isinstance(value, bool), path, where, "true or false")
    elif kind.startswith("int"):
        _need(number and value == int(value), path, where, "a whole number")
    elif kind.startswith("float"):
        _need(number, path, where, "a number")
    else:
        _need(isinstance(value, str), path, where, "text")
    return value


def _check_names(policy: Policy, path: Path) -> None:
    """Limits are of columns that are there."""
    data = policy.data
    if data is None:
        return
    for what, limits, known in (
        ("limits.leakage", policy.limits.leakage, data.sensitive),
        ("limits.odds", policy.limits.odds, data.sensitive),
        ("limits.utility", policy.limits.utility, data.targets),
        *((f"receivers.{n}.leakage", r.leakage, data.sensitive) for n, r in policy.receivers.items()),
        *((f"receivers.{n}.odds", r.odds, data.sensitive) for n, r in policy.receivers.items()),
    ):
        for name in limits:
            _need(name in known, path, f"{what}.{name}", f"one of {', '.join(known)}")


def _need(good: bool, path: Path, where: str, what: str) -> None:
    if not good:
        raise InputError(f"{path.name}: {where} must be {what}")
