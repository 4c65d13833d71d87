"""The audit: attackers trained afresh on released data, and certificates for finite releases."""

from tacit.audit.audit import audit
from tacit.audit.report import Report, Result
from tacit.callable_module import make_callable

__all__ = ["Report", "Result", "audit"]

make_callable(__name__, audit)
