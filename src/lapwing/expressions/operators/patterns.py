r"""Regular expressions that every engine with a linear matcher reads alike, and REGEXP_MATCHES.

A pattern is a constant of at most 200 characters made of: characters, `.`, `\d \D \s \S \w \W` (ASCII), any of
`\.^$|?*+()[]{}-/` after a backslash, classes such as `[a-z]` and `[^0-9]`, groups, `|`, `^`, `$`, and the repeats
`? * + {n} {n,} {n,m}`. Written out, with every repeat in full, it has at most 200 parts.
It looks at the first 1,000 characters of a text, as every text function does (text.py).

Guarantee:  an admitted pattern compiles, and matching a text takes a bounded number of steps, whatever the text is: for
            each of at most 1,000 characters at most one for each of 200 parts.
Proof:      RE2 builds an automaton with a state for each part and never backtracks, so a character costs at most one
            step for each state. How many it takes below that bound does depend on the text. The pattern stands inside
            a group, since DuckDB may otherwise run a plain one as LIKE, which tries every placement of % and _.
Checked by: tests/expressions/test_patterns.py
"""

from __future__ import annotations

from sqlglot import exp

from lapwing.expressions import forms
from lapwing.expressions.expression import Expression, Literal, Operator
from lapwing.expressions.operators.base import Node, only
from lapwing.expressions.types import Type

MOST_PATTERN = 200
MOST_PARTS = 200
_MOST_REPEATS = 100
_SPECIAL = frozenset(r".^$|?*+()[]{}\\")
_ESCAPED = frozenset(r".^$|?*+()[]{}\-/")
_CLASSES = frozenset("dDsSwW")


class _Unreadable(Exception):
    """The pattern is not in the subset."""


class _Pattern:
    """A pattern being read: counts its parts, written out in full."""

    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0

    def size(self) -> int:
        found = self._alternatives()
        if self.place < len(self.text):
            raise _Unreadable
        return found

    def _peek(self) -> str:
        return self.text[self.place : self.place + 1]

    def _take(self) -> str:
        found = self._peek()
        if not found:
            raise _Unreadable
        self.place += 1
        return found

    def _alternatives(self) -> int:
        total = self._sequence()
        while self._peek() == "|":
            self._take()
            total += 1 + self._sequence()
        return total

    def _sequence(self) -> int:
        total = 0
        while self._peek() not in ("", "|", ")"):
            part = self._atom()
            total += part * self._repeats()
            if total > MOST_PARTS:
                raise _Unreadable
        return total

    def _atom(self) -> int:
        character = self._take()
        if character == "(":
            if self.text.startswith("?:", self.place):
                self.place += 2
            inner = self._alternatives()
            if self._take() != ")":
                raise _Unreadable
            return 1 + inner
        if character == "[":
            return self._class()
        if character == "\\":
            self._escape()
        elif character in "^$":
            if self._peek() in tuple("?*+{"):
                raise _Unreadable
        elif character != "." and character in _SPECIAL:
            raise _Unreadable
        return 1

    def _escape(self) -> str:
        character = self._take()
        if character not in _ESCAPED | _CLASSES:
            raise _Unreadable
        return character

    def _class(self) -> int:
        if self._peek() == "^":
            self._take()
        many = 0
        while self._peek() != "]" or not many:
            first = self._member()
            if self._peek() == "-" and self.text[self.place + 1 : self.place + 2] != "]":
                self._take()
                last = self._member()
                if not first or not last or first > last:
                    raise _Unreadable
            many += 1
        self._take()
        return 1

    def _member(self) -> str:
        """One character of a class; empty for a class inside it, which has no order."""
        character = self._take()
        if character == "\\":
            escaped = self._escape()
            return "" if escaped in _CLASSES else escaped
        if character in "[]-^":
            raise _Unreadable
        return character

    def _repeats(self) -> int:
        """How often the part before is written out."""
        character = self._peek()
        if character not in ("?", "*", "+", "{"):
            return 1
        self._take()
        many = self._counted() if character == "{" else 2
        if self._peek() in ("?", "*", "+", "{"):
            raise _Unreadable
        return many

    def _counted(self) -> int:
        inside, found, rest = self.text[self.place :].partition("}")
        least, comma, most = inside.partition(",")
        numbers = [least, *([most] if most else [])]
        if not found or not all(n.isascii() and n.isdecimal() and len(n) <= 3 for n in numbers):
            raise _Unreadable
        low, high = int(least), int(most) if most else int(least) + bool(comma)
        if not low <= high or not 1 <= high <= _MOST_REPEATS:
            raise _Unreadable
        self.place = len(self.text) - len(rest)
        return high + 1


def is_linear(pattern: str) -> bool:
    """True if the pattern is in the subset."""
    return len(pattern) <= MOST_PATTERN and parts_of(pattern) <= MOST_PARTS


def parts_of(pattern: str) -> int:
    """How many parts a pattern has, written out in full; more than are allowed if it is not in the subset."""
    try:
        return _Pattern(pattern).size()
    except _Unreadable:
        return MOST_PARTS + 1


def _constant(_: Expression, pattern: Expression) -> str | None:
    if isinstance(pattern, Literal) and isinstance(pattern.value, str) and is_linear(pattern.value):
        return None
    return (
        f"Use a constant of at most {MOST_PATTERN} characters, such as '^[A-Z][0-9]+$': characters, . [] () | ^ $, "
        "\\d \\w \\s, and the repeats ? * + {2,5}."
    )


def _emit(value: Node, pattern: Node) -> Node:
    return forms.HasMatch(this=value, expression=exp.Literal.string(f"({pattern.name})"))


REGEXP_MATCHES = Operator(
    "regexp_matches",
    only(Type.TEXT, gives=Type.BOOLEAN, least=2, most=2),
    _emit,
    "text and a constant pattern",
    admit=_constant,
    sql="REGEXP_MATCHES(s, '^[A-Z][0-9]+')",
    meaning="True if the pattern matches a part of s; ^ and $ are its start and end, . is any character but a line "
    "break. NULL stays NULL.",
)
