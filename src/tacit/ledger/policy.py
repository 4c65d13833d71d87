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

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.errors import InputError
from tacit.options import NAME, FitOptions, json_schema, load_toml, need, read_section

REQUIRED = {"data": ("file", "targets", "sensitive")}


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
    sections = load_toml(path)
    parts: dict[str, Any] = {"folder": path.parent, "text": path.read_text()}
    kinds: dict[str, type] = {"data": DataPolicy, "filter": FilterPolicy, "limits": Limits, "ledger": LedgerPolicy}
    for name, section in sections.items():
        if name == "receivers":
            need(isinstance(section, dict), path, "receivers", "a table of tables, such as [receivers.analyst]")
            parts[name] = {
                who: Receiver(**read_section(Receiver, s, path, f"receivers.{who}")) for who, s in section.items()
            }
        elif name in kinds:
            parts[name] = kinds[name](**read_section(kinds[name], section, path, name, required=REQUIRED.get(name, ())))
        elif name == "fit":
            read_section(FitOptions, section, path, name)  # of `tacit fit`; a wrong one is an error here too
        else:
            raise InputError(f"{path.name}: [{name}] is not known; there are {', '.join(kinds)}, fit and receivers")
    policy = Policy(**parts)
    _check_names(policy, path)
    return policy


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
            need(name in known, path, f"{what}.{name}", f"one of {', '.join(known)}")


def policy_schema() -> dict[str, Any]:
    """Write the JSON schema of tacit.toml; docs/tacit.schema.json is this.

    Examples
    --------
    >>> sorted(policy_schema()["properties"])
    ['data', 'filter', 'fit', 'ledger', 'limits', 'receivers']
    """
    kinds = {"data": DataPolicy, "filter": FilterPolicy, "fit": FitOptions, "limits": Limits, "ledger": LedgerPolicy}
    properties = {name: json_schema(kind) for name, kind in kinds.items()}
    properties["data"]["required"] = list(REQUIRED["data"])
    properties["receivers"] = {"type": "object", "additionalProperties": json_schema(Receiver)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tacit.toml",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }
