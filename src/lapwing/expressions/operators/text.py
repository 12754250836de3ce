"""Text functions. They work on characters, never on bytes, in time linear in the length of the text.

Every function of a text, casts too, sees its first 1,000 characters (to_sqlglot.py), what `||` makes is cut there, so
that a long text does not make a question slow. Comparisons, CASE and COALESCE take texts whole. A LIKE pattern contains
% or _, not both. With one of them the engine's LIKE scans the text once from left to right; with both it tries every
placement, and the time that takes would leak what a row contains. REPLACE never makes a text longer, so
that nested ones take a pass each; five that double a text would take 32 times as long, or not, as one text decides.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from lapwing.expressions import bounds, forms
from lapwing.expressions.expression import Expression, Literal, Operator
from lapwing.expressions.operators.base import MOST_TEXT, Node, is_whole, only, paren, shortened
from lapwing.expressions.operators.patterns import MOST_PATTERN, REGEXP_MATCHES
from lapwing.expressions.types import Type

_TEXT = only(Type.TEXT, gives=Type.TEXT)
_TWO_TEXTS = only(Type.TEXT, gives=Type.TEXT, least=2, most=2)
_TEST = only(Type.TEXT, gives=Type.BOOLEAN, least=2, most=2)


def _matches(value: Node, pattern: str) -> Node:
    """Patterns contain % or _, not both (`_pattern`): with both, the time depends on the text."""
    return paren(forms.Matches(this=value, expression=exp.Literal.string(pattern)))


def _like(value: Node, pattern: Node) -> Node:
    return _null_or(pattern, lambda: _matches(value, pattern.name))


def _ilike(value: Node, pattern: Node) -> Node:
    return _null_or(pattern, lambda: _matches(forms.Lower(this=value), _lower(pattern.name)))


def _null_or(pattern: Node, node: Callable[[], Node]) -> Node:
    return exp.Null() if isinstance(pattern, exp.Null) else node()


def _lower(text: str) -> str:
    """Lower case, letter by letter, as LOWER has it."""
    return "".join(c.lower()[0] for c in text)


def _pattern(_: Expression, pattern: Expression) -> str | None:
    if isinstance(pattern, Literal) and "%" in str(pattern.value) and "_" in str(pattern.value):
        return "Use % or _ in a pattern, not both: with both, the running time would leak the text. Or use SUBSTRING."
    if isinstance(pattern, Literal) and len(str(pattern.value)) <= MOST_PATTERN:
        return None
    return f"Use a constant of at most {MOST_PATTERN} characters, such as 'A%'."


def _plain(_: Expression, part: Expression) -> str | None:
    if isinstance(part, Literal) and len(str(part.value)) <= MOST_PATTERN:
        return None
    return f"Use a constant of at most {MOST_PATTERN} characters, such as 'A'."


def _positions(_: Expression, *numbers: Expression) -> str | None:
    if all(is_whole(n, 1 - i, MOST_TEXT) for i, n in enumerate(numbers, start=0)):
        return None
    return f"Use constants, as in SUBSTRING(s, 1, 3); positions go from 1 to {MOST_TEXT:,}."


def _amount(_: Expression, count: Expression) -> str | None:
    return None if is_whole(count, 0, MOST_TEXT) else f"Use a constant from 0 to {MOST_TEXT:,}, as in RIGHT(s, 3)."


def _replaced(_: Expression, found: Expression, new: Expression) -> str | None:
    texts = [part.value for part in (found, new) if isinstance(part, Literal) and isinstance(part.value, str)]
    if len(texts) == 2 and 1 <= len(texts[0]) <= MOST_PATTERN:
        shorter = len(texts[1]) <= len(texts[0]) and len(texts[1].encode()) <= len(texts[0].encode())
        return None if shorter else "Use a replacement that is not longer than what it replaces; nested, it would grow."
    return f"Use constants, as in REPLACE(s, 'ab', ''); the first has 1 to {MOST_PATTERN} characters."


def _split(_: Expression, separator: Expression, place: Expression) -> str | None:
    text = separator.value if isinstance(separator, Literal) else None
    if isinstance(text, str) and 1 <= len(text) <= MOST_PATTERN and is_whole(place, 1, MOST_TEXT):
        return None
    return f"Use constants, as in SPLIT_PART(s, '-', 1); places go from 1 to {MOST_TEXT:,}."


def _text_and_place(types: tuple[Type | None, ...]) -> Type | None:
    fits = len(types) == 3 and all(kind in (Type.TEXT, None) for kind in types[:2]) and types[2] is Type.INTEGER
    return Type.TEXT if fits else None


def _text_and_numbers(types: tuple[Type | None, ...]) -> Type | None:
    first, *rest = types
    fits = first in (Type.TEXT, None) and 1 <= len(rest) <= 2 and all(kind is Type.INTEGER for kind in rest)
    return Type.TEXT if fits else None


def _text_function(name: str, emit: Callable[[Node], Node], meaning: str) -> Operator:
    return Operator(name, _TEXT, emit, "text", height=1, sql=f"{name.upper()}(s)", meaning=f"{meaning} {_NULL}")


def _text_test(
    name: str, emit: Callable[[Node, Node], Node], sql: str, meaning: str, admit: Callable[..., str | None] = _plain
) -> Operator:
    takes = "text and a constant pattern"
    return Operator(name, _TEST, emit, takes, admit=admit, sql=sql, meaning=f"{meaning} {_NULL}")


def _holds(form: forms.Form) -> Callable[[Node, Node], Node]:
    return lambda value, part: form(this=value, expression=part)


def _trim(side: str | None) -> Callable[[Node], Node]:
    return lambda value: exp.Trim(this=value, position=side)


_NULL = "NULL stays NULL."

LIKE = _text_test(
    "like",
    _like,
    "s LIKE 'A%'",
    "True if s matches: % is any text, _ any character; not both in one pattern.",
    _pattern,
)
ILIKE = _text_test("ilike", _ilike, "s ILIKE 'a%'", "LIKE, ignoring case.", _pattern)
STARTS_WITH = _text_test("starts_with", _holds(forms.StartsWith), "STARTS_WITH(s, 'a')", "True if s starts with 'a'.")
ENDS_WITH = _text_test("ends_with", _holds(forms.EndsWith), "ENDS_WITH(s, 'a')", "True if s ends with 'a'.")
CONTAINS = _text_test("contains", _holds(forms.Contains), "CONTAINS(s, 'a')", "True if s contains 'a'.")
LOWER = _text_function("lower", lambda a: forms.Lower(this=a), "In lower case, letter by letter.")
UPPER = _text_function("upper", lambda a: forms.Upper(this=a), "In upper case, letter by letter: ß is ẞ.")
TRIM = _text_function("trim", _trim(None), "Without spaces at both ends.")
LTRIM = _text_function("ltrim", _trim("LEADING"), "Without spaces at the start.")
RTRIM = _text_function("rtrim", _trim("TRAILING"), "Without spaces at the end.")
LENGTH = Operator(
    "length",
    only(Type.TEXT, gives=Type.INTEGER),
    lambda a: exp.Length(this=shortened(a)),
    "a text",
    bounds.always(0, MOST_TEXT),
    sql="LENGTH(s)",
    meaning=f"The number of characters, at most {MOST_TEXT:,}. {_NULL}",
)
SUBSTRING = Operator(
    "substring",
    _text_and_numbers,
    lambda a, start, length=None: exp.Substring(this=a, start=start, length=length),
    "text and constant positions",
    admit=_positions,
    height=1,
    sql="SUBSTRING(s, 1, 3)",
    meaning=f"The first three characters. LEFT(s, 3) is the same. {_NULL}",
)
RIGHT = Operator(
    "right",
    lambda types: _text_and_numbers(types) if len(types) == 2 else None,
    lambda a, count: exp.Right(this=a, expression=count),
    "text and a constant",
    admit=_amount,
    height=1,
    sql="RIGHT(s, 3)",
    meaning=f"The last three characters. {_NULL}",
)
JOIN = Operator(
    "||",
    _TWO_TEXTS,
    lambda a, b: shortened(paren(exp.DPipe(this=a, expression=b))),
    "two texts; CAST(x AS TEXT) turns an integer into text",
    sql="s || 'a'",
    meaning=f"Both texts, cut at {MOST_TEXT:,} characters; NULL if either is NULL. CONCAT(s, 'a') treats NULL as ''.",
)
REPLACE = Operator(
    "replace",
    only(Type.TEXT, gives=Type.TEXT, least=3, most=3),
    lambda a, found, new: forms.Replace(this=a, expression=found, replacement=new),
    "a text and two constants",
    admit=_replaced,
    height=1,
    sql="REPLACE(s, 'ab', 'a')",
    meaning=f"Every 'ab' becomes 'a'; the new text is not longer than the old one. {_NULL}",
)
SPLIT_PART = Operator(
    "split_part",
    _text_and_place,
    lambda a, separator, place: forms.SplitPart(this=a, expression=separator, place=place),
    "a text, a constant separator and a constant place",
    admit=_split,
    height=1,
    sql="SPLIT_PART(s, '-', 1)",
    meaning=f"The first part of s between separators; '' if it has fewer parts. {_NULL}",
)

TEXTUAL = (
    LIKE, ILIKE, STARTS_WITH, ENDS_WITH, CONTAINS, REGEXP_MATCHES, LOWER, UPPER, TRIM, LTRIM, RTRIM, LENGTH, SUBSTRING,
    RIGHT, REPLACE, SPLIT_PART, JOIN,
)  # fmt: skip
