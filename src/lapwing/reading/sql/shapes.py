"""Questions of one shape, read once: those that differ only in constants that WHERE compares something with.

    SELECT COUNT(*) FROM visits WHERE cost < 10.5 AND sex = 'F'      its shape has two holes: a real, and a text

Guarantee:  a question that is read by its shape is the one that `read_sql` reads; what `read_sql` refuses is refused by
            it, in its words. A shape for which the proof does not hold is always read in full.
Proof:      Tokens. The shape is the text with a mark, which says the type, for each constant. It has no quote left, no
              comment and no escape, and nothing that could continue a number beside a mark. The tokenizer goes from
              left to right and has come to each constant in the same state; there it takes digits and a point, or all
              up to the next quote, whatever they are. So the tokens of two texts of a shape differ only in the texts
              of their constants. That the constants are tokens, and the only constants, is checked once.
            Tree. The parser takes such a token, wherever an operand of a comparison may begin, for a constant by its
              type alone. Checked once: constants that occur nowhere else are put in, and each must come out in one
              node, unchanged, as an operand of a comparison, IN or BETWEEN, below AND, OR and NOT alone in WHERE of a
              question about one table. Every other constant stays part of the shape as it is written.
            Question. These nodes are replaced by holes, which have a type and no value (language/holes.py), and the
              tree is read as every other. If that ends, no value was looked at. Holes may be in WHERE alone.
Checked by: tests/reading/sql/test_shapes.py
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date
from itertools import count
from typing import Any

from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from lapwing.catalog.table import Catalog
from lapwing.errors import LapwingError
from lapwing.language.expression import Literal
from lapwing.language.holes import Hole, Looked, fill, has_holes
from lapwing.language.types import Type
from lapwing.planning.question import Question
from lapwing.reading.sql.expressions import read_number
from lapwing.reading.sql.nodes import SqlNode
from lapwing.reading.sql.reader import parse, read_sql, read_tree
from lapwing.reading.sql.refused import DIALECT

REMEMBERED = 256
"""Shapes."""
_LONGEST, _MOST = 5_000, 64  # characters and constants of a question that is read by its shape

_CONSTANT = re.compile(r"""'([^'\\\0\ud800-\udfff]*)'(?!')|(?<![\w.'"])[0-9]+(?:\.[0-9]+)?(?![\w.'"])""")
_STRANGE = re.compile(r"[^\x20-\x26\x28-\x7e\n\t\0]|--|/\*|[\\$#`{}@?;]")
"""What has no place in a shape: quotes, comments, escapes, parameters, whatever is not ASCII."""
_MARK = re.compile("\0[irs]")
_DIGITS = re.compile("[0-9]{5,}")
_KINDS = {Type.INTEGER: "\0i", Type.REAL: "\0r", Type.TEXT: "\0s"}

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In)
_CONNECTIVES = (exp.And, exp.Or, exp.Not, exp.Paren)
_CONSTANTS = (TokenType.NUMBER, TokenType.STRING)


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of a text: how it is written, and what it stands for."""

    written: str
    literal: Literal


class ShapeReader:
    """Reads questions in SQL over one catalog, and remembers their shapes from the second time on."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._seen: dict[str, tuple[bool, ...] | None] = {}
        """For each shape which of its constants are holes: none of them, as long as it was seen once."""
        self._questions: dict[tuple[str, tuple[str, ...], date | None], Question | None] = {}
        """By shape, its other constants and the date: the question with holes; None if there is none."""

    def read(self, text: str, today: date | None = None) -> Question:
        """The question; raises Refused."""
        found = take_apart(text)
        if found is None:
            return read_sql(text, self._catalog, today)
        shape, constants = found
        known = self._known(shape, constants, today)
        if known is None or known.where is None:
            return read_sql(text, self._catalog, today)
        return replace(known, where=fill(known.where, [constant.literal for constant in constants]))

    def _known(self, shape: str, constants: list[Constant], today: date | None) -> Question | None:
        if shape not in self._seen:
            _make_room(self._seen)
            self._seen[shape] = None
            return None
        free = self._seen.get(shape)  # another thread may have forgotten it
        if free is None:
            free = self._seen[shape] = _holes_of(shape, constants)
        if not any(free):
            return None
        fixed = tuple([constant.written for constant, hole in zip(constants, free, strict=True) if not hole])
        key = shape, fixed, today
        known = self._questions.get(key)
        if known is None and key not in self._questions:
            _make_room(self._questions)
            known = self._questions[key] = _question_of(shape, constants, free, self._catalog, today)
        return known


def _make_room(remembered: dict[Any, Any]) -> None:
    if len(remembered) >= REMEMBERED:
        remembered.clear()


def take_apart(text: str) -> tuple[str, list[Constant]] | None:
    """The shape of a text and its constants; None if it has no shape, or no constants."""
    if len(text) > _LONGEST or "\0" in text:
        return None
    constants: list[Constant] = []

    def mark(found: re.Match[str]) -> str:
        written, content = found[0], found[1]
        literal = read_number(written) if content is None else Literal(content, Type.TEXT)
        constants.append(Constant(written, literal))
        return _KINDS[literal.type or Type.TEXT]

    try:
        shape = _CONSTANT.sub(mark, text)
    except LapwingError:  # a number that is too large
        return None
    return (shape, constants) if 0 < len(constants) <= _MOST and not _STRANGE.search(shape) else None


def _holes_of(shape: str, constants: list[Constant]) -> tuple[bool, ...]:
    """Which constants of a shape are compared with something in WHERE."""
    strangers = _strangers(shape, constants)
    tree = _parsed(shape, strangers)
    return () if tree is None else tuple(node is not None for node in _operands(tree, strangers))


def _question_of(
    shape: str, constants: list[Constant], free: tuple[bool, ...], catalog: Catalog, today: date | None
) -> Question | None:
    """The question with a hole for each constant that is free; None if it cannot be read so."""
    strangers = _strangers(shape, constants)
    pairs = list(zip(strangers, constants, free, strict=True))
    tree = _parsed(shape, [stranger if hole else known.written for stranger, known, hole in pairs])
    if tree is None:
        return None
    tree = tree.copy()
    for place, (node, (_, constant, hole)) in enumerate(zip(_operands(tree, strangers), pairs, strict=True)):
        if hole and node is not None:
            node.replace(exp.Var(this=Hole(place, constant.literal.type or Type.TEXT)))
        elif hole:
            return None
    try:
        question = read_tree(tree, catalog, today)
    except (Looked, Exception):  # noqa: BLE001 (whatever it is, the question is read in full, and says so)
        return None
    others = (*question.keys, *(part for one in question.aggregates for part in one.arguments), *question.above)
    plain = question.table.source is None and not any(map(has_holes, others))
    return question if plain else None


def _strangers(shape: str, constants: list[Constant]) -> list[str]:
    """As many constants of the same types, as they are written, which occur nowhere else."""
    known = shape + " ".join(constant.written for constant in constants)
    numbers = (str(number) for number in count(7_310_582_946_012_077) if str(number) not in known)
    forms = {Type.INTEGER: "{}", Type.REAL: "{}.5", Type.TEXT: "'lw{}'"}
    return [forms[constant.literal.type or Type.TEXT].format(next(numbers)) for constant in constants]


def _parsed(shape: str, constants: list[str]) -> exp.Expr | None:
    """The tree of a shape with these constants, if they are its constant tokens."""
    written = iter(constants)
    text = _MARK.sub(lambda _: next(written), shape)
    try:
        tokens = [token.text for token in DIALECT.tokenize(text) if token.token_type in _CONSTANTS]
        tree = parse(text)
    except (LapwingError, SqlglotError, RecursionError):
        return None
    return tree if tokens == [_content(constant) for constant in constants] else None


def _content(written: str) -> str:
    """The text of a constant in its token and its node."""
    return written.strip("'")


def _operands(tree: exp.Expr, strangers: list[str]) -> list[SqlNode | None]:
    """The node of each constant that is nowhere else in the tree, if it is compared with something in WHERE."""
    holders: dict[str, list[exp.Expr]] = {}
    for node in tree.walk():
        for number in {number for text in _texts(node) for number in _DIGITS.findall(text)}:
            holders.setdefault(number, []).append(node)
    return [_operand(holders.get(_DIGITS.findall(stranger)[0], []), stranger) for stranger in strangers]


def _operand(holders: list[exp.Expr], stranger: str) -> SqlNode | None:
    content, is_text = _content(stranger), stranger.startswith("'")
    match holders:
        case [exp.Literal(this=text) as node] if text == content and node.is_string is is_text and _is_compared(node):
            return node
    return None


def _texts(node: exp.Expr) -> list[str]:
    """Every text that a node holds by itself."""
    values = [part for value in node.args.values() for part in (value if isinstance(value, list) else [value])]
    return [*(part for part in values if isinstance(part, str)), *(node.comments or [])]


def _is_compared(node: SqlNode) -> bool:
    """Whether it is compared with something in WHERE of a question about one table."""
    if not isinstance(node.parent, _COMPARISONS):
        return False
    above = node.parent.parent
    while isinstance(above, _CONNECTIVES):
        above = above.parent
    select = above.parent if isinstance(above, exp.Where) else None
    if not isinstance(select, exp.Select) or select.parent is not None:
        return False
    start = select.args.get("from_")
    alone = start is not None and isinstance(start.this, exp.Table) and not start.this.args.get("joins")
    return alone and not select.args.get("joins") and not select.args.get("with_")
