"""Is a verifier right for the right reason? What it looks at, whether the verdict follows, what the pooling learns."""

from miv.audit.audit import audit
from miv.audit.audit_report import AuditReport, audit_models
from miv.audit.unit_tests import UNIT_TESTS, run_unit_tests

__all__ = ["UNIT_TESTS", "AuditReport", "audit", "audit_models", "run_unit_tests"]
