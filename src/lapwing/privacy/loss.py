"""Privacy loss as data.

A loss is an upper bound on what a release reveals about one unit (or, after `group(k)`, about k units together).
It is exact, it can only be weakened, and anything without a proof here is refused.

Prices. A loss is also the price of a release that is yet to be made: what it may lose. `split`, `scaled`, `minus` and
`with_delta` make other prices of it; they say nothing about a release that was made. What adds up within a price is its
`amount` (epsilon or rho) and its `delta`, and the parts of a price never lose more together than the whole.

Zero. A loss of 0 is valid: the neutral element of the sum, and the cost of post-processing. A price or a budget of 0 is
not, because it answers no question; budget.py refuses both.

Losses add (`+`) when releases are combined, even when each is chosen after seeing the ones before:

    +              Pure          BoundedRange   ZCDP           Approximate
    Pure           Pure          Pure           ZCDP           Approximate
    BoundedRange   Pure          Pure           ZCDP           Approximate
    ZCDP           ZCDP          ZCDP           ZCDP           refused
    Approximate    Approximate   Approximate    refused        Approximate

In what follows P and Q are the laws of the output on two neighbours, L(y) = ln P(y)/Q(y), and
D_a = ln E_Q[e^(a L)] / (a - 1) is the Renyi divergence of order a > 1.

Lemma (range). If L lies in an interval of length r, then D_a <= a r^2/8 for every a > 1. Proof. K(s) = ln E_Q[e^(s L)]
has K(0) = K(1) = 0, and K''(s) is the variance of L under a tilted law, at most r^2/4 since L lies in an interval of
length r. So r^2/8 s(s - 1) - K(s) is convex and 0 at 0 and 1, hence not negative for s > 1: K(a) <= r^2/8 a(a - 1).

Lemma (mixture). P and Q are (epsilon, delta)-indistinguishable exactly if P = (1 - delta) P' + delta P'' and
Q = (1 - delta) Q' + delta Q'' with P', Q' epsilon-indistinguishable. [KOV15]
Proof. "If" is one line. Else let A = min(P, e^epsilon Q) and B = min(Q, e^epsilon P): their masses are at least
1 - delta, A <= e^epsilon B and B <= e^epsilon A. Say A has the larger mass. Scale both until B has mass 1 - delta, then
take a part t of max(0, A - B) away from A until it has that mass too; t <= 1 since min(A, B) <= B; both bounds stay.

Lemma (path). If D_a <= a rho between neighbours for every a > 1, then D_a <= a k^2 rho at distance k. [BS16, Prop. 1.9]
Proof. Hoelder: D_a(P, Q) <= k a / (k a - 1) D_b(P, R) + D_ka(R, Q) with b = (k a - 1)/(k - 1). With R one step from Q,
induction bounds the right side by k a (k - 1) rho + k a rho.

[DR14] Dwork, Roth: The algorithmic foundations of differential privacy. [BS16] Bun, Steinke: Concentrated DP.
[DR19] Durfee, Rogers: Practical DP top-k selection. [CR21] Cesar, Rogers: Bounding, concentrating and truncating.
[KOV15] Kairouz, Oh, Viswanath: The composition theorem for DP.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import ClassVar

from lapwing.errors import Bug, Misconfigured, Refused
from lapwing.numbers import Number, below_one, count, nonnegative, positive, root_down, shown
from lapwing.privacy.convert import epsilon_of_rho, group_delta
from lapwing.privacy.phrases import at_most_text, short_repr, short_text

_PURE_OR_DELTA = "Use a pure mechanism such as Laplace, or a budget with a delta: Budget(epsilon=..., delta=1e-6)."


class _Shared:
    """The methods of every loss."""

    __slots__ = ()

    kind: ClassVar[str]
    """Its name in storage."""
    unit: ClassVar[str] = "epsilon"
    """The unit of its amount."""
    power: ClassVar[int] = 1
    """The error of the noise for a price falls like amount^(-1/power)."""

    @property
    def amount(self) -> Fraction:
        """The epsilon or rho that adds up within a price."""
        amount: Fraction = getattr(self, self.unit)
        return amount

    @property
    def delta(self) -> Fraction:
        """The delta; 0 if it has none."""
        return Fraction(0)

    def __add__(self, other: object) -> Loss:
        """The loss of both releases together."""
        return _compose(read_loss(self), read_loss(other))

    def __mul__(self, times: int) -> Loss:
        """The loss of this many releases, each with this loss."""
        return _repeat(read_loss(self), count(times, "times", least=0))

    __rmul__ = __mul__

    def split(self, weights: Sequence[Number]) -> tuple[Loss, ...]:
        """Splits the price in proportion to these weights; the amounts and deltas of the parts add up to it exactly."""
        whole, read = read_loss(self), [positive(weight, "weight") for weight in weights]
        if not read:
            raise Misconfigured("`weights` is empty. Pass one weight for each part.")
        total = sum(read, Fraction(0))
        return tuple(whole.scaled(weight / total) for weight in read)

    def minus(self, other: Loss) -> Loss:
        """The rest of the price after `other`; undoes `+`."""
        return read_loss(self).to_pure().minus(other)

    def to_zcdp(self) -> ZCDP:
        """The zCDP that is known to come with it."""
        return read_loss(self).to_pure().to_zcdp()

    def to_approximate(self, delta: Number = 0) -> Approximate:
        """The (epsilon, delta) guarantee at this delta."""
        return read_loss(self).to_pure().to_approximate(delta)

    def with_delta(self, delta: Number) -> Loss:
        """The price with this delta instead of its own; without one, epsilon is pure."""
        at = below_one(delta, "delta")
        return Approximate(self.amount, at) if at else read_loss(self)

    def pure_epsilon(self, times: int, *, unit: Fraction) -> Fraction:
        """The epsilon of each of `times` pure releases that together cost this amount.

        Pure losses add up epsilons; under zCDP times epsilon^2 / 2 <= rho, so it is a root, rounded down to units.
        """
        match read_loss(self):
            case ZCDP(rho=rho):
                return root_down(2 * rho / count(times, "times")) // unit * unit
            case loss:
                return loss.to_pure().epsilon / count(times, "times")

    def _refusal(self, why: str, instead: str) -> Refused:
        return Refused("no-such-guarantee", f"loss ({self})", why, instead)

    def encode(self) -> tuple[str, ...]:
        """Its kind, then its numbers as fractions: the form for storage and for identities."""
        return self.kind, *[str(getattr(self, field.name)) for field in fields(read_loss(self))]


@dataclass(frozen=True, slots=True, init=False)
class Pure(_Shared):
    """Pure DP, with the zCDP that is known to come with it.

    Guarantee:  |L| <= epsilon, and D_a <= a rho for every a > 1; rho is epsilon^2/2 unless a smaller one is proved.
    Proof:      L lies in [-epsilon, epsilon]: lemma (range) with r = 2 epsilon. [BS16, Prop. 1.4]
    Sum:        epsilons add and rhos add. Log-likelihood ratios add along any adaptive path. [DR14, Thm 3.14] [BS16,
                Lemma 1.7] Ten times Pure(0.1) is epsilon = 1, but rho = 0.05 and not 0.5: this is why rho is kept.
    Group:      k epsilon and k^2 rho. Walk through k neighbours: the losses add [DR14, Thm 2.2]; lemma (path).
    """

    epsilon: Fraction
    rho: Fraction
    kind: ClassVar[str] = "pure"

    def __init__(self, epsilon: Number, rho: Number | None = None) -> None:
        size = nonnegative(epsilon, "epsilon")
        most = size * size / 2
        curve = most if rho is None else nonnegative(rho, "rho")
        if curve > most:
            raise Misconfigured(f"`rho` is {rho}; epsilon = {epsilon} already proves epsilon^2/2. Leave out `rho`.")
        set_fields(self, epsilon=size, rho=curve)

    def group(self, size: int) -> Pure:
        """The loss for a group of this many units."""
        k = count(size, "size")
        return Pure(k * self.epsilon, k * k * self.rho)

    def to_pure(self) -> Pure:
        return self

    def to_zcdp(self) -> ZCDP:
        return ZCDP(self.rho)

    def to_approximate(self, delta: Number = 0) -> Approximate:
        """Epsilon itself, or what rho gives at this delta if that is smaller (many small releases)."""
        at = below_one(delta, "delta")
        return Approximate(min(self.epsilon, epsilon_of_rho(self.rho, at)) if at else self.epsilon, at)

    def scaled(self, factor: Number) -> Pure:
        """A price of this many times the amount and the delta. The rho of Pure goes with the square, as for groups."""
        times = nonnegative(factor, "factor")
        return Pure(times * self.epsilon, times**2 * self.rho)

    def minus(self, other: Loss) -> Pure:
        taken = other.to_pure()
        epsilon = self.epsilon - taken.epsilon
        return Pure(epsilon, min(self.rho - taken.rho, epsilon**2 / 2))

    def __str__(self) -> str:
        curve = "" if self.rho == self.epsilon**2 / 2 else f" (rho = {at_most_text(self.rho)})"
        return f"epsilon = {at_most_text(self.epsilon)}{curve}"

    def __repr__(self) -> str:
        curve = "" if self.rho == self.epsilon**2 / 2 else f", rho={short_text(self.rho)}"
        return f"Pure(epsilon={short_text(self.epsilon)}{curve})"


@dataclass(frozen=True, slots=True, init=False)
class BoundedRange(_Shared):
    """The loss of the exponential mechanism (and of Gumbel noisy max); not of permute-and-flip or Laplace noisy max.

    Guarantee:  L lies in an interval of length epsilon; so epsilon-DP and epsilon^2/8-zCDP.
    Proof:      E_Q[e^L] = 1, so the interval holds 0 and |L| <= epsilon; lemma (range) with r = epsilon. [CR21]
    Sum:        Pure, keeping rho. The interval of a later release may depend on earlier answers, so that the range of
                an adaptive sum is not the sum of ranges; epsilon and rho add all the same. [DR19]
    Group:      k epsilon: for a fixed outcome the losses of k steps add, and so do their k fixed intervals.
    """

    epsilon: Fraction
    kind: ClassVar[str] = "bounded range"

    __repr__ = short_repr

    def __init__(self, epsilon: Number) -> None:
        set_fields(self, epsilon=nonnegative(epsilon, "epsilon"))

    def group(self, size: int) -> BoundedRange:
        return BoundedRange(count(size, "size") * self.epsilon)

    def to_pure(self) -> Pure:
        """The same epsilon, with the smaller rho."""
        return Pure(self.epsilon, self.epsilon**2 / 8)

    def scaled(self, factor: Number) -> BoundedRange:
        return BoundedRange(nonnegative(factor, "factor") * self.epsilon)

    def __str__(self) -> str:
        return f"epsilon = {at_most_text(self.epsilon)} (bounded range)"


@dataclass(frozen=True, slots=True, init=False)
class ZCDP(_Shared):
    """delta-approximate rho-zCDP; with delta = 0 the zCDP of Gaussian noise.

    Guarantee:  P = (1 - delta) P' + delta P'', Q likewise, and D_a(P', Q') <= a rho for every a > 1, both ways.
                [BS16, section 8]
    Sum:        rhos add and deltas add. E_Q'[e^(a L)] multiplies along any adaptive path, and none of the exceptional
                parts P'' occurs with probability at least 1 - sum of deltas. [BS16, section 8]
    Group:      k^2 rho for delta = 0, lemma (path); refused otherwise: no proof is known to us.
    Convert:    (epsilon(rho, d), delta + (1 - delta) d)-DP for every d in (0, 1), epsilon(rho, d) as in convert.py:
                P[S] <= (1 - delta) P'[S] + delta <= (1 - delta)(e^epsilon Q'[S] + d) + delta, and
                (1 - delta) Q'[S] <= Q[S].
    """

    rho: Fraction
    delta: Fraction
    kind: ClassVar[str] = "zcdp"
    unit: ClassVar[str] = "rho"
    power: ClassVar[int] = 2

    __repr__ = short_repr

    def __init__(self, rho: Number, delta: Number = 0) -> None:
        set_fields(self, rho=nonnegative(rho, "rho"), delta=below_one(delta, "delta"))

    def group(self, size: int) -> ZCDP:
        k = count(size, "size")
        if k > 1 and self.delta > 0:
            raise self._refusal(
                "No group rule is proved for approximate zCDP.",
                "Convert it first: loss.to_approximate(delta=...).group(size).",
            )
        return ZCDP(k * k * self.rho, self.delta)

    def to_pure(self) -> Pure:
        """Refused: Gaussian noise is not pure for any epsilon."""
        raise self._refusal("A zCDP loss has no epsilon without a delta.", _PURE_OR_DELTA)

    def to_zcdp(self) -> ZCDP:
        return self

    def to_approximate(self, delta: Number = 0) -> Approximate:
        """The (epsilon, delta) guarantee at this delta, which must exceed the delta already spent."""
        at = below_one(delta, "delta")
        if at <= self.delta:
            raise self._refusal(
                "A zCDP loss becomes an (epsilon, delta) guarantee only at a delta above its own.",
                f"Call to_approximate(delta=...) with more than {at_most_text(self.delta)}.",
            )
        return Approximate(epsilon_of_rho(self.rho, (at - self.delta) / (1 - self.delta)), at)

    def scaled(self, factor: Number) -> ZCDP:
        times = nonnegative(factor, "factor")
        return ZCDP(times * self.rho, _total(times * self.delta))

    def minus(self, other: Loss) -> ZCDP:
        taken = other.to_zcdp()
        return ZCDP(self.rho - taken.rho, self.delta - taken.delta)

    def with_delta(self, delta: Number) -> ZCDP:
        return ZCDP(self.rho, delta)

    def __str__(self) -> str:
        return f"rho = {at_most_text(self.rho)}{_and(self.delta)}"


@dataclass(frozen=True, slots=True, init=False)
class Approximate(_Shared):
    """(epsilon, delta)-DP.

    Guarantee:  P[S] <= e^epsilon Q[S] + delta for every set S of outcomes, and with P and Q exchanged.
    Sum:        epsilons add and deltas add. By lemma (mixture) the releases are epsilon-indistinguishable pairs with
                probability 1 - sum of deltas, also when chosen adaptively. [DR14, Thm 3.16]
    Group:      (k epsilon, delta (e^(k epsilon) - 1)/(e^epsilon - 1)): convert.group_delta. Not k delta.
    Convert:    delta-approximate epsilon^2/2-zCDP: P', Q' of lemma (mixture) are epsilon-DP, so lemma (range) holds.
                Convert before adding: the sum of the converted losses is far smaller than the converted sum.
    """

    epsilon: Fraction
    delta: Fraction
    kind: ClassVar[str] = "approximate"

    __repr__ = short_repr

    def __init__(self, epsilon: Number, delta: Number) -> None:
        set_fields(self, epsilon=nonnegative(epsilon, "epsilon"), delta=below_one(delta, "delta"))

    def group(self, size: int) -> Approximate:
        """The loss for a group of this many units; refused when its delta reaches 1."""
        k = count(size, "size")
        return Approximate(k * self.epsilon, group_delta(self.epsilon, self.delta, k))

    def to_pure(self) -> Pure:
        """The same epsilon if delta is 0; refused otherwise."""
        if self.delta > 0:
            raise self._refusal("An approximate loss has no epsilon without its delta.", _PURE_OR_DELTA)
        return Pure(self.epsilon)

    def to_zcdp(self) -> ZCDP:
        """epsilon^2/2, with the same delta."""
        return ZCDP(self.epsilon**2 / 2, self.delta)

    def to_approximate(self, delta: Number | None = None) -> Approximate:
        """The same guarantee, stated at a delta that is no smaller."""
        at = self.delta if delta is None else below_one(delta, "delta")
        if at < self.delta:
            raise self._refusal(f"It does not hold at a delta of {at_most_text(at)}.", "Ask for a larger delta.")
        return Approximate(self.epsilon, at)

    def scaled(self, factor: Number) -> Approximate:
        times = nonnegative(factor, "factor")
        return Approximate(times * self.epsilon, _total(times * self.delta))

    def minus(self, other: Loss) -> Approximate:
        taken = other.to_approximate()
        return Approximate(self.epsilon - taken.epsilon, self.delta - taken.delta)

    def with_delta(self, delta: Number) -> Loss:
        return Pure(self.epsilon).with_delta(delta)

    def __str__(self) -> str:
        return f"epsilon = {at_most_text(self.epsilon)}{_and(self.delta)}"


Loss = Pure | BoundedRange | ZCDP | Approximate
"""Every loss there is. Functions over it end in `assert_never` or in a refusal."""

_KINDS: dict[str, Callable[..., Loss]] = {loss.kind: loss for loss in (Pure, BoundedRange, ZCDP, Approximate)}


def decode_loss(texts: Sequence[str]) -> Loss:
    """The loss that `encode` wrote."""
    kind, *numbers = texts
    if kind not in _KINDS:
        raise Bug(f"no loss is of kind {kind}")
    return _KINDS[kind](*map(Fraction, numbers))


def read_loss(value: object) -> Loss:
    if isinstance(value, Loss):
        return value
    raise Misconfigured(
        f"{shown(value)} is not a privacy loss. Pass Pure(epsilon), BoundedRange(epsilon), ZCDP(rho) "
        "or Approximate(epsilon, delta)."
    )


def _compose(first: Loss, second: Loss) -> Loss:
    """The table above. Each rule is proved in the class it ends in."""
    match first, second:
        case (Pure() | BoundedRange(), Pure() | BoundedRange()):
            a, b = first.to_pure(), second.to_pure()
            return Pure(a.epsilon + b.epsilon, a.rho + b.rho)
        case (ZCDP(), Approximate()) | (Approximate(), ZCDP()):
            raise Refused(
                "no-such-guarantee",
                f"({first}) + ({second})",
                "No rule adds these two losses as they are.",
                "Convert one of them: approximate.to_zcdp(), or zcdp.to_approximate(delta=...).",
            )
        case (ZCDP(), _) | (_, ZCDP()):
            c, d = first.to_zcdp(), second.to_zcdp()
            return ZCDP(c.rho + d.rho, _total(c.delta + d.delta))
        case (Approximate(), _) | (_, Approximate()):
            e, f = first.to_approximate(), second.to_approximate()
            return Approximate(e.epsilon + f.epsilon, _total(e.delta + f.delta))
        case _:
            raise Bug(f"No rule of composition for {first!r} and {second!r}.")


def _repeat(loss: Loss, times: int) -> Loss:
    """The sum of this many equal losses, in one step."""
    match loss:
        case Pure():
            return Pure(times * loss.epsilon, times * loss.rho)
        case BoundedRange():
            return loss if times == 1 else _repeat(loss.to_pure(), times)
        case _:
            return loss.scaled(times)


def _total(delta: Fraction) -> Fraction:
    if delta >= 1:
        why = f"The deltas add up to {at_most_text(delta)}; a delta of 1 or more promises nothing."
        raise Refused("no-such-guarantee", "sum of losses", why, "Combine fewer losses.")
    return delta


def _and(delta: Fraction) -> str:
    return f", delta = {at_most_text(delta)}" if delta else ""


def set_fields(value: object, **fields: object) -> None:
    """Fills the fields of a frozen value, once, while it is made."""
    for name, content in fields.items():
        object.__setattr__(value, name, content)
