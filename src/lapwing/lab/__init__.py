"""The lab: audits that refute false claims of privacy, and attacks that show what they mean."""

from lapwing.lab.audit import audit, audit_outputs
from lapwing.lab.claim import Claim
from lapwing.lab.report import Audit, Finding

__all__ = ["Audit", "Claim", "Finding", "audit", "audit_outputs"]
