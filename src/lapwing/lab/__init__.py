"""The lab: audits that refute false claims of privacy, and attacks that show what they mean."""

from lapwing.lab import course
from lapwing.lab.attacks import ATTACKS, Attacked, attack, attack_all
from lapwing.lab.audit import OneRun, audit, audit_groups, audit_one_run, audit_outputs
from lapwing.lab.replay import Replay, replay
from lapwing.lab.report import Audit, Claim, Finding

__all__ = [
    "ATTACKS", "Attacked", "Audit", "Claim", "Finding", "OneRun", "Replay", "attack", "attack_all", "audit",
    "audit_groups", "audit_one_run", "audit_outputs", "course", "replay",
]  # fmt: skip
