"""The policy that limits releases, the ledger that records them, and the evidence to keep about one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.lazy import attach

_HOME = {
    "Ledger": "tacit.ledger.ledger",
    "LedgerError": "tacit.ledger.ledger",
    "Part": "tacit.ledger.composition",
    "compose": "tacit.ledger.composition",
    "Policy": "tacit.ledger.policy",
    "read_policy": "tacit.ledger.policy",
    "audit_together": "tacit.ledger.recording",
    "record_file": "tacit.ledger.recording",
    "record_rows": "tacit.ledger.recording",
    "write_evidence": "tacit.ledger.evidence",
}

__all__ = sorted(_HOME)


if TYPE_CHECKING:  # for type checkers and editors; nothing of it is imported
    from tacit.ledger.composition import Part as Part
    from tacit.ledger.composition import compose as compose
    from tacit.ledger.evidence import write_evidence as write_evidence
    from tacit.ledger.ledger import Ledger as Ledger
    from tacit.ledger.ledger import LedgerError as LedgerError
    from tacit.ledger.policy import Policy as Policy
    from tacit.ledger.policy import read_policy as read_policy
    from tacit.ledger.recording import audit_together as audit_together
    from tacit.ledger.recording import record_file as record_file
    from tacit.ledger.recording import record_rows as record_rows
else:
    __getattr__, __dir__ = attach(__name__, _HOME)
