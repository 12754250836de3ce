"""Plans of questions that differ only in WHERE, or in nothing, made once.

Guarantee:  outline, check and plan are those that are made for the question by itself.
Proof:      they are made of a question that has `Unseen` in place of its WHERE: whoever looks at it, beyond whether
            there is one, is stopped (language/holes.py), and then nothing is shared. So nothing in them follows from a
            WHERE. Without a WHERE they are made of the question itself. A question is found by the parts that it is
            made of, each of which must be the same object, not an equal one; these objects are kept, so that no other
            can take the place of one. Questions of one shape have them in common (reading/sql/shapes.py), and so does
            a question that is read once and asked again. Plans are found by what the terms name, with its type. A plan
            for which it was asked what is left of the delta is not kept. Plans are frozen values: they hold no noise.
Checked by: tests/curator/test_drafts.py
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

from lapwing.asking.pricing import Left, Terms, outline_on_terms, price_on_terms
from lapwing.cells.checking import CheckTarget, check_target
from lapwing.language.holes import Looked, Unseen
from lapwing.planning.plan import Outline, Plan
from lapwing.planning.question import Question
from lapwing.privacy.budget import Budget

REMEMBERED = 256
"""Drafts, and plans of each of them."""
_NUMBERS = (type(None), int, float, Fraction, Decimal)


class _Parts:
    """The parts of a question but its WHERE: the same if each is the same object."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, question: Question) -> None:
        self._parts = (
            question.table,
            question.keys,
            question.aggregates,
            question.outputs,
            question.having,
            question.order,
            question.limit,
            question.notes,
        )
        self._hash = hash(tuple(map(id, self._parts)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Parts) and all(a is b for a, b in zip(self._parts, other._parts, strict=True))


class Draft:
    """What questions with the same parts have in common."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self._plans: dict[Hashable, Plan] = {}

    def outline_of(self, question: Question) -> Outline:
        """The outline of one of the questions."""
        made = self._outline
        return made if made.question is question else replace(made, question=question)

    @cached_property
    def target(self) -> CheckTarget | None:
        """What must be checked for an answer."""
        return check_target(self._outline)

    def plan(self, outline: Outline, budget: Budget, terms: Terms, confidence: Fraction, left: Left) -> Plan:
        """The plan of this outline, which is one of the draft, on these terms; raises Refused if there is none."""
        key = _named(terms)
        if key is None:
            return price_on_terms(outline, budget, terms, confidence, left)
        known = self._plans.get(key)
        if known is None:
            asked: list[Fraction] = []

            def ask() -> Fraction:
                asked.append(left())
                return asked[-1]

            try:
                known = price_on_terms(self._outline, budget, terms, confidence, ask)
            except Looked:
                return price_on_terms(outline, budget, terms, confidence, left)
            if not asked:
                _make_room(self._plans)
                self._plans[key] = known
        return Plan(outline, known.prices, known.measures, known.selection)


class Drafts:
    """Finds the draft of a question. One budget belongs to it."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Draft | None] = {}

    def find(self, question: Question, terms: Terms, confidence: Fraction) -> Draft | None:
        """The draft of a question on terms that name a price; None if it has none. Raises Refused."""
        if terms.within is not None or terms.intervals is not True:
            return None
        key = _Parts(question), question.where is None, confidence
        known = self._known.get(key)
        if known is None and key not in self._known:
            _make_room(self._known)
            known = self._known[key] = _draft_of(question, terms, confidence)
        return known  # not looked up again: another thread may have forgotten everything


def _draft_of(question: Question, terms: Terms, confidence: Fraction) -> Draft | None:
    unseen: Any = Unseen()
    bare = question if question.where is None else replace(question, where=unseen)
    try:
        draft = Draft(outline_on_terms(bare, terms, confidence))
        return draft if draft.target is None or draft.target.names else None
    except Looked:
        return None


def _named(terms: Terms) -> Hashable | None:
    """What the terms say of the price, with types; None if it is no plain number."""
    said = (terms.epsilon, terms.share, terms.delta)
    if terms.within is not None or any(type(one) not in _NUMBERS for one in said):
        return None
    return (*map(type, said), *said, terms.taken)


def _make_room(remembered: dict[Any, Any]) -> None:
    if len(remembered) >= REMEMBERED:
        remembered.clear()
