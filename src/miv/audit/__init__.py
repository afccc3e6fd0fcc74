"""Right for the right reason: what a verifier looks at, whether its verdict follows, and what its pooling learns."""

from miv.audit.audit import audit
from miv.audit.audit_report import AuditReport, audit_models
from miv.audit.unit_tests import UNIT_TESTS, run_unit_tests

__all__ = ["UNIT_TESTS", "AuditReport", "audit", "audit_models", "run_unit_tests"]
