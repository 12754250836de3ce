"""Which move of a whole number loses most under additive noise.

Guarantee:  for log-concave noise Z on the integers and shifts 0 <= s <= t, no event tells x from x + s better than
            some event tells x from x + t: for every epsilon the least delta of the pair (Z, Z + t) is at least that of
            (Z, Z + s). So the privacy loss at the largest shift covers all smaller ones, and by symmetry both signs.
Proof:      P[Z = z] / P[Z = z - s] falls in z, since the law is log-concave. So the event that tells most is a ray
            {z <= k}, with F(k) - e^epsilon F(k - s), F the distribution function. F grows, so the same ray gives
            F(k) - e^epsilon F(k - t) >= F(k) - e^epsilon F(k - s). Discrete Laplace and Gaussian laws are log-concave.
Checked by: tests/mechanisms/additive/test_shifted.py
"""

from __future__ import annotations

from fractions import Fraction

from lapwing.errors import Misconfigured


def whole_shift(sensitivity: Fraction) -> int:
    """The sensitivity as a number of whole steps."""
    if sensitivity.denominator != 1:
        raise Misconfigured(
            f"`sensitivity` is {sensitivity}; the privacy loss is known for whole numbers, which move by whole steps. "
            "Use PrivacyLoss.worst(epsilon=...) instead."
        )
    return int(sensitivity)
