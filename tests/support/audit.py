"""The auditor of lapwing.lab, as an assertion."""

from __future__ import annotations

from collections.abc import Iterable

from lapwing.lab.audit import audit_outputs
from lapwing.lab.outputs import Outputs
from lapwing.lab.report import Audit, Claim


def audit_profile(left: Outputs, right: Outputs, profile: Iterable[tuple[float, float]]) -> Audit:
    """An audit of every claimed (epsilon, delta) at once."""
    points = tuple((float(epsilon), float(delta)) for epsilon, delta in profile)
    return audit_outputs(left, right, Claim(points, f"the profile {points}"))


def assert_private(left: Outputs, right: Outputs, epsilon: float, delta: float = 0.0) -> None:
    """The outputs do not refute (epsilon, delta)-DP."""
    found = audit_profile(left, right, [(epsilon, delta)])
    assert not found.rejected, str(found)


def assert_caught(left: Outputs, right: Outputs, epsilon: float, delta: float = 0.0) -> None:
    """The negative control: the outputs refute (epsilon, delta)-DP."""
    found = audit_profile(left, right, [(epsilon, delta)])
    assert found.rejected, f"the auditor missed it. {found}"
