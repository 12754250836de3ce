"""What mechanisms and releases have in common: frozen values with a short text."""

from __future__ import annotations

from fractions import Fraction

from lapwing.privacy.loss import Pure
from lapwing.privacy.phrases import short_repr


class Value:
    """A frozen value. Its constructor reads the parameters and sets the fields, once."""

    __slots__ = ()
    __repr__ = short_repr

    def _set(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)


class PureMechanism(Value):
    """A mechanism that loses its epsilon, and says no more about its loss."""

    __slots__ = ()
    epsilon: Fraction

    @property
    def loss(self) -> Pure:
        return Pure(self.epsilon)
