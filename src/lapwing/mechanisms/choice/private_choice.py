"""The best of several private results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from lapwing.errors import Misconfigured
from lapwing.mechanisms.mechanism import FrozenValue, read_secret
from lapwing.mechanisms.scores import at_least
from lapwing.noise import sample_bernoulli, uniform_integer
from lapwing.numbers import Number, inside_unit
from lapwing.privacy.loss import Loss, Pure


class Candidate(Protocol):
    """A mechanism to choose from: data in, a private result out, with fresh noise in every run."""

    @property
    def loss(self) -> Loss:
        """The loss of one run."""

    def __call__(self, data: Any, /) -> Any:
        """One run."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class BestOf(FrozenValue):
    """Runs randomly drawn mechanisms a random number of times, and releases the best result only.

    Use:        to tune parameters by trial: many runs for the price of three. For one of many candidates
                whose scores have a known sensitivity, PermuteAndFlip errs less and costs a third.
    Law:        K is geometric, P[K = k] = stop (1 - stop)^(k-1), k = 1, 2, ... Each of K runs takes one of the
                mechanisms, uniformly. Of the results with the highest score the first is released, with the place
                of its mechanism. `score` must be a function of a result alone: what it says about the data must be
                part of the private result.
    Guarantee:  pure DP with 3 epsilon, epsilon the largest of the mechanisms, whatever their number and the number of
                runs. The number of runs and the time they took must not be shown: either would cost more.
    Error:      with probability 1 - beta the result is among the best share a of single runs,
                a = stop (1 - beta) / (stop + beta (1 - stop)). There are 1 / stop runs on average.
    Proof:      One run M, with its place, is epsilon-DP. Let p = P[M = y], and let a, b be the chances of a score above
                and of one at least that of y. Given that the highest of k scores is that of y, which has the
                probability (1 - a)^k - (1 - b)^k, the first of the results with that score has the law of M given its
                score, so y has the share p / (b - a). Summed over K, P[y] = p stop / (b - a) times
                [(1 - a) / (stop + a r) - (1 - b) / (stop + b r)], r = 1 - stop, which is
                p stop / ((stop + a r) (stop + b r)).
                From x to x' each of p, a and b changes by a factor between e^-epsilon and e^epsilon, and so do
                stop + a r and stop + b r: three such factors. Densities take the place of p if results are continuous.
                Error: the sum of P[K = k] (1 - a)^k is stop (1 - a) / (stop + a r); solve for a. [LT19]
    Figure:     `round(BestOf([Laplace(epsilon=1)], score=abs, stop=0.01).error(0.95), 2)` = 0.16
    Checked by: tests/mechanisms/choice/test_private_choice.py
    """

    mechanisms: tuple[Candidate, ...]
    score: Callable[[Any], Number]
    stop: Fraction

    def __init__(self, mechanisms: Sequence[Candidate], *, score: Callable[[Any], Number], stop: Number) -> None:
        if not mechanisms:
            raise Misconfigured("`mechanisms` must be a list of at least one mechanism with a `loss`.")
        if not all(map(callable, (score, *mechanisms))):
            raise Misconfigured("`score` and every mechanism must be callable: mechanism(data), score(result).")
        self._set(mechanisms=tuple(mechanisms), score=score, stop=inside_unit(stop, "stop"))
        _ = self.loss  # refuses what is not pure

    @property
    def loss(self) -> Pure:
        return Pure(3 * max(mechanism.loss.to_pure().epsilon for mechanism in self.mechanisms))

    def __call__(self, data: Any) -> tuple[int, Any]:
        """The place of a mechanism and its result."""
        runs = [self._run(data)]
        while not sample_bernoulli(self.stop, 1)[0]:
            runs.append(self._run(data))
        _, index, result = max(runs, key=lambda run: run[0])  # the first of the best
        return index, result

    def error(self, confidence: Number = 0.95) -> float:
        """With this probability the result is in the best fraction returned here of all single runs; rounded up."""
        exact_confidence = inside_unit(confidence, "confidence")
        return at_least(self.stop * exact_confidence / (self.stop + (1 - exact_confidence) * (1 - self.stop)))

    def _run(self, data: Any) -> tuple[Fraction, int, Any]:
        index = uniform_integer(len(self.mechanisms))
        result = self.mechanisms[index](data)
        refusal = "a score is not a finite number; `score` must return one for every result."
        return read_secret(self.score(result), refusal), index, result
