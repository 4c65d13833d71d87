"""Learning across silos: records stay where they are; encoders, statistics or filtered samples travel."""

from __future__ import annotations

from typing import Any

from tacit.lazy import import_name

_HOME = {
    "DistributedEIGAN": "tacit.federated.eigan",
    "Node": "tacit.federated.node",
    "PersonalMinimax": "tacit.federated.personal",
    "ProtocolError": "tacit.federated.protocol",
    "FederatedReport": "tacit.federated.audit",
    "audit_nodes": "tacit.federated.audit",
    "fit_closed_form": "tacit.federated.closed_form",
    "simulate": "tacit.federated.simulation",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return import_name(__name__, _HOME, name)


def __dir__() -> list[str]:
    return __all__
