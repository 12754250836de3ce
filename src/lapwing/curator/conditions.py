"""Conditions of one shape, written once: those that differ only in constants that something is compared with.

Guarantee:  the text is, letter by letter, the one that the dialect writes for the condition by itself.
Proof:      it is written once with a hole in place of each constant that a comparison has as an argument. A hole has no
            value, so nothing else in the text follows from one (language/holes.py), and the text is kept under the
            likeness of the condition with its holes. A comparison writes its arguments side by side, each as it is
            written alone (language/operators/logic.py), and the tree of a hole is one node, as that of its constant:
            so the text of each constant stands where the mark of its hole is. Where a mark is not found exactly once,
            where tables of values are needed, and where the first condition of a shape, written both ways, makes two
            texts, all is written in full.
Checked by: tests/curator/test_prepared.py
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass

from lapwing.catalog.likeness import likeness
from lapwing.engines.dialect import Dialect
from lapwing.language.emission import emit, hole_mark, literal
from lapwing.language.expression import Expression, Literal
from lapwing.language.holes import Looked, dig
from lapwing.language.operators.logic import AT_LEAST, AT_MOST, EQUAL, GREATER, LESS, UNEQUAL
from lapwing.language.types import Type
from lapwing.measures.columns import source

REMEMBERED = 256
"""Shapes of conditions."""
_COMPARISONS = frozenset({EQUAL, UNEQUAL, LESS, AT_MOST, GREATER, AT_LEAST})
_MOST_HOLES = 16
_MARK = re.compile("\0([0-9]+)\0")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as an engine reads it."""

    text: str
    pattern: str
    """The same with marks for its constants; empty if it has none."""
    constants: tuple[tuple[Type, str], ...]


class Conditions:
    """Writes conditions in one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._patterns: dict[Hashable, str] = {}
        """The text with marks by the likeness of the shape; empty if there is no such text."""

    def write(self, condition: Expression) -> Condition | None:
        """The condition as text; None if it needs tables."""
        shape, constants = dig(condition, _COMPARISONS)
        key = likeness(shape) if 0 < len(constants) <= _MOST_HOLES else None
        if key is None:
            return self._in_full(condition)
        pattern = self._patterns.get(key)
        if pattern is None:  # not looked up again: another thread may have forgotten everything
            if len(self._patterns) >= REMEMBERED:
                self._patterns.clear()
            pattern = self._patterns[key] = self._fitting(shape, constants, condition)
        return self._filled(pattern, constants) if pattern else self._in_full(condition)

    def _fitting(self, shape: Expression, constants: tuple[Literal, ...], condition: Expression) -> str:
        """The text with marks that makes the text of this condition; empty if there is none."""
        pattern = self._pattern(shape, len(constants))
        fits = pattern is not None and self._filled(pattern, constants).text == self._text(condition)
        return pattern or "" if fits else ""

    def _filled(self, pattern: str, constants: tuple[Literal, ...]) -> Condition:
        written = tuple([(one.type or Type.TEXT, self._constant(one)) for one in constants])
        return Condition(_MARK.sub(lambda mark: written[int(mark[1])][1], pattern), pattern, written)

    def _pattern(self, shape: Expression, holes: int) -> str | None:
        try:
            made = self._dialect.write(emit(shape, source), copy=False)
        except Looked:
            return None
        whole = all(made.text.count(hole_mark(place)) == 1 for place in range(holes))
        return made.text if whole and made.text.count("\0") == 2 * holes and not made.tables else None

    def _in_full(self, condition: Expression) -> Condition | None:
        text = self._text(condition)
        return None if text is None else Condition(text, "", ())

    def _text(self, condition: Expression) -> str | None:
        made = self._dialect.write(emit(condition, source), copy=False)
        return None if made.tables else made.text

    def _constant(self, constant: Literal) -> str:
        return self._dialect.write(literal(constant.value), copy=False).text
