"""Operator precedence is DuckDB's, whatever the parser's own grammar says.

The parser reads `%` as loosely as `+`, IS more tightly than `=`, and chains of comparisons from the left; DuckDB does
not. The tree keeps the analyst's parentheses, and so the order of operands and operators: `%` is rebound, and what
would otherwise mean something else in DuckDB, or nothing at all, is refused until it has parentheses.
The parser itself is not changed: its compiled build cannot be subclassed.
Checked by: tests/sql/test_precedence.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from sqlglot import TokenType, exp

from lapwing.expressions.refusal import refuse
from lapwing.sql.nodes import SqlNode
from lapwing.sql.refusals import part_of

SPELLINGS: dict[str, str] = {
    "!": "NOT c",
    "==": "x = y",
    "@": "ABS(x)",
    "??": "COALESCE(x, y)",
    "<=>": "x IS NOT DISTINCT FROM y",
    "^@": "STARTS_WITH(s, t)",
    "~": "REGEXP_MATCHES(s, '^(...)$'), or without ^( and )$ to match a part as PostgreSQL does",
    "!~": "NOT REGEXP_MATCHES(s, '^(...)$'), or without ^( and )$ to match a part as PostgreSQL does",
    "~~": "s LIKE t",
    "!~~": "s NOT LIKE t",
    "~~*": "s ILIKE t",
    "!~~*": "s NOT ILIKE t",
}
"""Operators that DuckDB lacks or binds differently from the parser, and what to write instead."""

_NAMES = frozenset({TokenType.STRING, TokenType.IDENTIFIER, TokenType.VAR})

_CAST_CHECKS = frozenset({(word, TokenType.NULL, TokenType.DCOLON) for word in (TokenType.IS, TokenType.NOT)})
"""x = y IS NULL::BOOLEAN: DuckDB casts all of it, the parser only what follows `=`."""

_SUMS: frozenset[type[SqlNode]] = frozenset({exp.Add, exp.Sub})
_PRODUCTS: frozenset[type[SqlNode]] = frozenset({exp.Mul, exp.Div, exp.IntDiv})
_TERMS = _SUMS | {exp.Mod}

_NOT, _IS, _COMPARED, _RANGE, _JOINED, _SUM, _PRODUCT, _MINUS, _CLOSED = range(3, 12)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
LEVELS: dict[type[SqlNode], int] = {
    exp.Or: 1,
    exp.And: 2,
    exp.Not: _NOT,
    **dict.fromkeys((exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ), _IS),
    **dict.fromkeys(_COMPARISONS, _COMPARED),
    **dict.fromkeys((exp.Between, exp.In, exp.Like, exp.ILike), _RANGE),
    exp.DPipe: _JOINED,
    **dict.fromkeys(_SUMS, _SUM),
    **dict.fromkeys(_PRODUCTS, _PRODUCT),
    exp.Neg: _MINUS,
}
"""The precedence of each operator in DuckDB. % and ^ are absent: MOD(x, y) and POWER(x, y) are the same nodes."""

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END})
_ORDERS = frozenset(
    {TokenType.IS, TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE}
)
_SEPARATORS = frozenset(
    {TokenType.AND, TokenType.OR, TokenType.COMMA, TokenType.ALIAS, TokenType.SELECT, TokenType.FROM}
    | {TokenType.WHERE, TokenType.HAVING, TokenType.QUALIFY, TokenType.ON, TokenType.USING, TokenType.LIMIT}
    | {TokenType.WHEN, TokenType.THEN, TokenType.ELSE, TokenType.GROUP_BY, TokenType.ORDER_BY, TokenType.PARTITION_BY}
    | {TokenType.JOIN, TokenType.INNER, TokenType.LEFT, TokenType.RIGHT, TokenType.CROSS, TokenType.SEMICOLON}
    | {TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.WITH, TokenType.WINDOW, TokenType.BETWEEN}
)
"""What ends a row of operators, but for what is in brackets."""

_CHAINED = frozenset({_IS, _COMPARED, _RANGE})  # these operators cannot be chained


def read_top(tokens: Sequence[Any]) -> None:
    """SELECT TOP 10 is LIMIT 10. A name followed by a number means nothing else in DuckDB."""
    for before, word, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        starts = before.token_type in (TokenType.SELECT, TokenType.DISTINCT) and after.token_type is TokenType.NUMBER
        if starts and word.token_type is TokenType.VAR and word.text.upper() == "TOP":
            word.token_type = TokenType.TOP


def check_spellings(tokens: Sequence[Any]) -> None:
    """Refuses operators that mean something else in DuckDB, and casts whose operand the tree does not show."""
    for before, null, cast in zip(tokens, tokens[1:], tokens[2:], strict=False):
        kinds = before.token_type, null.token_type, cast.token_type
        if kinds in _CAST_CHECKS:
            refuse(
                "ambiguous",
                "`IS NULL::`",
                "without parentheses it is ambiguous what is cast.",
                "Write (x IS NULL)::INTEGER.",
            )
    for token in tokens:
        instead = SPELLINGS.get(token.text.upper())
        if instead is not None and token.token_type not in _NAMES:
            refuse("unsupported-function", f"`{token.text}`", "this operator is not supported.", f"Write {instead}.")


def check_is(tokens: Sequence[Any], text: str) -> None:
    """Refuses IS beside a comparison. Newer parsers put the parentheses themselves, so that the tree does not show it.

    A comparison may only follow IS NULL, IS TRUE and the like, which end there: it compares all that is before it.
    """
    runs: list[tuple[int, list[TokenType]]] = [(0, [])]
    before = None
    for token in tokens:
        kind, (start, run) = token.token_type, runs[-1]
        if kind in _OPENING:
            runs.append((token.end + 1, []))
        elif kind in _CLOSING and len(runs) > 1:
            runs.pop()
        elif kind in _ORDERS:
            if TokenType.DISTINCT in run or (kind is TokenType.IS and set(run) & _ORDERS - {kind}):
                _refuse_order(f"`{text[start : token.end + 1].strip()[-60:]}`")
            run.append(kind)
        elif kind is TokenType.DISTINCT and run[-1:] == [TokenType.IS]:
            run.append(kind)
        elif kind in _SEPARATORS and not (before is TokenType.DISTINCT and run):  # but for IS DISTINCT FROM
            runs[-1] = (token.end + 1, [])
        before = kind


def bind(parts: Sequence[exp.Expr]) -> None:
    """Makes every `%` among the parts of a tree bind like `*`, and refuses what needs parentheses."""
    nodes = [node for node in parts if isinstance(node, exp.Expression)]
    for node in nodes:
        is_inner = type(node.parent) in _TERMS and node.arg_key == "this"
        if type(node) in _TERMS and not is_inner:
            _rebind(node)
    for node in nodes:
        if type(node) in LEVELS:
            _check(node, LEVELS[type(node)])


def _rebind(root: SqlNode) -> None:
    """Rebuilds a chain of + - * / // % in which the parser bound some % like a sum.

    A % is on the left edge of sums, where MOD(x, y) means the same; below a product it can only be MOD(x, y).
    """
    operands, operators = _row(root)
    if not any(isinstance(operator, exp.Mod) for operator in operators):
        return
    place = root.replace(exp.Null())
    stack, waiting = [operands[0]], list[SqlNode]()
    for operator, operand in zip(operators, operands[1:], strict=True):
        while waiting and _tightness(waiting[-1]) >= _tightness(operator):
            _apply(waiting, stack)
        waiting.append(operator)
        stack.append(operand)
    while waiting:
        _apply(waiting, stack)
    place.replace(stack.pop())


def _row(root: SqlNode) -> tuple[list[SqlNode], list[SqlNode]]:
    """The operands and the operators of a chain, from left to right."""
    first, sums = _spine(root, _TERMS)
    operands, operators = list[SqlNode](), list[SqlNode]()
    for sign, term in [(None, first), *sums]:
        start, products = _spine(term, _PRODUCTS)
        operators += [*([] if sign is None else [sign]), *(operator for operator, _ in products)]
        operands += [start, *(operand for _, operand in products)]
    return operands, operators


def _spine(node: SqlNode, kinds: frozenset[type[SqlNode]]) -> tuple[SqlNode, list[tuple[SqlNode, SqlNode]]]:
    """The leftmost operand, and each operator of these kinds with the operand on its right."""
    steps: list[tuple[SqlNode, SqlNode]] = []
    while type(node) in kinds:
        steps.append((node, node.args["expression"]))
        node = node.this
    return node, steps[::-1]


def _tightness(operator: SqlNode) -> int:
    return LEVELS.get(type(operator), _PRODUCT)


def _apply(waiting: list[SqlNode], stack: list[SqlNode]) -> None:
    operator, right, left = waiting.pop(), stack.pop(), stack.pop()
    operator.set("this", left)
    operator.set("expression", right)
    stack.append(operator)


def _check(node: SqlNode, level: int) -> None:
    """Refuses a node whose operands, without parentheses, DuckDB would bind differently."""
    left, right = node.this, node.args.get("expression")
    if level in (_NOT, _MINUS):
        fits = _level(left) >= level
    else:
        fits = _is_complete(left) or _level(left) > level or (_level(left) == level and level not in _CHAINED)
    sides = [side for side in (right, node.args.get("low"), node.args.get("high")) if isinstance(side, exp.Expression)]
    if not fits or not all(_level(side) > level or _level(side) == _NOT for side in sides):
        _refuse_order(part_of(node))


def _refuse_order(part: str) -> NoReturn:
    refuse("ambiguous", part, "without parentheses the order of operators is ambiguous.", "Add parentheses.")


def _level(node: SqlNode) -> int:
    """The precedence of a node as an operand; x NOT IN (...) has that of x IN (...)."""
    inner = node.this if isinstance(node, exp.Not) and isinstance(node.this, exp.Is | exp.In | exp.Between) else node
    return LEVELS.get(type(inner), _CLOSED)


def _is_complete(node: SqlNode) -> bool:
    """True if it is self-terminating, like x IS NULL and x IN (...): what follows applies to all of it."""
    inner = node.this if isinstance(node, exp.Not) else node
    return isinstance(inner, exp.Is | exp.In)
