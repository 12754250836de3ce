"""From the text of a statement to one tree, in DuckDB's meaning. sqlglot only parses.

Other names of aggregates, in the dialect and in others, become the usual ones. A quantile is approximate here under
every name, so QUANTILE, QUANTILE_DISC and APPROX_QUANTILE are QUANTILE_CONT.
"""

from __future__ import annotations

import logging
import math
import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import lru_cache
from itertools import count, islice
from typing import Any, NoReturn

from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from lapwing.errors import Code, Refused
from lapwing.expressions.refusal import refuse
from lapwing.expressions.to_sqlglot import literal
from lapwing.quiet import quiet
from lapwing.sql.precedence import bind, check_is, check_spellings, read_top
from lapwing.sql.refusals import DIALECT, text_of

MOST_CHARACTERS = 50_000
MOST_PARTS = 5_000
_LEAST_PARTS = {
    TokenType.SELECT: 2,  # with its FROM, or the query around it
    **dict.fromkeys((TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING), 1),
    **dict.fromkeys((TokenType.STAR, TokenType.ALIAS), 1),
}
"""How many nodes of the tree a token stands for at least."""
_SURROGATE = re.compile("[\ud800-\udfff]")

ALIASES: dict[str, type[exp.Expr]] = {
    "mean": exp.Avg,
    "favg": exp.Avg,
    "fsum": exp.Sum,
    "kahan_sum": exp.Sum,
    "sumkahan": exp.Sum,
    "sum_no_overflow": exp.Sum,
    "var": exp.Variance,
    "varp": exp.VariancePop,
    "std": exp.Stddev,
    "stdevp": exp.StddevPop,
    "count_big": exp.Count,
}
"""Functions of one argument that the parser has no class for, by name."""

_QUANTILES: dict[type[exp.Expr], str] = {
    exp.Quantile: "quantile",
    exp.ApproxQuantile: "quantile",
    exp.PercentileDisc: "expression",
}


_NAMING = exp.TableAlias | exp.Column | exp.Table | exp.Join | exp.Star  # their parts are names
_GROUPINGS = {exp.Rollup: "rollup", exp.Cube: "cube", exp.GroupingSets: "grouping_sets"}


@dataclass(frozen=True, slots=True)
class BoundText:
    """A question in SQL with the values of its parameters. They are constants of its tree, never part of its text."""

    text: str
    written: tuple[str, ...]
    """Each parameter with its value in SQL, such as `$age = 40`: 1, 1.0, '1' and TRUE are four values."""
    constants: Mapping[str, exp.Expr] = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.text} [{', '.join(self.written)}]" if self.written else self.text


Sql = str | BoundText


def bind_parameters(questions: Sequence[Any], params: Any) -> tuple[BoundText, ...]:
    """The questions with these values, by name or in the order of ?; refused unless they are those that all need."""
    if isinstance(params, Mapping):
        given = {str(name): _constant(str(name), value) for name, value in params.items()}
    elif isinstance(params, Sequence) and not isinstance(params, str | bytes) and len(questions) == 1:
        given = {str(place): _constant(str(place), value) for place, value in enumerate(params, 1)}
    else:
        why = "it gives each $name of the question its value, or one question a list of values for each ?."
        refuse("wrong-argument", "`params`", why, 'Write $age in the question and pass params={"age": 40}.')
    if not all(isinstance(question, str) for question in questions):
        refuse("wrong-argument", "`params`", "they are for SQL text.", "Write the values in the Ibis expression.")
    needed = [{node.name for node in parse(text).find_all(exp.Placeholder)} for text in questions]
    names = sorted(set().union(*needed))
    if names != sorted(given):
        listed = [", ".join(f"`${name}`" for name in some) or "no parameter" for some in (names, given)]
        by_name = ", ".join(f'"{name}": 40' for name in names)
        example = f"[{', '.join('40' for _ in names)}]" if all(map(str.isdigit, names)) else f"{{{by_name}}}"
        instead = f"Pass params={example} with your values." if names else "Leave `params` out."
        why = f"the question has {listed[0]}; values are given for {listed[1]}."
        refuse("wrong-argument", "`params`", why, instead)
    bound = [{name: constant for name, constant in given.items() if name in own} for own in needed]
    written = [tuple(f"${name} = {text_of(constant)}" for name, constant in own.items()) for own in bound]
    return tuple(map(BoundText, questions, written, bound))


def _constant(name: str, value: Any) -> exp.Expr:
    """A value as it would be written."""
    with suppress(ValueError, OverflowError):  # a number without a value, or of thousands of digits
        match value:
            case str():
                return literal(str.__str__(value))  # of an Enum its value, not its name
            case None | bool() | date():
                return literal(value)
            case numbers.Integral():
                return exp.Literal.number(int(value))
            case Decimal() | numbers.Real() if math.isfinite(value):
                return exp.Literal.number(str(value) if isinstance(value, Decimal) else repr(float(value)))
    why = f"a value of type {type(value).__name__} is no constant of SQL."
    refuse("wrong-type", f"`${name}`", why, "Pass a finite number, text, a bool, a date, a datetime or None.")


def parse(text: Sql) -> exp.Expr:
    """The one statement of a text, as the parser has it; raises Refused.

    A question that is refused is read several times, so the last ones are remembered. Nothing may change the tree.
    """
    parsed = _parsed(text)
    return refuse(*parsed) if isinstance(parsed, tuple) else parsed


@lru_cache(maxsize=16)
def _parsed(text: Sql) -> exp.Expr | tuple[Code, str, str, str]:
    try:
        return _parse(text)
    except Refused as error:
        return error.code, error.part, error.why, error.instead


def _parse(question: Sql) -> exp.Expr:
    shown, text = str(question), question if isinstance(question, str) else question.text
    if _SURROGATE.search(shown, 0, MOST_CHARACTERS):
        refuse("unreadable-characters", "the question", "it contains invalid characters.", "Use plain Unicode.")
    if len(shown) > MOST_CHARACTERS:
        refuse("too-large", "the question", f"it is longer than {MOST_CHARACTERS:,} characters.", "Shorten it.")
    if "\0" in shown:
        refuse("unreadable-characters", "the question", "it contains a null character.", "Remove the null character.")
    try:
        tokens = _numbered(DIALECT.tokenize(text))
        if sum([_LEAST_PARTS.get(token.token_type, 0) for token in tokens]) > MOST_PARTS:
            _refuse_size()  # the tree need not be built
        check_spellings(tokens)
        read_top(tokens)
        with quiet(logging.getLogger("sqlglot")):
            statements = DIALECT.parser().parse(tokens, text)
    except RecursionError:
        raise
    except (SqlglotError, ValueError, TypeError, AttributeError, LookupError, RuntimeError) as error:
        where = getattr(error, "errors", None) or [{}]
        line, column = where[0].get("line"), where[0].get("col")
        at = f" near line {line}, column {column}" if line else ""
        quotes = ' Names go in double quotes: "my column".' if "`" in text or "[" in text else ""
        refuse("syntax", "the question", f"it is not valid SQL{at}.", f"Write one SELECT statement.{quotes}")
    written = [part for part in statements if part is not None and not isinstance(part, exp.Semicolon)]
    if len(written) != 1:
        many = f"it contains {len(written)} statements." if written else "it is empty."
        refuse("not-one-select", "the question", many, "Write exactly one SELECT statement.")
    statement = written[0]
    parts = list(islice(statement.walk(), MOST_PARTS + 1))
    if len(parts) > MOST_PARTS:
        _refuse_size()
    bind(parts)
    check_is(tokens, text)
    for part in parts:
        if isinstance(part, exp.Func):
            _rename(part)
        elif isinstance(part, exp.Group):
            _gather_grouping_sets(part)
    if isinstance(question, BoundText):
        for parameter in list(statement.find_all(exp.Placeholder)):
            if parameter.arg_key == "alias" or isinstance(parameter.parent, _NAMING):
                refuse("wrong-argument", f"`${parameter.name}`", "it stands for a name.", "Write the name itself.")
            parameter.replace(question.constants[parameter.name].copy())
    return statement


def _numbered(tokens: Iterable[Token]) -> list[Token]:
    """The tokens with $1, $2, ... in place of each ?, since the tree has another order than the text."""
    places, numbered = count(1), list[Token]()
    for token in tokens:
        at = token.line, token.col, token.start, token.end
        is_place = token.token_type is TokenType.PLACEHOLDER
        names = [(TokenType.PARAMETER, "$"), (TokenType.NUMBER, str(next(places)))] if is_place else []
        numbered += [Token(kind, name, *at) for kind, name in names] or [token]
    return numbered


def _refuse_size() -> NoReturn:
    refuse("too-large", "the question", f"it has more than {MOST_PARTS:,} parts.", "Shorten it.")


def _rename(node: exp.Expr) -> None:
    """Puts the usual node in place of an alias. A node with more parts than it has a meaning for stays, and is refused
    later."""
    usual = _usual(node)
    if usual is not None:
        node.replace(usual)


def _gather_grouping_sets(group: exp.Group) -> None:
    """Puts ROLLUP, CUBE and GROUPING SETS beside the plain keys of GROUP BY, where newer parsers list them."""
    for node in list(group.expressions):
        if type(node) in _GROUPINGS:
            group.append(_GROUPINGS[type(node)], node.pop())


def _usual(node: exp.Expr) -> exp.Expr | None:
    parts = {name: value for name, value in node.args.items() if value}
    match node:
        case exp.Anonymous() if isinstance(node.this, str):
            name, arguments = node.this.lower(), node.expressions
            if name == "count_star" and not arguments:
                return exp.Count(this=exp.Star())
            return ALIASES[name](this=arguments[0]) if name in ALIASES and len(arguments) == 1 else None
        case exp.ApproxDistinct() if set(parts) == {"this"}:
            return exp.Count(this=exp.Distinct(expressions=[node.this]))
        case exp.PercentileDisc() if set(parts) == {"this"}:
            return exp.PercentileCont(this=node.this)
        case _ if type(node) in _QUANTILES and set(parts) == {"this", _QUANTILES[type(node)]}:
            return exp.PercentileCont(this=node.this, expression=parts[_QUANTILES[type(node)]])
    return None
