"""The audit: attackers trained afresh on released data, and certificates for finite releases."""

from tacit.audit.audit import audit
from tacit.callable_module import make_callable
from tacit.report.report import Report
from tacit.report.results import Result

__all__ = ["Report", "Result", "audit"]

make_callable(__name__, audit)
