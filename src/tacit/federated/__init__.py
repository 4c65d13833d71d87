"""Learning across silos: records stay where they are; encoders, statistics or filtered samples travel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.lazy import attach

_HOME = {
    "DistributedEIGAN": "tacit.federated.distributed_eigan",
    "Node": "tacit.federated.node",
    "PersonalMinimax": "tacit.federated.personal",
    "ProtocolError": "tacit.federated.protocol",
    "FederatedReport": "tacit.federated.node_audit",
    "audit_nodes": "tacit.federated.node_audit",
    "certify_nodes": "tacit.federated.certificate",
    "fit_closed_form": "tacit.federated.closed_form",
    "simulate": "tacit.federated.rounds",
}

__all__ = sorted(_HOME)


if TYPE_CHECKING:  # for type checkers and editors; nothing of it is imported
    from tacit.federated.certificate import certify_nodes as certify_nodes
    from tacit.federated.closed_form import fit_closed_form as fit_closed_form
    from tacit.federated.distributed_eigan import DistributedEIGAN as DistributedEIGAN
    from tacit.federated.node import Node as Node
    from tacit.federated.node_audit import FederatedReport as FederatedReport
    from tacit.federated.node_audit import audit_nodes as audit_nodes
    from tacit.federated.personal import PersonalMinimax as PersonalMinimax
    from tacit.federated.protocol import ProtocolError as ProtocolError
    from tacit.federated.rounds import simulate as simulate
else:
    __getattr__, __dir__ = attach(__name__, _HOME)
