"""Randomized response.

[W65] Warner: Randomized response. [KBR16] Kairouz, Bonawitz, Ramage: Discrete distribution estimation under local
privacy. [H56] Hoeffding: On the distribution of the number of successes in independent trials.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from lapwing.arrays import Floats, Integers
from lapwing.errors import Misconfigured
from lapwing.mechanisms.mechanism import FrozenValue, PureMechanism
from lapwing.mechanisms.scores import shares
from lapwing.noise import sample_coins, sample_uniform
from lapwing.noise.bernoulli import BoundsAt, exp_neg, rational_bounds
from lapwing.numbers import Enclosure, Number, ball, enclose, inside_unit, positive, round_up
from lapwing.privacy.neighbours import Neighbours


@dataclass(frozen=True, slots=True, repr=False)
class Share(FrozenValue):
    """The estimated share of people whose true answer is this one.

    `share` is unbiased, so it may lie outside [0, 1]; `low` and `high` do not. `standard_error` is that of the coins.
    """

    share: float
    standard_error: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.share:.1%}, between {self.low:.1%} and {self.high:.1%}"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class RandomizedResponse(PureMechanism):
    """Each person answers for themselves: the truth with some probability, otherwise one of the other answers.

    Use:        when not even the curator may see the true answers; with a trusted curator, `Laplace`.
    Law:        k answers; P[truth] = p = e^epsilon / (e^epsilon + k - 1), every other answer q = (1 - p) / (k - 1).
                `two_coins` is p = 3/4 of two answers, exactly.
    Guarantee:  pure DP with epsilon for a change of one person's true answer to any other, before anyone else sees
                it (the local model). Answering the same question twice costs twice.
    Error:      E[share of answer v] = q + f (p - q) if a share f of people hold v, so (y / n - q) / (p - q) is
                unbiased for f; its variance is (q (1 - q) + f (p (1 - p) - q (1 - q))) / (n (p - q)^2).
    Proof:      the probabilities of one answer under two truths have the ratio 1, p / q or q / p, and
                p / q = e^epsilon; two coins: 3 = e^(ln 3). [W65] [KBR16]
    Figure:     `round(float(RandomizedResponse.two_coins().loss.epsilon), 4)` = 1.0986
    Checked by: tests/mechanisms/choice/test_response.py
    """

    neighbours: ClassVar[Neighbours] = Neighbours.CHANGE_ONE

    epsilon: Fraction
    answers: tuple[Hashable, ...]
    truthful: Fraction | None
    """P[truth] where it is a fraction; None where epsilon decides it."""

    def __init__(self, *, epsilon: Number, answers: Sequence[Hashable] = (False, True)) -> None:
        self._set(epsilon=positive(epsilon, "epsilon"), answers=read_distinct(answers, "answers"), truthful=None)

    @classmethod
    def two_coins(cls, *, answers: Sequence[Hashable] = (False, True)) -> RandomizedResponse:
        """Tails: the truth. Heads: a second coin answers. Epsilon is ln 3, rounded up."""
        epsilon = round_up(enclose(lambda: ball(3).log())[1])
        response = cls(epsilon=epsilon, answers=answers)
        if len(response.answers) != 2:
            raise Misconfigured(
                f"`answers` has {len(response.answers)} entries; a coin has two sides. "
                "Use RandomizedResponse(epsilon=..., answers=...) for more."
            )
        response._set(truthful=Fraction(3, 4))
        return response

    def respond(self, truth: Any) -> Any:
        """A randomized answer; a list, a numpy array or an Arrow array of them for one of truths."""
        if _is_many(truth):
            return self._like(truth, self._randomize(self._places(truth)))
        return self.answers[int(self._randomize(self._places([truth]))[0])]

    def law(self) -> tuple[tuple[Enclosure, ...], ...]:
        """Proven bounds: row i, column j holds P[the answer is answers[j]], given that the truth is answers[i]."""
        truth, other = self._chances()
        places = range(len(self.answers))
        return tuple(tuple(truth if i == j else other for j in places) for i in places)

    def probabilities(self) -> Floats:
        """The same in float64."""
        p, q, _ = self._floats()
        return np.where(np.eye(len(self.answers), dtype=np.bool_), p, q)

    def estimate(self, answers: Any, confidence: Number = 0.95) -> dict[Hashable, Share]:
        """For each answer, the share of people whose true answer it is, from what they answered.

        Each interval holds at the confidence by itself. It is Clopper and Pearson's for the expected share of this
        answer, mapped to f: also right if the people who answered are a random sample and f is the share among all.
        Answers of people with different truths vary less than the binomial that it assumes. [H56, Thm 4]
        """
        outside = float(1 - inside_unit(confidence, "confidence"))
        if not _is_many(answers):
            raise Misconfigured("`answers` is a single answer; an estimate needs all of them. Pass a list or an array.")
        counts = np.bincount(self._places(answers).ravel(), minlength=len(self.answers)).tolist()
        n = sum(counts)
        if not n:
            raise Misconfigured("`answers` is empty; there is nothing to estimate from. Pass at least one answer.")
        return {answer: self._share(y, n, outside) for answer, y in zip(self.answers, counts, strict=True)}

    def _share(self, y: int, n: int, outside: float) -> Share:
        from scipy.special import betaincinv  # slow import

        p, q, margin = self._floats()
        share = (y / n - q) / margin
        variance = q * (1 - q) + min(max(share, 0.0), 1.0) * (p * (1 - p) - q * (1 - q))
        low = float(betaincinv(y, n - y + 1, outside / 2)) if y else 0.0
        high = float(betaincinv(y + 1, n - y, 1 - outside / 2)) if y < n else 1.0
        low, high = (min(max((end - q) / margin, 0.0), 1.0) for end in (low, high))
        return Share(share, math.sqrt(variance / n) / margin, low, high)

    def _chances(self) -> tuple[Enclosure, Enclosure]:
        """Enclosures of p and of q."""
        if self.truthful is not None:
            return (self.truthful, self.truthful), (1 - self.truthful, 1 - self.truthful)
        truth, other, *_ = shares(np.minimum(np.arange(len(self.answers)), 1), self.epsilon)
        return truth, other

    def _floats(self) -> tuple[float, float, float]:
        """p, q and p - q = p (1 - e^-epsilon), without cancellation."""
        p, q = (float((low + high) / 2) for low, high in self._chances())
        if self.truthful is not None:
            return p, q, p - q
        _, shrunk = enclose(lambda: -(-ball(self.epsilon)).expm1())
        return p, q, p * float(shrunk)

    def _bounds(self) -> BoundsAt:
        """Enclosures of p = 1 / (1 + (k - 1) e^-epsilon) for the exact coin."""
        if self.truthful is not None:
            return rational_bounds(self.truthful.numerator, self.truthful.denominator)
        others, epsilon = len(self.answers) - 1, self.epsilon

        def bounds(precision: int) -> tuple[int, int]:
            work = precision + others.bit_length() + 8
            low, high = exp_neg(epsilon.numerator, epsilon.denominator, work)
            one = 1 << (work + precision)
            return one // ((1 << work) + others * high), -(-one // ((1 << work) + others * low))

        return bounds

    def _randomize(self, truths: Integers) -> Integers:
        """Both draws are made for everyone; `others` steps away from the truth is uniform among the others."""
        keep = sample_coins(self._bounds(), truths.size).reshape(truths.shape)
        steps = sample_uniform(len(self.answers) - 1, truths.size).reshape(truths.shape)
        return np.where(keep, truths, (truths + 1 + steps) % len(self.answers))

    def _places(self, values: Any) -> Integers:
        index = {answer: i for i, answer in enumerate(self.answers)}
        listed = values.to_pylist() if hasattr(values, "to_pylist") else values
        flat = listed.ravel().tolist() if isinstance(listed, np.ndarray) else listed
        try:
            places = np.array([index[value] for value in flat], np.int64)
        except (KeyError, TypeError):
            raise Misconfigured(
                "a value is not among the declared answers. Declare it in `answers`, or leave it out."
            ) from None
        return places.reshape(values.shape) if isinstance(values, np.ndarray) else places

    def _like(self, given: Any, places: Integers) -> Any:
        """The answers in these places, in the kind of container that was given."""
        if isinstance(given, list):
            return [self.answers[i] for i in places.tolist()]
        if isinstance(given, np.ndarray):
            one_type = set(map(type, self.answers)) in ({bool}, {int}, {float}, {str})
            answers = np.array(self.answers) if one_type else np.fromiter(self.answers, object, len(self.answers))
            return answers[places]
        import pyarrow as pa

        return pa.array(list(self.answers)).take(pa.array(places))


def read_distinct(values: object, name: str, most: int = 10**9) -> tuple[Hashable, ...]:
    """Reads the values that an answer may have."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray):
        raise Misconfigured(f"`{name}` must be a list of the possible answers. Pass for example ['no', 'yes'].")
    listed = tuple(np.atleast_1d(values).tolist() if isinstance(values, np.ndarray) else values)
    try:
        distinct = len(set(listed)) == len(listed) and all(value == value for value in listed)
    except TypeError:
        raise Misconfigured(f"`{name}` holds something that cannot be compared. Pass strings or numbers.") from None
    if not 2 <= len(listed) <= most or not distinct:
        raise Misconfigured(f"`{name}` must hold 2 to {most:,} different values. Pass for example ['no', 'yes'].")
    return listed


def _is_many(value: object) -> bool:
    return isinstance(value, list | np.ndarray) or hasattr(value, "to_pylist")
